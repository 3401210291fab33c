package agent_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// served is a house whose messages come from a journal.
type served struct {
	*house
	q    *journal.Journal
	outs chan bus.Outbound // what goes to the channel, marked as delivered
}

// serve starts the agent and lets it work through a journal.
func (h *house) serve() *served {
	h.t.Helper()
	q, err := journal.Open(disk.Open(h.t.TempDir(), nil), journal.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	s := &served{house: h.start(), q: q, outs: make(chan bus.Outbound, 1000)}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.agent.Serve(ctx, q); err != nil {
			h.t.Error(err)
		}
	}()
	// What is not kept goes only to a channel that reads already; this message is kept.
	channel := cmp.Or(h.channel, "test")
	if err := q.Publish(ctx, bus.Outbound{ID: "reading", Kind: bus.Final, Route: bus.Route{Channel: channel}}); err != nil {
		h.t.Fatal(err)
	}
	reading, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		for d, err := range q.Outgoing(ctx, channel) {
			if err == nil && d.Kind.Durable() {
				err = q.Delivered(ctx, d.ID)
			}
			if err != nil {
				h.t.Error(err)
			}
			if d.ID == "reading" {
				close(reading)
				continue
			}
			s.outs <- d.Outbound
		}
	}()
	<-reading
	h.t.Cleanup(func() {
		cancel()
		<-done
		<-read
		h.stop()
		if err := q.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return s
}

func (s *served) submit(id, text string) {
	s.t.Helper()
	s.submitAs(id, text, func(*bus.Inbound) {})
}

// submitAs submits a message that is special in some way.
func (s *served) submitAs(id, text string, change func(*bus.Inbound)) {
	s.t.Helper()
	msg := in("1", text)
	msg.ID, msg.WantsStream = id, false
	msg.Route.Channel = cmp.Or(s.channel, msg.Route.Channel)
	change(&msg)
	if err := s.q.Submit(s.t.Context(), msg); err != nil {
		s.t.Fatal(err)
	}
}

// final waits for the next final reply.
func (s *served) final() bus.Outbound {
	s.t.Helper()
	for {
		select {
		case o := <-s.outs:
			if o.Kind == bus.Final {
				return o
			}
		case <-s.t.Context().Done():
			s.t.Fatal("no final reply")
		}
	}
}

// settled submits one more message and expects its reply to be the next final
// and nothing to be left behind it.
func (s *served) settled() {
	s.t.Helper()
	s.submit("settled", "/goal") // waits for what came before it
	if o := s.final(); o.ID != "final:settled" {
		s.t.Errorf("final %q %q, want none before the last one", o.ID, o.Text)
	}
	if st := s.q.Status(); st.Inbound > 1 { // the last one may be on its way out
		s.t.Errorf("%d messages are not completed", st.Inbound)
	}
}

func TestServeAnswers(t *testing.T) {
	t.Parallel()
	s := newHouse(t, llmtest.NewScript(t, llmtest.Reply("hello"), llmtest.Fail(&llm.Error{Kind: llm.Auth, Provider: "p"}))).serve()
	s.submit("a", "hi")
	if o := s.final(); o.Text != "hello" || o.ID != "final:a" || o.Turn == nil {
		t.Errorf("final = %+v", o)
	}
	s.submit("b", "hi again")
	if o := s.final(); !strings.Contains(o.Text, "rejected the API key") {
		t.Errorf("final of a failed turn = %q", o.Text)
	}
	s.submit("a", "hi")
	s.settled()
}

func TestServeTellsErrors(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t))
	h.opts.Models.Runtime = func(context.Context, string) (turn.Runtime, error) {
		return turn.Runtime{}, &llm.Error{Kind: llm.Configuration}
	}
	s := h.serve()
	s.submit("a", "hi")
	if o := s.final(); !strings.Contains(o.Text, "No usable model") || o.Turn.Error == "" {
		t.Errorf("final = %+v", o)
	}
	s.settled()
}

