package schedule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// A run is told how the last one ended. It reads the answer, shortened and
// quoted, only if nothing from outside was before the model that wrote it.
func TestLastResult(t *testing.T) {
	t.Parallel()
	for name, clean := range map[string]bool{"clean": true, "outside": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, f := newFake(t, storetest.Disk, Options{})
				f.answer = func(bus.Inbound) (string, string) { return "three new mails\nobey " + strings.Repeat("x", 5000), "" }
				f.turn.Clean = clean
				j := add(t, s, Draft{Timing: Every(time.Hour), Message: "look at the mails"})
				during(t, s, f, func() { f.pass(3*time.Hour + time.Minute) })
				if len(f.texts) != 3 {
					t.Fatalf("%d runs", len(f.texts))
				}
				if strings.Contains(f.texts[0], "last run") {
					t.Errorf("the first run is told about one before it: %s", f.texts[0])
				}
				for _, text := range f.texts[1:] {
					if !strings.Contains(text, "The last run, 2000-01-01 0") || !strings.Contains(text, "ended with: ok") || !strings.HasSuffix(text, "look at the mails") {
						t.Errorf("a run reads %q", text)
					}
					if got := strings.Contains(text, "> three new mails\n> obey"); got != clean || len(text) > 2000 {
						t.Errorf("the answer of the last run is quoted: %v, %d bytes\n%s", got, len(text), text)
					}
					if !clean && !strings.Contains(text, "5021 characters") {
						t.Errorf("a run reads %q", text)
					}
				}
				if f.ins[0].SessionKey != "cron:"+j.ID {
					t.Errorf("it runs in %q", f.ins[0].SessionKey)
				}
			})
		})
	}
}

// A call that is refused makes the run a failed one. The owner is told once, and
// again only after a run that succeeded. The job goes on: it has answers.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, storetest.Disk, Options{})
		j := add(t, s, Draft{Timing: Every(time.Hour), Message: "tidy up", Silent: true})
		during(t, s, f, func() {
			f.set(func() {
				f.turn.Refused = "exec: this call needs the user's approval because it deletes files, and no question can be asked here"
			})
			f.pass(7*time.Hour + time.Minute)
			if st := job(t, s, j.ID).State; st.LastStatus != statusError || !strings.Contains(string(st.LastError), "exec: this call needs the user's approval") {
				t.Errorf("state %+v", st)
			}
			if len(f.notices) != 1 || !strings.Contains(f.notices[0], "it deletes files") || !strings.Contains(f.notices[0], "tools.approval.rules") {
				t.Errorf("told %q, want one notice", f.notices)
			}
			if len(f.said) != 0 {
				t.Errorf("a job that only tells failures said %v", f.said)
			}
			f.set(func() { f.turn.Refused = "" })
			f.pass(time.Hour)
			if st := job(t, s, j.ID).State; st.LastStatus != statusOK {
				t.Errorf("state %+v", st)
			}
			f.set(func() { f.turn.Refused = "exec: no" })
			f.pass(time.Hour)
			if len(f.notices) != 2 {
				t.Errorf("told %q, want a second notice after a run that succeeded", f.notices)
			}
		})
		if !job(t, s, j.ID).Enabled {
			t.Error("it was switched off")
		}
	})
}

// A trigger runs in a conversation of its own, is told about its last run, and
// its refused calls are told once.
func TestTriggerRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, storetest.Disk, Options{})
		f.turn = bus.Turn{Clean: true, Refused: "exec: no"}
		tr, err := s.Triggers.Add(t.Context(), "builds", home(), "telegram:1")
		if err != nil {
			t.Fatal(err)
		}
		during(t, s, f, func() {
			for range 2 {
				if _, err := s.Triggers.Fire(t.Context(), tr.ID, "red", true); err != nil {
					t.Fatal(err)
				}
				f.pass(time.Minute)
			}
		})
		if len(f.ins) != 2 || f.ins[1].SessionKey != "trigger:"+tr.ID {
			t.Fatalf("submitted %+v", f.ins)
		}
		if !strings.Contains(f.texts[1], "ended with: error. Its answer, as data:\n> done]") {
			t.Errorf("the second run reads %q", f.texts[1])
		}
		if len(f.notices) != 1 || !strings.Contains(f.notices[0], `trigger "builds"`) {
			t.Errorf("told %q, want one notice", f.notices)
		}
	})
}

// The copy in the workspace, which Python reads and runs, has neither jobs of
// the program nor what runs answered.
func TestMirrorIsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newFake(t, storetest.Disk, Options{Heartbeat: Heartbeat{Every: 30 * time.Minute}})
		f.answer = func(bus.Inbound) (string, string) { return "private words", "" }
		f.turn.Clean = true
		j := add(t, s, Draft{Timing: Every(time.Hour)})
		during(t, s, f, func() { f.pass(time.Hour + time.Minute) })
		b, err := os.ReadFile(filepath.Join(s.Workspace, "cron", "jobs.json"))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b); !strings.Contains(got, j.ID) || strings.Contains(got, "heartbeat") || strings.Contains(got, "private words") {
			t.Errorf("the copy holds\n%s", got)
		}
		if last := job(t, s, j.ID).State.Last; last == nil || last.Text != "private words" {
			t.Errorf("the job remembers %+v", last)
		}
		if _, err := s.Get(t.Context(), heartbeatID); err != nil {
			t.Errorf("the heartbeat is gone: %v", err)
		}
	})
}
