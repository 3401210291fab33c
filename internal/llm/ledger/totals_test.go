package ledger_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// spend makes n calls of a thousand tokens out, a cent each.
func (s *shop) spend(n int) {
	s.t.Helper()
	m := s.meter(answering(usage(0, 1000)))
	for range n {
		if _, err := run(s.t.Context(), m, llm.Request{Model: "m", SessionKey: "cli:direct", TurnID: "t"}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func cents(n int) float64 { return float64(n) / 100 }

// Sums survive whatever happens to the checkpoint, because they are derived.
func TestTotalsAreDerived(t *testing.T) { storetest.Each(t, testTotalsAreDerived) }

func testTotalsAreDerived(t *testing.T, open storetest.Open) {
	t.Parallel()
	rewrite := func(change func(map[string]any)) func(*testing.T, *shop) {
		return func(t *testing.T, s *shop) {
			var v map[string]any
			if err := json.Unmarshal(s.file("totals.json"), &v); err != nil {
				t.Fatal(err)
			}
			change(v)
			v["today"], v["thisMonth"] = map[string]any{"calls": 999}, map[string]any{"calls": 999} // to be told apart
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			s.put("totals.json", b)
		}
	}
	write := func(name, text string) func(*testing.T, *shop) {
		return func(_ *testing.T, s *shop) { s.put(name, []byte(text)) }
	}
	for _, c := range []struct {
		name   string
		change func(*testing.T, *shop)
		calls  int
		usd    int // in cents, if it is another number
	}{
		{"untouched", func(*testing.T, *shop) {}, 40, 0},
		{"missing", func(t *testing.T, s *shop) {
			if err := s.store().Remove(t.Context(), "totals.json"); err != nil {
				t.Fatal(err)
			}
		}, 40, 0},
		{"empty", write("totals.json", ""), 40, 0},
		{"torn", write("totals.json", `{"version":1,"offset":12`), 40, 0},
		{"nonsense", write("totals.json", `{"version":1,"zone":7}`), 40, 0},
		{"negative offset", rewrite(func(v map[string]any) { v["offset"] = -5 }), 40, 0},
		{"beyond the end", rewrite(func(v map[string]any) { v["offset"] = 1 << 40 }), 999, 40}, // the larger of each
		{"inside a line", rewrite(func(v map[string]any) { v["offset"] = v["offset"].(float64) - 3 }), 999, 40},
		{"another version", rewrite(func(v map[string]any) { v["version"] = 99 }), 40, 0},
		{"another zone", rewrite(func(v map[string]any) { v["zone"] = "Mars+1234" }), 40, 0},
		{"another month", rewrite(func(v map[string]any) { v["month"] = "2026-10"; v["day"] = "2026-10-03" }), 40, 0},
		{"another log", write("2026-11.jsonl", ""), 38, 38}, // what was spent stays spent; the checkpoint lacks two lines
		{"no log", func(t *testing.T, s *shop) {
			if err := s.store().Remove(t.Context(), "2026-11.jsonl"); err != nil {
				t.Fatal(err)
			}
		}, 38, 38},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, open, ledger.Limits{})
			s.spend(40)
			c.change(t, s)
			s.Ledger = s.open(ledger.Limits{})
			if got, want := s.today(), cents(cmp.Or(c.usd, c.calls)); got.Calls != c.calls || got.USD != want {
				t.Errorf("today = %+v, want %d calls, $%v", got, c.calls, want)
			}
			s.spend(1)
			if got := s.today(); got.Calls != c.calls+1 {
				t.Errorf("one more: %+v", got)
			}
			s.Ledger = s.open(ledger.Limits{})
			if got := s.today(); got.Calls != c.calls+1 {
				t.Errorf("read again: %+v", got)
			}
		})
	}
}

// A start reads little, however long the log is.
func TestCheckpointFollowsTheLog(t *testing.T) { storetest.Each(t, testCheckpointFollowsTheLog) }

func testCheckpointFollowsTheLog(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{})
	for range 60 {
		s.spend(1)
		log, err := s.store().Stat(t.Context(), "2026-11.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ Offset int64 }
		if b, version, err := s.store().Doc(t.Context(), "totals.json"); err != nil || version != store.Missing && json.Unmarshal(b, &v) != nil {
			t.Fatalf("%s, %v", b, err)
		}
		if behind := log.Size - v.Offset; behind > 5<<10 {
			t.Fatalf("the checkpoint is %d bytes behind", behind)
		}
	}
}

