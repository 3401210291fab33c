package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/core/turn/subagent"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// settle gives the conversation of chat 1 a folder, "" takes it away.
func (h *house) settle(dir, mode string) {
	h.t.Helper()
	err := h.store.Annotate(h.t.Context(), "test:1", func(s *session.Session) error {
		if dir == "" {
			return s.SetMeta(turn.WorkspaceScopeKey, nil)
		}
		return s.SetMeta(turn.WorkspaceScopeKey, guard.Scope{Path: dir, Mode: mode})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// projectHouse is a house with a tool that tells where it works.
func projectHouse(t *testing.T, script *llmtest.Script, during ...func()) (h *house, seen *[]tool.Project) {
	t.Helper()
	seen = new([]tool.Project)
	where := textTool("where", tool.Tool{}, func(_ context.Context, c tool.Call, _ string) (tool.Result, error) {
		*seen = append(*seen, c.Project)
		for _, f := range during {
			f()
		}
		return tool.Text("here"), nil
	})
	h = newHouse(t, script, where)
	ws, err := filepath.EvalSymlinks(h.ws) // a conversation keeps names without links
	if err != nil {
		t.Fatal(err)
	}
	h.ws, h.opts.Workspace = ws, ws
	h.opts.Guard = openGuard(t, ws)
	return h, seen
}

func asked(m llm.Message) string {
	for line := range strings.Lines(m.Content.String()) {
		if strings.HasPrefix(line, "Working folder:") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// The folder goes to the tools and into the message; what was sent before stays
// the same byte for byte whatever is chosen.
func TestProject(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
			return llmtest.Reply("ok")
		}
		return llmtest.Call("where", map[string]any{"text": "x"})
	}
	h, seen := projectHouse(t, m)
	h.start()
	a, b := filepath.Join(h.ws, "a"), filepath.Join(h.ws, "b")
	if err := errors.Join(os.Mkdir(a, 0o700), os.Mkdir(b, 0o700)); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		do   func()
		want tool.Project
		told string // how the line begins
	}{
		{func() {}, tool.Project{}, ""},
		{func() { h.settle(a, guard.AccessFull) }, tool.Project{Dir: a}, "Working folder: " + a + " (relative paths and commands start there, not in the workspace"},
		{func() {}, tool.Project{Dir: a}, "Working folder: " + a},
		{func() { h.settle(b, "something newer") }, tool.Project{Dir: b, Only: true}, "Working folder: " + b + " (relative paths and commands start there; files"},
		{func() { _ = os.Remove(b) }, tool.Project{Dir: h.ws, Only: true}, "Working folder: " + b + " is gone"},
		{func() { h.settle(b, guard.AccessFull) }, tool.Project{}, "Working folder: " + b + " is gone"},
		{func() { h.settle("", "") }, tool.Project{}, "Working folder: the workspace again"},
		{func() {}, tool.Project{}, ""},
	}
	for i, st := range steps {
		st.do()
		outs, err := h.collect(in("1", "where are you?"))
		if err != nil {
			t.Fatal(err)
		}
		if got := (*seen)[len(*seen)-1]; got != st.want {
			t.Errorf("step %d: the tool works in %+v, want %+v", i, got, st.want)
		}
		msgs := h.model.Last().Messages
		if got := asked(msgs[len(msgs)-3]); !strings.HasPrefix(got, st.told) || st.told == "" && got != "" {
			t.Errorf("step %d: the model is told %q, want %q", i, got, st.told)
		}
		told := strings.Contains(notices(outs), "cannot be used any more")
		if want := strings.HasSuffix(st.told, "is gone"); told != want {
			t.Errorf("step %d: the person is told %v, want %v", i, told, want)
		}
	}
	reqs := h.model.Requests()
	for i := 1; i < len(reqs); i++ {
		if reqs[i].System != reqs[0].System {
			t.Fatalf("request %d has another system prompt", i)
		}
		for j, msg := range reqs[i-1].Messages {
			if reqs[i].Messages[j].Content.Text != msg.Content.Text {
				t.Fatalf("message %d changed with request %d", j, i)
			}
		}
	}
}

func notices(outs []bus.Outbound) string {
	var b strings.Builder
	for _, o := range outs {
		if o.Kind == bus.Notice {
			b.WriteString(o.Text)
		}
	}
	return b.String()
}

// A folder that is chosen in the middle of a turn is for the next one, is not
// waited for, and outlives a kill in that moment.
func TestProjectDuringATurn(t *testing.T) {
	t.Parallel()
	call := llmtest.Call("where", map[string]any{"text": "x"})
	var h *house
	var copied string
	h, seen := projectHouse(t, llmtest.NewScript(t, call, call, llmtest.Reply("ok"), call, llmtest.Reply("ok")), func() {
		if copied == "" {
			h.settle(h.ws, guard.AccessFull)
			copied = t.TempDir() // the disk as a kill would leave it now
			if err := os.CopyFS(copied, os.DirFS(h.dir)); err != nil {
				t.Error(err)
			}
		}
	})
	h.start()
	h.ask(in("1", "go"))
	h.ask(in("1", "go"))
	if got := *seen; len(got) != 3 || got[0] != got[1] || got[0].Dir != "" || got[2].Dir != h.ws {
		t.Errorf("the tools worked in %+v", got)
	}
	h.stop()
	again, seen := projectHouse(t, llmtest.NewScript(t, call, llmtest.Reply("ok")))
	again.ws, again.dir, again.opts.Workspace = h.ws, copied, h.ws
	again.opts.Guard = openGuard(t, h.ws)
	again.start()
	again.ask(in("1", "go"))
	if got := *seen; len(got) != 1 || got[0].Dir != h.ws {
		t.Errorf("after a kill the tools work in %+v", got)
	}
	checkLog(t, again.log("test:1"))
}

// Guests have no folder, jobs have that of the chat they were made in, and
// subagents that of the turn.
func TestProjectOfOthers(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		switch last := req.Messages[len(req.Messages)-1]; {
		case last.Role == llm.ToolRole:
			return llmtest.Reply("ok")
		case strings.HasPrefix(last.Content.String(), "delegate"):
			return llmtest.Call("spawn", map[string]any{"task": "look around", "wait": true})
		}
		return llmtest.Call("where", map[string]any{"text": "x"})
	}
	h, seen := projectHouse(t, m)
	h.opts.Tools.Subagents = subagent.Options{Store: disk.Open(filepath.Join(h.dir, "subagents"), nil), Most: 3}
	h.start()
	h.settle(h.ws, guard.AccessRestricted)
	want := tool.Project{Dir: h.ws, Only: true}
	guest := in("1", "hi")
	guest.Scope = "test:1/7"
	job := in("1", "hi")
	job.SessionKey, job.Event = "cron:x", "cron"
	beat := job
	beat.SessionKey, beat.Event = "heartbeat", "heartbeat"
	for _, c := range []struct {
		name string
		msg  bus.Inbound
		want tool.Project
	}{{"owner", in("1", "hi"), want}, {"guest", guest, tool.Project{}}, {"job", job, want}, {"heartbeat", beat, tool.Project{}}, {"subagent", in("1", "delegate"), want}} {
		*seen = nil
		if _, err := h.collect(c.msg); err != nil {
			t.Fatal(err)
		}
		if len(*seen) != 1 || (*seen)[0] != c.want {
			t.Errorf("%s works in %+v, want %+v", c.name, *seen, c.want)
		}
	}
	for _, req := range m.Requests() {
		if isSubagent(req) && !strings.Contains(req.Messages[0].Content.String(), "Working folder: "+h.ws) {
			t.Errorf("the subagent is told %q", req.Messages[0].Content.String())
		}
	}
}
