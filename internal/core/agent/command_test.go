package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// handedIn are rows of commands whose code lives outside of the agent.
func handedIn(ran func(c *agent.Call)) []agent.Command {
	run := func(_ context.Context, c *agent.Call) (agent.Reply, error) {
		ran(c)
		return agent.Say("ran " + c.Name + " with " + c.Args), nil
	}
	return []agent.Command{
		{Name: "beside", Aliases: []string{"other"}, Args: "[x]", Help: "beside a turn", DuringTurn: true, Run: run},
		{Name: "inturn", Help: "in a turn", Owner: true, Run: run},
		{Name: "channels", Help: "of the channels"},
	}
}

// Each row of the table is what happens: all commands are known and in /help,
// only owners run those of owners, and what may run during a turn is answered
// during one.
func TestCommandTable(t *testing.T) {
	t.Parallel()
	until := make(chan struct{})
	h := newHouse(t, llmtest.NewScript(t, llmtest.Step{Text: "late", Until: until}))
	h.opts.Commands = handedIn(func(*agent.Call) {})
	h.start()
	busy := make(chan string)
	go func() { busy <- h.ask(in("busy", "wait")) }()
	waitFor(t, func() bool { return h.agent.BusyWith("test:busy") })

	rows := append(agent.Commands(), h.opts.Commands...)
	help := h.ask(in("busy", "/help"))
	for _, row := range rows {
		if row.Help == "" || !strings.Contains(help, "  /"+row.Name+" ") {
			t.Errorf("/%s: no help, or not in /help", row.Name)
		}
		if row.Run == nil {
			continue
		}
		guest := in("guests", "/"+row.Name)
		guest.Scope, guest.SenderID = "test:guests/bob", "bob"
		if got := h.ask(guest); strings.Contains(got, "Only an owner") != row.Owner || strings.Contains(got, "Unknown command") {
			t.Errorf("/%s of a guest (Owner %v): %q", row.Name, row.Owner, got)
		}
		if row.DuringTurn && !row.Ends {
			if got := h.ask(in("busy", "/"+row.Name)); got == "" || strings.Contains(got, "Unknown command") {
				t.Errorf("/%s during a turn: %q", row.Name, got)
			}
		}
		if row.Args == "" {
			if got := h.ask(in("1", "/"+row.Name+" words")); !strings.Contains(got, "takes no arguments") {
				t.Errorf("/%s words: %q", row.Name, got)
			}
		}
	}
	if got := h.ask(in("busy", "/OTHER a b")); got != "ran beside with a b" {
		t.Errorf("an alias: %q", got)
	}
	if got := h.ask(in("1", "/channels")); !strings.Contains(got, "Unknown command") {
		t.Errorf("a command of the channels: %q", got)
	}
	close(until)
	if got := <-busy; got != "late" {
		t.Errorf("the turn: %q", got)
	}
}

// Commands that only look at a conversation are answered while a turn works on it,
// from what is on disk, and neither join the turn nor wait behind it.
func TestLookingDuringTurn(t *testing.T) {
	t.Parallel()
	until := make(chan struct{})
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("hello"), llmtest.Step{Text: "late", Until: until}))
	h.opts.Guard = &undoLog{Guard: openGuard(t, h.ws)}
	h.start()
	h.ask(in("1", "hi"))
	h.ask(in("1", "/model fast"))
	busy := make(chan string)
	go func() { busy <- h.ask(in("1", "wait")) }()
	waitFor(t, func() bool { return len(h.model.Requests()) == 2 })

	for _, c := range []struct{ cmd, want string }{
		{"/history", "you: hi\nbot: hello\nyou: wait"},
		{"/history 0", "Usage"},
		{"/model", "scriptfast (preset fast)"},
		{"/undo --list", "3f2a"},
		{"/diff", "```diff"},
		{"/xyzzy", "Unknown command /xyzzy"},
	} {
		if got := h.ask(in("1", c.cmd)); !strings.Contains(got, c.want) {
			t.Errorf("%s during a turn: %q does not contain %q", c.cmd, got, c.want)
		}
	}
	close(until)
	if got := <-busy; got != "late" {
		t.Errorf("the turn: %q", got)
	}
}

