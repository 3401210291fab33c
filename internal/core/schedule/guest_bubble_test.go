package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func terminal() bus.Route { return bus.Route{Channel: "cli", ChatID: "direct"} }

// newGuest is a chat in a terminal.
func newGuest(t *testing.T, open storetest.Open, ws string) (*Scheduler, *agentFake) {
	t.Helper()
	return newFake(t, open, Options{
		Workspace: ws, State: stateOf(t, open, ws), Guest: GuestOptions{Takes: terminal().SameChat},
		System:    []System{{ID: "mine", Name: "mine", Timing: Every(time.Hour), Run: func(context.Context) error { t.Error("a guest ran a system job"); return nil }}},
		Heartbeat: Heartbeat{Every: time.Hour},
	})
}

// records are the jobs of a file as they are written there, by id.
func records(t *testing.T, open storetest.Open, ws string) map[string]string {
	t.Helper()
	var table struct{ Jobs []json.RawMessage }
	if err := json.Unmarshal([]byte(doc(t, stateOf(t, open, ws), fileJobs)), &table); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, raw := range table.Jobs {
		var j struct{ ID string }
		if err := json.Unmarshal(raw, &j); err != nil {
			t.Fatal(err)
		}
		out[j.ID] = string(raw)
	}
	return out
}

func TestGuestRunsOnlyItsOwn(t *testing.T) { storetest.Each(t, testGuestRunsOnlyItsOwn) }

func testGuestRunsOnlyItsOwn(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ws := t.TempDir()
		gateway, gf := newFake(t, open, Options{
			Workspace: ws, State: stateOf(t, open, ws), System: []System{{ID: "dream", Name: "dream", Timing: Every(2 * time.Hour), Run: func(context.Context) error { return nil }}},
		})
		during(t, gateway, gf, func() {})
		add(t, gateway, Draft{Timing: Every(10 * time.Minute), Message: "often"})
		add(t, gateway, Draft{Timing: Once(time.Now().Add(time.Minute)), Message: "too old soon"})
		taken := add(t, gateway, Draft{Timing: Every(time.Hour), Route: terminal(), Message: "in a queue"})
		gateway.store.change(t.Context(), taken.ID, func(j *Job) { j.State.Pending = &Pending{OccurrenceMS: 1, BeganMS: 1} })
		trigger, err := gateway.Triggers.Add(t.Context(), "hook", terminal(), "cli:direct")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gateway.Triggers.Fire(t.Context(), trigger.ID, "now", false); err != nil {
			t.Fatal(err)
		}
		before := records(t, open, ws)

		guest, f := newGuest(t, open, ws)
		once := add(t, guest, Draft{Timing: Once(time.Now().Add(time.Minute)), Route: terminal(), Message: "tea"})
		hourly := add(t, guest, Draft{Timing: Every(time.Hour), Route: terminal(), Message: "water"})
		during(t, guest, f, func() { f.pass(48 * time.Hour) })

		if n := f.count(); n != 1+48 {
			t.Errorf("%d runs, want 49", n)
		}
		for _, id := range f.runs {
			if !strings.HasPrefix(id, idPrefix+once.ID) && !strings.HasPrefix(id, idPrefix+hourly.ID) {
				t.Errorf("ran %s, which is none of its jobs", id)
			}
		}
		after := records(t, open, ws)
		if _, ok := after[once.ID]; ok {
			t.Error("a reminder stays after its run")
		}
		if st := job(t, guest, hourly.ID).State; st.LastStatus != statusOK || st.Pending != nil || len(st.RunHistory) != historyLen {
			t.Errorf("state of its own job: %+v", st)
		}
		delete(after, hourly.ID)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("other jobs changed (-before +after):\n%s", diff)
		}
		if left := docs(t, gateway.State, inbox); left != 1 {
			t.Errorf("%d messages of triggers left, want 1", left)
		}
	})
}

// beside starts a scheduler beside the test.
func beside(t *testing.T, s *Scheduler) (done chan error, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done = make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	return done, cancel
}

