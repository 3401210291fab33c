// Package access decides who may talk to us: it hides the lists of a section,
// the people who were let in by hand, and what is told to strangers, owners and
// the log.
//
// A Gate answers before anything else happens for a message, and in the same way
// on every platform. decide is the rule, without effects; its table of tests is
// the specification. Somebody who is not on a list, and did not pair, never gets
// more than a pairing code. A name that people can choose never makes an owner. A
// list of people that cannot be read lets nobody in and is not overwritten.
package access

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
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
	// for the lists and for pairing. Where a platform has ids of several kinds, the
	// channel makes sure that one of a kind never looks like one of another. The
	// first one that is known there, else the first one, becomes SenderID.
	IDs []string
	// Names are what the lists may know the sender by as well, although the
	// sender can change them, or another person can get them: a user name. They
	// match only entries that are names, and never make an owner.
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
	id      string // stands for the person
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
	// Entries says what the entries of allowFrom and owners mean; nil is
	// readIDs.
	Entries Reader
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
	Name  string // of the channel
	Lists Lists
	Book  *Book // nil: only the lists count
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
	lists peopleLists
	began time.Time

	mu     sync.Mutex
	told   *recent.Map[string, time.Time]     // when somebody got a code, owners were told, a warning was written
	owners map[string]bus.Route               // where owners wrote last, alone with us
	groups *recent.Map[string, bool]          // chats with several people
	heard  *recent.Map[bus.Route, *overheard] // by place
	untold int                                // refused since, without a word to owners
	denied int
	names  []string // of those refused last, for status
}

// NewGate makes the gate of one channel.
func NewGate(o GateOptions) *Gate {
	o.Now = orNow(o.Now)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Gate{
		o:      o,
		lists:  readLists(o.Lists, nil),
		began:  o.Now(),
		told:   recent.New[string, time.Time](gateMemory),
		groups: recent.New[string, bool](gateMemory),
		heard:  recent.New[bus.Route, *overheard](overheardChats),
		owners: map[string]bus.Route{},
	}
}

// SetRules sets the platform's own rules. Only its factory calls it.
func (g *Gate) SetRules(r Rules) {
	g.rules = r
	g.lists = readLists(g.o.Lists, r.Entries)
}

// Doubts are what whoever set the bot up should know about allowFrom and owners.
func (g *Gate) Doubts() []string { return doubts(g.o.Lists, g.rules.Entries) }

// Knows reports whether a visitor would be let in, without any effect: for an
// invitation, a button, a person who joined. Whether the words are for us, or
// too old, is not asked.
func (g *Gate) Knows(ctx context.Context, v Visitor) bool {
	return decide(g.collect(ctx, v, true, false)).verdict == Allowed
}

// collect finds out what decides about a visitor.
func (g *Gate) collect(ctx context.Context, v Visitor, forUs, late bool) evidence {
	e := evidence{visitor: v, lists: g.lists, forUs: forUs, late: late, rule: g.rule(v), pairs: g.o.Book != nil}
	if g.o.Book == nil || !forUs || late {
		return e
	}
	ids := slices.Clone(v.IDs)
	for _, id := range v.IDs { // as the lists spell them, which older versions noted
		for _, list := range [][]Entry{g.lists.AllowFrom, g.lists.Owners} {
			if entry, ok := byID(list, id); ok && entry.As != "" && !slices.Contains(ids, entry.As) {
				ids = append(ids, entry.As)
			}
		}
	}
	known, err := g.o.Book.Known(g.o.Name, ids...)
	if err != nil {
		g.o.Log.ErrorContext(ctx, "pairing is not available", "channel", g.o.Name, "err", err)
	}
	e.paired = known
	return e
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
	forUs := v.Direct || g.forUs(v)
	if !v.Direct {
		g.noteGroup(v, forUs)
	}
	late := g.tooLate(v)
	if forUs && !late {
		g.redeemInvitation(ctx, v) // before the lists are asked: it may put the sender on them
	}
	return g.carryOut(ctx, v, decide(g.collect(ctx, v, forUs, late)))
}

// redeemInvitation lets the owner in who sends the code of an invitation.
func (g *Gate) redeemInvitation(ctx context.Context, v Visitor) {
	if !v.Direct || v.Text == "" || g.o.Book == nil || len(v.IDs) == 0 || v.IDs[0] == "" {
		return
	}
	switch in, err := g.o.Book.redeem(ctx, g.o.Name, v.Text, v.IDs); {
	case err != nil:
		g.o.Log.ErrorContext(ctx, "the owner sent the code of an invitation but cannot be let in", "channel", g.o.Name, "sender", v.IDs[0], "err", err)
	case in:
		g.o.Log.InfoContext(ctx, "the owner was let in with the code of an invitation", "channel", g.o.Name, "sender", v.IDs[0])
	}
}

