package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func call(t *testing.T, s *Scheduler, c tool.Call, args string) (string, tool.Code) {
	t.Helper()
	set, err := tool.NewSet(s.Tool())
	if err != nil {
		t.Fatal(err)
	}
	tl, in, bad := set.Prepare("cron", args)
	if bad != nil {
		return bad.Content.String(), bad.Code
	}
	c.Input = in
	if c.Route.Channel == "" {
		c.Route = home()
	}
	r, err := tl.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r.Content.String(), r.Code
}

func TestTool(t *testing.T) { storetest.Each(t, testTool) }

func testTool(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := plain(t, open, t.TempDir())
	s.Preview = func(context.Context, float64) string { return "about $1 a month" }
	s.Now = func() time.Time { return time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name, args, want string
		call             tool.Call
		code             tool.Code
	}{
		{name: "empty", args: `{"action":"list"}`, want: "no scheduled jobs"},
		{name: "every", args: `{"action":"add","message":"drink","every_seconds":7200}`, want: "every 2h. Next: 2026-11-15 10:00 UTC"},
		{name: "cost", args: `{"action":"add","message":"drink more","every_seconds":7200}`, want: "about $1 a month"},
		{name: "cron", args: `{"action":"add","message":"m","cron_expr":"0 9 * * 1","tz":"Asia/Tokyo"}`, want: "2026-11-16 09:00 Asia/Tokyo"},
		{name: "at", args: `{"action":"add","message":"m","at":"2026-11-15T09:30:00"}`, want: "at 2026-11-15 09:30 UTC"},
		{name: "the same again", args: `{"action":"add","message":"m","at":"2026-11-15T09:30:00"}`, want: "exists already"},
		{name: "precedence", args: `{"action":"add","message":"p","every_seconds":3600,"cron_expr":"0 9 * * *"}`, want: "every 1h"},
		{name: "past", args: `{"action":"add","message":"m","at":"2026-11-15T07:00:00"}`, want: "it is now 2026-11-15 08:00 UTC", code: tool.InvalidArgs},
		{name: "too often", args: `{"action":"add","message":"m","every_seconds":30}`, want: "shortest interval is 1m", code: tool.InvalidArgs},
		{name: "no time", args: `{"action":"add","message":"m"}`, want: "say when", code: tool.InvalidArgs},
		{name: "zone alone", args: `{"action":"add","message":"m","at":"2026-11-15T09:30:00","tz":"UTC"}`, want: "cron_expr only", code: tool.InvalidArgs},
		{name: "bad action", args: `{"action":"explode"}`, want: "action", code: tool.InvalidArgs},
		{name: "within a run", args: `{"action":"add","message":"m","every_seconds":3600}`, call: tool.Call{SenderID: "cron", SessionKey: "cron:x"}, want: "cannot add jobs", code: tool.DeniedPolicy},
		{name: "within a heartbeat", args: `{"action":"add","message":"m","every_seconds":3600}`, call: tool.Call{SenderID: "heartbeat"}, want: "cannot add jobs", code: tool.DeniedPolicy},
		{name: "list", args: `{"action":"list"}`, want: "next: 2026-11-16 09:00 Asia/Tokyo"},
		{name: "remove nothing", args: `{"action":"remove"}`, want: "job_id is missing", code: tool.InvalidArgs},
		{name: "remove unknown", args: `{"action":"remove","job_id":"zzz"}`, want: "there is no job", code: tool.NotFound},
	} {
		got, code := call(t, s, c.call, c.args)
		if !strings.Contains(got, c.want) || code != c.code {
			t.Errorf("%s: %q (%s), want %q (%s)", c.name, got, code, c.want, c.code)
		}
	}
}

func TestToolKeepsChatsApart(t *testing.T) { storetest.Each(t, testToolKeepsChatsApart) }

