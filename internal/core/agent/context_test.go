package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// measure is the context of a conversation, with its parts by name.
func measure(t *testing.T, h *house) (turn.Context, map[string]turn.ContextPart) {
	t.Helper()
	c, err := h.agent.Context(t.Context(), "test:1")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]turn.ContextPart{}
	for _, p := range c.Parts {
		parts[p.Name] = p
	}
	return c, parts
}

// What Context tells is what a model is sent.
func TestContext(t *testing.T) {
	t.Parallel()
	looking := textTool("look", tool.Tool{ReadOnly: true}, func(context.Context, tool.Call, string) (tool.Result, error) { return tool.Text("a cat"), nil })
	h := newHouse(t, llmtest.NewScript(t), looking)
	h.model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("ok") }
	for name, text := range map[string]string{
		"USER.md": "likes tea", "memory/MEMORY.md": "has a cat",
		"skills/brew/SKILL.md":   "---\nname: brew\ndescription: Make tea\n---\nBoil it.\n",
		"skills/always/SKILL.md": "---\nname: always\ndescription: Be kind\nalways: true\n---\nBe kind.\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(h.ws, name)), 0o755), os.WriteFile(filepath.Join(h.ws, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	if _, err := h.agent.Context(t.Context(), "test:1"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("of no conversation: %v", err)
	}
	h.ask(in("1", "hi"))
	if c, _ := measure(t, h); c.Last == 0 {
		t.Error("what the provider counted is not told")
	}
	req := h.model.Last()
	h.stop()
	h.start() // nothing is known about how well our estimates fit
	c, parts := measure(t, h)
	bytes, pieces := 0, 0
	for _, name := range []string{"identity", "bootstrap", "memory", "active_skills", "skills"} {
		if parts[name].Bytes == 0 || parts[name].Tokens == 0 {
			t.Errorf("%s = %+v", name, parts[name])
		}
		bytes += parts[name].Bytes
		pieces++
	}
	if between := len("\n\n---\n\n") * (pieces - 1); bytes+between != len(req.System) {
		t.Errorf("the parts have %d bytes, the prompt %d", bytes+between, len(req.System))
	}
	if parts["tools"].Count != len(req.Tools) || parts["tools"].Tokens == 0 {
		t.Errorf("tools = %+v, want %d", parts["tools"], len(req.Tools))
	}
	want := runner.Estimate(req.Messages[0]) + runner.Estimate(llm.Message{Role: llm.Assistant, Content: llm.Text("ok")})
	if parts["history"].Tokens != want || c.Messages != 2 || c.Stored != 2 {
		t.Errorf("history = %+v, %d of %d messages, want %d tokens", parts["history"], c.Messages, c.Stored, want)
	}
	if head := runner.EstimateHead(req.System, req.Tools); c.Used != head+want || c.Window != 100000 || c.Budget == 0 || c.Budget >= c.Window || c.Model != "script" || c.Last == 0 {
		t.Errorf("context = %+v, want %d used", c, head+want)
	}
	// The preset of the conversation counts; one that is gone is told.
	h.ask(in("1", "/model fast"))
	if c, _ := measure(t, h); c.Model != "scriptfast" || c.Preset != "fast" || c.Problem != "" {
		t.Errorf("with a preset: %+v", c)
	}
	if err := h.store.Annotate(t.Context(), "test:1", func(s *session.Session) error { return s.SetMeta("_nanobot_model_preset", "gone") }); err != nil {
		t.Fatal(err)
	}
	if c, _ := measure(t, h); c.Model != "script" || !strings.Contains(c.Problem, "gone") {
		t.Errorf("with a preset that is gone: %+v", c)
	}
}

// A turn is not waited for, and nothing is written.
func TestContextDuringTurn(t *testing.T) {
	t.Parallel()
	inside, goOn := make(chan struct{}), make(chan struct{})
	waiting := textTool("wait", tool.Tool{ReadOnly: true}, func(context.Context, tool.Call, string) (tool.Result, error) {
		close(inside)
		<-goOn
		return tool.Text("done"), nil
	})
	h := newHouse(t, llmtest.NewScript(t, llmtest.Call("wait", textIn{"x"}), llmtest.Reply("ok")), waiting).start()
	over := make(chan string)
	go func() { over <- h.ask(in("1", "hi")) }()
	<-inside
	if !h.agent.BusyWith("test:1") || h.agent.BusyWith("test:2") {
		t.Error("the conversation at work is not told from another")
	}
	if c, _ := measure(t, h); c.Messages == 0 || c.Used == 0 {
		t.Errorf("during the turn: %+v", c)
	}
	close(goOn)
	<-over
	if got := brief(h.log("test:1")); !strings.HasSuffix(got, "a:ok") {
		t.Errorf("log: %s", got)
	}
}

// An old conversation that does not fit is shown as a turn would shorten it.
func TestContextShortens(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t))
	h.model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply(story(2000)) }
	h.start()
	for range 8 {
		h.ask(in("1", "more"))
	}
	h.stop()
	h.window(20000)
	h.start()
	c, parts := measure(t, h)
	if c.Used > c.Budget || c.Messages >= c.Stored || parts["history"].Count != c.Messages || c.Window != 20000 {
		t.Errorf("context = %+v", c)
	}
	if got := len(h.log("test:1")); got != 16 {
		t.Errorf("looking changed the log: %d records", got)
	}
}

// story is a text of so many words that does not repeat itself.
func story(words int) string {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return b.String()
}