// The log cut at any byte, as a crash may leave it, loses at most one call, and
// the next call is not damaged by it. No byte is lost: whole lines stay as they
// are, and the half line is kept aside.
func TestTornTail(t *testing.T) {
	t.Parallel()
	s := newShop(t, storetest.Disk, ledger.Limits{})
	s.spend(2)
	path := filepath.Join(s.dir, "2026-11.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		_ = os.Remove(path + ".torn") // of the cut before
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(whole[:cut]), "\n")
		s.Ledger = s.open(ledger.Limits{})
		if got := s.today(); got.Calls != lines {
			t.Fatalf("cut at %d: %d calls, want %d", cut, got.Calls, lines)
		}
		// A line that only lacks its newline is kept aside like any other half
		// line: the call is booked from the reservation of the process that died.
		s.spend(1)
		fresh := spentToday(s.open(ledger.Limits{}))
		if got := s.today(); got.Calls != lines+1 || got != fresh {
			t.Fatalf("cut at %d: %d calls, a fresh look %d, want %d", cut, got.Calls, fresh.Calls, lines+1)
		}
		end := strings.LastIndexByte(string(whole[:cut]), '\n') + 1
		if now, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(now), string(whole[:end])) || strings.Count(string(now), "\n") != lines+1 {
			t.Fatalf("cut at %d: the log holds %q, %v", cut, now, err)
		}
		aside, _ := os.ReadFile(path + ".torn") // missing: nothing was torn
		if want := string(whole[end:cut]); strings.TrimSuffix(string(aside), "\n") != want {
			t.Fatalf("cut at %d: %q was kept aside, want %q", cut, aside, want)
		}
	}
}

// A block that the disk has lost does not lift the limit: what was in it counts
// as spent, and that is said.
//
//nolint:tparallel // they share a file
func TestZeroedBlock(t *testing.T) {
	t.Parallel()
	s := newShop(t, storetest.Disk, ledger.Limits{})
	s.spend(40)
	want := s.today()
	path := filepath.Join(s.dir, "2026-11.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) < 6000 {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	for name, r := range map[string][2]int{"middle": {1000, 1000 + 4096}, "end": {len(whole) - 4096, len(whole)}, "all": {0, len(whole)}} {
		t.Run(name, func(t *testing.T) {
			rotten := append([]byte(nil), whole...)
			clear(rotten[r[0]:r[1]])
			rotten = append(rotten, '\n')
			if err := os.WriteFile(path, rotten, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(s.dir, "totals.json")); err != nil && !os.IsNotExist(err) { // else the sums are known
				t.Fatal(err)
			}
			l := s.open(ledger.Limits{DailyUSD: want.USD})
			if got := spentToday(l); got.USD < want.USD*0.99 {
				t.Errorf("$%v is left of $%v spent today", got.USD, want.USD)
			}
			if said := l.Balance(t.Context()); !strings.Contains(said, "cannot be read") {
				t.Errorf("nobody is told: %s", said)
			}
		})
	}
}

func TestForeignLinesAreSkipped(t *testing.T) { storetest.Each(t, testForeignLinesAreSkipped) }

func testForeignLinesAreSkipped(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{})
	s.spend(1)
	s.put("2026-11.jsonl", append(s.file("2026-11.jsonl"), "\n\xff\xfe garbage\n[]\n{}\n"+strings.Repeat("x", 100_000)+"\n"...))
	s.spend(1)
	s.Ledger = s.open(ledger.Limits{})
	if got := s.today(); got.Calls != 2 {
		t.Errorf("calls = %d, want 2", got.Calls)
	}
	sum, err := s.Summarize(t.Context(), ledger.Query{})
	if err != nil || sum.Total.Calls != 2 {
		t.Errorf("summary = %+v, %v, want 2 calls", sum.Total, err)
	}
}

// A disk that takes nothing does not stop the work, and not the limits either.
func TestNoDisk(t *testing.T) {
	t.Parallel()
	s := newShop(t, storetest.Disk, ledger.Limits{DailyUSD: 0.03})
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	s.spend(2)
	if got := s.today(); got.Calls != 2 {
		t.Errorf("calls = %d, want 2", got.Calls)
	}
	m := s.meter(answering(usage(0, 1000)))
	_, err := run(t.Context(), m, llm.Request{Model: "m", MaxTokens: 1000})
	if err == nil {
		_, err = run(t.Context(), m, llm.Request{Model: "m", MaxTokens: 1000})
	}
	budgetError(t, err)
}

// Days and months begin where the user lives, also when the clock changes.
func TestBorders(t *testing.T) { storetest.Each(t, testBorders) }

func testBorders(t *testing.T, open storetest.Open) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here")
	}
	auckland, err := time.LoadLocation("Pacific/Auckland")
	if err != nil {
		t.Skip("no time zones here")
	}
	for _, c := range []struct {
		name  string
		zone  *time.Location
		start time.Time
		steps []time.Duration // a call after each
		day   int             // calls counted today after the last
		month int
		reset string // in the refusal
	}{
		{"within a day", berlin, time.Date(2026, 6, 10, 8, 0, 0, 0, berlin), []time.Duration{0, 15 * time.Hour}, 2, 2, "Thu 11 Jun 00:00, in 1 h 0 min"},
		{"midnight", berlin, time.Date(2026, 6, 10, 23, 59, 59, 999e6, berlin), []time.Duration{0, time.Millisecond}, 1, 2, "Fri 12 Jun 00:00, in 24 h 0 min"},
		{"the day of 25 hours", berlin, time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), []time.Duration{0, 24*time.Hour + 30*time.Minute}, 2, 2, "Mon 26 Oct 00:00, in 30 min"},
		{"the hour that comes twice", berlin, time.Date(2026, 10, 25, 2, 30, 0, 0, berlin), []time.Duration{0, time.Hour, time.Hour}, 3, 3, "Mon 26 Oct 00:00"},
		{"the day of 23 hours", berlin, time.Date(2026, 3, 29, 1, 0, 0, 0, berlin), []time.Duration{0, 22 * time.Hour}, 1, 2, "Tue 31 Mar 00:00, in 24 h 0 min"},
		{"month", berlin, time.Date(2026, 1, 31, 23, 0, 0, 0, berlin), []time.Duration{0, time.Hour}, 1, 1, "Mon 2 Feb 00:00"},
		{"year", auckland, time.Date(2026, 12, 31, 23, 59, 0, 0, auckland), []time.Duration{0, time.Minute, time.Minute}, 2, 2, "Sat 2 Jan 00:00"},
		{"the clock goes back over a month", berlin, time.Date(2026, 7, 1, 1, 0, 0, 0, berlin), []time.Duration{0, 0, -2 * time.Hour}, 3, 3, "Wed 1 Jul 00:00, in 1 h 0 min"},
		{"the clock goes back a day", berlin, time.Date(2026, 6, 10, 1, 0, 0, 0, berlin), []time.Duration{0, 0, -2 * time.Hour}, 3, 3, "Wed 10 Jun 00:00, in 1 h 0 min"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, open, ledger.Limits{})
			open := func(lim ledger.Limits) *ledger.Ledger {
				return ledger.New(ledger.Options{Store: s.store(), Limits: lim, Location: c.zone, Now: s.clock.now})
			}
			s.Ledger = open(ledger.Limits{})
			s.clock.set(c.start)
			for _, d := range c.steps {
				s.clock.add(d)
				s.spend(1)
			}
			for _, l := range []*ledger.Ledger{s.Ledger, open(ledger.Limits{})} {
				if day, month := l.Spent(); day.Calls != c.day || month.Calls != c.month {
					t.Errorf("calls = %d today, %d this month, want %d, %d", day.Calls, month.Calls, c.day, c.month)
				}
			}
			s.SetLimits(ledger.Limits{DailyUSD: 0.001})
			_, err := run(t.Context(), s.meter(answering(usage(1, 1))), llm.Request{Model: "m"})
			budgetError(t, err, c.reset)
		})
	}
}

func TestLimitStartsAfresh(t *testing.T) { storetest.Each(t, testLimitStartsAfresh) }

func testLimitStartsAfresh(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{DailyUSD: 0.03, MonthlyUSD: 0.05})
	ask := func() error {
		_, err := run(t.Context(), s.meter(answering(usage(0, 1000))), llm.Request{Model: "m", MaxTokens: 1000})
		return err
	}
	var got strings.Builder
	for range 4 { // 15 and 16 November, then the limit of the month, then December
		for range 4 {
			fmt.Fprint(&got, map[bool]string{true: "+", false: "-"}[ask() == nil])
		}
		s.clock.add(24 * time.Hour)
		if got.Len() == 12 {
			s.clock.set(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
		}
	}
	if want := "+++-++------+++-"; got.String() != want {
		t.Errorf("calls = %s, want %s", got.String(), want)
	}
}

func TestSourceLimitStartsAfresh(t *testing.T) { storetest.Each(t, testSourceLimitStartsAfresh) }

func testSourceLimitStartsAfresh(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{PerSource: map[string]ledger.SourceLimits{"cron": {DailyUSD: 0.01}}})
	m := s.meter(answering(usage(0, 1000)))
	for range 2 {
		req := llm.Request{Model: "m", Source: "cron", MaxTokens: 1000}
		if _, err := run(t.Context(), m, req); err != nil {
			t.Fatal(err)
		}
		_, err := run(t.Context(), m, req)
		budgetError(t, err)
		if _, err := run(t.Context(), m, llm.Request{Model: "m", Source: "heartbeat"}); err != nil {
			t.Errorf("another source was stopped: %v", err)
		}
		s.clock.add(24 * time.Hour)
	}
}

func BenchmarkOpenAndReserve(b *testing.B) {
	limits := ledger.Limits{DailyUSD: 5, UnpricedDailyTokens: 5_000_000, WarnAt: []float64{0.8}, OnExceed: ledger.StopAll}
	s := newShop(b, storetest.Disk, limits)
	s.SetLimits(ledger.Limits{})
	s.spend(2000)
	b.ResetTimer()
	for b.Loop() {
		s.open(limits).Spent()
	}
}

func BenchmarkCall(b *testing.B) {
	s := newShop(b, storetest.Disk, ledger.Limits{DailyUSD: 1e6})
	m := s.meter(answering(usage(0, 1000)))
	for b.Loop() {
		for range m.Stream(b.Context(), llm.Request{Model: "m"}) {
			continue
		}
	}
}
