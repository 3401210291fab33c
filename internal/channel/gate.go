package channel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/phrase"
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
	catchUpAge = 10 * time.Minute
	lateEvery  = time.Minute // a line in the log about late messages
)

// Visitor is somebody who wrote to us, before anything was done about it.
type Visitor struct {
	Route bus.Route
	// IDs are what the platform itself knows the sender by: a number, a phone,
	// an address. None can be chosen by the sender, and any of them is enough
	// for the lists and for pairing. The first one that is known there, else
	// the first one, becomes SenderID.
	IDs []string
	// Names are what the lists may know the sender by as well, although the
	// sender can change them: a user name.
	Names     []string
	Name      string // as people see it, for groups and status
	Direct    bool   // nobody else reads this chat
	Mentioned bool   // in a group: we are named or answered
	NoPairing bool   // whoever wrote gets no code: an answer could go to somebody who never wrote
	Owner     bool   // the channel itself has proof that this is the owner, such as a token
	Text      string // what was written: in a group for groupHistory, alone for the code of an invitation
	// At is when it was written, as the platform says. It tells what came
	// while nobody was there; zero is now.
	At time.Time
	// Language is what the person's profile on the platform says, a tag such as
	// zh-Hans; "" if it says nothing.
	Language string
	// Backlog says that the channel read it from the platform's history after
	// it had been away; the platform did not deliver it.
	Backlog bool
}

// Pass is the permission of a Visitor, or why there is none.
type Pass struct {
	gate    *Gate
	visitor Visitor
	id      string // the one of IDs that stands for the person
	scope   string
	at      time.Time
	verdict Verdict
}

// Verdict is what the gate decided.
type Verdict string

// The verdicts.
const (
	Allowed  Verdict = "allowed"
	Refused  Verdict = "refused"    // unknown, and told nothing
	Invited  Verdict = "invited"    // unknown, and may have a pairing code
	NotForUs Verdict = "not for us" // said in a group, to others
	Late     Verdict = "late"       // said while nobody was there
)

// Verdict is what the gate decided.
func (p Pass) Verdict() Verdict { return p.verdict }

// Decision is what a rule of a platform says about a visitor.
type Decision string

// The decisions. The empty one leaves it to the gate.
const (
	Admit  Decision = "admit"  // without a look at the lists
	Refuse Decision = "refuse" // without a pairing code
	Ignore Decision = "ignore" // it is not for us
)

// Rules are a platform's own rules about who may talk to us. They come before
// those of the gate. Nil leaves all to the gate.
type Rules struct {
	Direct func(Visitor) Decision
	Group  func(Visitor) Decision
	// ForUs replaces groupPolicy.
	ForUs func(Visitor) bool
	// History replaces groupHistory; 0 leaves it.
	History int
}

// Inbound begins the message of an admitted visitor. The id is the platform's
// own, unique within the channel: it keeps a repeated message from being
// handled twice. The text is untrusted until the channel, which alone can know,
// says that the visitor typed it; what came along goes to Quoted.
func (p Pass) Inbound(id, text string) bus.Inbound {
	v := p.visitor
	return bus.Inbound{
		ID: v.Route.Channel + ":" + id, Route: v.Route, SenderID: p.id, Text: text, At: p.at,
		Interactive: true, Scope: p.scope, Untrusted: true, Language: v.Language,
	}
}

// Owner reports whether the visitor is an owner who speaks alone with us.
func (p Pass) Owner() bool { return p.scope == "" && p.verdict == Allowed }

// GateOptions is what a Gate goes by.
type GateOptions struct {
	Name    string // of the channel
	Common  Common
	Pairing *Pairing // nil: only the lists count
	// Language is the one of a person, by what their profile says; nil is
	// English.
	Language func(profile string) string
	// Say sends something to a chat; nil says nothing.
	Say func(ctx context.Context, out bus.Outbound) error
	Log *slog.Logger
	Now func() time.Time
}

// Gate decides who may talk to us on one channel.
type Gate struct {
	o     GateOptions
	rules Rules
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

// SetRules sets the platform's own rules. Only its factory calls it.
func (g *Gate) SetRules(r Rules) { g.rules = r }

// Knows reports whether a visitor would be let in, without any effect: for an
// invitation, a button, a person who joined.
func (g *Gate) Knows(ctx context.Context, v Visitor) bool {
	if len(v.IDs) == 0 || v.IDs[0] == "" {
		return false
	}
	switch g.rule(v) {
	case Admit:
		return true
	case Refuse, Ignore:
		return false
	}
	return g.known(ctx, v) != ""
}

// rule is what the platform's own rules say.
func (g *Gate) rule(v Visitor) Decision {
	f := g.rules.Group
	if v.Direct {
		f = g.rules.Direct
	}
	if f == nil || v.Owner {
		return ""
	}
	return f(v)
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
		return Pass{verdict: NotForUs}, false
	}
	if g.tooLate(v) {
		if g.once("late", lateEvery) {
			g.o.Log.InfoContext(ctx, "messages that came while the channel was away are skipped (catchUp, catchUpMaxAgeS)", "channel", g.o.Name, "sender", v.IDs[0], "at", v.At)
		}
		return Pass{verdict: Late}, false
	}
	g.welcome(ctx, v)
	id := ""
	switch g.rule(v) {
	case Ignore:
		return Pass{verdict: NotForUs}, false
	case Refuse:
		v.NoPairing = true
	case Admit:
		id = cmp.Or(g.known(ctx, v), v.IDs[0])
	default:
		id = g.known(ctx, v)
	}
	if id == "" {
		return Pass{verdict: g.refuse(ctx, v)}, false
	}
	pass := Pass{gate: g, visitor: v, id: id, scope: g.scope(v, id), at: g.o.Now(), verdict: Allowed}
	if g.o.Pairing != nil {
		if err := g.o.Pairing.learn(ctx, g.o.Name, v.IDs...); err != nil {
			g.o.Log.WarnContext(ctx, "another id of a person cannot be kept", "channel", g.o.Name, "err", err)
		}
	}
	if v.Direct && pass.Owner() {
		g.mu.Lock()
		if len(g.owners) >= ownersKept { // clients without a name are somebody new each time
			clear(g.owners)
		}
		g.owners[id] = v.Route
		g.mu.Unlock()
	}
	return pass, true
}