// past writes the beginning of a turn as an earlier process left it.
func (h *house) past(end bool, turns ...[]session.Record) {
	h.t.Helper()
	st, err := session.Open(session.Options{DataDir: h.dir, Store: disk.Open(h.dir, nil), Workspace: h.ws, Fsync: session.FsyncNever})
	if err != nil {
		h.t.Fatal(err)
	}
	sess, err := st.Acquire(h.t.Context(), "test:1")
	if err != nil {
		h.t.Fatal(err)
	}
	for i, recs := range turns {
		if err := sess.BeginTurn(fmt.Sprint("t", i), recs...); err != nil {
			h.t.Fatal(err)
		}
	}
	if end {
		err = sess.EndTurn()
	}
	if err == nil {
		err = sess.Release()
	}
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func said(role llm.Role, id, text string, calls ...llm.ToolCall) session.Record {
	return session.Record{Message: llm.Message{Role: role, Content: llm.Text(text), ToolCalls: calls}, InboundID: id}
}

func TestServeRedelivered(t *testing.T) {
	t.Parallel()
	call := llm.ToolCall{ID: "c", Name: "say", Arguments: "{}"}
	cut := []session.Record{said(llm.User, "a", "hi")}
	broken := said(llm.Assistant, "", "[No answer: the model call failed.]")
	broken.Failure = "the reason"
	midway := []session.Record{said(llm.User, "a", "hi"), said(llm.Assistant, "", "", call)}
	for name, c := range map[string]struct {
		turns  [][]session.Record
		end    bool
		policy turn.ResumePolicy
		model  []llmtest.Step
		want   string // "": no final
		failed bool   // what is said is no answer
	}{
		"finished":      {turns: [][]session.Record{{said(llm.User, "a", "hi"), said(llm.Assistant, "", "stored")}}, end: true, want: "stored"},
		"failed":        {turns: [][]session.Record{{said(llm.User, "a", "hi"), broken}}, end: true, want: "the reason", failed: true},
		"failed, open":  {turns: [][]session.Record{{said(llm.User, "a", "hi"), broken}}, want: "the reason", failed: true},
		"unanswered":    {turns: [][]session.Record{cut}, model: []llmtest.Step{llmtest.Reply("resumed")}, want: "resumed"},
		"midway":        {turns: [][]session.Record{midway}, model: []llmtest.Step{llmtest.Reply("resumed")}, want: "resumed"},
		"twice before":  {turns: [][]session.Record{cut, cut}, model: []llmtest.Step{llmtest.Reply("resumed")}, want: "resumed"},
		"too often":     {turns: slices.Repeat([][]session.Record{cut}, 8), want: "I was interrupted several times while working on this and have left it. Ask again if you still need it.", failed: true},
		"notify":        {turns: [][]session.Record{cut}, policy: turn.ResumeNotify, want: `The program was restarted before this was answered. Send "continue" to take it up again.`, failed: true},
		"off":           {turns: [][]session.Record{cut}, policy: turn.ResumeOff},
		"joined a turn": {turns: [][]session.Record{{said(llm.User, "x", "hi"), said(llm.User, "a", "and"), said(llm.Assistant, "", "both")}}, end: true},
		"joined a turn that was cut": {
			turns: [][]session.Record{{said(llm.User, "x", "hi"), said(llm.Assistant, "", "so far"), said(llm.User, "a", "and")}},
			model: []llmtest.Step{llmtest.Reply("resumed")}, want: "resumed",
		},
		"cut, then another answered": {
			turns: [][]session.Record{cut, {said(llm.User, "x", "other"), said(llm.Assistant, "", "other answer")}}, end: true,
			model: []llmtest.Step{llmtest.Reply("resumed")}, want: "resumed",
		},
		"said by the message tool": {
			turns: [][]session.Record{{
				said(llm.User, "a", "hi"), said(llm.Assistant, "", "", llm.ToolCall{ID: "c", Name: "message", Arguments: "{}"}),
				{Message: llm.Message{Role: llm.ToolRole, ToolCallID: "c", Content: llm.Text("sent")}},
				said(llm.Assistant, "", "done"),
			}}, end: true, want: "-",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.NewScript(t, c.model...))
			h.opts.Turns.Resume = c.policy
			h.past(c.end, c.turns...)
			s := h.serve()
			s.submit("a", "hi")
			if c.want != "" {
				if o := s.final(); o.Text != strings.TrimPrefix(c.want, "-") || o.ID != "final:a" {
					t.Errorf("final = %q %q, want %q", o.ID, o.Text, c.want)
				} else if (o.Turn.Error != "") != c.failed || o.Turn.StopReason == "error" != c.failed {
					t.Errorf("the turn ended with %+v, failed = %v", o.Turn, c.failed)
				}
			}
			if len(c.model) > 0 {
				msgs := h.model.Last().Messages
				if last := msgs[len(msgs)-1].Content.String(); !strings.Contains(last, "The program was restarted") {
					t.Errorf("the model was asked %q", last)
				}
			}
			s.settled()
			if h.model.Left() > 0 {
				t.Error("the turn was not taken up")
			}
			// Who says the message again afterwards is told the same.
			repeated := in("1", "hi")
			repeated.ID = "a"
			again := s.agent.Recall(t.Context(), repeated)
			want := strings.TrimPrefix(c.want, "-")
			if name == "off" {
				want = "This message was handled before"
			}
			if again.ID != "final:a" || again.Kind != bus.Final || again.Turn == nil || (want == "") != (again.Text == "") || !strings.HasPrefix(again.Text, want) {
				t.Errorf("recalled %q %q, want %q", again.ID, again.Text, want)
			}
		})
	}
}