func TestGuestYields(t *testing.T) { storetest.Each(t, testGuestYields) }

func testGuestYields(t *testing.T, open storetest.Open) {
	t.Parallel()
	cases := []struct {
		name         string
		takes        time.Duration // the run that is going on
		guest, owner int           // runs there
	}{
		{name: "with nothing to do", guest: 0, owner: 1},
		{name: "after a short run", takes: 24 * time.Second, guest: 1, owner: 0},
		{name: "in the middle of a long run", takes: 5 * time.Minute, guest: 1, owner: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ws := t.TempDir()
				guest, gf := newGuest(t, open, ws)
				var left []bus.Inbound
				guest.Guest.Leave = func(in bus.Inbound) { left = append(left, in) }
				gf.takes = c.takes
				at := time.Now().Add(time.Minute)
				if c.takes == 0 {
					at = at.Add(time.Hour)
				}
				j := add(t, guest, Draft{Timing: Once(at), Route: terminal(), Keep: true})
				guestDone, stopGuest := beside(t, guest)
				defer stopGuest()
				time.Sleep(time.Minute + 15*time.Second)
				if pid, running := Owner(t.Context(), stateOf(t, open, ws)); running {
					t.Errorf("Owner = %d while only a guest is there", pid)
				}
				if pid, running := Guest(t.Context(), stateOf(t, open, ws)); !running || pid != os.Getpid() {
					t.Errorf("Guest = %d, %v", pid, running)
				}

				owner, of := newFake(t, open, Options{Workspace: ws, State: stateOf(t, open, ws), Blocked: func(_ context.Context, err error) { t.Errorf("a guest is in the way: %v", err) }})
				of.takes = 10 * time.Minute
				ownerDone, stopOwner := beside(t, owner)
				defer stopOwner()
				if err := <-guestDone; !errors.Is(err, ErrYield) {
					t.Errorf("the guest's Run = %v, want ErrYield", err)
				}
				if err := guest.Run(t.Context()); err == nil {
					t.Error("a guest runs beside an owner")
				}
				time.Sleep(time.Minute)
				if p := job(t, owner, j.ID).State.Pending; p != nil && (p.Guest || !p.Submitted) {
					t.Errorf("pending %+v, want it to be the owner's", p)
				}
				time.Sleep(2 * time.Hour)
				stopOwner()
				if err := <-ownerDone; err != nil {
					t.Errorf("the owner's Run = %v", err)
				}
				gf.works.Wait()
				of.works.Wait()
				if gf.count() != c.guest || of.count() != c.owner {
					t.Errorf("%d runs of the guest and %d of the owner, want %d and %d", gf.count(), of.count(), c.guest, c.owner)
				}
				if said := len(gf.said) + len(of.said); said != 1 {
					t.Errorf("told %d times, want once", said)
				}
				if handed := c.guest+c.owner == 2; handed != (len(left) == 1) || handed && left[0].ID != gf.runs[0] {
					t.Errorf("the guest left %v", left)
				} else if handed && gf.runs[0] != of.runs[0] {
					t.Errorf("handed over %s as %s", gf.runs[0], of.runs[0])
				}
				if st := job(t, owner, j.ID).State; st.LastStatus != statusOK || len(st.RunHistory) != 1 || st.Pending != nil {
					t.Errorf("state %+v", st)
				}
				if note, err := stateOf(t, open, ws).Stat(t.Context(), wantedLock); err != nil || note.Exists() {
					t.Errorf("the note is still there: %+v, %v", note, err)
				}
			})
		})
	}
}

// A chat that is closed in the middle of a run, or dies, leaves it to the next.
func TestGuestEndsInTheMiddle(t *testing.T) { storetest.Each(t, testGuestEndsInTheMiddle) }

