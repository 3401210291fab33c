package schedule

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Whoever runs jobs is told in the chat when their file is damaged while they
// run: once, and a file that somebody mends is used again.
func TestDamageIsTold(t *testing.T) { storetest.Each(t, testDamageIsTold) }

func testDamageIsTold(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, who := range []string{"gateway", "guest"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ws := t.TempDir()
				o := Options{Workspace: ws, State: stateOf(t, open, ws), LastRoute: func(context.Context) (bus.Route, bool) { return terminal(), true }}
				if who == "guest" {
					o.Guest.Takes = terminal().SameChat
				}
				s, f := newFake(t, open, o)
				add(t, s, Draft{Timing: Every(time.Hour), Route: terminal()})
				whole := doc(t, s.State, fileJobs)
				heard := func(part string) int {
					n := 0
					f.set(func() {
						n = len(slices.DeleteFunc(slices.Clone(f.notices), func(s string) bool { return !strings.Contains(s, part) }))
					})
					return n
				}
				during(t, s, f, func() {
					f.pass(time.Minute)
					putJobs(t, s.State, `{"version": 1, "jobs": [{"id"`)
					f.pass(2 * time.Minute)
					if n := heard("went back to the last good copy"); n != 1 {
						t.Errorf("the repair was told %d times: %q", n, f.notices)
					}
					if err := s.State.Remove(t.Context(), goodCopy); err != nil {
						t.Fatal(err)
					}
					putJobs(t, s.State, `{"version": 1, "jobs": [{"id"`)
					f.pass(10 * time.Minute)
					if n := heard("Scheduled jobs do not run"); n != 1 {
						t.Errorf("the damage was told %d times: %q", n, f.notices)
					}
					putJobs(t, s.State, whole)
					f.pass(2 * time.Hour)
				})
				if f.count() == 0 {
					t.Error("the mended job did not run")
				}
			})
		})
	}
}
