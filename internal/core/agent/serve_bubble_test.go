package agent_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// The end of the program interrupts a turn and a message that joined it. Both
// stay in the journal, and the next start answers them, once.
func TestServeShutdownAndResume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		busy, next := make(chan struct{}), make(chan struct{})
		pause := textTool("pause", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) {
			close(busy)
			<-next
			return tool.Text("paused"), nil
		})
		hang := llmtest.Block(make(chan struct{}))
		h := newHouse(t, llmtest.NewScript(t, llmtest.Call("pause", textIn{}), hang), pause).start()
		q := openJournal(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.agent.Serve(ctx, q) }()
		for _, id := range []string{"a", "b"} {
			msg := in("1", "text "+id)
			msg.ID = id
			if err := q.Submit(ctx, msg); err != nil {
				t.Fatal(err)
			}
			if id == "a" {
				<-busy
			}
		}
		synctest.Wait() // the second one is in the mailbox
		close(next)
		synctest.Wait() // the model hangs, with both messages in its prompt
		if n := len(h.model.Last().Messages); n < 4 {
			t.Errorf("the prompt has %d messages, want the second one in it", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		h.stop()
		if n := q.Status().Inbound; n != 2 {
			t.Errorf("%d messages are left, want both", n)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}

		h.model = llmtest.NewScript(t, llmtest.Reply("resumed"))
		h.start()
		q = openJournal(t, dir)
		ctx, cancel = context.WithCancel(t.Context())
		go func() { done <- h.agent.Serve(ctx, q) }()
		var finals []string
		for d, err := range q.Outgoing(ctx, "test") {
			if err != nil {
				t.Fatal(err)
			}
			if d.Kind.Durable() {
				finals = append(finals, d.ID+" "+d.Text)
				break
			}
		}
		synctest.Wait()
		if st := q.Status(); st.Inbound != 0 || st.Outbound["test"] != 1 || finals[0] != "final:a resumed" {
			t.Errorf("finals %q, status %+v; want one final and nothing left", finals, st)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		h.stop()
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A message that was accepted waits while the disk is full, wherever in its turn
// that is met. Its sender is told, once, and gets the answer later.
func TestServeWaitsForSpace(t *testing.T) {
	t.Parallel()
	for name, room := range map[string]int32{"nothing fits": 0, "only the question fits": 700} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				long := llmtest.Reply(strings.Repeat("long ", 200))
				h := newHouse(t, llmtest.NewScript(t))
				h.model.Add(slices.Repeat([]llmtest.Step{long}, 50)...)
				h.full = new(atomic.Int32)
				h.full.Store(room)
				s := h.start()
				q := openJournal(t, t.TempDir())
				ctx, cancel := context.WithCancel(t.Context())
				served, read := make(chan error, 1), make(chan struct{})
				var said []string
				go func() { served <- s.agent.Serve(ctx, q) }()
				go func() {
					defer close(read)
					for d, err := range q.Outgoing(ctx, "test") {
						if err == nil && (d.Kind == bus.Final || d.Kind == bus.Notice) {
							said = append(said, string(d.Kind)+" "+d.Text)
						}
					}
				}()
				synctest.Wait()
				msg := in("1", "hi")
				msg.ID, msg.WantsStream = "a", false
				if err := q.Submit(ctx, msg); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				if n := q.Status().Inbound; n != 1 {
					t.Errorf("%d messages wait for space, want 1", n)
				}
				h.full.Store(-1)
				time.Sleep(30 * time.Second)
				cancel()
				<-read
				if err := <-served; err != nil {
					t.Error(err)
				}
				if len(said) != 2 || !strings.HasPrefix(said[0], "notice The disk of this computer is full.") || !strings.HasPrefix(said[1], "final long long") {
					t.Errorf("the sender was told %.200q", said)
				}
				h.stop()
				if err := q.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func openJournal(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	q, err := journal.Open(disk.Open(dir, nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// The end of the work on each message is told, also of one that joined the turn
// of another.
func TestServeTellsEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		busy, next := make(chan struct{}), make(chan struct{})
		pause := textTool("pause", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) {
			close(busy)
			<-next
			return tool.Text("paused"), nil
		})
		h := newHouse(t, llmtest.NewScript(t, llmtest.Call("pause", textIn{}), llmtest.Reply("both"), llmtest.Fail(&llm.Error{Kind: llm.Auth}), llmtest.Block(make(chan struct{}))), pause).start()
		q := openJournal(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- h.agent.Serve(ctx, q) }()
		var ends []string
		go func() {
			for d, err := range q.Outgoing(ctx, "test") {
				if err == nil && d.Kind == bus.Ended {
					ends = append(ends, d.Route.MessageID+" "+d.Turn.StopReason)
				}
				if err == nil && d.Kind.Durable() {
					err = q.Delivered(ctx, d.ID)
				}
				if err != nil {
					t.Error(err)
				}
			}
			done <- nil
		}()
		submit := func(id, text string) {
			msg := in("1", text)
			msg.ID, msg.Route.MessageID = id, id
			if err := q.Submit(ctx, msg); err != nil {
				t.Fatal(err)
			}
		}
		submit("a", "text")
		<-busy
		submit("b", "more")
		synctest.Wait() // it is in the mailbox
		close(next)
		synctest.Wait()
		slices.Sort(ends)
		if want := []string{"a completed", "b completed"}; !slices.Equal(ends, want) {
			t.Errorf("ends of a turn with two messages: %q, want %q", ends, want)
		}
		ends = nil
		submit("c", "text")
		synctest.Wait()
		submit("d", "text")
		synctest.Wait()
		submit("e", "/stop")
		synctest.Wait()
		slices.Sort(ends)
		if want := []string{"c error", "d stopped", "e completed"}; !slices.Equal(ends, want) {
			t.Errorf("ends: %q, want %q", ends, want)
		}
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		h.stop()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}
