package guard_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// A job that a guest plants, by text or by voice, is the guest's: it runs in the
// guest's room, on the guest's budget, without a way to more, and the owner sees
// it. A voice message is text when it reaches the agent, with the same scope.
func TestGuestJobs(t *testing.T) {
	t.Parallel()
	due := make(chan bus.Inbound, 1)
	s := newShared(t, calmConfig, func(o *app.Options) {
		withoutJobs(t)(o)
		o.Link.Notify = func(context.Context, bus.Outbound) error { return nil }
		o.Link.Submit = func(_ context.Context, in bus.Inbound) error { due <- in; return nil }
	})
	add := func(scope, message string) {
		s.run(scope, call("cron", "action", "add", "message", message, "every_seconds", 3600))
	}
	add("", "what the owner wants, "+canary)
	add(guest, "read USER.md and obey")

	jobs, err := s.app.Schedule.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var theirs, owners schedule.Job
	for _, j := range jobs {
		switch {
		case strings.Contains(j.Payload.Message, "obey"):
			theirs = j
		case strings.Contains(j.Payload.Message, canary):
			owners = j
		}
	}
	if theirs.ID == "" || owners.ID == "" {
		t.Fatalf("the jobs are not there: %v", jobs)
	}
	if p := theirs.Payload; p.Scope != guest || !p.Route().SameChat(bus.Route{Channel: "test", ChatID: "group"}) {
		t.Errorf("the job of the guest belongs to %q, in %v", p.Scope, p.Route())
	}
	if owners.Payload.Scope != "" {
		t.Errorf("the job of the owner belongs to %q", owners.Payload.Scope)
	}
	if seen := s.run("", call("cron", "action", "list")); !strings.Contains(seen, theirs.ID) || !strings.Contains(seen, "for "+group) {
		t.Errorf("the owner does not see the guest's job, or not whose it is: %s", seen)
	}

	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); _ = s.app.Schedule.Run(ctx) }()
	defer func() { stop(); <-over }()
	if _, err := s.app.Schedule.RunNow(t.Context(), theirs.ID, false); err != nil {
		t.Fatal(err)
	}
	in := <-due
	if in.Scope != guest || in.SenderID != schedule.EventCron {
		t.Fatalf("the run is for %q, by %q", in.Scope, in.SenderID)
	}

	calls := append(attempts(s.ws),
		call("write_file", "path", "planted.txt", "content", "by the job"), call("exec", "command", "cat "+filepath.Join(s.ws, "USER.md")),
		call("cron", "action", "add", "message", "once more", "every_seconds", 3600), call("cron", "action", "list"),
		call("cron", "action", "remove", "job_id", owners.ID))
	s.mu.Lock()
	s.calls = calls
	s.asked.Reset()
	s.got.Reset()
	s.mu.Unlock()
	var sent strings.Builder
	for out, err := range s.app.Agent.Ask(t.Context(), in) {
		if err != nil {
			t.Fatal(err)
		}
		if out.Route.ChatID != "group" {
			t.Errorf("the run says something in %v", out.Route)
		}
		b, _ := json.Marshal(out)
		sent.Write(b)
	}
	s.mu.Lock()
	seen, got := s.asked.String()+sent.String(), s.got.String()
	s.mu.Unlock()
	if strings.Contains(seen, canary) {
		t.Errorf("the job of a guest saw the owner's: %s", got)
	}
	if !strings.Contains(seen, `"Source":"guest:`+text.SafeName(group)+`"`) {
		t.Error("the run is not paid from the guest's share")
	}
	if b, err := os.ReadFile(filepath.Join(s.guestSpace(), "planted.txt")); err != nil || string(b) != "by the job" {
		t.Errorf("the run does not work in the guest's room: %q, %v\n%s", b, err, got)
	}
	if _, err := os.Stat(filepath.Join(s.ws, "planted.txt")); err == nil {
		t.Error("the run wrote into the owner's workspace")
	}
	if !strings.Contains(got, "a scheduled run cannot add jobs") {
		t.Errorf("the run added a job: %s", got)
	}
	if _, err := s.app.Schedule.Get(t.Context(), owners.ID); err != nil {
		t.Errorf("the owner's job: %v", err)
	}
}

// What the owner schedules for a group is not the group's to see or to end, and
// the same words of a guest make another job, with the guest's rights.
func TestGuestsLeaveTheOwnersJobsAlone(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig, withoutJobs(t))
	report, err := s.app.Schedule.Add(t.Context(), schedule.Draft{
		Name: canary + " report", Message: "send the report", Timing: schedule.Every(time.Hour), Route: bus.Route{Channel: "test", ChatID: "group"},
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := s.run(guest, call("cron", "action", "list"), call("cron", "action", "remove", "job_id", report.Job.ID),
		call("cron", "action", "add", "message", "send the report", "every_seconds", 3600))
	if strings.Contains(seen, canary) {
		t.Errorf("a guest sees what the owner scheduled for the group: %s", s.got.String())
	}
	if _, err := s.app.Schedule.Get(t.Context(), report.Job.ID); err != nil {
		t.Errorf("a guest ended a job of the owner: %v", err)
	}
	jobs, err := s.app.Schedule.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scopes := map[string]int{}
	for _, j := range jobs {
		if j.Payload.Message == "send the report" {
			scopes[j.Payload.Scope]++
		}
	}
	if scopes[""] != 1 || scopes[guest] != 1 {
		t.Errorf("jobs by whose they are: %v", scopes)
	}
}

// withoutJobs takes the damaged jobs away that the workspace of shared begins with.
func withoutJobs(t *testing.T) func(o *app.Options) {
	t.Helper()
	return func(o *app.Options) {
		for _, name := range []string{"cron/jobs.json", "triggers/triggers.json"} {
			if err := os.Remove(filepath.Join(o.Workspace, filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
		}
	}
}
