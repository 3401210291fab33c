package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// waiting is a question that holds up a turn until the person it was put to
// answers it.
type waiting struct {
	q      bus.Question
	asked  time.Time
	person string
	scope  string
	route  bus.Route
	answer chan *envelope // capacity 1: whoever takes the question out of the actor sends once
}

// mine reports whether a message comes from the person who was asked, in the
// chat where they were asked, in their own words.
func (w *waiting) mine(in bus.Inbound) bool {
	return w != nil && in.Person() == w.person && in.Interactive && in.Scope == w.scope && in.Route.SameChat(w.route) &&
		!in.Untrusted && !in.Shell && in.Event == ""
}

// answers reports whether a message answers the question, and which of its
// options. It must name the question: a yes by itself may be meant for
// anything else that was said.
func (w *waiting) answers(in bus.Inbound) (*bus.Answer, bool) {
	if !w.mine(in) {
		return nil, false
	}
	if in.Answer != nil {
		_, _, ok := w.q.Choose(in.Answer.Option)
		return in.Answer, ok && w.q.Takes(in.Answer)
	}
	if len(in.Media) > 0 || looksLikeCommand(in.Text) {
		return nil, false
	}
	a, ok := w.q.Coded(in.Text)
	return &a, ok
}

// answered gives a message to the question it answers; false means that it
// answers none. The caller holds the lock.
func (act *actor) answered(it *envelope) bool {
	if act == nil {
		return false
	}
	w := act.waiting
	a, ok := w.answers(it.in)
	if !ok {
		return false
	}
	it.in.Answer = a
	act.waiting = nil
	w.answer <- it
	return true
}

// The words about answers that do not count.
const (
	textGone = "That question is not open any more. Nothing was done because of this answer."
	textOpen = "A question is open; this message is kept until it is settled. To answer the question, use its buttons, reply to it, or write: yes %s or no %[1]s"
)

// refused tells that an answer found no question, or none of the options of
// the one that is open. It is never a message: what was meant for one question
// must not be read as something else.
func (a *Agent) refused(it *envelope, open *bus.Question) error {
	out := bus.Outbound{Kind: bus.Gone, Text: phrase.In(it.in.Language, textGone), Question: &bus.Question{ID: it.in.Answer.QuestionID}}
	if open != nil {
		out = bus.Outbound{Kind: bus.Notice, Text: phrase.In(it.in.Language, "The question is still open. It takes one of these answers: %s", strings.Join(open.Options, ", "))}
	}
	out.Route, out.ReplyTo, out.Meta = it.in.Route, it.in.Route.MessageID, it.in.Meta
	return a.deps.mailboxes.spawn(func(context.Context) {
		it.emit(out)
		it.finish(nil)
	})
}

// asker is what tools of this turn may ask people with; nil when nobody is there.
func (t *turn) asker() func(context.Context, bus.Question) (string, error) {
	switch in := t.env.in; {
	case in.Interactive:
		return t.ask
	case in.Unasked != "":
		return func(context.Context, bus.Question) (string, error) { return "", &tool.UnaskedError{Why: in.Unasked} }
	}
	return nil
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
	if q.ID == "" {
		q.ID = newID()
	}
	q.Code = newCode()
	in := t.env.in
	q.Text = t.deps.secrets.Redact(q.Text)
	t.progress.explain(q.Detail)
	w := &waiting{q: q, asked: t.deps.now(), person: in.Person(), scope: in.Scope, route: in.Route, answer: make(chan *envelope, 1)}
	t.deps.mailboxes.mu.Lock()
	t.act.waiting = w
	t.deps.mailboxes.mu.Unlock()
	t.env.emit(bus.Outbound{Kind: bus.Ask, Route: in.Route, ReplyTo: in.Route.MessageID, Text: q.Text, Question: &q, Meta: in.Meta})
	t.slot.leave()
	began := t.deps.now()
	it, err := t.await(ctx, w, q.Expires)
	waited := t.deps.now().Sub(began)
	t.env.touch()
	closed := q
	closed.Outcome = &bus.Outcome{Expired: errors.Is(err, tool.ErrNoAnswer)}
	if it != nil {
		closed.Outcome.Option, closed.Outcome.Remark, _ = q.Choose(it.in.Answer.Option)
		closed.Outcome.Remark = strings.TrimSpace(closed.Outcome.Remark + " " + it.in.Answer.Remark)
	}
	t.env.emit(bus.Outbound{Kind: bus.Gone, Route: in.Route, Question: &bus.Question{ID: q.ID, Outcome: closed.Outcome}, Meta: in.Meta})
	tell(t, RuntimeEvent{Kind: QuestionClosed, Question: &closed})
	if err == nil {
		err = t.slot.enter(ctx)
	}
	if it == nil {
		return "", errors.Join(err, t.sess.Append(asked(q)))
	}
	if kerr := t.keepAnswer(q, it, waited); err == nil {
		err = kerr
	}
	return chosen(q, it.in.Answer), err
}

