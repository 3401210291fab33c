package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// attend lets an agent work through a wire until the test ends.
func attend(t *testing.T, a *agent.Agent, q bus.Queue) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Serve(ctx, q) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// /stop ends what came before it. What comes right behind it is a new message.
func TestServeStopSparesWhatFollows(t *testing.T) {
	t.Parallel()
	const rounds = 20
	began := make(chan struct{})
	model := llmtest.NewScript(t)
	model.Otherwise = func(req llm.Request) llmtest.Step {
		if text := req.Messages[len(req.Messages)-1].Content.String(); strings.Contains(text, "instead") {
			return llmtest.Reply("done")
		}
		began <- struct{}{}
		return llmtest.Block(make(chan struct{}))
	}
	h := newHouse(t, model).start()
	q := &wire{in: make(chan bus.Inbound, 4), outs: make(chan bus.Outbound, 100)}
	attend(t, h.agent, q)
	for i := range rounds {
		send := func(text string) {
			msg := in("1", text)
			msg.ID, msg.WantsStream = fmt.Sprint(i, text), false
			q.in <- msg
		}
		send("hang")
		<-began
		send("waiting")
		send("/stop")
		send("do this instead")
		var said []string
		for len(said) < 2 {
			select {
			case o := <-q.outs:
				said = append(said, o.Text)
			case <-time.After(10 * time.Minute):
				t.Fatalf("round %d: heard only %q", i, said)
			}
		}
		slices.Sort(said)
		if said[0] != "Stopped. 1 waiting message dropped." || said[1] != "done" {
			t.Fatalf("round %d: heard %q", i, said)
		}
	}
}

// A job that takes too long in a conversation of people is stopped alone.
func TestStopMessage(t *testing.T) {
	t.Parallel()
	began, next := make(chan struct{}), make(chan struct{})
	model := llmtest.NewScript(t)
	model.Otherwise = func(req llm.Request) llmtest.Step {
		text := req.Messages[len(req.Messages)-1].Content.String()
		if strings.Contains(text, "first") {
			close(began)
			return llmtest.Reply("first").After(next)
		}
		if strings.Contains(text, "job") {
			t.Error("the job has run")
		}
		return llmtest.Reply("third")
	}
	h := newHouse(t, model).start()
	q := &wire{in: make(chan bus.Inbound, 4), outs: make(chan bus.Outbound, 100), done: make(chan string, 4)}
	attend(t, h.agent, q)
	var job bus.Inbound
	for _, text := range []string{"first", "job", "third", "/status"} {
		msg := in("1", text)
		msg.ID, msg.WantsStream, msg.OwnTurn = text, false, true
		if text == "job" {
			msg.Event = "cron"
			job = msg
		}
		q.in <- msg
		if text == "first" {
			<-began
		}
	}
	if o := <-q.outs; !strings.Contains(o.Text, "Waiting here: 2 messages") {
		t.Errorf("status = %q", o.Text)
	}
	h.agent.StopMessage(t.Context(), job)
	close(next)
	for _, want := range []string{"first", "third"} {
		if o := <-q.outs; o.Text != want {
			t.Errorf("heard %q, want %q", o.Text, want)
		}
	}
	var done []string
	for range 4 {
		done = append(done, <-q.done)
	}
	if !slices.Contains(done, "job") {
		t.Errorf("completed %q, want the job among them", done)
	}
}

// A turn whose end cannot be written is one that does not move.
func TestServeStuckAtTheEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("hello"))).start()
	disk := &stuckDisk{wire: wire{in: make(chan bus.Inbound, 1)}, reached: make(chan struct{}), free: make(chan struct{})}
	attend(t, h.agent, disk)
	msg := in("1", "hi")
	msg.ID, msg.WantsStream = "a", false
	disk.in <- msg
	<-disk.reached
	if p := h.agent.Pulse(-time.Minute); !slices.Equal(p.Stuck, []string{"test:1"}) {
		t.Errorf("stuck = %q while the answer waits for the disk", p.Stuck)
	}
	close(disk.free)
}

// stuckDisk is a queue that cannot complete anything.
type stuckDisk struct {
	wire
	reached, free chan struct{}
}

func (d *stuckDisk) Complete(context.Context, string, ...bus.Outbound) error {
	close(d.reached)
	<-d.free
	return nil
}
