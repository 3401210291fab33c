package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// waiting is a question that holds up a turn until the person it was put to
// writes again.
type waiting struct {
	sender string
	route  bus.Route
	answer chan *item // capacity 1: whoever takes the question out of the actor sends once
}

// answers reports whether a message answers the question. Nobody else can, and
// a command is still a command.
func (w *waiting) answers(in bus.Inbound) bool {
	return w != nil && in.SenderID == w.sender && in.Route.SameChat(w.route) && !in.Shell && !looksLikeCommand(in.Text)
}

// asker is what tools of this turn may ask people with; nil when nobody is there.
func (t *turn) asker() func(context.Context, bus.Question) (string, error) {
	if !t.it.in.Interactive {
		return nil
	}
	return t.ask
}

// ask puts a question to the person and waits for the answer. The turn gives
// its slot back meanwhile: a person takes as long as they take.
func (t *turn) ask(ctx context.Context, q bus.Question) (string, error) {
	select { // one question at a time
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	w := &waiting{sender: t.it.in.SenderID, route: t.it.in.Route, answer: make(chan *item, 1)}
	t.mu.Lock()
	t.act.waiting = w
	t.mu.Unlock()
	if q.ID == "" {
		q.ID = newID()
	}
	t.it.emit(bus.Outbound{Kind: bus.Ask, Route: t.it.in.Route, ReplyTo: t.it.in.Route.MessageID, Text: q.Text, Question: &q, Meta: t.it.in.Meta})
	t.leave()
	it, err := t.await(ctx, w, q.Expires)
	t.it.stir()
	if err == nil {
		err = t.enter(ctx)
	}
	if it == nil {
		return "", err
	}
	if kerr := t.keepAnswer(q, it); err == nil {
		err = kerr
	}
	return strings.TrimSpace(it.in.Text), err
}

// await waits for the message that answers. One that comes at the very last
// moment still counts; with the end of the turn it is left to the next one.
func (t *turn) await(ctx context.Context, w *waiting, until time.Time) (it *item, err error) {
	expires := time.NewTimer(until.Sub(t.Now()))
	defer expires.Stop()
	select {
	case it = <-w.answer:
		return it, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-expires.C:
		err = tool.ErrNoAnswer
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.act.waiting = nil // from here on nobody sends
	select {
	case it = <-w.answer:
	default:
		return nil, err
	}
	if ctx.Err() != nil {
		t.act.queue = slices.Insert(t.act.queue, 0, it)
		return nil, err
	}
	return it, nil
}

// keepAnswer stores question and answer, unseen by the model: the answer is a
// message that was accepted.
func (t *turn) keepAnswer(q bus.Question, it *item) error {
	if it.in.ID != "" && t.sess.SeenInbound(it.in.ID) {
		it.finish(nil)
		return tool.ErrNoAnswer // an old message delivered again is no answer
	}
	err := t.sess.Append(
		session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(q.Text)}, Command: true, Event: "question"},
		session.Record{
			Message:   llm.Message{Role: llm.User, Content: llm.Text(it.in.Text)},
			InboundID: it.in.ID, SenderID: it.in.SenderID, Command: true, Event: "answer",
		},
	)
	if err != nil {
		err = fmt.Errorf("keep the answer: %w", err)
	}
	it.finish(err)
	return err
}

type askUserInput struct {
	Question string   `json:"question" min:"1" max:"4000"`
	Options  []string `json:"options,omitempty" max:"10"`
}

// askUserTool ends the turn with a question. The answer is the person's next
// message, whenever it comes, so nothing has to be kept open meanwhile.
func askUserTool() tool.Tool {
	return tool.Func(tool.Tool{
		Name: "ask_user", Exclusive: true, Trusted: true,
		Description: "Ask the user something you cannot find out yourself. Ends the turn; the answer is their next message.",
	}, func(ctx context.Context, c tool.Call, in askUserInput) (tool.Result, error) {
		if c.Publish == nil {
			return tool.Fail(tool.Unsupported, "nobody is listening; put the question into your answer"), nil
		}
		var text strings.Builder
		text.WriteString(strings.TrimSpace(in.Question))
		for i, o := range in.Options {
			fmt.Fprintf(&text, "\n%d. %s", i+1, o)
		}
		err := c.Publish(ctx, bus.Outbound{
			Kind: bus.Message, Route: c.Route, ReplyTo: c.Route.MessageID, Text: text.String(),
			Question: &bus.Question{ID: c.ID, Text: in.Question, Options: in.Options},
		})
		if err != nil {
			return tool.Result{}, err
		}
		res := tool.Text("The question was put to the user. The answer is their next message.")
		res.EndTurn = true
		return res, nil
	})
}
