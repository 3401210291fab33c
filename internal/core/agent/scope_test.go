package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// People of a chat that is declared as shared have one memory; elsewhere each
// has their own, and nobody has the owner's.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	m.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("ok") }
	h := newHouse(t, m)
	h.opts.SharedMemory = []string{"test:1"}
	for name, fact := range map[string]string{
		"memory/MEMORY.md": "FACT-OWNER", memory.ScopeFile("test:1"): "FACT-SHARED",
		memory.ScopeFile("test:2/ann"): "FACT-ANN", memory.ScopeFile("test:1/ann"): "FACT-EARLIER",
	} {
		p := filepath.Join(h.ws, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(fact), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	for _, c := range []struct{ chat, scope, want string }{
		{"1", "test:1/ann", "FACT-SHARED"},
		{"1", "test:1/bob", "FACT-SHARED"},
		{"2", "test:2/ann", "FACT-ANN"},
		{"2", "test:2/bob", ""},
		{"12", "test:12/ann", ""},
		{"3", "", "FACT-OWNER"},
	} {
		msg := in(c.chat, "hi")
		msg.Scope = c.scope
		h.ask(msg)
		system := m.Last().System
		if n := strings.Count(system, "FACT-"); c.want == "" && n != 0 || c.want != "" && (n != 1 || !strings.Contains(system, c.want)) {
			t.Errorf("%q sees %d facts, want %q:\n%s", c.scope, n, c.want, system)
		}
	}
}

// Servers work with the owner's rights: a guest is offered those that say so,
// and cannot call the others by name.
func TestServersOfGuests(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ran := map[string]int{}
	server := func(name string, guests bool) tool.Tool {
		tl := tool.Func(tool.Tool{Name: name, Description: "x", Guests: guests}, func(_ context.Context, c tool.Call, _ struct{}) (tool.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			ran[name+" for "+c.Scope]++
			return tool.Text("done"), nil
		})
		return tl
	}
	m := llmtest.NewScript(t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
			return llmtest.Reply("ok")
		}
		return llmtest.Call("mcp_mail_read", map[string]any{}).Call("mcp_weather_now", map[string]any{})
	}
	h := newHouse(t, m)
	h.opts.Tools.More = func(context.Context) ([]tool.Tool, uint64) {
		return []tool.Tool{server("mcp_mail_read", false), server("mcp_weather_now", true)}, 1
	}
	h.opts.Tools.Missing = func() map[string]string { return map[string]string{"mcp_bank_": "the owner's bank wants a login"} }
	h.start()
	offered := func() (names []string) {
		for _, d := range m.Last().Tools {
			if strings.HasPrefix(d.Name, "mcp_") {
				names = append(names, d.Name)
			}
		}
		return names
	}
	h.ask(in("3", "hi"))
	if got := offered(); len(got) != 2 {
		t.Errorf("the owner is offered %q", got)
	}
	msg := in("1", "hi")
	msg.Scope = "test:1/ann"
	outs, err := h.collect(msg)
	if err != nil {
		t.Fatal(err)
	}
	if got := offered(); len(got) != 1 || got[0] != "mcp_weather_now" {
		t.Errorf("a guest is offered %q", got)
	}
	for _, out := range outs {
		if strings.Contains(out.Text, "bank") {
			t.Errorf("a guest hears of the owner's servers: %s", out.Text)
		}
	}
	h.ask(in("3", "hi")) // and back
	if got := offered(); len(got) != 2 {
		t.Errorf("after a guest the owner is offered %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if ran["mcp_mail_read for test:1/ann"] != 0 || ran["mcp_weather_now for test:1/ann"] != 1 || ran["mcp_mail_read for "] != 2 {
		t.Errorf("ran %v", ran)
	}
}

// Somebody who is no owner, or a text that nobody vouches for, cannot restart
// the program or see what it cost.
func TestCommandsOfTheOwner(t *testing.T) {
	t.Parallel()
	restarts := make(chan bus.Route, 8)
	h := newHouse(t, llmtest.NewScript(t))
	h.opts.Restart = func(r bus.Route) { restarts <- r }
	h.opts.Models.Usage = func(context.Context) (string, error) { return "USD 7", nil }
	h.start()
	for _, c := range []struct {
		name  string
		alter func(*bus.Inbound)
		want  bool
	}{
		{"guest", func(in *bus.Inbound) { in.Scope = "test:1/ann" }, false},
		{"untrusted", func(in *bus.Inbound) { in.Untrusted = true }, false},
		{"owner", func(*bus.Inbound) {}, true},
	} {
		for _, text := range []string{"/restart", "/usage"} {
			msg := in("1", text)
			msg.Route.MessageID = c.name
			c.alter(&msg)
			reply := h.ask(msg)
			if got := !strings.Contains(reply, "Only an owner"); got != c.want {
				t.Errorf("%s, %s: %q", c.name, text, reply)
			}
		}
	}
	if r := <-restarts; r.MessageID != "owner" {
		t.Errorf("restarted for %q", r.MessageID)
	}
}

// What one person writes does not join the turn of another, which sees what is
// that person's alone.
func TestOthersDoNotJoin(t *testing.T) {
	t.Parallel()
	began, gate := make(chan struct{}), make(chan struct{})
	m := llmtest.NewScript(t, llmtest.Call("wait", map[string]any{"text": "x"}))
	m.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("ok") }
	h := newHouse(t, m, textTool("wait", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) {
		close(began)
		<-gate
		return tool.Text("done"), nil
	})).start()
	var wg sync.WaitGroup
	write := func(who, text string) {
		msg := in("1", text)
		msg.SenderID, msg.Scope = who, "test:1/"+who
		wg.Go(func() {
			if _, err := h.collect(msg); err != nil {
				t.Error(err)
			}
		})
	}
	write("ann", "what do you know about me?")
	<-began
	write("bob", "tell me about ann")
	waitFor(t, func() bool { return strings.Contains(h.ask(in("1", "/status")), "Waiting here: 1 message") })
	close(gate)
	wg.Wait()
	all := m.Requests()
	if len(all) != 3 {
		t.Fatalf("%d requests, want two for ann and one for bob", len(all))
	}
	for _, msg := range all[1].Messages {
		if strings.Contains(msg.Content.String(), "tell me about ann") {
			t.Error("bob joined ann's turn")
		}
	}
}

// T12: somebody who was let in cannot stop what another asked for; an owner can.
func TestOthersDoNotStop(t *testing.T) {
	t.Parallel()
	began, never := make(chan struct{}), make(chan struct{})
	m := llmtest.NewScript(t, llmtest.Func(func(llm.Request) llmtest.Step { close(began); return llmtest.Block(never) }))
	h := newHouse(t, m).start()
	by := func(who, scope, text string) bus.Inbound {
		msg := in("1", text)
		msg.SenderID, msg.Scope = who, scope
		return msg
	}
	over := make(chan error, 1)
	go func() {
		_, err := h.collect(by("ann", "test:1/ann", "work"))
		over <- err
	}()
	<-began
	if got := h.ask(by("bob", "test:1/bob", "/stop")); !strings.Contains(got, "Another person") {
		t.Errorf("bob stopped it: %q", got)
	}
	select {
	case err := <-over:
		t.Fatalf("the turn ended: %v", err)
	default:
	}
	if got := h.ask(by("owner", "", "/stop")); got != "Stopped." {
		t.Errorf("an owner: %q", got)
	}
	if err := <-over; !errors.Is(err, turn.ErrStopped) {
		t.Errorf("the turn ended with %v", err)
	}
}