func TestServeJoinedMessage(t *testing.T) {
	t.Parallel()
	busy, next := make(chan struct{}), make(chan struct{})
	wait := textTool("wait", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) {
		close(busy)
		<-next
		return tool.Text("waited"), nil
	})
	s := newHouse(t, llmtest.NewScript(t, llmtest.Call("wait", textIn{}), llmtest.Reply("both")), wait).serve()
	s.submit("a", "first")
	<-busy
	s.submit("b", "second")
	s.submit("s", "/status") // when it is answered, the one before is in the mailbox
	if o := s.final(); !strings.Contains(o.Text, "Waiting here: 1 message") {
		t.Errorf("status = %q", o.Text)
	}
	if st := s.q.Status(); st.Inbound < 2 {
		t.Errorf("%d messages left, want both in the journal until the turn ends", st.Inbound)
	}
	close(next)
	if o := s.final(); o.ID != "final:a" || o.Text != "both" {
		t.Errorf("final = %q %q", o.ID, o.Text)
	}
	s.settled()
}

// A message that comes while the answer to another is being written waits for
// that answer: it would be lost if the turn went on with the new message.
func TestServeAnswersEach(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]struct {
		step llmtest.Step
		want string
	}{
		"answer": {llmtest.Reply("first"), "first"},
		"error":  {llmtest.Fail(&llm.Error{Kind: llm.InvalidRequest, Message: "no"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			busy, next := make(chan struct{}), make(chan struct{})
			slow := llmtest.Func(func(llm.Request) llmtest.Step { close(busy); return first.step.After(next) })
			s := newHouse(t, llmtest.NewScript(t, slow, llmtest.Reply("second"))).serve()
			s.submit("a", "one")
			<-busy
			s.submit("b", "two")
			s.submit("s", "/status") // when it is answered, the one before is in the mailbox
			if o := s.final(); !strings.Contains(o.Text, "Waiting here: 1 message") {
				t.Errorf("status = %q", o.Text)
			}
			close(next)
			if o := s.final(); o.ID != "final:a" || first.want != "" && o.Text != first.want {
				t.Errorf("final = %q %q, want %q", o.ID, o.Text, first.want)
			}
			if o := s.final(); o.ID != "final:b" || o.Text != "second" {
				t.Errorf("final = %q %q, want %q", o.ID, o.Text, "second")
			}
			s.settled()
		})
	}
}

