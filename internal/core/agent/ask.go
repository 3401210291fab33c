package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
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
		return in.Answer, ok && w.q.IsAnsweredBy(in.Answer)
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

	out.Route = it.in.Route
	out.ReplyTo = it.in.Route.MessageID
	out.Meta = it.in.Meta
	return a.mailboxes.spawn(func(context.Context) {
		it.Emit(out)
		it.Done(nil)
	})
}

// Open is a question that a turn waits on.
type Open struct {
	Key     string    `json:"key"` // of the conversation
	Channel string    `json:"channel"`
	ChatID  string    `json:"chat_id"`
	At      time.Time `json:"at"`
	bus.Question
}

// OpenQuestions returns those that turns of an agent wait on, the oldest first.
func (a *Agent) OpenQuestions() []Open {
	m, out := a.mailboxes, []Open{}
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
func (a *Agent) AnswerQuestion(answer bus.Answer) bool {
	m := a.mailboxes
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

// ask opens a question to the person who wrote the message of a turn.
func (m *mailboxes) ask(act *actor, q bus.Question, in bus.Inbound, now time.Time) *waiting {
	w := &waiting{q: q, asked: now, person: in.Person(), scope: in.Scope, route: in.Route, answer: make(chan *envelope, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	act.waiting = w
	return w
}

// await waits for the message that answers. One that comes at the very last
// moment still counts, unless the turn ends: then it is dropped.
func (m *mailboxes) await(ctx context.Context, act *actor, w *waiting, most time.Duration) (it *envelope, err error) {
	expires := time.NewTimer(most)
	defer expires.Stop()
	select {
	case it = <-w.answer:
		return it, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-expires.C:
		err = tool.ErrNoAnswer
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	act.waiting = nil // from here on there is no sender
	select {
	case it = <-w.answer:
	default:
		return nil, err
	}

	if ctx.Err() != nil {
		it.Done(nil) // it was for this question alone
		return nil, err
	}
	return it, nil
}
