package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// A job that names no zone runs in the host's zone, as in Python nanobot,
// whatever zone is configured; a new job names the configured one.
func TestJobsWithoutAZoneRunInTheHostsZone(t *testing.T) {
	storetest.Each(t, testJobsWithoutAZoneRunInTheHostsZone)
}

func testJobsWithoutAZoneRunInTheHostsZone(t *testing.T, open storetest.Open) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)
	s, _ := newFake(t, open, Options{Location: zone(t, "Asia/Tokyo"), Limits: Limits{Host: zone(t, "Europe/Berlin")}, Now: func() time.Time { return now }})
	j := Job{Schedule: Cron("0 9 * * *", ""), CreatedAtMS: msOf(now), Enabled: true}
	s.planner.plan(&j, now)
	if got, want := j.State.NextRunAtMS.Time().UTC(), now.Add(5*time.Hour); !got.Equal(want) {
		t.Errorf("without a zone: %v, want %v", got, want)
	}
	added, err := s.Add(t.Context(), Draft{Message: "wake up", Timing: Cron("0 9 * * *", ""), Route: bus.Route{Channel: "cli", ChatID: "direct"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := added.Job.Schedule.TZ; got != "Asia/Tokyo" || !added.Next[0].Equal(now.Add(21*time.Hour)) {
		t.Errorf("a new job: zone %q, next %v", got, added.Next[0].UTC())
	}
}

// The limit of jobs per chat is for guests; the owner has the limit of the
// configuration.
func TestOnlyGuestsHaveALimitOfJobsPerChat(t *testing.T) {
	storetest.Each(t, testOnlyGuestsHaveALimitOfJobsPerChat)
}

func testOnlyGuestsHaveALimitOfJobsPerChat(t *testing.T, open storetest.Open) {
	t.Parallel()
	s, _ := newFake(t, open, Options{})
	for _, scope := range []string{"", "guest"} {
		var failed error
		for i := range 30 {
			_, err := s.Add(t.Context(), Draft{
				Message: fmt.Sprintf("job %d of %q", i, scope), Timing: Every(time.Hour), Scope: scope,
				Route: bus.Route{Channel: "telegram", ChatID: "chat" + scope},
			})
			if err != nil && failed == nil {
				failed = err
			}
		}
		if (failed != nil) != (scope != "") {
			t.Errorf("scope %q: %v", scope, failed)
		}
	}
}

func TestActiveTasks(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"- water the plants\n":                             "- water the plants",
		"# Tasks\n\n- a\n## Later\n- b\n":                  "# Tasks\n\n- a\n## Later\n- b",
		"# Tasks\n<!-- - a -->\n## Later\n":                "",
		"## Done\n- old\n## Active tasks\n- a\n# x\n- b\n": "- a",
		"## Active Tasks\n\n## Done\n- old\n":              "",
	} {
		if got := activeTasks(doc); got != want {
			t.Errorf("ActiveTasks(%q) = %q, want %q", doc, got, want)
		}
	}
}
