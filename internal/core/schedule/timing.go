package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/cron"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// Every is a Timing at a fixed interval.
func Every(d time.Duration) Timing { return Timing{Kind: kindEvery, EveryMS: MS(d.Milliseconds())} }

// Once is a Timing of one moment.
func Once(t time.Time) Timing { return Timing{Kind: kindAt, AtMS: msOf(t)} }

// Cron is a Timing by a cron expression; tz may be empty.
func Cron(expr, tz string) Timing { return Timing{Kind: kindCron, Expr: Opt(expr), TZ: Opt(tz)} }

// key returns what NextRunAtMS depends on.
func (t Timing) key() string {
	switch t.Kind {
	case kindAt:
		return fmt.Sprintf("at %d", t.AtMS)
	case kindEvery:
		return fmt.Sprintf("every %d", t.EveryMS)
	}
	return fmt.Sprintf("%s %s %s", t.Kind, t.Expr, t.TZ)
}

// LoadZone finds a time zone by its IANA name.
func LoadZone(name string) (*time.Location, error) {
	if name == "Local" || strings.TrimSpace(name) != name || name == "" {
		return nil, fmt.Errorf("time zone %q is not known; use a name such as Europe/Berlin", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known; use a name such as Europe/Berlin", name)
	}
	return loc, nil
}

// zone returns the zone the timing is meant in.
func (t Timing) zone(host *time.Location) (*time.Location, error) {
	if t.TZ == "" {
		return host, nil
	}
	return LoadZone(string(t.TZ))
}

// check says what is wrong with a timing.
func (t Timing) check(loc *time.Location) error {
	switch t.Kind {
	case kindAt:
		if t.AtMS <= 0 {
			return errors.New("the time of the job is missing")
		}
	case kindEvery:
		if t.EveryMS <= 0 {
			return errors.New("the interval of the job must be longer than 0")
		}
	case kindCron:
		if _, err := cron.Parse(string(t.Expr)); err != nil {
			return err
		}
	default:
		return fmt.Errorf("schedule kind %q is not known; it is at, every or cron", t.Kind)
	}

	if t.TZ != "" && t.Kind != kindCron {
		return errors.New("a time zone goes with a cron expression only")
	}

	_, err := t.zone(loc)
	return err
}

// following returns the first occurrence after a moment, zero when there is none.
// The interval of every is counted from when the job was made, so that a
// restart does not move it.
func (t Timing) following(after, created time.Time, loc *time.Location) (time.Time, error) {
	switch t.Kind {
	case kindAt:
		if at := t.AtMS.Time(); at.After(after) {
			return at, nil
		}
		return time.Time{}, nil

	case kindEvery:
		if t.EveryMS <= 0 {
			return time.Time{}, errors.New("the interval of the job must be longer than 0")
		}

		every, from := int64(t.EveryMS), created.UnixMilli()
		past := after.UnixMilli() - from
		n := past/every + 1
		if past < 0 && past%every != 0 { // the clock was set back since: rounding goes down
			n--
		}
		return time.UnixMilli(from + n*every), nil

	case kindCron:
		e, err := cron.Parse(string(t.Expr))
		if err != nil {
			return time.Time{}, err
		}

		zone, err := t.zone(loc)
		if err != nil {
			return time.Time{}, err
		}
		return e.Next(after, zone), nil
	}
	return time.Time{}, fmt.Errorf("schedule kind %q is not known", t.Kind)
}

// Upcoming lists the next n occurrences after a moment.
func (t Timing) Upcoming(n int, after, created time.Time, loc *time.Location) ([]time.Time, error) {
	var out []time.Time
	for range n {
		next, err := t.following(after, created, loc)
		if err != nil || next.IsZero() {
			return out, err
		}
		out = append(out, next)
		after = next
	}

	return out, nil
}

// perMonth estimates how often a timing happens in 30 days.
func (t Timing) perMonth(now time.Time, loc *time.Location) float64 {
	const month = 30 * 24 * time.Hour
	switch t.Kind {
	case kindEvery:
		return float64(month.Milliseconds()) / float64(max(t.EveryMS, 1))
	case kindCron:
		const most = 200
		all, err := t.Upcoming(most, now, now, loc)
		if err != nil || len(all) == 0 {
			return 0
		}
		if last := all[len(all)-1]; len(all) == most && last.Sub(now) < month {
			return most * float64(month) / float64(last.Sub(now))
		}

		n := 0.0
		for _, at := range all {
			if at.Sub(now) <= month {
				n++
			}
		}
		return n
	}

	return 1
}

// period returns the shortest time to the occurrence behind next.
func (t Timing) period(next time.Time, loc *time.Location) time.Duration {
	if t.Kind == kindEvery {
		return time.Duration(t.EveryMS) * time.Millisecond
	}
	after, err := t.following(next, next, loc)
	if err != nil || after.IsZero() {
		return 0
	}
	return after.Sub(next)
}

// shortest returns the smallest distance between occurrences in the near future.
func (t Timing) shortest(now time.Time, loc *time.Location) time.Duration {
	if t.Kind == kindEvery {
		return time.Duration(t.EveryMS) * time.Millisecond
	}

	all, err := t.Upcoming(60, now, now, loc)
	if err != nil || len(all) < 2 {
		return 0
	}

	least := all[1].Sub(all[0])
	for i := 2; i < len(all); i++ {
		least = min(least, all[i].Sub(all[i-1]))
	}
	return least
}

// Describe says when a timing happens, in few words.
func (t Timing) Describe(loc *time.Location) phrase.Sentence {
	switch t.Kind {
	case kindEvery:
		return phrase.Later("every %s", length(time.Duration(t.EveryMS)*time.Millisecond))
	case kindAt:
		return phrase.Later("at %s", stamp(t.AtMS.Time(), loc))
	}

	if t.TZ == "" {
		return phrase.Later("cron: %s (local time)", t.Expr)
	}
	return phrase.Later("cron: %s (%s)", t.Expr, t.TZ)
}

// length writes a duration in its largest unit that fits.
func length(d time.Duration) phrase.Sentence {
	fits := func(unit time.Duration) bool { return d >= unit && d%unit == 0 }
	const day = 24 * time.Hour
	switch {
	case fits(day):
		return phrase.Later("%dd", d/day)
	case fits(time.Hour):
		return phrase.Later("%dh", d/time.Hour)
	case fits(time.Minute):
		return phrase.Later("%dm", d/time.Minute)
	case fits(time.Second):
		return phrase.Later("%ds", d/time.Second)
	case d < time.Second:
		return phrase.Later("%dms", d.Milliseconds())
	}

	return phrase.Later(strings.TrimSuffix(d.Round(time.Second).String(), "0s"))
}

// stamp writes a moment with its zone.
func stamp(t time.Time, loc *time.Location) string {
	t = t.In(loc)
	layout := "2006-01-02 15:04:05"
	if t.Second() == 0 {
		layout = "2006-01-02 15:04"
	}
	return t.Format(layout) + " " + zoneName(loc, t)
}

func zoneName(loc *time.Location, t time.Time) string {
	if name := loc.String(); name != "Local" && name != "" {
		return name
	}
	return t.Format("-07:00")
}

// Hours is a window of the day such as 22:00-07:00. The zero value is none.
type Hours struct {
	from, to int // minutes of the day
	set      bool
}

// ParseHours reads "HH:MM-HH:MM"; "" is none.
func ParseHours(s string) (Hours, error) {
	if s == "" {
		return Hours{}, nil
	}

	a, b, ok := strings.Cut(s, "-")
	from, err1 := time.Parse("15:04", strings.TrimSpace(a))
	to, err2 := time.Parse("15:04", strings.TrimSpace(b))
	if !ok || err1 != nil || err2 != nil {
		return Hours{}, fmt.Errorf("%q is not a window such as 22:00-07:00", s)
	}

	h := Hours{from: from.Hour()*60 + from.Minute(), to: to.Hour()*60 + to.Minute(), set: true}
	h.set = h.from != h.to
	return h, nil
}

// Contains reports whether a moment lies in the window.
func (h Hours) Contains(t time.Time) bool {
	if !h.set {
		return false
	}
	m := t.Hour()*60 + t.Minute()
	if h.from < h.to {
		return m >= h.from && m < h.to
	}
	return m >= h.from || m < h.to
}

// end returns when the window that contains t is over.
func (h Hours) end(t time.Time) time.Time {
	return cron.Daily(h.to/60, h.to%60).Next(t, t.Location())
}