// carryOut does what was decided.
func (g *Gate) carryOut(ctx context.Context, v Visitor, o admission) (Pass, bool) {
	switch o.verdict {
	case Allowed:
	case Late:
		if g.once("late", lateEvery) {
			g.o.Log.InfoContext(ctx, "messages that came while the channel was away are skipped (catchUp, catchUpMaxAgeS)", "channel", g.o.Name, "sender", v.IDs[0], "at", v.At)
		}
		return Pass{verdict: Late}, false
	case NotForUs:
		return Pass{verdict: NotForUs}, false
	default:
		g.refuse(ctx, v, o.verdict == Invited)
		return Pass{verdict: o.verdict}, false
	}

	pass := Pass{gate: g, visitor: v, id: o.id, at: g.o.Now(), verdict: Allowed}
	if !o.owner {
		pass.scope = guestScope(v.Route, o.id)
	}
	if o.named {
		g.warnName(ctx, v)
	}
	g.learnAliases(ctx, v)
	if v.Direct && pass.Owner() {
		g.rememberOwner(o.id, v.Route)
	}
	return pass, true
}

// guestScope says whose memory the words of somebody who is not the owner, or not
// alone with us, belong to: that of this person in this chat.
func guestScope(r bus.Route, id string) string { return r.Channel + ":" + r.ChatID + "/" + id }

// noteGroup remembers a chat with several people, and what is said there to
// others.
func (g *Gate) noteGroup(v Visitor, forUs bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups.Put(v.Route.ChatID, true)
	if !forUs {
		g.overhear(v)
	}
}

// warnName tells whoever set the bot up that only a name let somebody in, and a
// person who was the owner by it before what has changed.
func (g *Gate) warnName(ctx context.Context, v Visitor) {
	if !g.once("name:"+v.IDs[0], tellEvery) {
		return
	}
	g.o.Log.WarnContext(ctx, "a person is admitted by a name that others can take over, as a guest; write the id into allowFrom", "channel", g.o.Name, "id", v.IDs[0], "names", v.Names)
	if _, listed := byName(g.lists.owners(), v.Names); !listed || !v.Direct {
		return
	}
	g.say(ctx, bus.Outbound{
		Kind: bus.Notice, Route: v.Route, Plain: true,
		Text: phrase.In(g.language(v.Language), "You are on my list by your name, which others can take over, so I treat you as a guest. "+
			"If this is your bot, write your id %[1]q into channels.%[2]s.allowFrom and channels.%[2]s.owners in its configuration.", text.Label(v.IDs[0], nameShown), g.o.Name),
	})
}

// learnAliases notes further ids of a person who paired.
func (g *Gate) learnAliases(ctx context.Context, v Visitor) {
	if g.o.Book == nil {
		return
	}
	if err := g.o.Book.learn(ctx, g.o.Name, v.IDs...); err != nil {
		g.o.Log.WarnContext(ctx, "another id of a person cannot be kept", "channel", g.o.Name, "err", err)
	}
}

// rememberOwner notes where an owner wrote last, alone with us.
func (g *Gate) rememberOwner(id string, r bus.Route) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.owners) >= ownersKept { // clients without a name are somebody new each time
		clear(g.owners)
	}
	g.owners[id] = r
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
	l := g.o.Lists
	if l.CatchUp != nil && !*l.CatchUp {
		return since, false
	}
	age := time.Duration(l.CatchUpMaxAgeS) * time.Second
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
	policy := g.o.Lists.GroupPolicy
	if policy == "" {
		policy = Mention
	}
	switch policy {
	case Open:
		return true
	case Allowlist:
		return slices.Contains(g.o.Lists.GroupAllowFrom, v.Route.ChatID)
	}
	return v.Mentioned
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

// refuse deals with somebody who may not be here. Invite says that they may have a
// pairing code.
func (g *Gate) refuse(ctx context.Context, v Visitor, invite bool) {
	id := text.Label(v.IDs[0], nameShown)
	who := strings.TrimSpace(id + " " + text.Label(v.Name, nameShown))
	g.mu.Lock()
	g.denied++
	g.names = append(slices.DeleteFunc(g.names, func(s string) bool { return s == who }), who)
	g.names = g.names[max(0, len(g.names)-10):]
	g.mu.Unlock()
	g.o.Log.DebugContext(ctx, "a message was refused", "channel", g.o.Name, "sender", v.IDs[0], "direct", v.Direct)
	if invite && g.once("code:"+v.IDs[0], replyEvery) {
		g.invite(ctx, v)
	}
	if g.o.Lists.NotifyDenied && g.once("owner:"+v.IDs[0], tellEvery) {
		others, ok := g.crowd()
		if !ok {
			return
		}
		g.tell(ctx, phrase.In(g.language(""), "%s%s wrote to me on %s and was refused. To admit them, add %q to channels.%s.allowFrom, or approve their code if they have one: /pairing list.", who, others, g.o.Name, id, g.o.Name))
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
		others = phrase.In(g.language(""), " (after %d others)", g.untold)
	}
	g.untold = 0
	return others, true
}

// invite sends a stranger a code.
func (g *Gate) invite(ctx context.Context, v Visitor) {
	code, err := g.o.Book.Ask(ctx, g.o.Name, v.IDs[0], v.IDs[1:]...)
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

// Refused is how many were sent away, and who they were last.
func (g *Gate) Refused() (int, []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denied, slices.Clone(g.names)
}

// IsGroup reports whether several people read a chat, as far as we have seen.
func (g *Gate) IsGroup(chatID string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups.Has(chatID)
}
