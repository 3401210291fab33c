package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/bus"
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
