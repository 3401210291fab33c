package cron

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "* * * *", "* * * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8",
		"*/0 * * * *", "*/-1 * * * *", "a * * * *", "1,,2 * * * *", "1- * * * *", "-1 * * * *", "+1 * * * *",
		"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 29 2 * 0 2027", "* * * * * 0 1900", "* * * * 1#6", "* * * * 1#0", "* * 32W * *", "* * W * *",
		"@reboot", "@every 5m", "* * * * mon-xyz", "* * * * L", "* * * * * 61", "0 0 31w 2 *",
	} {
		if e, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, e)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	const layout = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct{ name, expr, zone, after, want string }{
		{"plain", "0 9 * * *", "UTC", "2026-03-01 09:00:00 +0000", "2026-03-02 09:00:00 +0000"},
		{"a step beyond the field is its first value", "*/90 * * * *", "UTC", "2026-03-01 09:00:00 +0000", "2026-03-01 10:00:00 +0000"},
		{"strictly later, within the minute", "0 9 * * *", "UTC", "2026-03-01 08:59:59 +0000", "2026-03-01 09:00:00 +0000"},
		{"year boundary", "59 23 31 12 *", "UTC", "2026-12-31 23:59:00 +0000", "2027-12-31 23:59:00 +0000"},
		{"new year", "0 0 1 1 *", "Asia/Tokyo", "2026-12-31 14:59:59 +0000", "2027-01-01 00:00:00 +0900"},
		{"leap day across 2100", "0 0 29 2 *", "UTC", "2096-03-01 00:00:00 +0000", "2104-02-29 00:00:00 +0000"},
		{"day or weekday", "0 0 13 * 5", "UTC", "2026-11-01 00:00:00 +0000", "2026-11-06 00:00:00 +0000"},
		{"weekday 7", "0 0 * * 7", "UTC", "2026-11-02 00:00:00 +0000", "2026-11-08 00:00:00 +0000"},
		{"weekday range to 7", "0 0 * * 6-7", "UTC", "2026-11-08 00:00:00 +0000", "2026-11-14 00:00:00 +0000"},
		{"names and wrap", "0 0 * nov-jan fri-mon", "UTC", "2026-11-02 00:00:00 +0000", "2026-11-06 00:00:00 +0000"},
		{"hours wrap", "0 22-2 * * *", "UTC", "2026-11-02 02:00:00 +0000", "2026-11-02 22:00:00 +0000"},
		{"last day", "0 0 L * *", "UTC", "2027-02-01 00:00:00 +0000", "2027-02-28 00:00:00 +0000"},
		{"last friday", "0 0 * * L5", "UTC", "2026-11-01 00:00:00 +0000", "2026-11-27 00:00:00 +0000"},
		{"last friday, other way", "0 0 * * 5L", "UTC", "2026-11-01 00:00:00 +0000", "2026-11-27 00:00:00 +0000"},
		{"second tuesday", "0 0 * * tue#2", "UTC", "2026-11-01 00:00:00 +0000", "2026-11-10 00:00:00 +0000"},
		{"fifth sunday", "0 0 * * 0#5", "UTC", "2026-11-01 00:00:00 +0000", "2026-11-29 00:00:00 +0000"},
		{"nearest working day", "0 0 15W * *", "UTC", "2026-11-01 00:00:00 +0000", "2026-11-16 00:00:00 +0000"},
		{"last working day", "0 0 LW * *", "UTC", "2026-10-01 00:00:00 +0000", "2026-10-30 00:00:00 +0000"},
		{"seconds last", "0 9 * * * 30", "UTC", "2026-03-01 09:00:00 +0000", "2026-03-01 09:00:30 +0000"},
		{"year", "0 9 1 1 * 0 2030", "UTC", "2026-03-01 09:00:00 +0000", "2030-01-01 09:00:00 +0000"},
		{"year is over", "0 9 1 1 * 0 2026", "UTC", "2026-03-01 09:00:00 +0000", ""},
		{"daily", "@daily", "UTC", "2026-03-01 09:00:00 +0000", "2026-03-02 00:00:00 +0000"},

		{"New York: skipped hour", "30 2 * * *", "America/New_York", "2027-03-14 00:00:00 -0500", "2027-03-14 03:30:00 -0400"},
		{"New York: after the shifted one", "30 2 * * *", "America/New_York", "2027-03-14 03:30:00 -0400", "2027-03-15 02:30:00 -0400"},
		{"New York: repeated hour, first", "30 1 * * *", "America/New_York", "2026-11-01 00:00:00 -0400", "2026-11-01 01:30:00 -0400"},
		{"New York: repeated hour, not twice", "30 1 * * *", "America/New_York", "2026-11-01 01:30:00 -0400", "2026-11-02 01:30:00 -0500"},
		{"New York: interval in both", "30 * * * *", "America/New_York", "2026-11-01 01:30:00 -0400", "2026-11-01 01:30:00 -0500"},
		{"New York: no interval in the gap", "*/15 * * * *", "America/New_York", "2027-03-14 01:45:00 -0500", "2027-03-14 03:00:00 -0400"},
		{"London: skipped hour", "15 1 * * *", "Europe/London", "2027-03-28 00:00:00 +0000", "2027-03-28 02:15:00 +0100"},
		{"London: repeated hour", "15 1 * * *", "Europe/London", "2026-10-25 01:15:00 +0100", "2026-10-26 01:15:00 +0000"},
		{"Lord Howe: skipped half hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-04 00:00:00 +1030", "2026-10-04 02:45:00 +1100"},
		{"Lord Howe: interval keeps its grid", "*/20 * * * *", "Australia/Lord_Howe", "2026-10-04 01:40:00 +1030", "2026-10-04 02:40:00 +1100"},
		{"Lord Howe: repeated half hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-05 01:45:00 +1100", "2026-04-06 01:45:00 +1030"},
		{"Lord Howe: interval in both", "45 * * * *", "Australia/Lord_Howe", "2026-04-05 01:45:00 +1100", "2026-04-05 01:45:00 +1030"},
		{"midnight that does not exist", "0 0 * * *", "Africa/Cairo", "2026-04-23 12:00:00 +0200", "2026-04-24 01:00:00 +0300"},
		{"a day that does not exist", "0 9 30 12 *", "Pacific/Apia", "2011-12-29 12:00:00 -1000", "2011-12-31 09:00:00 +1400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := Parse(c.expr)
			if err != nil {
				t.Fatal(err)
			}
			after, err := time.Parse(layout, c.after)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if n := e.Next(after, zone(t, c.zone)); !n.IsZero() {
				got = n.In(zone(t, c.zone)).Format(layout)
			}
			if got != c.want {
				t.Errorf("Next(%s) = %q, want %q", c.after, got, c.want)
			}
		})
	}
}