// Open is a question that a turn waits on.
type Open struct {
	Key     string    `json:"key"` // of the conversation
	Channel string    `json:"channel"`
	ChatID  string    `json:"chat_id"`
	At      time.Time `json:"at"`
	bus.Question
}

// OpenQuestions are those that turns of an agent wait on, the oldest first.
func OpenQuestions(a *Agent) []Open {
	m, out := a.deps.mailboxes, []Open{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, act := range m.actors {
		if w := act.waiting; w != nil {
			out = append(out, Open{Key: key, Channel: w.route.Channel, ChatID: w.route.ChatID, At: w.asked, Question: w.q})
		}
	}
	slices.SortStableFunc(out, func(x, y Open) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Key, y.Key)) })
	return out
}

// AnswerQuestion answers an open question in the name of the owner, who need not be
// where it was asked. It reports whether the question is open and has the option.
func AnswerQuestion(a *Agent, answer bus.Answer) bool {
	m := a.deps.mailboxes
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, act := range m.actors {
		w := act.waiting
		if w == nil || w.q.ID != answer.QuestionID {
			continue
		}
		if _, _, ok := w.q.Choose(answer.Option); !ok {
			return false
		}
		act.waiting = nil
		w.answer <- &envelope{in: bus.Inbound{Route: w.route, Answer: &answer}, done: make(chan struct{})}
		return true
	}
	return false
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

// await waits for the message that answers. One that comes at the very last
// moment still counts, unless the turn ends: then it is dropped.
func (t *turn) await(ctx context.Context, w *waiting, until time.Time) (it *envelope, err error) {
	expires := time.NewTimer(until.Sub(t.deps.now()))
	defer expires.Stop()
	select {
	case it = <-w.answer:
		return it, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-expires.C:
		err = tool.ErrNoAnswer
	}
	t.deps.mailboxes.mu.Lock()
	defer t.deps.mailboxes.mu.Unlock()
	t.act.waiting = nil // from here on nobody sends
	select {
	case it = <-w.answer:
	default:
		return nil, err
	}
	if ctx.Err() != nil {
		it.finish(nil) // it was for this question alone
		return nil, err
	}
	return it, nil
}

// keepAnswer stores question and answer, unseen by the model: the answer is a
// message that was accepted.
func (t *turn) keepAnswer(q bus.Question, it *envelope, waited time.Duration) error {
	if it.in.ID != "" && t.sess.SeenInbound(it.in.ID) {
		it.finish(nil)
		return tool.ErrNoAnswer // an old message delivered again is no answer
	}
	err := t.sess.Append(
		asked(q),
		session.Record{
			Message:   llm.Message{Role: llm.User, Content: llm.Text(said(it.in))},
			InboundID: it.in.ID, SenderID: it.in.SenderID, Command: true, Event: "answer", LatencyMS: waited.Milliseconds(),
		},
	)
	if err != nil {
		err = fmt.Errorf("keep the answer: %w", err)
	}
	it.finish(err)
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