// A process that just started knows what the last one did in a conversation.
func TestStatusOfAnotherProcess(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Step{Text: "hello", Usage: llm.Usage{Prompt: 1200, Completion: 30, Cached: 600}})).start()
	h.ask(in("1", "/model fast"))
	h.ask(in("1", "hi"))
	before := h.ask(in("1", "/status"))
	for _, want := range []string{"Model: scriptfast\n", "Tokens: 1200 in / 30 out (50% cached)\n", "Context: 1200/", "Session: 4 messages\n"} {
		if !strings.Contains(before, want) {
			t.Errorf("status lacks %q: %s", want, before)
		}
	}
	h.stop()
	after := h.start().ask(in("1", "/status"))
	told := func(s string) string { s, _, _ = strings.Cut(s, "Uptime"); return s }
	if told(after) != told(before) {
		t.Errorf("a new process says\n%s\nand the old one\n%s", after, before)
	}
}

// In a conversation that does not exist there is nothing to see.
func TestLookingAtNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t)).start()
	for cmd, want := range map[string]string{"/history": "is empty", "/model": "(preset default)"} {
		if got := h.ask(in("new", cmd)); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not contain %q", cmd, got, want)
		}
	}
}

// What a row's Then does comes after its reply.
func TestCommandThen(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t))
	done := make(chan bool, 1)
	h.opts.Commands = []agent.Command{{Name: "later", Help: "later", DuringTurn: true, Run: func(context.Context, *agent.Call) (agent.Reply, error) {
		return agent.Reply{Text: "*soon*", Markdown: true, Then: func() { done <- true }}, nil
	}}}
	h.start()
	for out, err := range h.agent.Ask(t.Context(), in("1", "/later")) {
		if err != nil || out.Kind != bus.Final || out.Text != "*soon*" || out.Plain {
			t.Errorf("%+v, %v", out, err)
		}
	}
	if !<-done {
		t.Error("not done")
	}
}

// Two rows of one name are a mistake that is noticed at once.
func TestCommandNamesAreUnique(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t)).start()
	o := h.opts
	o.Sessions = h.store
	for _, row := range []agent.Command{{Name: "stop"}, {Name: "x", Aliases: []string{"cost"}}} {
		o.Commands = []agent.Command{row}
		if _, err := agent.New(o); err == nil || !strings.Contains(err.Error(), "two commands are called /") {
			t.Errorf("%v: %v", row.Name, err)
		}
	}
}

// running is a guard with a command of a guest.
type running struct {
	turn.Guard
	stopped []string
}

func (r *running) Running(session string) []string {
	if session == "" || session == "test:guests" {
		return []string{"c0ffee running"}
	}
	return nil
}

func (r *running) StopCommand(session, id string) bool {
	if len(r.Running(session)) == 0 || id != "c0ffee" {
		return false
	}
	r.stopped = append(r.stopped, session)
	return true
}

// People see the commands of their conversation, and the owner those of all.
func TestPS(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t))
	commands := &running{Guard: openGuard(t, h.ws)}
	h.opts.Guard = commands
	h.start()
	guest := func(chat, text string) string {
		m := in(chat, text)
		m.Scope, m.SenderID = "test:"+chat+"/bob", "bob"
		return h.ask(m)
	}
	for _, c := range []struct{ got, want string }{
		{h.ask(in("1", "/ps")), "c0ffee running\n/ps stop ID stops one."},
		{guest("guests", "/ps"), "c0ffee running\n/ps stop ID stops one."},
		{guest("others", "/ps"), "No commands are running."},
		{guest("others", "/ps stop c0ffee"), "No command c0ffee is running. /ps lists those that are."},
		{guest("guests", "/ps stop c0ffee"), "Stopped."},
		{h.ask(in("1", "/ps stop c0ffee")), "Stopped."},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if len(commands.stopped) != 2 {
		t.Errorf("stopped for %q", commands.stopped)
	}
	if got := guest("guests", "/status"); !strings.Contains(got, "Running here: 1 command (/ps lists them)") {
		t.Errorf("/status: %q", got)
	}
	if got := h.ask(in("1", "/ps c0ffee")); !strings.Contains(got, "Usage: /ps [stop ID]") {
		t.Errorf("got %q", got)
	}
}
