package turn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// asker is what tools of this turn may ask people with; nil when no person is there.
func (t *Turn) asker() func(context.Context, bus.Question) (string, error) {
	switch in := t.msg.In; {
	case in.Interactive:
		return t.ask
	case in.Unasked != "":
		return func(context.Context, bus.Question) (string, error) { return "", &tool.UnaskedError{Why: in.Unasked} }
	}
	return nil
}

// ask puts a question to the person and waits for the answer. The turn gives
// its slot back meanwhile: a person takes as long as they take.
func (t *Turn) ask(ctx context.Context, q bus.Question) (string, error) {
	select { // one question at a time
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}

	if q.ID == "" {
		q.ID = NewID()
	}

	q.Code = newCode()
	in := t.msg.In
	t.progress.explain(q.Detail)
	q = redactedQuestion(t.engine.secrets, q) // the answer names an option as it was shown
	wait := t.around.Ask(q)                   // open before it is shown: an answer may come at once
	t.msg.Sink.Emit(bus.Outbound{Kind: bus.Ask, Route: in.Route, ReplyTo: in.Route.MessageID, Text: q.Text, Question: &q, Meta: in.Meta})

	var answer Message
	var waited time.Duration
	answered := false
	err := t.Pause(ctx, func() error {
		began := t.engine.now()
		var err error
		answer, err = wait(ctx)
		answered = answer.Sink != nil
		waited = t.engine.now().Sub(began)
		t.closed(q, answer, err)
		return err
	})
	if !answered {
		return "", errors.Join(err, t.sess.Append(asked(q)))
	}

	if kerr := t.keepAnswer(q, answer, waited); err == nil {
		err = kerr
	}
	return chosen(q, answer.In.Answer), err
}

// closed tells that a question is not open any more, and how it was answered if it was.
func (t *Turn) closed(q bus.Question, answer Message, err error) {
	q.Outcome = &bus.Outcome{Expired: errors.Is(err, tool.ErrNoAnswer)}
	if answer.Sink != nil {
		var remark string
		q.Outcome.Option, remark, _ = q.Choose(answer.In.Answer.Option)
		q.Outcome.Remark = strings.TrimSpace(remark + " " + answer.In.Answer.Remark)
	}
	in := t.msg.In
	t.msg.Sink.Emit(bus.Outbound{Kind: bus.Gone, Route: in.Route, Question: &bus.Question{ID: q.ID, Outcome: q.Outcome}, Meta: in.Meta})
	t.tell(RuntimeEvent{Kind: QuestionClosed, Question: &q})
}

// chosen is the option of an answer. A no says why behind a colon.
func chosen(q bus.Question, a *bus.Answer) string {
	option, remark, _ := q.Choose(a.Option)
	if remark = strings.TrimSpace(remark + " " + a.Remark); option == bus.No && remark != "" {
		return option + ": " + remark
	}
	return option
}

// newCode is the short name of a question: letters and digits by turns, which
// no ordinary word is, without those that look alike.
func newCode() string {
	const letters, digits = "abcdefghkmnpqrstuvwxyz", "23456789"
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	for i, set := range []string{letters, digits, letters, digits} {
		b[i] = set[int(b[i])%len(set)]
	}
	return string(b[:])
}

// keepAnswer stores question and answer, unseen by the model: the answer is a
// message that was accepted.
func (t *Turn) keepAnswer(q bus.Question, answer Message, waited time.Duration) error {
	if answer.In.ID != "" && t.sess.SeenInbound(answer.In.ID) {
		answer.Sink.Done(nil)
		return tool.ErrNoAnswer // an old message delivered again is no answer
	}

	err := t.sess.Append(
		asked(q),
		session.Record{
			Message:   llm.Message{Role: llm.User, Content: llm.Text(said(answer.In))},
			InboundID: answer.In.ID, SenderID: answer.In.SenderID, Command: true, Event: "answer", LatencyMS: waited.Milliseconds(),
		},
	)
	if err != nil {
		err = fmt.Errorf("keep the answer: %w", err)
	}

	answer.Sink.Done(err)
	return err
}

// asked is the record of a question.
func asked(q bus.Question) session.Record {
	return session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(q.Text)}, Command: true, Event: "question"}
}

// said is an answer in words, for the log.
func said(in bus.Inbound) string {
	if in.Text != "" || in.Answer == nil {
		return in.Text
	}
	return strings.TrimSpace(in.Answer.Option + " " + in.Answer.Remark)
}