// walk finds the next occurrence by looking at every minute, in a formulation
// of its own: it asks of a moment whether the clock shows a matching time, for
// the first time, or would show one if it had not just been moved.
func walk(e *Expr, after time.Time, loc *time.Location, minutes int) time.Time {
	shows := func(t time.Time) bool {
		y, m, d := t.Date()
		return e.month&(1<<m) != 0 && e.dayMatches(y, m, d) && e.hour&(1<<t.Hour()) != 0 && e.min&(1<<t.Minute()) != 0
	}
	t := after.Truncate(time.Minute)
	for range minutes {
		t = t.Add(time.Minute)
		local := t.In(loc)
		start, _ := local.ZoneBounds()
		_, now := local.Zone()
		_, old := start.Add(-time.Second).In(loc).Zone()
		if start.IsZero() {
			old = now
		}
		moved := time.Duration(now-old) * time.Second
		since := t.Sub(start)
		switch {
		case moved > 0 && since < moved: // just behind a gap
			if shows(local) || !e.hourFull && shows(t.UTC().Add(time.Duration(old)*time.Second)) {
				return t
			}
		case moved < 0 && since < -moved: // shown for the second time
			if e.hourStep && shows(local) {
				return t
			}
		case shows(local):
			return t
		}
	}
	return time.Time{}
}

func randomField(r *rand.Rand, lo, hi int) string {
	n := func() int { return lo + r.IntN(hi-lo+1) }
	switch r.IntN(6) {
	case 0, 1:
		return "*"
	case 2:
		return "*/" + strconv.Itoa(1+r.IntN(hi-lo+1))
	case 3:
		return strconv.Itoa(n()) + "-" + strconv.Itoa(n())
	case 4:
		return strconv.Itoa(n()) + "," + strconv.Itoa(n())
	}
	return strconv.Itoa(n())
}

func TestNextAgainstMinuteWalk(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	zones := []string{"America/New_York", "Europe/London", "Australia/Lord_Howe", "Africa/Cairo", "America/St_Johns", "UTC"}
	tried := 0
	for tried < 250 {
		loc := zone(t, zones[r.IntN(len(zones))])
		expr := strings.Join([]string{randomField(r, 0, 59), randomField(r, 0, 23), randomField(r, 1, 31), "*", randomField(r, 0, 6)}, " ")
		e, err := Parse(expr)
		if err != nil {
			continue
		}
		tried++
		at := time.Date(2026, time.Month(1+r.IntN(14)), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
		if r.IntN(2) == 0 { // close to where the clock moves
			if _, end := at.In(loc).ZoneBounds(); !end.IsZero() {
				at = end.Add(time.Duration(r.IntN(300)-180) * time.Minute)
			}
		}
		want := walk(e, at, loc, 4*24*60)
		got := e.Next(at, loc)
		if want.IsZero() {
			if limit := at.Truncate(time.Minute).Add(4 * 24 * time.Hour); !got.IsZero() && !got.After(limit) {
				t.Errorf("%q in %v after %v: %v, the walk found none", expr, loc, at.In(loc), got.In(loc))
			}
			continue
		}
		if !got.Equal(want) {
			t.Errorf("%q in %v after %v: got %v, want %v", expr, loc, at.In(loc), got.In(loc), want.In(loc))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0 9 * * 1-5", "*/5 * L * 5#2", "0 0 29 2 *", "@daily", "1-59/7 22-2 15W,LW * L5 0,30 2027"} {
		f.Add(s, int64(1_790_000_000))
	}
	loc := zone(f, "Australia/Lord_Howe")
	f.Fuzz(func(t *testing.T, s string, at int64) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		after := time.Unix(at%4_000_000_000, 0)
		if next := e.Next(after, loc); !next.IsZero() && !next.After(after) {
			t.Errorf("%q: next %v is not after %v", s, next, after)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	loc := zone(b, "America/New_York")
	for _, s := range []string{"* * * * *", "0 9 * * 1-5", "0 0 29 2 *"} {
		e, err := Parse(s)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(s, func(b *testing.B) {
			at := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				e.Next(at, loc)
			}
		})
	}
}