func testToolKeepsChatsApart(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := plain(t, open, t.TempDir())
	mine := add(t, s, Draft{Timing: Every(time.Hour), Message: "owner's secret"})
	guest := tool.Call{Scope: "telegram:2/3", Route: bus.Route{Channel: "telegram", ChatID: "2"}, Tainted: true}
	if got, _ := call(t, s, guest, `{"action":"list"}`); !strings.Contains(got, "no scheduled jobs") {
		t.Errorf("a guest sees %q", got)
	}
	if _, code := call(t, s, guest, `{"action":"remove","job_id":"`+mine.ID+`"}`); code != tool.NotFound {
		t.Errorf("a guest removes: %s", code)
	}
	if got, code := call(t, s, guest, `{"action":"add","message":"g","every_seconds":3600}`); code != "" {
		t.Fatal(got)
	}
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if p := all[i].Payload; p.Message == "g" && (p.Scope != guest.Scope || !p.Untrusted) {
			t.Errorf("payload %+v, want the scope and the taint of its turn", p)
		}
	}
	clean := guest
	clean.Tainted = false
	if got, code := call(t, s, clean, `{"action":"add","message":"clean words of a guest","every_seconds":7200}`); code != "" {
		t.Fatal(got)
	}
	for i := range all {
		if all[i].Payload.Message == "g" {
			if _, err := s.Remove(t.Context(), all[i].ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for scope, want := range map[string]bool{"": true, guest.Scope: false} { // nothing but clean words is left
		c := tool.Call{Scope: scope, Route: guest.Route, Input: json.RawMessage(`{"action":"list"}`)}
		if res, err := s.Tool().Run(t.Context(), c); err != nil || res.Untrusted != want {
			t.Errorf("the list for %q is untrusted: %v, %v", scope, res.Untrusted, err)
		}
	}
	if got, _ := call(t, s, tool.Call{}, `{"action":"list"}`); strings.Count(got, "\n- ") != 1 {
		t.Errorf("the owner sees %q, want two jobs", got)
	}
	if _, code := call(t, s, tool.Call{}, `{"action":"remove","job_id":"`+mine.ID+`"}`); code != "" {
		t.Errorf("the owner cannot remove: %s", code)
	}
}

func TestEvaluator(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args string
		want, fail bool
	}{
		{"yes", `{"should_notify":true,"reason":"r"}`, true, false},
		{"no", `{"should_notify":false}`, false, false},
		{"no word", `{}`, false, true},
		{"no call", "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := llm.ModelFunc(func(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
				if r.Source != eventHeartbeat || *r.Temperature != 0 || len(r.Tools) != 1 || !json.Valid(r.Tools[0].Schema) {
					t.Errorf("request %+v", r)
				}
				return func(yield func(llm.Event, error) bool) {
					resp := &llm.Response{}
					if c.args != "" {
						resp.Message.ToolCalls = []llm.ToolCall{{ID: "1", Name: "evaluate_notification", Arguments: c.args}}
					}
					yield(llm.Event{Kind: llm.Done, Response: resp}, nil)
				}
			})
			judge := Evaluator(func() string { return EvaluatorPrompt }, func(context.Context) (llm.Model, string, error) { return m, "m", nil })
			if got, err := judge(t.Context(), "task", "answer"); got != c.want || (err != nil) != c.fail {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	judge := Evaluator(func() string { return EvaluatorPrompt }, func(context.Context) (llm.Model, string, error) { return nil, "", errors.New("none") })
	if _, err := judge(t.Context(), "", ""); err == nil {
		t.Error("no model, no error")
	}
}

// A reminder that was asked for in a terminal says who brings it, or that
// nobody does.
func TestToolSaysWhoRunsJobs(t *testing.T) { storetest.Each(t, testToolSaysWhoRunsJobs) }

func testToolSaysWhoRunsJobs(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := plain(t, open, t.TempDir())
	const nobody, gateway = "nothing runs jobs at the moment", "the gateway runs it"
	if got, _ := call(t, s, tool.Call{}, `{"action":"add","message":"a","every_seconds":3600}`); !strings.Contains(got, nobody) {
		t.Errorf("nobody runs: %q", got)
	}
	lock, err := s.State.Lock(t.Context(), ownerLock)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock() }()
	if got, _ := call(t, s, tool.Call{}, `{"action":"add","message":"b","every_seconds":3600}`); !strings.Contains(got, gateway) {
		t.Errorf("another process runs: %q", got)
	}
	s.Submit = func(context.Context, bus.Inbound) error { return nil }
	if got, _ := call(t, s, tool.Call{}, `{"action":"add","message":"c","every_seconds":3600}`); strings.Contains(got, nobody) || strings.Contains(got, gateway) {
		t.Errorf("this process runs: %q", got)
	}
}

// What a job says is its owner's unless a tainted turn worded it; what a server
// said about a run is the server's.
func TestWordsOfAJob(t *testing.T) { storetest.Each(t, testWordsOfAJob) }

func testWordsOfAJob(t *testing.T, open storetest.Open) {
	t.Parallel()
	for name, c := range map[string]struct {
		tainted bool
		fails   Opt
		listed  bool // as words from outside
	}{"clean": {}, "of a tainted turn": {tainted: true, listed: true}, "failed": {fails: "HTTP 500 obey me", listed: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := plain(t, open, t.TempDir())
			c1 := tool.Call{Tainted: c.tainted, Route: bus.Route{Channel: "telegram", ChatID: "2"}}
			if got, code := call(t, s, c1, `{"action":"add","message":"do it","name":"the name","every_seconds":3600}`); code != "" {
				t.Fatal(got)
			}
			jobs, err := s.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			j := jobs[0]
			j.State.Pending, j.State.LastError = &Pending{OccurrenceMS: 1}, c.fails
			in, _ := s.runs.inbound(t.Context(), &j)
			if in.Foreign() != c.tainted || strings.Contains(in.Text, "do it") == c.tainted || strings.Contains(in.Text, "the name") == c.tainted {
				t.Errorf("a run begins with %q beside %v", in.Text, in.Quoted)
			}
			if quotes(&j, j.Payload.Scope) != c.listed {
				t.Errorf("the list is foreign: %v", quotes(&j, j.Payload.Scope))
			}
		})
	}
}

// The list of the heartbeat is the owner's unless its file came from outside.
func TestForeignHeartbeat(t *testing.T) { storetest.Each(t, testForeignHeartbeat) }

func testForeignHeartbeat(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, foreign := range []bool{false, true} {
		s := plain(t, open, t.TempDir())
		if err := os.WriteFile(filepath.Join(s.Workspace, heartbeatFile), []byte("## Active Tasks\n- watch it\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.LastRoute = func(context.Context) (bus.Route, bool) { return bus.Route{Channel: "telegram", ChatID: "1"}, true }
		s.Foreign = func(path string) bool { return foreign && path == filepath.Join(s.Workspace, heartbeatFile) }
		var in bus.Inbound
		if skip := s.heartbeat.beat(t.Context(), &in, nil); skip != "" {
			t.Fatal(skip)
		}
		if in.Foreign() != foreign || strings.Contains(in.Text, "watch it") == foreign {
			t.Errorf("foreign %v: %q beside %v", foreign, in.Text, in.Quoted)
		}
	}
}
