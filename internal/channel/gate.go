package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/recent"
	"github.com/nanobot-go/nanobot/internal/text"
)

// How often the gate says the same.
const (
	replyEvery = time.Minute      // a pairing code to one person
	tellEvery  = 24 * time.Hour   // owners about one person
	tellPause  = 10 * time.Minute // owners about anybody
	ownersKept = 64
	gateMemory = 1024        // people remembered for that
	nameShown  = 64          // characters
	clockSlack = time.Minute // between a platform's clock and ours
)

// Visitor is somebody who wrote to us, before anything was done about it.
type Visitor struct {
	Route bus.Route
	// IDs are the names the allow-list may know the sender by. The first is
	// the one that never changes; it becomes SenderID and is what pairing
	// approves. One that the sender can change (a user name) comes last.
	IDs       []string
	Name      string // as people see it, for groups and status
	Direct    bool   // nobody else reads this chat
	Mentioned bool   // in a group: we are named or answered
	NoPairing bool   // whoever wrote gets no code: an answer could go to somebody who never wrote
	Owner     bool   // the channel itself has proof that this is the owner, such as a token
	Text      string // in a group: what was written, for groupHistory
	// At is when it was written, as the platform says. It tells what came
	// while nobody was there; zero is now.
	At time.Time
}

// Pass is the permission of a Visitor.
type Pass struct {
	gate    *Gate
	visitor Visitor
	scope   string
	at      time.Time
}

// Inbound begins the message of an admitted visitor. The id is the platform's
// own, unique within the channel: it keeps a repeated message from being
// handled twice. The text is untrusted until the channel, which alone can know,
// says that the visitor typed it; what came along goes to Quoted.
func (p Pass) Inbound(id, text string) bus.Inbound {
	v := p.visitor
	return bus.Inbound{
		ID: v.Route.Channel + ":" + id, Route: v.Route, SenderID: v.IDs[0], Text: text, At: p.at,
		Interactive: true, Scope: p.scope, Untrusted: true,
	}
}

// Owner reports whether the visitor is an owner who speaks alone with us.
func (p Pass) Owner() bool { return p.scope == "" && len(p.visitor.IDs) > 0 }

// GateOptions is what a Gate goes by.
type GateOptions struct {
	Name    string // of the channel
	Common  Common
	Pairing *Pairing // nil: only the lists count
	// Say sends something to a chat; nil says nothing.
	Say func(ctx context.Context, out bus.Outbound) error
	Log *slog.Logger
	Now func() time.Time
}

// Gate decides who may talk to us on one channel.
type Gate struct {
	o     GateOptions
	began time.Time

	mu     sync.Mutex
	told   *recent.Map[string, time.Time] // when somebody got a code, owners were told, a warning was written
	owners map[string]bus.Route           // where owners wrote last, alone with us
	groups *recent.Map[string, bool]      // chats with several people
	heard  *recent.Map[chatKey, *overheard]
	untold int // refused since, without a word to owners
	denied int
	names  []string // of those refused last, for status
}

// NewGate makes the gate of one channel.
func NewGate(o GateOptions) *Gate {
	o.Now = orNow(o.Now)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Gate{o: o, began: o.Now(), told: recent.New[string, time.Time](gateMemory), groups: recent.New[string, bool](gateMemory), heard: recent.New[chatKey, *overheard](overheardChats), owners: map[string]bus.Route{}}
}

// Admit decides about a visitor. It must be asked before anything else happens
// for a message: no download, no typing, no receipt, no session for people who
// may not be here. Somebody unknown who writes directly gets a pairing code
// from the gate itself.
func (g *Gate) Admit(ctx context.Context, v Visitor) (Pass, bool) {
	if !v.Direct {
		g.mu.Lock()
		g.groups.Put(v.Route.ChatID, true)
		if !g.forUs(v) {
			g.overhear(v)
		}
		g.mu.Unlock()
	}
	if len(v.IDs) == 0 || v.IDs[0] == "" || !v.Direct && !g.forUs(v) {
		return Pass{}, false
	}
	if g.tooLate(v) {
		g.o.Log.InfoContext(ctx, "a message from before the start is skipped (catchUp)", "channel", g.o.Name, "sender", v.IDs[0], "at", v.At)
		return Pass{}, false
	}
	if !g.allowed(ctx, v) {
		g.refuse(ctx, v)
		return Pass{}, false
	}
	pass := Pass{gate: g, visitor: v, scope: g.scope(v), at: g.o.Now()}
	if v.Direct && pass.Owner() {
		g.mu.Lock()
		if len(g.owners) >= ownersKept { // clients without a name are somebody new each time
			clear(g.owners)
		}
		g.owners[v.IDs[0]] = v.Route
		g.mu.Unlock()
	}
	return pass, true
}

// tooLate reports whether something was written while nobody was there, and
// shall not be answered any more.
func (g *Gate) tooLate(v Visitor) bool {
	c := g.o.Common.CatchUp
	return c != nil && !*c && !v.At.IsZero() && v.At.Before(g.began.Add(-clockSlack))
}

func (g *Gate) forUs(v Visitor) bool {
	policy := g.o.Common.GroupPolicy
	if policy == "" {
		policy = Mention
	}
	switch policy {
	case Open:
		return true
	case Allowlist:
		return slices.Contains(g.o.Common.GroupAllowFrom, v.Route.ChatID)
	}
	return v.Mentioned
}