func testGuestEndsInTheMiddle(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ws := t.TempDir()
		first, f := newGuest(t, open, ws)
		f.takes = time.Minute
		j := add(t, first, Draft{Timing: Once(time.Now().Add(time.Minute)), Route: terminal(), Keep: true})
		during(t, first, f, func() { time.Sleep(90 * time.Second) })
		if p := job(t, first, j.ID).State.Pending; p == nil || !p.Guest || p.Submitted {
			t.Fatalf("pending %+v", p)
		}
		if len(f.said) != 0 {
			t.Errorf("said %v although nobody is there", f.said)
		}
		next, nf := newGuest(t, open, ws)
		during(t, next, nf, func() { nf.pass(time.Minute) })
		if !slices.Equal(nf.runs, f.runs) || len(nf.said) != 1 {
			t.Errorf("the next chat ran %v and said %d, want %v once", nf.runs, len(nf.said), f.runs)
		}
		if st := job(t, next, j.ID).State; st.LastStatus != statusOK || len(st.RunHistory) != 1 || st.Pending != nil {
			t.Errorf("state %+v", st)
		}
	})
}

func TestNoteOfTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ws := t.TempDir()
		for _, path := range []string{stateOf(t, storetest.Disk, ws).Where(wantedLock), stateOf(t, storetest.Disk, ws).Where(guestLock), stateOf(t, storetest.Disk, ws).Where(ownerLock)} {
			put(t, ws, filepath.Join("state", filepath.Base(path)), "4711               \n")
		}
		guest, f := newGuest(t, storetest.Disk, ws)
		add(t, guest, Draft{Timing: Once(time.Now().Add(time.Minute)), Route: terminal()})
		during(t, guest, f, func() { f.pass(2 * time.Minute) })
		if f.count() != 1 {
			t.Errorf("%d runs, want 1", f.count())
		}
		if _, err := os.Stat(stateOf(t, storetest.Disk, ws).Where(wantedLock)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the note is still there: %v", err)
		}
	})
}

// Two gateways: the second says so once and takes over when the first ends.
func TestOwnerWaits(t *testing.T) { storetest.Each(t, testOwnerWaits) }

func testOwnerWaits(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ws := t.TempDir()
		first, _ := newFake(t, open, Options{Workspace: ws, State: stateOf(t, open, ws)})
		firstDone, stopFirst := beside(t, first)
		defer stopFirst()
		blocked := 0
		second, f := newFake(t, open, Options{Workspace: ws, State: stateOf(t, open, ws), Blocked: func(_ context.Context, err error) {
			blocked++
			if _, ok := errors.AsType[*diskio.LockedError](err); !ok {
				t.Errorf("blocked by %v", err)
			}
		}})
		secondDone, stopSecond := beside(t, second)
		defer stopSecond()
		time.Sleep(time.Hour)
		stopFirst()
		if err := <-firstDone; err != nil {
			t.Error(err)
		}
		time.Sleep(blockedStep)
		add(t, second, Draft{Timing: Once(time.Now().Add(time.Minute))})
		time.Sleep(2 * time.Minute)
		stopSecond()
		if err := <-secondDone; err != nil {
			t.Error(err)
		}
		f.works.Wait()
		if blocked != 1 || f.count() != 1 {
			t.Errorf("told %d times, %d runs; want 1 and 1", blocked, f.count())
		}
	})
}

func TestToolInAGuest(t *testing.T) { storetest.Each(t, testToolInAGuest) }

func testToolInAGuest(t *testing.T, open storetest.Open) {
	t.Parallel()
	guest, _ := newGuest(t, open, t.TempDir())
	got, _ := call(t, guest, tool.Call{Route: terminal()}, `{"action":"add","message":"a","every_seconds":3600}`)
	if !strings.Contains(got, "while this chat is open") {
		t.Errorf("in the chat: %q", got)
	}
	lock, err := guest.State.Lock(t.Context(), ownerLock)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock() }()
	if got, _ = call(t, guest, tool.Call{Route: terminal()}, `{"action":"add","message":"b","every_seconds":3600}`); !strings.Contains(got, "the gateway runs it") || !strings.Contains(got, "a terminal chat that is open then, or to the next one") {
		t.Errorf("beside a gateway: %q", got)
	}
}
