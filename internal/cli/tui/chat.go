package tui

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	framePeriod   = 33 * time.Millisecond // at most this often streamed text is redrawn
	escapeDelay   = 50 * time.Millisecond // an escape byte alone this long is the Esc key
	leaveWindow   = 2 * time.Second       // a second Ctrl-C within it leaves
	pasteOn       = "\x1b[?2004h"
	pasteOff      = "\x1b[?2004l"
	leaveMessage  = "press Ctrl-C again or Ctrl-D to leave"
	pastedMessage = "pasted text does not answer; it is kept for your next message"
)

// chat is one run of the interactive mode. Its loop owns every field; other
// goroutines only send on input and events.
type chat struct {
	o       *Options
	restore func()
	scr     *screen
	view    *view
	ed      *editor
	keys    decoder
	hist    *history

	input  chan []byte // unbuffered: the reader waits while keys are handled
	events chan event  // unbuffered: a fast stream waits for the screen

	active   map[int]context.CancelFunc // running Asks
	owner    int                        // the Ask whose text is being streamed
	held     []event                    // from other Asks, until that text ends
	asked    int
	exit     exit
	painted  time.Time
	question *asking        // that a turn waits on
	pasted   bool           // something that was pasted went to the draft
	unread   func() bool    // whether the terminal has more to read
	late     []bus.Outbound // printed, and on the screen with the next refresh
}

// exit is how far the user is on the way out.
type exit struct {
	stopped  time.Time // last Ctrl-C during a turn
	warned   bool      // the way out was just named
	leaving  bool
	stopping bool // a stop was asked for and the turn has not ended yet
}

// event is something an Ask yielded, or its end.
type event struct {
	ask  int
	out  bus.Outbound
	err  error
	done bool
}

func newChat(o *Options, restore func()) *chat {
	c := &chat{
		o: o, restore: restore,
		scr:    newScreen(o),
		input:  make(chan []byte),
		events: make(chan event),
		active: map[int]context.CancelFunc{},
	}
	c.view = newView(o, c.scr.columns)
	return c
}

func (c *chat) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	var err error
	c.hist, err = openHistory(c.o.History)
	c.ed = newEditor(c.hist, append(c.o.Commands[:len(c.o.Commands):len(c.o.Commands)],
		Command{Name: "/exit", Help: c.o.words("leave the chat")}), c.o.Language)
	c.banner()
	if err != nil {
		c.scr.print(c.view.marked("! ", yellow, c.o.words("history: %s", firstLine(err.Error())))...)
	}

	_, _ = io.WriteString(c.o.Console.Out, pasteOn)
	stopReading, unread := startReading(ctx, c.o.Console.In, c.input, &work)
	c.unread = unread
	defer c.watch()()

	err = c.loop(ctx, &work)

	c.scr.print(c.view.close()...)
	c.scr.clear()
	c.confirm()
	_, _ = io.WriteString(c.o.Console.Out, pasteOff)
	c.restore() // before waiting: should a turn refuse to end, Ctrl-C works again
	cancel()
	stopReading()
	work.Wait()
	return err
}

func (c *chat) banner() {
	b := c.o.Banner
	title := styled(neutral(strings.TrimSpace(b.Icon+" "+b.Name)), bold)
	if b.Model != "" {
		title = title.add(" · "+neutral(b.Model), dim)
	}
	if len(title) > 0 {
		c.scr.print(title)
	}

	for _, h := range b.Hints {
		c.scr.print(wrap(styled(neutral(h), dim), c.scr.columns(), nil, nil)...)
	}

	if len(c.scr.pending) > 0 {
		c.scr.print(nil)
	}
}

// loop is the heart: it waits for keys, events and timers until the user leaves.
func (c *chat) loop(ctx context.Context, work *sync.WaitGroup) error {
	paint, pulse, escape, settle := stoppedTimer(), stoppedTimer(), stoppedTimer(), stoppedTimer()
	defer settle.Stop()
	defer paint.Stop()
	defer pulse.Stop()
	defer escape.Stop()
	c.paint()

	for !c.exit.leaving {
		now := false // paint at once
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p, ok := <-c.input:
			if !ok {
				return nil
			}
			c.typed(ctx, p, work)
			if c.keys.waiting() {
				escape.Reset(escapeDelay)
			}
			now = true

		case <-escape.C:
			c.handle(ctx, c.keys.flush(), work)
			now = true
		case e := <-c.events:
			c.event(e)
			now = e.done || e.out.Kind == bus.Ask
		case <-settle.C:
			c.openWhenQuiet(ctx, work)
			now = true
		case s := <-c.o.changed:
			if continued(s) {
				c.renew()
			}
			now = true

		case out, ok := <-c.o.Late:
			if !ok {
				c.o.Late = nil
				continue
			}
			c.scr.print(c.view.later(func() []line {
				c.late = append(c.late, out)
				return c.view.show(out)
			})...)

		case <-paint.C:
			now = true
		case <-pulse.C:
			now = true
		}

		if wait := framePeriod - time.Since(c.painted); !now && wait > 0 {
			paint.Reset(wait)
			continue
		}

		paint.Stop()
		c.paint()
		if wait := c.drawn(); wait > 0 {
			settle.Reset(wait)
		}

		if len(c.active) > 0 {
			pulse.Reset(spinnerPeriod)
		} else {
			pulse.Stop()
		}
	}

	return nil
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func (c *chat) handle(ctx context.Context, keys []key, work *sync.WaitGroup) {
	for _, k := range keys {
		c.pasted = false
		act := c.editorFor(k).key(k)
		if act != actInterrupt {
			c.exit.warned = false
		}

		switch act {
		case actSubmit:
			if c.answering() {
				c.answer(ctx, work)
			} else {
				c.submit(ctx, work)
			}

		case actInterrupt:
			c.interrupt(ctx, work)
		case actLeave:
			c.exit.leaving = true
		case actClearScreen:
			c.scr.wipe()
			c.view.blank = true
		case actSuspend:
			c.suspend()
		}

		if c.exit.leaving {
			return
		}
	}
}

// submit sends the input. While a turn runs it goes to the agent just the same,
// which feeds it into that turn.
func (c *chat) submit(ctx context.Context, work *sync.WaitGroup) {
	shown := strings.TrimSpace(c.ed.folded())
	if text := strings.TrimSpace(c.ed.empty()); text != "" {
		c.sendText(ctx, text, shown, work)
	}
}

// sendText sends a message and leaves it in the scroll-back as it was shown.
func (c *chat) sendText(ctx context.Context, text, shown string, work *sync.WaitGroup) {
	if err := c.hist.add(text); err != nil {
		c.scr.print(c.view.marked("! ", yellow, c.o.words("history: %s", firstLine(err.Error())))...)
		c.hist.path = "" // say it once
	}

	c.ed.recall = len(c.hist.entries)
	c.echo(shown)
	if isFarewell(text) {
		c.exit.leaving = true
		return
	}

	in := c.o.inbound(text, true)
	in.Interactive = true
	c.send(ctx, in, work)
}

// send gives something to the agent and shows what comes back.
func (c *chat) send(ctx context.Context, in bus.Inbound, work *sync.WaitGroup) {
	if len(c.active) == 0 {
		c.view.begin(time.Now())
		c.exit.stopping = false
	}

	id := c.asked
	c.asked++
	askCtx, cancel := context.WithCancel(ctx)
	c.active[id] = cancel
	work.Go(func() {
		defer cancel()
		send := func(e event) bool {
			select {
			case c.events <- e:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for out, err := range c.o.Ask(askCtx, in) {
			if out.Kind == bus.Final && strings.EqualFold(in.Text, "/help") {
				out.Text += "\n\n" + c.o.words(keysHelp)
			}
			if !send(event{ask: id, out: out, err: err}) {
				return
			}
		}

		send(event{ask: id, done: true})
	})
}

// echo leaves what was sent in the scroll-back.
func (c *chat) echo(text string) {
	var rows []line
	first := c.prompt()
	rest := blanks(first.width())
	for s := range strings.SplitSeq(text, "\n") {
		rows = append(rows, wrap(styled(neutral(s), 0), c.scr.columns(), first, rest)...)
		first = rest
	}
	c.scr.print(c.view.later(func() []line { return append(c.view.gap(), c.view.track(rows)...) }, rows...)...)
}

func (c *chat) interrupt(ctx context.Context, work *sync.WaitGroup) {
	switch {
	case len(c.active) > 0:
		now := time.Now()
		if c.exit.stopping && now.Sub(c.exit.stopped) < leaveWindow {
			c.exit.leaving = true
			return
		}

		again := c.exit.stopping
		c.exit.stopping, c.exit.stopped = true, now
		if c.o.Stop != nil && !again {
			session := c.o.route().SessionKey()
			work.Go(func() { c.o.Stop(ctx, session) })
			return
		}

		for _, cancel := range c.active {
			cancel()
		}

	case len(c.ed.text) > 0:
		c.hist.remember(c.ed.unfolded()) // the arrow brings it back
		c.ed.empty()
	case c.exit.warned:
		c.exit.leaving = true
	default:
		c.exit.warned = true
	}
}

// event shows what an Ask yielded. Text streamed by one Ask is never mixed
// with that of another: it waits until the first has ended its segment.
func (c *chat) event(e event) {
	c.held = append(c.held, e)
	for i := 0; i < len(c.held); {
		e := c.held[i]
		earlier := slices.ContainsFunc(c.held[:i], func(h event) bool { return h.ask == e.ask })
		if earlier || c.view.open() && e.ask != c.owner && e.streams() {
			i++
			continue
		}

		c.held = slices.Delete(c.held, i, i+1)
		i = 0
		c.apply(e)
	}
}

// streams reports whether the event adds to a streamed text.
func (e event) streams() bool {
	return e.err == nil && (e.out.Kind == bus.Delta || e.out.Kind == bus.Reasoning || e.out.Kind == bus.DeltaEnd)
}

func (c *chat) apply(e event) {
	switch e.out.Kind {
	case bus.Ask:
		c.ask(e.out.Question)
	case bus.Gone:
		c.gone(e.out.Question)
	}
	switch {
	case e.done:
		delete(c.active, e.ask)
		if len(c.active) == 0 {
			c.question = nil
		}
		if len(c.active) == 0 || e.ask == c.owner {
			c.scr.print(c.view.close()...)
		}
		c.exit.stopping = c.exit.stopping && len(c.active) > 0

	case e.ask != c.owner && c.view.open() && e.out.Kind == bus.Ask: // it cannot wait
		c.scr.print(c.view.aside(func() []line { return c.shown(e) })...)
	case e.ask != c.owner && (c.view.open() || len(c.view.queue) > 0 && !e.streams()):
		c.scr.print(c.view.later(func() []line { return c.shown(e) })...)
	default:
		c.scr.print(c.shown(e)...)
		if e.streams() {
			c.owner = e.ask
		}
	}
}

func (c *chat) shown(e event) []line {
	if e.err != nil {
		return c.view.failure(e.err)
	}
	return c.view.show(e.out)
}

// watch makes signals about a real terminal arrive: a new size, and that the
// program goes on after it was stopped.
func (c *chat) watch() (stop func()) {
	if _, ok := c.o.Console.In.(*os.File); !ok {
		return func() {}
	}
	changed := make(chan os.Signal, 8) // sizes may come faster than they are drawn
	c.o.changed = changed
	return watchTerminal(changed)
}

// suspend gives the terminal back and stops the program until it is continued.
// The stop takes effect some time after it was asked for, and not at all where
// no shell could continue the program; so it waits for the signal, but not for
// ever.
func (c *chat) suspend() {
	const period, periods = 50 * time.Millisecond, 40
	c.scr.clear()
	_, _ = io.WriteString(c.o.Console.Out, pasteOff)
	c.restore()
	suspendSelf()

	for waited := 0; waited < periods; {
		select {
		case s := <-c.o.changed:
			if continued(s) {
				waited = periods
			}
		case <-time.After(period):
			waited++
		}
	}

	c.renew()
}

// renew takes the terminal after another program had it. The rows of the area
// are lost: the cursor is wherever that program left it.
func (c *chat) renew() {
	_, _ = rawMode(c.o.Console) // restore still knows the mode from before the chat
	_, _ = io.WriteString(c.o.Console.Out, pasteOn)
	c.scr.forget()
}

func (c *chat) prompt() line {
	switch {
	case c.answering():
		return styled(c.o.words("Answer: "), bold|yellow)
	case c.ed.search != nil:
		return styled(c.o.words("search %s: ", strings.TrimSpace(c.ed.search.query)), dim)
	}
	return styled(c.o.words("You: "), bold|green)
}

// paint redraws the area: what is arriving, the status, the input, its menu.
func (c *chat) paint() {
	c.painted = time.Now()
	width := c.scr.columns()
	_, height := c.scr.size()
	room := max(height-1, 3)

	ed := c.editorFor(key{})
	rows, row, col := ed.layout(c.prompt(), width)
	rows, row = window(rows, row, max(room-2, 1))
	below := ed.menu()
	switch {
	case c.exit.warned:
		below = []line{styled(c.o.words(leaveMessage), dim)}
	case c.pasted:
		below = []line{styled(c.o.words(pastedMessage), dim)}
	}

	below = hardWrap(below, width)
	below = below[:min(len(below), max(room-2-len(rows), 0))]

	var above []line
	if len(c.active) > 0 {
		above = hardWrap(c.view.preview(), width)
	}
	if len(above) > 0 || !c.view.blank {
		above = append(above, nil)
	}

	if len(c.active) > 0 {
		status := c.view.status(c.painted)
		if c.exit.stopping {
			status = styled(c.o.words("stopping; Ctrl-C again leaves"), dim)
		}
		above = append(above, status)
	}

	if n := len(above) - (room - len(rows) - len(below)); n > 0 {
		above = above[min(n, len(above)):]
	}

	live := append(append(above, rows...), below...)
	c.scr.draw(live, len(above)+row, col)
	c.confirm()
}

// confirm reports the late messages that the last refresh brought to the screen.
func (c *chat) confirm() {
	for _, out := range c.late {
		c.o.shown(out)
	}
	c.late = nil
}

// window cuts rows to at most n around the cursor.
func window(rows []line, row, n int) ([]line, int) {
	if len(rows) <= n {
		return rows, row
	}
	first := min(max(row-n/2, 0), len(rows)-n)
	return rows[first : first+n], row - first
}
