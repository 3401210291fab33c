package access

import (
	"cmp"
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Bounds of what is remembered of groups for groupHistory.
const (
	overheardMost  = 100 // lines of one chat, whatever the section says
	overheardChats = 256
	overheardChars = 500 // of one line
)

// overheard is what was said in a group without us, oldest first.
type overheard struct {
	lines []string
	shown int // of them were handed out and are dropped once they arrived
}

// overhear remembers words that are not for us, if the section wants it. The
// caller holds the lock.
func (g *Gate) overhear(v Visitor) {
	most := min(cmp.Or(g.rules.History, g.o.Lists.GroupHistory), overheardMost)
	said := text.Label(v.Text, overheardChars)
	if most <= 0 || said == "" {
		return
	}

	key := place(v.Route)
	o, _ := g.heard.Get(key)
	if o == nil {
		o = &overheard{}
		g.heard.Put(key, o)
	}

	o.lines = append(o.lines, text.Speaker(v.Name)+": "+said)
	over := max(0, len(o.lines)-most)
	o.lines, o.shown = o.lines[over:], max(0, o.shown-over)
}

// place returns the group that a route leads to, or the thread of it.
func place(r bus.Route) bus.Route { return bus.Route{ChatID: r.ChatID, ThreadID: r.ThreadID} }

// Submit hands the message of the visitor in, together with what was said in the
// group since the last message for us. Those words can be a stranger's, so they
// are quoted; they are dropped when submit returns nil. A command and an answer
// to a question leave them for the next message.
func (p Pass) Submit(ctx context.Context, in bus.Inbound, submit func(context.Context, bus.Inbound) error) error {
	if in.Answer != nil || strings.HasPrefix(in.Text, "/") {
		return submit(ctx, in)
	}

	if earlier := p.earlier(); earlier != "" {
		in.Quoted = append(in.Quoted, bus.Quote{Text: earlier})
	}

	if err := submit(ctx, in); err != nil {
		return err
	}

	p.arrived()
	return nil
}

// earlier returns what was said in the group since the last message for us, ""
// if that is nothing. It is the same until arrived.
func (p Pass) earlier() string {
	if p.gate == nil || p.visitor.Direct {
		return ""
	}

	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()

	o, _ := g.heard.Get(place(p.visitor.Route))
	if o == nil || len(o.lines) == 0 {
		return ""
	}

	o.shown = len(o.lines)
	return "[said before in the group:\n" + strings.Join(o.lines, "\n") + "]"
}

// arrived drops what earlier returned, after a message with it is durable.
func (p Pass) arrived() {
	if p.gate == nil || p.visitor.Direct {
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if o, _ := g.heard.Get(place(p.visitor.Route)); o != nil {
		o.lines, o.shown = o.lines[o.shown:], 0
	}
}