// tooLate reports whether something was written while nobody was there, and
// shall not be answered any more.
func (g *Gate) tooLate(v Visitor) bool {
	if v.At.IsZero() || !v.Backlog && !v.At.Before(g.began.Add(-clockSlack)) {
		return false
	}
	since, wanted := g.backlog(v.Backlog)
	return !wanted || v.At.Before(since)
}

// Backlog is what a channel that reads the platform's history should ask for:
// messages that were written since then. False: none is wanted. Admit looks at
// each message as well.
func (g *Gate) Backlog() (since time.Time, wanted bool) { return g.backlog(true) }

// backlog is since when messages count that came while nobody was there.
func (g *Gate) backlog(read bool) (since time.Time, wanted bool) {
	c := g.o.Common
	if c.CatchUp != nil && !*c.CatchUp {
		return since, false
	}
	age := time.Duration(c.CatchUpMaxAgeS) * time.Second
	if age <= 0 && read {
		age = catchUpAge
	}
	if age <= 0 {
		return since, true
	}
	return g.o.Now().Add(-age - clockSlack), true
}

func (g *Gate) forUs(v Visitor) bool {
	if g.rules.ForUs != nil {
		return g.rules.ForUs(v)
	}
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

// known returns the id by which a visitor may be here, "" if none is.
func (g *Gate) known(ctx context.Context, v Visitor) string {
	c := g.o.Common
	for _, id := range v.IDs {
		if listed(c.AllowFrom, []string{id}) || listed(c.Owners, []string{id}) {
			return id
		}
	}
	if g.o.Pairing != nil {
		id, err := g.o.Pairing.Approved(g.o.Name, v.IDs...)
		if err != nil {
			g.o.Log.ErrorContext(ctx, "pairing is not available", "channel", g.o.Name, "err", err)
		}
		if id != "" {
			return id
		}
	}
	if listed(c.AllowFrom, v.Names) || listed(c.Owners, v.Names) {
		if g.once("name:"+v.IDs[0], tellEvery) {
			g.o.Log.WarnContext(ctx, "a person is admitted by a name that others can take over; use the id in allowFrom", "channel", g.o.Name, "id", v.IDs[0], "names", v.Names)
		}
		return v.IDs[0]
	}
	if v.Owner || slices.Contains(c.AllowFrom, "*") {
		return v.IDs[0]
	}
	return ""
}

func listed(list, ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return id != "" && id != "*" && slices.Contains(list, id) })
}

// scope says whose memory the words of a visitor belong to: the owner's where
// the owner speaks alone, else that of this person in this chat.
func (g *Gate) scope(v Visitor, id string) string {
	owners := g.o.Common.Owners
	if len(owners) == 0 {
		owners = g.o.Common.AllowFrom
	}
	if v.Owner || v.Direct && (listed(owners, v.IDs) || listed(owners, v.Names) || g.o.Pairing != nil && g.o.Pairing.Owner(g.o.Name, v.IDs...)) {
		return ""
	}
	return v.Route.Channel + ":" + v.Route.ChatID + "/" + id
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
func (g *Gate) refuse(ctx context.Context, v Visitor) Verdict {
	id := text.Label(v.IDs[0], nameShown)
	who := strings.TrimSpace(id + " " + text.Label(v.Name, nameShown))
	g.mu.Lock()
	g.denied++
	g.names = append(slices.DeleteFunc(g.names, func(s string) bool { return s == who }), who)
	g.names = g.names[max(0, len(g.names)-10):]
	g.mu.Unlock()
	g.o.Log.DebugContext(ctx, "a message was refused", "channel", g.o.Name, "sender", v.IDs[0], "direct", v.Direct)
	verdict := Refused
	if v.Direct && !v.NoPairing && g.o.Pairing != nil {
		if verdict = Invited; g.once("code:"+v.IDs[0], replyEvery) {
			g.invite(ctx, v)
		}
	}
	if g.o.Common.NotifyDenied && g.once("owner:"+v.IDs[0], tellEvery) {
		others, ok := g.crowd()
		if !ok {
			return verdict
		}
		g.tell(ctx, phrase.In(g.language(""), "%s%s wrote to me on %s and was refused. To admit them, add %q to channels.%s.allowFrom, or approve their code if they have one: /pairing list.", who, others, g.o.Name, id, g.o.Name))
	}
	return verdict
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
		others = phrase.In(g.language(""), " (after %d others)", g.untold)
	}
	g.untold = 0
	return others, true
}

// invite sends a stranger a code.
func (g *Gate) invite(ctx context.Context, v Visitor) {
	code, err := g.o.Pairing.Ask(ctx, g.o.Name, v.IDs[0], v.IDs[1:]...)
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
		Text: phrase.In(g.language(v.Language), "I only talk to people that my owner has approved. Your code is %[1]s, valid for 10 minutes. "+
			"The owner can approve it with /pairing approve %[1]s in a chat with me, with \"nanobot pairing approve %[1]s\" in a terminal, or in the web UI. "+
			"If this is your bot, run in a terminal instead: nanobot pairing approve %[1]s --owner", code),
	})
}

func (g *Gate) language(profile string) string {
	if g.o.Language == nil {
		return ""
	}
	return g.o.Language(profile)
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
