// Package cron hides the syntax of cron expressions and the search for their next
// occurrence. Expr.Next promises that a time of day which the change to summer
// time leaves out happens as much later, and that one which comes twice happens
// once, unless the expression means an interval. Parse and Daily make an Expr,
// which is safe for concurrent use.
package cron

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Expr is a parsed cron expression: five fields (minute, hour, day of month,
// month, day of week), a sixth for seconds and a seventh for years, both last.
// When day of month and day of week are both restricted, either is enough.
type Expr struct {
	sec, min   uint64 // bit n: the value n matches
	hour       uint64
	dom        uint64
	month      uint64
	dow        uint64 // bit 0 is Sunday
	domAny     bool
	dowAny     bool
	lastDay    bool
	lastWork   bool         // LW
	nearest    uint64       // nW: the working day nearest to n
	nth        [7]uint8     // bit n: the n-th of that weekday matches; bit 6: the last one
	hourFull   bool         // every hour matches
	hourStep   bool         // written as *, so it means an interval and not a time of day
	years      map[int]bool // nil: every year
	lastOfYear int
}

// Parse reads a cron expression. An expression that can never match, such
// as the 30th of February, is an error.
func Parse(s string) (*Expr, error) {
	text := strings.Join(strings.Fields(s), " ")
	plain, err := descriptor(text)
	if err != nil {
		return nil, err
	}

	fields := strings.Fields(plain)
	if len(fields) < 5 || len(fields) > 7 {
		return nil, fmt.Errorf("cron expression %q has %d fields, want 5: minute hour day month weekday", text, len(fields))
	}

	e := &Expr{sec: 1}
	if err := e.read(fields); err != nil {
		return nil, fmt.Errorf("cron expression %q: %w", text, err)
	}
	if !e.possible() {
		return nil, fmt.Errorf("cron expression %q never matches: no such day exists", text)
	}
	return e, nil
}

// Daily returns the expression of a time of day.
func Daily(hour, minute int) *Expr {
	return &Expr{
		sec: 1, min: 1 << minute, hour: 1 << hour, month: 1<<13 - 2,
		domAny: true, dowAny: true,
	}
}

func descriptor(s string) (string, error) {
	if !strings.HasPrefix(s, "@") {
		return s, nil
	}

	switch strings.ToLower(s) {
	case "@yearly", "@annually":
		return "0 0 1 1 *", nil
	case "@monthly":
		return "0 0 1 * *", nil
	case "@weekly":
		return "0 0 * * 0", nil
	case "@daily", "@midnight":
		return "0 0 * * *", nil
	case "@hourly":
		return "0 * * * *", nil
	}

	return "", fmt.Errorf("%q is not known; use @hourly, @daily, @weekly, @monthly or @yearly", s)
}

const (
	monthNames   = "jan feb mar apr may jun jul aug sep oct nov dec"
	weekdayNames = "sun mon tue wed thu fri sat"
)

func (e *Expr) read(f []string) (err error) {
	if e.min, err = parseField(f[0], span{name: "minute", hi: 59}); err != nil {
		return err
	}
	if e.hour, err = parseField(f[1], span{name: "hour", hi: 23}); err != nil {
		return err
	}

	e.hourFull, e.hourStep = e.hour == 1<<24-1, strings.HasPrefix(f[1], "*")
	if err = e.readDays(f[2]); err != nil {
		return err
	}
	if e.month, err = parseField(f[3], span{name: "month", lo: 1, hi: 12, names: monthNames}); err != nil {
		return err
	}
	if err = e.readWeekdays(f[4]); err != nil {
		return err
	}

	if len(f) > 5 {
		if e.sec, err = parseField(f[5], span{name: "second", hi: 59}); err != nil {
			return err
		}
	}

	if len(f) > 6 {
		return e.readYears(f[6])
	}
	return nil
}

// readDays reads the day of month, with L, LW and nW.
func (e *Expr) readDays(f string) error {
	if f == "*" || f == "?" {
		e.domAny = true
		return nil
	}

	var rest []string
	for part := range strings.SplitSeq(strings.ToLower(f), ",") {
		switch day, work := strings.CutSuffix(part, "w"); {
		case part == "l":
			e.lastDay = true
		case part == "lw":
			e.lastWork = true
		case work:
			n, err := strconv.Atoi(day)
			if err != nil || n < 1 || n > 31 {
				return fmt.Errorf("day %q is not a number from 1 to 31 before W", part)
			}
			e.nearest |= 1 << n

		default:
			rest = append(rest, part)
		}
	}

	if len(rest) == 0 {
		return nil
	}

	var err error
	e.dom, err = parseField(strings.Join(rest, ","), span{name: "day of month", lo: 1, hi: 31})
	e.domAny = e.dom == 1<<32-2
	return err
}

// readWeekdays reads the day of week, with 5#2 for the second Friday and L5 or
// 5L for the last one.
func (e *Expr) readWeekdays(f string) error {
	if f == "*" || f == "?" {
		e.dowAny = true
		return nil
	}

	sp := span{name: "day of week", hi: 7, names: weekdayNames}
	var rest []string
	for part := range strings.SplitSeq(strings.ToLower(f), ",") {
		day, count, nth := strings.Cut(part, "#")
		last := false
		if !nth && len(part) > 1 {
			if d, ok := strings.CutPrefix(part, "l"); ok {
				day, last = d, true
			} else if d, ok := strings.CutSuffix(part, "l"); ok {
				day, last = d, true
			}
		}

		if !nth && !last {
			rest = append(rest, part)
			continue
		}

		d, err := sp.value(day)
		if err != nil {
			return err
		}

		n := 6
		if nth && count != "l" {
			if n, err = strconv.Atoi(count); err != nil || n < 1 || n > 5 {
				return fmt.Errorf("%q: after # comes a number from 1 to 5, or L", part)
			}
		}

		e.nth[d%7] |= 1 << n
	}

	if len(rest) == 0 {
		return nil
	}

	set, err := parseField(strings.Join(rest, ","), sp)
	if err != nil {
		return err
	}

	if set&(1<<7) != 0 { // 7 is Sunday too
		set = set&^(1<<7) | 1
	}

	e.dow, e.dowAny = set, set == 1<<7-1
	return nil
}

func (e *Expr) readYears(f string) error {
	if f == "*" || f == "?" {
		return nil
	}

	const from, to = 1970, 2099
	e.years = map[int]bool{}
	for part := range strings.SplitSeq(f, ",") {
		body, step, err := cutStep(part, "year")
		if err != nil {
			return err
		}

		lo, hi := from, to
		if body != "*" {
			a, b, ranged := strings.Cut(body, "-")
			if lo, err = strconv.Atoi(a); err == nil && ranged {
				hi, err = strconv.Atoi(b)
			} else if step == 1 {
				hi = lo
			}
		}

		if err != nil || lo < from || hi > to || lo > hi {
			return fmt.Errorf("year %q is not within %d-%d", part, from, to)
		}

		for y := lo; y <= hi; y += step {
			e.years[y] = true
			e.lastOfYear = max(e.lastOfYear, y)
		}
	}

	return nil
}

// span says which values a field may have.
type span struct {
	name   string
	lo, hi int
	names  string // of the values from lo on
}

func (s span) value(v string) (int, error) {
	for i, n := range strings.Fields(s.names) {
		if strings.EqualFold(n, v) {
			return s.lo + i, nil
		}
	}

	n, err := strconv.Atoi(v)
	if err != nil || n < s.lo || n > s.hi || v[0] == '+' {
		return 0, fmt.Errorf("%s %q is not within %d-%d", s.name, v, s.lo, s.hi)
	}
	return n, nil
}

func cutStep(part, name string) (body string, step int, err error) {
	body, by, stepped := strings.Cut(part, "/")
	if !stepped {
		return body, 1, nil
	}
	step, err = strconv.Atoi(by)
	if err != nil || step < 1 {
		return "", 0, fmt.Errorf("%s %q: the step after / must be a number above 0", name, part)
	}
	return body, step, nil
}

// parseField reads lists, ranges and steps. A range may wrap around its end.
func parseField(f string, s span) (uint64, error) {
	if f == "" {
		return 0, errors.New("a field is empty")
	}

	var set uint64
	for part := range strings.SplitSeq(f, ",") {
		body, step, err := cutStep(part, s.name)
		if err != nil {
			return 0, err
		}

		hi := s.hi
		if s.names == weekdayNames {
			hi = 6 // * and open ranges end on Saturday; 7 is only another name of Sunday
		}

		lo := s.lo
		if body != "*" && body != "?" {
			a, b, ranged := strings.Cut(body, "-")
			if lo, err = s.value(a); err != nil {
				return 0, err
			}

			switch {
			case ranged:
				if hi, err = s.value(b); err != nil {
					return 0, err
				}
			case !strings.Contains(part, "/"):
				hi = lo
			}
		}

		set |= s.fill(lo, hi, step)
	}

	return set, nil
}

// fill sets every step-th bit from lo to hi, around the end when lo is larger.
func (s span) fill(lo, hi, step int) (set uint64) {
	if lo <= hi {
		for v := lo; v <= hi; v += step {
			set |= 1 << v
		}
		return set
	}

	size := s.hi - s.lo + 1
	if s.names == weekdayNames {
		size = 7
	}

	for v := lo; v <= hi+size; v += step {
		set |= 1 << (s.lo + (v-s.lo)%size)
	}
	return set
}

// possible reports whether some day can match.
func (e *Expr) possible() bool {
	if e.domAny || !e.dowAny || e.lastDay || e.lastWork {
		return true
	}

	for m := 1; m <= 12; m++ {
		if e.month&(1<<m) == 0 {
			continue
		}

		days := 31
		switch m {
		case 2:
			days = 29
			if e.years != nil && !e.leapYear() {
				days = 28
			}
		case 4, 6, 9, 11:
			days = 30
		}

		if first := bits.TrailingZeros64(e.dom | e.nearest); first <= days {
			return true
		}
	}

	return false
}

func (e *Expr) leapYear() bool {
	for y := range e.years {
		if leap(y) {
			return true
		}
	}
	return false
}

func leap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }
