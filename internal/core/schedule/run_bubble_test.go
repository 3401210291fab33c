package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// agentFake stands for the queue and the agent behind it.
type agentFake struct {
	t  *testing.T
	s  *Scheduler
	mu sync.Mutex

	seen    map[string]bool // ids the queue knows
	runs    []string        // ids that were worked on, each once
	at      []time.Time
	said    []bus.Outbound // delivered replies
	notices []string
	stopped []string
	answer  func(in bus.Inbound) (text string, err string) // nil: "done"
	manual  bool                                           // the test reports outcomes itself
	submit  func(in bus.Inbound) error                     // refuses; may be nil
	works   sync.WaitGroup
	takes   time.Duration
	texts   []string
	quotes  [][]bus.Quote
	ins     []bus.Inbound
	turn    bus.Turn // of the replies, apart from what the fake fills in
}

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

func (f *agentFake) Submit(ctx context.Context, in bus.Inbound) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.submit != nil {
		if err := f.submit(in); err != nil {
			return err
		}
	}
	if f.seen[in.ID] {
		return nil
	}
	f.seen[in.ID] = true
	f.runs, f.at, f.texts = append(f.runs, in.ID), append(f.at, time.Now()), append(f.texts, in.Text)
	f.quotes, f.ins = append(f.quotes, in.Quoted), append(f.ins, in)
	if !f.manual {
		f.works.Go(func() { f.work(context.WithoutCancel(ctx), in) })
	}
	return nil
}

func (f *agentFake) work(ctx context.Context, in bus.Inbound) {
	if f.takes > 0 {
		time.Sleep(f.takes)
	}
	text, fail := "done", ""
	f.mu.Lock()
	turn := f.turn
	if f.answer != nil {
		text, fail = f.answer(in)
	}
	f.mu.Unlock()
	turn.Error, turn.Usage = fail, bus.Usage{Prompt: 10, Completion: 5}
	out := bus.Outbound{Kind: bus.Final, Route: in.Route, Text: text, Turn: &turn}
	if out, ok := f.s.Outcome(ctx, in, out); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, out)
	}
}

func (f *agentFake) Notify(_ context.Context, out bus.Outbound) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notices = append(f.notices, out.Text)
	return nil
}

// set changes what the fakes of a test read.
func (f *agentFake) set(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

func (f *agentFake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.runs)
}

func newFake(t *testing.T, open storetest.Open, o Options) (*Scheduler, *agentFake) {
	t.Helper()
	f := &agentFake{t: t, seen: map[string]bool{}}
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	if o.State == nil {
		o.State = stateOf(t, open, o.Workspace)
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	o.Submit, o.Notify = f.Submit, f.Notify
	o.Stop = func(_ context.Context, in bus.Inbound) { f.stopped = append(f.stopped, in.SessionKey) }
	o.Watch = func(ctx context.Context, _ []string, _ func()) error { <-ctx.Done(); return nil }
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	f.s = s
	return s, f
}

// during runs the scheduler while fn moves the clock.
func during(t *testing.T, s *Scheduler, f *agentFake, fn func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	fn()
	synctest.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("Run: %v", err)
	}
	f.works.Wait()
}

// pass lets time go by until everything has come to rest. What the test read
// before happened before what the fakes do now.
func (f *agentFake) pass(d time.Duration) {
	f.set(func() {})
	time.Sleep(d)
	synctest.Wait()
}

func home() bus.Route { return bus.Route{Channel: "telegram", ChatID: "1"} }

func add(t *testing.T, s *Scheduler, d Draft) Job {
	t.Helper()
	if d.Route.Channel == "" {
		d.Route = home()
	}
	if d.Message == "" {
		d.Message = "do it"
	}
	a, err := s.Add(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return a.Job
}

func job(t *testing.T, s *Scheduler, id string) Job {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestRunsAtTheMinute(t *testing.T) { storetest.Each(t, testRunsAtTheMinute) }

func testRunsAtTheMinute(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the clock starts at 2000-01-01 00:00 UTC
		s, f := newFake(t, open, Options{})
		hourly := add(t, s, Draft{Timing: Cron("5 * * * *", "")})
		often := add(t, s, Draft{Timing: Every(20 * time.Minute), Message: "other"})
		once := add(t, s, Draft{Timing: Once(time.Now().Add(90 * time.Second)), Message: "once"})
		during(t, s, f, func() { f.pass(time.Hour + 10*time.Minute) })
		want := map[string]int{hourly.ID: 2, often.ID: 3, once.ID: 1}
		got := map[string]int{}
		for i, id := range f.runs {
			j, at, ok := parseInboundID(id)
			if !ok {
				t.Fatalf("id %q", id)
			}
			got[j]++
			if late := f.at[i].Sub(at.Time()); late < 0 || late > 10*time.Millisecond {
				t.Errorf("%s ran %v late", id, late)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("runs %v, want %v", got, want)
		}
		if len(f.said) != 6 {
			t.Errorf("%d replies delivered, want 6", len(f.said))
		}
		if _, err := s.Get(t.Context(), once.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("a job of one moment is still there: %v", err)
		}
		st := job(t, s, hourly.ID).State
		if st.LastStatus != statusOK || len(st.RunHistory) != 2 || st.RunHistory[0].Tokens != 15 || st.Pending != nil {
			t.Errorf("state %+v", st)
		}
	})
}

func TestSummerTimeThroughTheLoop(t *testing.T) { storetest.Each(t, testSummerTimeThroughTheLoop) }

func testSummerTimeThroughTheLoop(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, c := range []struct {
		zone  string
		begin time.Time // the day before the change
		expr  string
		want  []string
	}{
		{"America/New_York", time.Date(2000, 4, 1, 12, 0, 0, 0, time.UTC), "30 2 * * *", []string{"03:30", "02:30"}},
		{"America/New_York", time.Date(2000, 10, 28, 12, 0, 0, 0, time.UTC), "30 1 * * *", []string{"01:30", "01:30"}},
		{"Europe/London", time.Date(2000, 3, 25, 12, 0, 0, 0, time.UTC), "30 1 * * *", []string{"02:30", "01:30"}},
		{"Europe/London", time.Date(2000, 10, 28, 12, 0, 0, 0, time.UTC), "30 1 * * *", []string{"01:30", "01:30"}},
		{"Australia/Lord_Howe", time.Date(2001, 10, 27, 3, 0, 0, 0, time.UTC), "15 2 * * *", []string{"02:45", "02:15"}},
		{"Australia/Lord_Howe", time.Date(2000, 3, 25, 3, 0, 0, 0, time.UTC), "45 1 * * *", []string{"01:45", "01:45"}},
	} {
		t.Run(c.zone+c.begin.Format(" Jan"), func(t *testing.T) {
			t.Parallel()
			loc := zone(t, c.zone)
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(c.begin))
				s, f := newFake(t, open, Options{Location: loc})
				add(t, s, Draft{Timing: Cron(c.expr, "")})
				during(t, s, f, func() { f.pass(48 * time.Hour) })
				var got []string
				for _, at := range f.at {
					got = append(got, at.In(loc).Format("15:04"))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("ran at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A job that runs is not disturbed by changes of others, nor by a slow one.
func TestSlowJobsAndChanges(t *testing.T) { storetest.Each(t, testSlowJobsAndChanges) }

func testSlowJobsAndChanges(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		f.takes = 5 * time.Minute
		slow := add(t, s, Draft{Timing: Every(time.Minute)})
		during(t, s, f, func() {
			f.pass(61 * time.Second)
			other := add(t, s, Draft{Timing: Every(time.Hour), Message: "other"})
			if _, err := s.Enable(t.Context(), other.ID, false); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Remove(t.Context(), other.ID); err != nil {
				t.Fatal(err)
			}
			if n := f.count(); n != 1 {
				t.Errorf("%d runs, want the first still going on", n)
			}
			f.pass(6 * time.Minute)
		})
		st := job(t, s, slow.ID).State
		counts := map[string]int{}
		for _, r := range st.RunHistory {
			counts[r.Status]++
		}
		if counts[statusOK] != 2 || counts[statusSkipped] < 3 {
			t.Errorf("history %v, want two runs and the ones between skipped", counts)
		}
	})
}

// A job that gets another time while it runs, runs again at that time.
func TestNewTimeDuringRun(t *testing.T) { storetest.Each(t, testNewTimeDuringRun) }

func testNewTimeDuringRun(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		f.takes = 5 * time.Minute
		once := add(t, s, Draft{Timing: Once(time.Now().Add(time.Minute))})
		during(t, s, f, func() {
			f.pass(2 * time.Minute)
			later := Once(time.Now().Add(time.Hour))
			if _, err := s.Update(t.Context(), once.ID, Change{Timing: &later}); err != nil {
				t.Fatal(err)
			}
			f.pass(10 * time.Minute)
			if j := job(t, s, once.ID); f.count() != 1 || !j.Enabled || j.State.NextRunAtMS != later.AtMS {
				t.Errorf("after %d runs: enabled %v, next at %v, want %v", f.count(), j.Enabled, j.State.NextRunAtMS, later.AtMS)
			}
			f.pass(time.Hour)
		})
		if n := f.count(); n != 2 {
			t.Errorf("%d runs, want one at each time", n)
		}
	})
}

func TestPool(t *testing.T) { storetest.Each(t, testPool) }

func testPool(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{Limits: Limits{Concurrent: 2}})
		f.takes = 10 * time.Second
		for i := range 5 {
			add(t, s, Draft{Timing: Once(time.Now().Add(time.Minute)), Message: fmt.Sprint(i)})
		}
		during(t, s, f, func() {
			f.pass(61 * time.Second)
			if n := f.count(); n != 2 {
				t.Errorf("%d at once, want 2", n)
			}
			f.pass(10 * time.Second)
			if n := f.count(); n != 4 {
				t.Errorf("%d after one round, want 4", n)
			}
			f.pass(time.Minute)
			if n := f.count(); n != 5 {
				t.Errorf("%d in the end, want 5", n)
			}
		})
	})
}

func TestTimeout(t *testing.T) { storetest.Each(t, testTimeout) }

func testTimeout(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		f.takes = time.Hour
		j := add(t, s, Draft{Timing: Every(2 * time.Hour), Timeout: time.Minute})
		during(t, s, f, func() { f.pass(2*time.Hour + 5*time.Minute) })
		st := job(t, s, j.ID).State
		if st.LastStatus != statusError || !strings.Contains(string(st.LastError), "longer than 1m") {
			t.Errorf("status %q: %s", st.LastStatus, st.LastError)
		}
		if len(f.notices) != 1 || !slices.Equal(f.stopped, []string{"cron:" + j.ID}) {
			t.Errorf("notices %q, stopped %q", f.notices, f.stopped)
		}
	})
}

func TestFailuresSwitchOff(t *testing.T) { storetest.Each(t, testFailuresSwitchOff) }

func testFailuresSwitchOff(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		f.answer = func(bus.Inbound) (string, string) { return "it broke", "it broke" }
		j := add(t, s, Draft{Timing: Every(time.Minute), Silent: true})
		during(t, s, f, func() { f.pass(time.Hour) })
		if f.count() != 5 || len(f.said) != 5 {
			t.Errorf("%d runs, %d told, want 5 and 5: failures are told also for a silent job", f.count(), len(f.said))
		}
		if got := job(t, s, j.ID); got.Enabled || got.State.ErrorsInRow != 5 || got.State.NextRunAtMS != 0 {
			t.Errorf("job %+v", got)
		}
		if len(f.notices) != 1 || !strings.Contains(f.notices[0], "switched off") {
			t.Errorf("notices %q", f.notices)
		}
		if got, err := s.Enable(t.Context(), j.ID, true); err != nil || got.State.ErrorsInRow != 0 || got.State.NextRunAtMS == 0 {
			t.Errorf("after enable %+v, %v", got.State, err)
		}
	})
}

// A machine that slept, or a program that was not running.
func TestMissed(t *testing.T) { storetest.Each(t, testMissed) }

func testMissed(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		timing func(now time.Time) Timing
		policy string
		down   time.Duration
		runs   int
		status string
		notice string
	}{
		{"at, within a day", func(n time.Time) Timing { return Once(n.Add(time.Hour)) }, "", 20 * time.Hour, 1, "", ""},
		{"at, too old", func(n time.Time) Timing { return Once(n.Add(time.Hour)) }, "", 30 * time.Hour, 0, StatusMissed, "I missed"},
		{"at, to be told", func(n time.Time) Timing { return Once(n.Add(time.Hour)) }, catchUpTell, 2 * time.Hour, 0, StatusMissed, "I missed"},
		{"every, once for all", func(time.Time) Timing { return Every(24 * time.Hour) }, "", 73 * time.Hour, 1, statusOK, ""},
		{"every, skipped", func(time.Time) Timing { return Every(24 * time.Hour) }, catchUpSkip, 73 * time.Hour, 0, StatusMissed, ""},
		{"cron, within the window", func(time.Time) Timing { return Cron("0 9 * * *", "") }, "", 10 * time.Hour, 1, statusOK, ""},
		{"cron, outside of it", func(time.Time) Timing { return Cron("0 9 * * *", "") }, "", 20 * time.Hour, 0, StatusMissed, ""},
		{"cron, not later than its period", func(time.Time) Timing { return Cron("0 * * * *", "") }, "", 90 * time.Minute, 1, statusOK, ""},
		{"cron, told", func(time.Time) Timing { return Cron("0 9 * * *", "") }, catchUpTell, 10 * time.Hour, 0, StatusMissed, "I missed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, f := newFake(t, open, Options{})
				j := add(t, s, Draft{Timing: c.timing(time.Now()), CatchUp: c.policy})
				f.pass(c.down)
				during(t, s, f, func() { f.pass(time.Second) })
				if f.count() != c.runs {
					t.Errorf("%d runs, want %d", f.count(), c.runs)
				}
				if c.runs == 1 && (len(f.said) != 1 || !strings.Contains(f.said[0].Text, "was due at")) {
					t.Errorf("said %v, want a word about being late", f.said)
				}
				if c.status != "" {
					if st := job(t, s, j.ID).State; string(st.LastStatus) != c.status {
						t.Errorf("status %q (%s), want %q", st.LastStatus, st.LastError, c.status)
					}
				}
				if got := strings.Join(f.notices, "\n"); (c.notice == "") != (got == "") || !strings.Contains(got, c.notice) {
					t.Errorf("notices %q, want %q", got, c.notice)
				}
			})
		})
	}
}

// The clock of the machine moves while the program goes on.
func TestClockJumps(t *testing.T) { storetest.Each(t, testClockJumps) }

func testClockJumps(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var shift time.Duration
		move := func(d time.Duration) { mu.Lock(); shift += d; mu.Unlock() }
		now := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Round(0).Add(shift) }
		s, f := newFake(t, open, Options{Now: now})
		j := add(t, s, Draft{Timing: Cron("0 9 * * *", "")})
		during(t, s, f, func() {
			f.pass(8 * time.Hour)
			move(2 * time.Hour) // slept from 8 to 10
			f.pass(61 * time.Second)
			if f.count() != 1 {
				t.Errorf("%d runs within a minute after waking up, want 1", f.count())
			}
			move(-90 * time.Minute) // 08:31 again
			f.pass(time.Hour)
			if f.count() != 1 {
				t.Errorf("%d runs after the clock was set back, want 1", f.count())
			}
			f.pass(24 * time.Hour)
			if f.count() != 2 {
				t.Errorf("%d runs a day later, want 2", f.count())
			}
			move(20 * 365 * 24 * time.Hour) // a broken clock
			f.pass(2 * time.Minute)
			move(-20 * 365 * 24 * time.Hour)
			n := f.count()
			f.pass(49 * time.Hour)
			if f.count() <= n {
				t.Errorf("no run after the clock was mended: %+v", job(t, s, j.ID).State)
			}
		})
	})
}

// A clock that is set back by hours does not hold up jobs that are more frequent.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for name, timing := range map[string]Timing{"cron": Cron("*/10 * * * *", ""), "every": Every(10 * time.Minute)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var shift time.Duration
				move := func(d time.Duration) { mu.Lock(); shift += d; mu.Unlock() }
				now := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Round(0).Add(shift) }
				s, f := newFake(t, storetest.Disk, Options{Now: now})
				add(t, s, Draft{Timing: timing})
				during(t, s, f, func() {
					f.pass(65 * time.Minute)
					before := f.count()
					if before < 6 {
						t.Fatalf("%d runs in the first hour", before)
					}
					move(-24 * time.Hour)
					f.pass(65 * time.Minute)
					if n := f.count() - before; n < 5 {
						t.Errorf("%d runs in the hour after the clock was set back by a day, want about 6", n)
					}
				})
			})
		})
	}
}

// Intervals are counted from the making of the job, whatever is restarted.
func TestIntervalsOutliveRestarts(t *testing.T) { storetest.Each(t, testIntervalsOutliveRestarts) }

func testIntervalsOutliveRestarts(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dreams := 0
		o := Options{System: []System{{ID: "dream", Name: "dream", Timing: Every(2 * time.Hour), Run: func(context.Context) error { dreams++; return nil }}}}
		s, f := newFake(t, open, o)
		o.Workspace, o.State = s.Workspace, s.State
		add(t, s, Draft{Timing: Every(24 * time.Hour)})
		for range 26 { // a restart every hour
			during(t, s, f, func() { f.pass(time.Hour) })
		}
		if f.count() != 1 || dreams != 12 && dreams != 13 {
			t.Errorf("%d runs and %d dreams in 26 hours, want 1 and 13", f.count(), dreams)
		}
		if _, err := s.Remove(t.Context(), "dream"); !errors.Is(err, ErrProtected) {
			t.Errorf("remove a system job: %v", err)
		}
	})
}

func TestQuietHours(t *testing.T) { storetest.Each(t, testQuietHours) }

func testQuietHours(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quiet, err := ParseHours("22:00-07:00")
		if err != nil {
			t.Fatal(err)
		}
		s, f := newFake(t, open, Options{Limits: Limits{Quiet: quiet}})
		add(t, s, Draft{Timing: Cron("0 3 * * *", ""), Message: "nightly"})
		add(t, s, Draft{Timing: Once(time.Now().Add(2 * time.Hour)), Message: "named moment"})
		during(t, s, f, func() { f.pass(24 * time.Hour) })
		var got []string
		for _, at := range f.at {
			got = append(got, at.Format("15:04"))
		}
		if want := []string{"02:00", "07:00"}; !slices.Equal(got, want) {
			t.Errorf("ran at %v, want %v", got, want)
		}
	})
}

// The process dies at each step of a run; there is exactly one run all the same.
func TestDeathAtEveryStep(t *testing.T) { storetest.Each(t, testDeathAtEveryStep) }

func testDeathAtEveryStep(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, c := range []struct {
		name string
		die  func(f *agentFake, cancel func())
	}{
		{"before the queue took it", func(f *agentFake, cancel func()) {
			f.submit = func(bus.Inbound) error { cancel(); return errors.New("gone") }
		}},
		{"after the queue took it", func(f *agentFake, cancel func()) {
			f.submit = func(in bus.Inbound) error {
				cancel()
				f.seen[in.ID] = true
				f.runs = append(f.runs, in.ID)
				return errors.New("gone before it could say so")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, f := newFake(t, open, Options{})
				j := add(t, s, Draft{Timing: Every(time.Hour)})
				ctx, cancel := context.WithCancel(t.Context())
				c.die(f, cancel)
				done := make(chan error, 1)
				go func() { done <- s.Run(ctx) }()
				f.pass(61 * time.Minute)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				cancel()
				if p := job(t, s, j.ID).State.Pending; p == nil || p.Submitted {
					t.Fatalf("pending %+v, want a claimed run", p)
				}
				again, g := newFake(t, open, Options{Workspace: s.Workspace, State: s.State})
				g.seen, g.runs = f.seen, f.runs
				during(t, again, g, func() { f.pass(time.Second) })
				if want := []string{inboundID(j.ID, msOf(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)))}; !slices.Equal(g.runs, want) {
					t.Errorf("runs %q, want %q", g.runs, want)
				}
			})
		})
	}
}

// The agent tells an outcome twice when it dies between telling and completing.
func TestOutcomeTwice(t *testing.T) { storetest.Each(t, testOutcomeTwice) }

func testOutcomeTwice(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		f.manual = true
		j := add(t, s, Draft{Timing: Every(time.Hour)})
		during(t, s, f, func() {
			f.pass(time.Hour + time.Second)
			in := bus.Inbound{ID: f.runs[0], Event: EventCron, Route: home()}
			out := bus.Outbound{Kind: bus.Final, Route: home(), Text: "x", Turn: &bus.Turn{}}
			for range 2 {
				if _, ok := s.Outcome(t.Context(), in, out); !ok {
					t.Error("not delivered")
				}
			}
		})
		if st := job(t, s, j.ID).State; len(st.RunHistory) != 1 || st.Pending != nil {
			t.Errorf("state %+v", st)
		}
	})
}

func TestUndeliverable(t *testing.T) { storetest.Each(t, testUndeliverable) }

func testUndeliverable(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		off := map[string]bool{"telegram": true, "email": true}
		var f *agentFake
		o := Options{
			Deliverable: func(r bus.Route) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				if off[r.Channel] {
					return errors.New(r.Channel + " is switched off")
				}
				return nil
			},
			LastRoute: func(context.Context) (bus.Route, bool) { return bus.Route{Channel: "email", ChatID: "me"}, true },
		}
		var s *Scheduler
		s, f = newFake(t, open, o)
		j := add(t, s, Draft{Timing: Once(time.Now().Add(time.Minute))})
		during(t, s, f, func() {
			f.pass(2 * time.Minute)
			if st := job(t, s, j.ID).State; len(f.said) != 0 || st.Undelivered == nil || st.Undelivered.Text != "done" {
				t.Fatalf("said %v, state %+v", f.said, st)
			}
			f.set(func() { off["email"] = false })
			f.pass(2 * time.Minute)
		})
		if len(f.notices) != 1 || !strings.Contains(f.notices[0], "For telegram:1") || !strings.Contains(f.notices[0], "done") {
			t.Errorf("notices %q", f.notices)
		}
		if _, err := s.Get(t.Context(), j.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("the job stays after its result was delivered: %v", err)
		}
	})
}

func TestHeartbeat(t *testing.T) { storetest.Each(t, testHeartbeat) }

func testHeartbeat(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		judged, verdict, jerr := 0, true, error(nil)
		route := true
		var f *agentFake
		o := Options{
			LastRoute: func(context.Context) (bus.Route, bool) {
				f.mu.Lock()
				defer f.mu.Unlock()
				return home(), route
			},
			Deliverable: func(r bus.Route) error {
				if r.Channel == "cli" {
					return errors.New("no terminal is open")
				}
				return nil
			},
			Heartbeat: Heartbeat{Every: 30 * time.Minute, Dedupe: 24 * time.Hour, Judge: func(context.Context, string, string) (bool, error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				judged++
				return verdict, jerr
			}},
		}
		var s *Scheduler
		s, f = newFake(t, open, o)
		text := "the disk is full"
		f.answer = func(bus.Inbound) (string, string) { return text, "" }
		file := filepath.Join(s.Workspace, heartbeatFile)
		write := func(body string) {
			if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		during(t, s, f, func() {
			f.pass(31 * time.Minute)
			write("# H\n<!-- one\n- two -->\n## Active Tasks\n\n<!-- - nothing -->\n### sub\n## Done\n- old\n")
			f.pass(30 * time.Minute)
			if f.count() != 0 {
				t.Fatalf("an empty list asked the model")
			}
			write("## Active Tasks\n- watch the disk\n")
			f.pass(30 * time.Minute)
			if f.count() != 1 || len(f.said) != 1 || judged != 1 || !strings.Contains(f.texts[0], "watch the disk") {
				t.Fatalf("runs %d, said %v, judged %d", f.count(), f.said, judged)
			}
			f.pass(30 * time.Minute)
			if len(f.said) != 1 || judged != 1 {
				t.Errorf("the same was told twice")
			}
			f.set(func() { text = "All clear." })
			f.pass(30 * time.Minute)
			f.set(func() { verdict, text = false, "routine" })
			f.pass(30 * time.Minute)
			if len(f.said) != 1 || judged != 2 {
				t.Errorf("said %v, judged %d", f.said, judged)
			}
			f.set(func() { jerr = errors.New("no model") })
			f.pass(4 * 30 * time.Minute)
			if len(f.said) != 2 {
				t.Errorf("%d told, want one more after three failures of the judge", len(f.said))
			}
			n := f.count()
			f.set(func() { route, jerr, verdict, text = false, nil, true, "fresh news" })
			f.pass(30 * time.Minute)
			if f.count() != n+1 || len(f.said) != 2 {
				t.Errorf("%d runs without a chat, said %v; want one whose result waits", f.count()-n, f.said)
			}
			f.set(func() { route = true })
			f.pass(30 * time.Minute)
			if n := len(f.notices); n != 1 || f.notices[0] != "fresh news" {
				t.Errorf("told later: %q, want the result that waited for the first chat", f.notices)
			}
		})
		if in := f.runs[0]; !strings.HasPrefix(in, "cron:heartbeat:") {
			t.Errorf("id %q", in)
		}
	})
}

func TestTriggers(t *testing.T) { storetest.Each(t, testTriggers) }

func testTriggers(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		tr, err := s.Triggers.Add(t.Context(), "deploy", home(), "")
		if err != nil {
			t.Fatal(err)
		}
		down := true
		f.submit = func(bus.Inbound) error {
			if down {
				return errors.New("full")
			}
			return nil
		}
		during(t, s, f, func() {
			if _, err := s.Triggers.Fire(t.Context(), strings.ToLower(tr.ID), "build 7 failed", true); err != nil {
				t.Fatal(err)
			}
			f.pass(5 * time.Second)
			f.set(func() { down = false })
			f.pass(time.Minute)
			if f.count() != 1 || len(f.said) != 1 || strings.Contains(f.texts[0], "build 7 failed") || f.quotes[0][0].Text != "build 7 failed" {
				t.Errorf("runs %q, said %v, quoted %v", f.runs, f.said, f.quotes)
			}
			if err := s.Triggers.Enable(t.Context(), tr.ID, false); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Triggers.Fire(t.Context(), tr.ID, "x", false); err == nil {
				t.Error("a trigger that is off took a message")
			}
			if _, err := s.Triggers.Fire(t.Context(), "trg_NOSUCH", "x", false); !errors.Is(err, ErrNoTrigger) {
				t.Errorf("unknown trigger: %v", err)
			}
		})
		if left := docs(t, s.State, inbox); left != 0 {
			t.Errorf("%d messages left in the inbox", left)
		}
		all, err := s.Triggers.List(t.Context())
		if err != nil || len(all) != 1 || all[0].LastStatus != statusOK || len(all[0].RunHistory) != 1 {
			t.Errorf("triggers %+v, %v", all, err)
		}
	})
}

// A turn that is over before it was noted that it began stays over.
func TestTriggerOverAtOnce(t *testing.T) { storetest.Each(t, testTriggerOverAtOnce) }

func testTriggerOverAtOnce(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		tr, err := s.Triggers.Add(t.Context(), "deploy", home(), "")
		if err != nil {
			t.Fatal(err)
		}
		f.manual = true
		f.submit = func(in bus.Inbound) error {
			s.Outcome(t.Context(), in, bus.Outbound{Kind: bus.Final, Route: in.Route, Text: "done", Turn: &bus.Turn{}})
			return nil
		}
		during(t, s, f, func() {
			if _, err := s.Triggers.Fire(t.Context(), tr.ID, "build 7", true); err != nil {
				t.Fatal(err)
			}
			f.pass(time.Minute)
		})
		all, err := s.Triggers.List(t.Context())
		if err != nil || all[0].LastStatus != statusOK || all[0].LastMessage != "build 7" || len(all[0].RunHistory) != 1 {
			t.Errorf("triggers %+v, %v", all, err)
		}
	})
}

// A message that the queue does not take after all is kept, and its chat is told.
func TestTriggerGivesUp(t *testing.T) { storetest.Each(t, testTriggerGivesUp) }

func testTriggerGivesUp(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		tr, err := s.Triggers.Add(t.Context(), "deploy", home(), "")
		if err != nil {
			t.Fatal(err)
		}
		f.submit = func(bus.Inbound) error { return errors.New("full") }
		during(t, s, f, func() {
			if _, err := s.Triggers.Fire(t.Context(), tr.ID, "build 7 failed", true); err != nil {
				t.Fatal(err)
			}
			f.pass(time.Hour)
		})
		if kept := docs(t, s.State, failed); kept != 1 {
			t.Errorf("%d kept, want 1", kept)
		}
		if len(f.notices) != 1 || !strings.Contains(f.notices[0], `the trigger "deploy" could not be taken: full`) {
			t.Errorf("notices %q", f.notices)
		}
	})
}

func TestRunNow(t *testing.T) { storetest.Each(t, testRunNow) }

func testRunNow(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, open, Options{})
		j := add(t, s, Draft{Timing: Cron("0 9 * * *", "")})
		during(t, s, f, func() {
			if _, err := s.RunNow(t.Context(), j.ID, false); err != nil {
				t.Fatal(err)
			}
			f.pass(time.Second)
			if f.count() != 1 {
				t.Errorf("%d runs, want 1 at once", f.count())
			}
			f.pass(10 * time.Hour)
			if f.count() != 2 {
				t.Errorf("%d runs, want the scheduled one as well", f.count())
			}
			if _, err := s.Enable(t.Context(), j.ID, false); err != nil {
				t.Fatal(err)
			}
			if _, err := s.RunNow(t.Context(), j.ID, false); err == nil {
				t.Error("a job that is off ran without force")
			}
			if _, err := s.RunNow(t.Context(), j.ID, true); err != nil {
				t.Error(err)
			}
			f.pass(time.Second)
		})
		if f.count() != 3 {
			t.Errorf("%d runs, want 3", f.count())
		}
	})
}
