package cron

import (
	"math/bits"
	"time"
)

// searchYears bounds the search for an occurrence: a 29th of February may be
// eight years away.
const searchYears = 9

// Next returns the first occurrence after t in the zone of loc, zero when there is
// none.
//
// A time of day that the change to summer time leaves out happens as much
// later as the clock was moved: 02:30 becomes 03:30. A time of day that comes
// twice happens the first time only, unless the hours are written as * or */n:
// that means an interval, which goes on through both.
func (e *Expr) Next(t time.Time, loc *time.Location) time.Time {
	local := t.In(loc)
	day := civilDay(local.Date())
	day-- // a shifted time may lie behind midnight
	limit := day + searchYears*366
	if e.years != nil {
		limit = civilDay(e.lastOfYear+1, time.January, 1) + 1
	}

	var best time.Time
	for ; day <= limit; day++ {
		y, m, d := civilDate(day)
		if e.years != nil && !e.years[y] {
			if y > e.lastOfYear && best.IsZero() {
				return time.Time{}
			}
			continue
		}

		if e.month&(1<<m) == 0 {
			if !best.IsZero() {
				return best
			}
			day = civilDay(y, m+1, 1) - 1
			continue
		}

		if e.dayMatches(y, m, d) {
			c, steady := e.nextIn(day, t, loc)
			if !c.IsZero() && (best.IsZero() || c.Before(best)) {
				best = c
			}
			if steady && !best.IsZero() {
				return best
			}
		}

		// The day behind may hold an earlier instant only where the clock moves.
		if !best.IsZero() && civilDay(best.In(loc).Date()) < day {
			return best
		}
	}

	return best
}

// civilDay counts days, without any zone.
func civilDay(y int, m time.Month, d int) int {
	return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

func civilDate(day int) (int, time.Month, int) {
	return time.Unix(int64(day)*86400, 0).UTC().Date()
}

func (e *Expr) dayMatches(y int, m time.Month, d int) bool {
	if e.domAny && e.dowAny {
		return true
	}
	byDay := !e.domAny && e.domMatches(y, m, d)
	byWeek := !e.dowAny && e.dowMatches(y, m, d)
	return byDay || byWeek
}

func (e *Expr) domMatches(y int, m time.Month, d int) bool {
	if e.dom&(1<<d) != 0 {
		return true
	}

	last := daysIn(y, m)
	if e.lastDay && d == last {
		return true
	}
	if e.lastWork && d == nearestWorkday(y, m, last) {
		return true
	}

	for set := e.nearest; set != 0; set &= set - 1 {
		if n := bits.TrailingZeros64(set); n <= last && d == nearestWorkday(y, m, n) {
			return true
		}
	}
	return false
}

func (e *Expr) dowMatches(y int, m time.Month, d int) bool {
	w := weekday(civilDay(y, m, d))
	if e.dow&(1<<w) != 0 {
		return true
	}
	n := e.nth[w]
	return n&(1<<((d+6)/7)) != 0 || n&(1<<6) != 0 && d+7 > daysIn(y, m)
}

func weekday(day int) int { return ((day+4)%7 + 7) % 7 } // day 0 was a Thursday

func daysIn(y int, m time.Month) int { return civilDay(y, m+1, 1) - civilDay(y, m, 1) }

// nearestWorkday stays within the month.
func nearestWorkday(y int, m time.Month, d int) int {
	switch weekday(civilDay(y, m, d)) {
	case 6:
		if d == 1 {
			return 3
		}
		return d - 1
	case 0:
		if d == daysIn(y, m) {
			return d - 2
		}
		return d + 1
	}
	return d
}

// nextIn returns the first occurrence after t among the times of one civil day.
func (e *Expr) nextIn(day int, t time.Time, loc *time.Location) (best time.Time, steady bool) {
	wall := int64(day) * 86400 // as if the zone were UTC
	offset, steady := steadyOffset(wall, loc)
	for h := range each(e.hour) {
		if at := wall + h*3600; steady && at+3600-offset <= t.Unix() {
			continue
		}
		for m := range each(e.min) {
			if at := wall + h*3600 + m*60; steady && at+60-offset <= t.Unix() {
				continue
			}
			for s := range each(e.sec) {
				at := wall + h*3600 + m*60 + s
				if steady {
					if c := time.Unix(at-offset, 0); c.After(t) {
						return c, true
					}
					continue
				}

				for _, c := range e.instants(at, loc) {
					if c.After(t) && (best.IsZero() || c.Before(best)) {
						best = c
					}
				}
			}
		}
	}

	return best, steady
}

// each yields the numbers of the set bits, lowest first.
func each(set uint64) func(yield func(int64) bool) {
	return func(yield func(int64) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(int64(bits.TrailingZeros64(set))) {
				return
			}
		}
	}
}

func offsetAt(unix int64, loc *time.Location) int64 {
	_, off := time.Unix(unix, 0).In(loc).Zone()
	return int64(off)
}

// steadyOffset returns the offset of a civil day and of the days around it, if the
// clock is not moved in that time.
func steadyOffset(wall int64, loc *time.Location) (int64, bool) {
	off := offsetAt(wall, loc)
	start, end := time.Unix(wall, 0).In(loc).ZoneBounds()
	return off, (start.IsZero() || start.Unix() < wall-86400) && (end.IsZero() || end.Unix() > wall+3*86400)
}

// instants returns the moments at which clocks in loc show a civil time and the
// expression is meant to happen.
func (e *Expr) instants(wall int64, loc *time.Location) []time.Time {
	before, after := offsetAt(wall-86400, loc), offsetAt(wall+86400, loc)
	first, second := wall-before, wall-after
	a, b := offsetAt(first, loc) == before, offsetAt(second, loc) == after
	switch {
	case before == after || a && !b:
		return []time.Time{time.Unix(first, 0)}
	case b && !a:
		return []time.Time{time.Unix(second, 0)}
	case a && b && e.hourStep:
		return []time.Time{time.Unix(first, 0), time.Unix(second, 0)}
	case a && b:
		return []time.Time{time.Unix(first, 0)}
	case e.hourFull:
		return nil // the clock never shows it, and every other hour has its own
	}

	return []time.Time{time.Unix(first, 0)} // later by what the clock was moved
}

// Civil returns when clocks in loc show what t shows in UTC: the first time if
// they do twice, and as much later as they are moved if they never do.
func Civil(t time.Time, loc *time.Location) time.Time {
	return (&Expr{}).instants(t.Unix(), loc)[0].Add(time.Duration(t.Nanosecond()))
}
