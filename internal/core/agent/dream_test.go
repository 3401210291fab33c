package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// dreamLog is a Dreamer that writes down what it is asked.
type dreamLog struct {
	mu    sync.Mutex
	asked []string
	hold  chan struct{} // Run waits for it if it is not nil
}

func (d *dreamLog) note(format string, args ...any) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, fmt.Sprintf(format, args...))
	return "**done**"
}

func (d *dreamLog) Run(ctx context.Context) string {
	if d.hold != nil {
		select {
		case <-d.hold:
		case <-ctx.Done():
			return d.note("stopped")
		}
	}
	return d.note("run")
}
func (d *dreamLog) Log(_ context.Context, sha string) string { return d.note("log %q", sha) }
func (d *dreamLog) Restore(_ context.Context, sha string, only bool) string {
	return d.note("restore %q %v", sha, only)
}

func (d *dreamLog) Decide(_ context.Context, id string, keep bool) string {
	return d.note("decide %s %v", id, keep)
}

func TestDreamCommands(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t))
	d := &dreamLog{}
	h.opts.Dream = d
	h.start()
	for _, c := range []struct{ cmd, want, asked string }{
		{"/dream", "**done**", "run"},
		{"/dream keep 1a2b", "**done**", "decide 1a2b true"},
		{"/dream drop 1a2b", "**done**", "decide 1a2b false"},
		{"/dream now", "Usage: /dream ", ""},
		{"/dream-log", "**done**", `log ""`},
		{"/dream-log 3f2a", "**done**", `log "3f2a"`},
		{"/dream-log a b", "Usage: /dream-log", ""},
		{"/dream-restore", "**done**", `restore "" false`},
		{"/dream-restore 3f2a --only", "**done**", `restore "3f2a" true`},
		{"/dream-restore --only", "Usage: /dream-restore", ""},
		{"/dream-restore a b", "Usage: /dream-restore", ""},
	} {
		d.asked = nil
		if got := h.ask(in("1", c.cmd)); !strings.HasPrefix(got, c.want) || strings.Join(d.asked, ";") != c.asked {
			t.Errorf("%s: %q, asked %q, want %q, %q", c.cmd, got, d.asked, c.want, c.asked)
		}
	}
	d.asked = nil
	for _, cmd := range []string{"/dream", "/dream-log", "/dream-restore 3f2a", "/dream keep 1a2b"} {
		other, mail := in("2", cmd), in("1", cmd)
		other.Scope, mail.Untrusted = "telegram:-1/2", true
		for _, msg := range []bus.Inbound{other, mail} {
			if got := h.ask(msg); !strings.Contains(got, "Only an owner") || len(d.asked) > 0 {
				t.Errorf("%s by somebody else: %q, asked %q", cmd, got, d.asked)
			}
		}
	}
}

// A dream does not keep the conversation waiting.
func TestDreamRunsBesideTurns(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("hello")))
	d := &dreamLog{hold: make(chan struct{})}
	h.opts.Dream = d
	h.start()
	kinds := []bus.Kind{}
	for o, err := range h.agent.Ask(t.Context(), in("1", "/dream")) {
		if err != nil {
			t.Fatal(err)
		}
		if kinds = append(kinds, o.Kind); o.Kind == bus.Notice {
			if got := h.ask(in("1", "hi")); got != "hello" {
				t.Errorf("got %q", got)
			}
			close(d.hold)
		}
	}
	if len(kinds) != 2 || kinds[1] != bus.Final {
		t.Errorf("said %v", kinds)
	}
}

func TestDreamIsMissing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t)).start()
	if got := h.ask(in("1", "/dream")); !strings.Contains(got, "not available") {
		t.Errorf("got %q", got)
	}
}
