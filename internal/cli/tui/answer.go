package tui

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// quietTime is how long no key may have come after a question was drawn before
// keys count for it. Whoever was typing when it appeared goes on with their
// draft.
const quietTime = 500 * time.Millisecond

// asking is a question that a turn waits on. It has an input of its own, so
// that nothing that was typed for something else can answer it.
type asking struct {
	q     bus.Question
	ed    *editor
	quiet time.Time // since when nothing was typed, and the question was to be seen
	open  bool      // keys go to ed; before that they go on with the draft
}

// ask makes a question the one that is answered next. What was typed for an
// earlier one is not for this one.
func (c *chat) ask(q *bus.Question) {
	if q == nil {
		return
	}
	c.question = &asking{q: *q, ed: newEditor(&history{}, nil, c.o.Language)}
}

// gone forgets a question that cannot be answered any more.
func (c *chat) gone(q *bus.Question) {
	if q != nil && c.question != nil && c.question.q.ID == q.ID {
		c.question = nil
	}
}

// answering reports whether keys are for a question.
func (c *chat) answering() bool { return c.question != nil && c.question.open }

// drawn notes that a new question is on the screen and returns how long to wait
// before keys count for it; 0 means that there is none to wait for.
func (c *chat) drawn() time.Duration {
	q := c.question
	if q == nil || q.open {
		return 0
	}
	if q.quiet.IsZero() {
		q.quiet = time.Now()
	}
	return max(quietTime-time.Since(q.quiet), time.Millisecond)
}

// openWhenQuiet opens the input of a question when nothing was typed for a while. What
// came before and waits to be read belongs to the draft, as does a paste that
// has not ended.
func (c *chat) openWhenQuiet(ctx context.Context, work *sync.WaitGroup) {
	q := c.question
	if q == nil || q.open || q.quiet.IsZero() || time.Since(q.quiet) < quietTime {
		return
	}

	select {
	case p, ok := <-c.input:
		if ok {
			c.typed(ctx, p, work)
		}
	default:
		if len(c.keys.buf) > 0 || c.keys.pasting || c.unread() {
			q.quiet = time.Now()
			return
		}
		q.open = true
	}
}

// typed handles what the terminal sent.
func (c *chat) typed(ctx context.Context, p []byte, work *sync.WaitGroup) {
	keys := c.keys.feed(p)
	if q := c.question; q != nil {
		q.quiet = time.Now()
	}

	if c.answering() && burst(keys) {
		for _, k := range keys { // it was pasted, or typed before the person could read the question
			if k.code == keyEnter {
				k.code = keyNewline
			}
			c.ed.key(k)
		}
		c.pasted = true
		return
	}

	c.handle(ctx, keys, work)
}

// burst reports whether a text and the key that sends it came at once, as no
// person types.
func burst(keys []key) bool {
	text := slices.IndexFunc(keys, func(k key) bool { return k.code == keyRune })
	return text >= 0 && slices.ContainsFunc(keys[text:], func(k key) bool { return k.code == keyEnter })
}

// input is the editor that a key is for. Pasted text never answers: it goes to
// the draft.
func (c *chat) editorFor(k key) *editor {
	if !c.answering() {
		return c.ed
	}
	if k.code == keyPaste {
		c.pasted = true
		return c.ed
	}
	return c.question.ed
}

// answer sends what was typed for the question.
func (c *chat) answer(ctx context.Context, work *sync.WaitGroup) {
	q := c.question
	text := strings.TrimSpace(q.ed.empty())
	switch {
	case text == "":
		return
	case strings.HasPrefix(text, "/") || isFarewell(text): // a command is still a command
		c.sendText(ctx, text, text, work)
		return
	}

	c.echo(text)
	if _, _, ok := q.q.Choose(text); !ok {
		c.scr.print(c.view.marked("! ", yellow, c.o.words("the question takes one of these answers: %s", strings.Join(q.q.Options, ", ")))...)
		return
	}

	c.question = nil
	in := c.o.inbound("", true)
	in.Interactive, in.Answer = true, &bus.Answer{QuestionID: q.q.ID, Option: text}
	c.send(ctx, in, work)
}