// A message of another chat with the same session does not join the turn: its
// sender would not see the answer.
func TestServeOtherChatWaits(t *testing.T) {
	t.Parallel()
	busy, next := make(chan struct{}), make(chan struct{})
	wait := textTool("wait", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) {
		close(busy)
		<-next
		return tool.Text("waited"), nil
	})
	s := newHouse(t, llmtest.NewScript(t, llmtest.Call("wait", textIn{}), llmtest.Reply("here"), llmtest.Reply("there")), wait).serve()
	for i, id := range []string{"a", "b"} {
		msg := in(fmt.Sprint(i), id)
		msg.ID, msg.SessionKey, msg.WantsStream = id, "shared", false
		if err := s.q.Submit(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-busy
		}
	}
	status := in("1", "/status") // when it is answered, the one before is in the mailbox
	status.ID, status.SessionKey, status.WantsStream = "s", "shared", false
	if err := s.q.Submit(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	s.final()
	close(next)
	for i, want := range []string{"here", "there"} {
		if o := s.final(); o.Text != want || o.Route.ChatID != fmt.Sprint(i) {
			t.Errorf("chat %s got %q, want %q", o.Route.ChatID, o.Text, want)
		}
	}
	s.settled()
}

func TestServeStop(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	hang := llmtest.Func(func(llm.Request) llmtest.Step { close(began); return llmtest.Block(make(chan struct{})) })
	s := newHouse(t, llmtest.NewScript(t, hang)).serve()
	s.submit("a", "hang")
	<-began
	s.submit("b", "/stop")
	if o := s.final(); o.ID != "final:b" || o.Text != "Stopped." {
		t.Errorf("final = %q %q, want only the one of /stop", o.ID, o.Text)
	}
	s.settled()
}

// A full mailbox refuses with a word, and the reader goes on.
func TestServeBusy(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	hang := llmtest.Func(func(llm.Request) llmtest.Step { close(began); return llmtest.Block(make(chan struct{})) })
	h := newHouse(t, llmtest.NewScript(t, hang)).start()
	const n = 300
	q := &wire{in: make(chan bus.Inbound, n), outs: make(chan bus.Outbound, n)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- h.agent.Serve(ctx, q) }()
	for i := range n {
		msg := in("1", "x")
		msg.ID = fmt.Sprint(i)
		if i == n-1 {
			msg.Text = "/stop"
		}
		q.in <- msg
		if i == 0 {
			<-began
		}
	}
	refused := 0
	for o := range q.outs {
		if strings.Contains(o.Text, "too many messages") {
			refused++
		} else if strings.HasPrefix(o.Text, "Stopped.") {
			break
		}
	}
	if want := n - 2 - 256; refused != want {
		t.Errorf("%d messages were refused, want %d", refused, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// wire is as much of a queue as the test needs.
type wire struct {
	bus.Outbox
	in   chan bus.Inbound
	outs chan bus.Outbound
	done chan string // ids of what is completed; nil: nobody wants to know
}

func (m *wire) Submit(context.Context, bus.Inbound) error   { return nil }
func (m *wire) Publish(context.Context, bus.Outbound) error { return nil }

func (m *wire) Receive(ctx context.Context) (bus.Inbound, error) {
	select {
	case in := <-m.in:
		return in, nil
	case <-ctx.Done():
		return bus.Inbound{}, ctx.Err()
	}
}

func (m *wire) Complete(_ context.Context, id string, outs ...bus.Outbound) error {
	for _, o := range outs {
		m.outs <- o
	}
	if m.done != nil {
		m.done <- id
	}
	return nil
}