func (g *Gate) allowed(ctx context.Context, v Visitor) bool {
	c := g.o.Common
	if v.Owner || slices.Contains(c.AllowFrom, "*") {
		return true
	}
	if listed(c.AllowFrom, v.IDs[:1]) || listed(c.Owners, v.IDs[:1]) {
		return true
	}
	if listed(c.AllowFrom, v.IDs) || listed(c.Owners, v.IDs) {
		if g.once("name:"+v.IDs[0], tellEvery) {
			g.o.Log.WarnContext(ctx, "a person is admitted by a name that others can take over; use the id in allowFrom", "channel", g.o.Name, "id", v.IDs[0], "names", v.IDs[1:])
		}
		return true
	}
	if g.o.Pairing == nil {
		return false
	}
	ok, err := g.o.Pairing.Approved(g.o.Name, v.IDs[0])
	if err != nil {
		g.o.Log.ErrorContext(ctx, "pairing is not available", "channel", g.o.Name, "err", err)
	}
	return ok
}

func listed(list, ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return id != "" && id != "*" && slices.Contains(list, id) })
}

// scope says whose memory the words of a visitor belong to: the owner's where
// the owner speaks alone, else that of this person in this chat.
func (g *Gate) scope(v Visitor) string {
	owners := g.o.Common.Owners
	if len(owners) == 0 {
		owners = g.o.Common.AllowFrom
	}
	if v.Owner || v.Direct && (listed(owners, v.IDs) || g.o.Pairing != nil && g.o.Pairing.Owner(g.o.Name, v.IDs[0])) {
		return ""
	}
	return v.Route.Channel + ":" + v.Route.ChatID + "/" + v.IDs[0]
}

// once reports whether something was not done for this long, and notes it.
func (g *Gate) once(key string, every time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.o.Now()
	if at, ok := g.told.Get(key); ok && now.Sub(at) < every && !now.Before(at) {
		return false
	}
	g.told.Put(key, now)
	return true
}

// refuse deals with somebody who may not be here.
func (g *Gate) refuse(ctx context.Context, v Visitor) {
	id := text.Label(v.IDs[0], nameShown)
	who := strings.TrimSpace(id + " " + text.Label(v.Name, nameShown))
	g.mu.Lock()
	g.denied++
	g.names = append(slices.DeleteFunc(g.names, func(s string) bool { return s == who }), who)
	g.names = g.names[max(0, len(g.names)-10):]
	g.mu.Unlock()
	g.o.Log.DebugContext(ctx, "a message was refused", "channel", g.o.Name, "sender", v.IDs[0], "direct", v.Direct)
	if v.Direct && !v.NoPairing && g.o.Pairing != nil && g.once("code:"+v.IDs[0], replyEvery) {
		g.invite(ctx, v)
	}
	if g.o.Common.NotifyDenied && g.once("owner:"+v.IDs[0], tellEvery) {
		others, ok := g.crowd()
		if !ok {
			return
		}
		g.tell(ctx, fmt.Sprintf("%s%s wrote to me on %s and was refused. To admit them, add %q to channels.%s.allowFrom, or approve their code if they have one: /pairing list.", who, others, g.o.Name, id, g.o.Name))
	}
}

// crowd reports whether owners may be told of a stranger now. If some were left
// out since the last time, it says how many.
func (g *Gate) crowd() (others string, ok bool) {
	if !g.once("owner", tellPause) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.untold++
		return "", false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.untold > 0 {
		others = fmt.Sprintf(" (after %d others)", g.untold)
	}
	g.untold = 0
	return others, true
}

// invite sends a stranger a code.
func (g *Gate) invite(ctx context.Context, v Visitor) {
	code, err := g.o.Pairing.Ask(ctx, g.o.Name, v.IDs[0])
	if err != nil {
		level := slog.LevelError
		if errors.Is(err, ErrPairingSoon) {
			level = slog.LevelDebug
		}
		g.o.Log.Log(ctx, level, "no pairing code for a stranger", "channel", g.o.Name, "sender", v.IDs[0], "err", err)
		return
	}
	g.say(ctx, bus.Outbound{
		Kind: bus.Message, Route: v.Route, Plain: true, Meta: map[string]string{"_pairing_code": code},
		Text: "I only talk to people that my owner has approved. Your code is " + code + ", valid for 10 minutes. " +
			"The owner can approve it with /pairing approve " + code + " in a chat with me, with \"nanobot pairing approve " + code + "\" in a terminal, or in the web UI. " +
			"If this is your bot, run in a terminal instead: nanobot pairing approve " + code + " --owner",
	})
}

// tell writes to the owners we have heard from.
func (g *Gate) tell(ctx context.Context, text string) {
	g.mu.Lock()
	routes := make([]bus.Route, 0, len(g.owners))
	for _, r := range g.owners {
		r.MessageID = ""
		routes = append(routes, r)
	}
	g.mu.Unlock()
	for _, r := range routes {
		g.say(ctx, bus.Outbound{Kind: bus.Message, Route: r, Plain: true, Text: text})
	}
}

func (g *Gate) say(ctx context.Context, out bus.Outbound) {
	if g.o.Say == nil {
		return
	}
	if err := g.o.Say(ctx, out); err != nil {
		g.o.Log.WarnContext(ctx, "a word of the gate could not be sent", "channel", g.o.Name, "err", err)
	}
}

// refused is how many were sent away, and who they were last.
func (g *Gate) refused() (int, []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denied, slices.Clone(g.names)
}

// group reports whether several people read a chat, as far as we have seen.
func (g *Gate) group(chat string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups.Has(chat)
}
