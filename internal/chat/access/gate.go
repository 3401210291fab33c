// Package access decides who may talk to us: it hides the lists of a section,
// the people who were approved by hand, and what is told to strangers, owners and
// the log.
//
// A Gate answers before anything else happens for a message, and in the same way
// on every platform: it collects what is known, asks decide, and carries out what
// was decided. decide is the rule, without effects; its table of tests is the
// specification. A stranger, who is not on a list and did not pair, never gets more
// than a pairing code. A name that people can choose never makes an owner. A book
// that cannot be read admits no one and is not overwritten.
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
	replyEvery  = time.Minute      // a pairing code to one person
	notifyEvery = 24 * time.Hour   // owners about one person
	notifyPause = 10 * time.Minute // owners about all people
	ownersKept  = 64
	gateMemory  = 1024        // people remembered for that
	nameShown   = 64          // characters
	clockSlack  = time.Minute // between a platform's clock and ours
	catchUpAge  = 10 * time.Minute
	lateEvery   = time.Minute // a line in the log about late messages
)

// Visitor is the sender of a message, before anything was done about it.
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
	Direct    bool   // no one else reads this chat
	Mentioned bool   // in a group: we are named or answered
	NoPairing bool   // the sender gets no code: it could go to a person who never wrote
	Owner     bool   // the channel itself has proof that this is the owner, such as a token
	Text      string // what was written: in a group for groupHistory, alone for the code of an invitation
	// At is when it was written, as the platform says. It tells what came while
	// the channel was offline; zero is now.
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
	Late     Verdict = "late"       // said while the channel was offline
)

// Verdict returns what the gate decided.
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
	// Send delivers a message to a chat. Nil: the gate sends nothing.
	Send func(ctx context.Context, out bus.Outbound) error
	Log  *slog.Logger
	Now  func() time.Time
}

// Gate decides who may talk to us on one channel.
type Gate struct {
	o     GateOptions
	rules Rules
	lists peopleLists
	began time.Time

	mu       sync.Mutex
	notified *recent.Map[string, time.Time]     // when a stranger got a code, owners were told, a warning was written
	owners   map[string]bus.Route               // where owners wrote last, alone with us
	groups   *recent.Map[string, bool]          // chats with several people
	heard    *recent.Map[bus.Route, *overheard] // by place
	untold   int                                // refused since, without a word to owners
	denied   int
	names    []string // of those refused last, for status
}

// NewGate makes the gate of one channel.
func NewGate(o GateOptions) *Gate {
	o.Now = orNow(o.Now)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Gate{
		o:        o,
		lists:    readLists(o.Lists, nil),
		began:    o.Now(),
		notified: recent.New[string, time.Time](gateMemory),
		groups:   recent.New[string, bool](gateMemory),
		heard:    recent.New[bus.Route, *overheard](overheardChats),
		owners:   map[string]bus.Route{},
	}
}

// SetRules sets the platform's own rules. Only its factory calls it.
func (g *Gate) SetRules(r Rules) {
	g.rules = r
	g.lists = readLists(g.o.Lists, r.Entries)
}

// Doubts returns what the person who set the bot up should know about allowFrom and
// owners.
func (g *Gate) Doubts() []string { return doubts(g.o.Lists, g.rules.Entries) }

// Knows reports whether a visitor would be let in, without any effect: for an
// invitation, a button, a person who joined. It does not ask whether the words are
// for us, or too old.
func (g *Gate) Knows(ctx context.Context, v Visitor) bool {
	e := g.circumstances(v)
	e.talk, e.visitor.At = toUs, time.Time{}

	e.paired = g.consult(ctx, e)
	e.paired.invitation = false // only Admit redeems one
	return decide(e).verdict == Allowed
}

// Admit decides about a visitor. It must be asked before anything else happens
// for a message: no download, no typing, no receipt, no session for people who
// may not be here. A stranger who writes directly gets a pairing code from the gate
// itself.
func (g *Gate) Admit(ctx context.Context, v Visitor) (Pass, bool) {
	e := g.circumstances(v)
	e.talk = g.audience(v)
	if !v.Direct {
		g.recordGroup(v, e.addressed())
	}

	e.paired = g.consult(ctx, e)

	a := decide(e)
	if a.redeem && !g.redeemInvitation(ctx, v) {
		e.paired.invitation = false // another message was faster, or the book cannot be written
		a = decide(e)
	}
	return g.carryOut(ctx, v, a)
}

// circumstances collects what decides about a visitor, except for the audience of
// the words and the book.
func (g *Gate) circumstances(v Visitor) evidence {
	e := evidence{
		visitor: v,
		section: g.o.Lists,
		lists:   g.lists,
		now:     g.o.Now(),
		began:   g.began,
		pairs:   g.o.Book != nil,
	}

	rule := g.rules.Group
	if v.Direct {
		rule = g.rules.Direct
	}
	if rule != nil && !v.Owner {
		e.rule = rule(v)
	}
	return e
}

// audience returns whom the platform's own rule says that the words are for.
func (g *Gate) audience(v Visitor) audience {
	switch {
	case g.rules.ForUs == nil || v.Direct:
		return byPolicy
	case g.rules.ForUs(v):
		return toUs
	}
	return toOthers
}

// consult asks the book about a visitor, once, unless the words will not be
// answered anyway.
func (g *Gate) consult(ctx context.Context, e evidence) Known {
	v := e.visitor
	if g.o.Book == nil || !v.identified() || !e.addressed() || e.late() {
		return Known{}
	}

	q := inquiry{channel: g.o.Name, ids: v.IDs}
	for _, id := range v.IDs {
		for _, list := range [][]Entry{g.lists.AllowFrom, g.lists.Owners} {
			if entry, ok := byID(list, id); ok && entry.As != "" {
				q.older = append(q.older, entry.As)
			}
		}
	}

	if v.Direct {
		q.message = v.Text
	}

	known, err := g.o.Book.lookup(q)
	if err != nil {
		g.o.Log.ErrorContext(ctx, "pairing is not available", "channel", g.o.Name, "err", err)
	}
	return known
}

// redeemInvitation approves the sender of the code of an invitation as the owner,
// and reports whether it did.
func (g *Gate) redeemInvitation(ctx context.Context, v Visitor) bool {
	redeemed, err := g.o.Book.redeem(ctx, g.o.Name, v.Text, v.IDs)
	if err != nil {
		g.o.Log.ErrorContext(ctx, "the owner sent the code of an invitation but cannot be let in", "channel", g.o.Name, "sender", v.IDs[0], "err", err)
		return false
	}
	if redeemed {
		g.o.Log.InfoContext(ctx, "the owner was let in with the code of an invitation", "channel", g.o.Name, "sender", v.IDs[0])
	}
	return redeemed
}

// carryOut does what was decided.
func (g *Gate) carryOut(ctx context.Context, v Visitor, a admission) (Pass, bool) {
	switch a.verdict {
	case Allowed:
		return g.welcome(ctx, v, a), true
	case Late:
		if g.once("late", lateEvery) {
			g.o.Log.InfoContext(ctx, "messages that came while the channel was away are skipped (catchUp, catchUpMaxAgeS)", "channel", g.o.Name, "sender", v.IDs[0], "at", v.At)
		}
	case Invited, Refused:
		g.refuse(ctx, v, a.verdict == Invited)
	case NotForUs:
	}
	return Pass{verdict: a.verdict}, false
}

// welcome makes the pass of a visitor who is let in, and records what is new
// about them.
func (g *Gate) welcome(ctx context.Context, v Visitor, a admission) Pass {
	pass := Pass{gate: g, visitor: v, id: a.id, at: g.o.Now(), verdict: Allowed}
	if !a.owner {
		pass.scope = guestScope(v.Route, a.id)
	}

	if a.named {
		g.warnName(ctx, v, a.demoted)
	}
	if a.alias {
		g.recordAliases(ctx, v)
	}
	if v.Direct && pass.Owner() {
		g.rememberOwner(a.id, v.Route)
	}
	return pass
}

// guestScope returns whose memory the words of a person belong to who is not the
// owner, or not alone with us: that of this person in this chat.
func guestScope(r bus.Route, id string) string { return r.Channel + ":" + r.ChatID + "/" + id }

// recordGroup remembers a chat with several people, and what is said there to
// others.
func (g *Gate) recordGroup(v Visitor, addressed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups.Put(v.Route.ChatID, true)
	if !addressed {
		g.overhear(v)
	}
}

// warnName warns that only a name let a person in, once a day, and tells the
// person if older versions took them for the owner by it.
func (g *Gate) warnName(ctx context.Context, v Visitor, demoted bool) {
	if !g.once("name:"+v.IDs[0], notifyEvery) {
		return
	}

	g.o.Log.WarnContext(ctx, "a person is admitted by a name that others can take over, as a guest; write the id into allowFrom", "channel", g.o.Name, "id", v.IDs[0], "names", v.Names)
	if !demoted {
		return
	}

	g.send(ctx, bus.Outbound{
		Kind: bus.Notice, Route: v.Route, Plain: true,
		Text: phrase.In(g.language(v.Language), "You are on my list by your name, which others can take over, so I treat you as a guest. "+
			"If this is your bot, write your id %[1]q into channels.%[2]s.allowFrom and channels.%[2]s.owners in its configuration.", text.Label(v.IDs[0], nameShown), g.o.Name),
	})
}

// recordAliases adds further ids of a person to the book.
func (g *Gate) recordAliases(ctx context.Context, v Visitor) {
	if err := g.o.Book.addAliases(ctx, g.o.Name, v.IDs); err != nil {
		g.o.Log.WarnContext(ctx, "another id of a person cannot be kept", "channel", g.o.Name, "err", err)
	}
}

// rememberOwner records where an owner wrote last, alone with us.
func (g *Gate) rememberOwner(id string, r bus.Route) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.owners) >= ownersKept { // clients without a name have a new id each time
		clear(g.owners)
	}
	g.owners[id] = r
}

// Backlog returns since when a channel should read the platform's history, and
// false if it should not. Admit looks at each message as well.
func (g *Gate) Backlog() (since time.Time, wanted bool) {
	return g.o.Lists.backlog(g.o.Now(), true)
}

// once reports whether something was not done for this long, and records it.
func (g *Gate) once(key string, every time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.o.Now()
	if at, ok := g.notified.Get(key); ok && now.Sub(at) < every && !now.Before(at) {
		return false
	}
	g.notified.Put(key, now)
	return true
}

// refuse counts a visitor who may not be here, and tells owners if they want it.
// Invite says that the visitor may have a pairing code.
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

	if g.o.Lists.NotifyDenied && g.once("owner:"+v.IDs[0], notifyEvery) {
		others, ok := g.crowd()
		if !ok {
			return
		}
		g.notifyOwners(ctx, phrase.In(g.language(""), "%s%s wrote to me on %s and was refused. To admit them, add %q to channels.%s.allowFrom, or approve their code if they have one: /pairing list.", who, others, g.o.Name, id, g.o.Name))
	}
}

// crowd reports whether owners may be told of a stranger now. If some were left
// out since the last time, it says how many.
func (g *Gate) crowd() (others string, ok bool) {
	if !g.once("owner", notifyPause) {
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
		if errors.Is(err, errPairingSoon) {
			level = slog.LevelDebug
		}
		g.o.Log.Log(ctx, level, "no pairing code for a stranger", "channel", g.o.Name, "sender", v.IDs[0], "err", err)
		return
	}

	g.send(ctx, bus.Outbound{
		Kind:  bus.Message,
		Route: v.Route,
		Plain: true,
		Meta:  map[string]string{"_pairing_code": code},
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

// notifyOwners writes to the owners we have heard from.
func (g *Gate) notifyOwners(ctx context.Context, text string) {
	g.mu.Lock()
	routes := make([]bus.Route, 0, len(g.owners))
	for _, r := range g.owners {
		r.MessageID = ""
		routes = append(routes, r)
	}

	g.mu.Unlock()
	for _, r := range routes {
		g.send(ctx, bus.Outbound{Kind: bus.Message, Route: r, Plain: true, Text: text})
	}
}

func (g *Gate) send(ctx context.Context, out bus.Outbound) {
	if g.o.Send == nil {
		return
	}
	if err := g.o.Send(ctx, out); err != nil {
		g.o.Log.WarnContext(ctx, "cannot send a message of the gate", "channel", g.o.Name, "err", err)
	}
}

// Refused returns how many were sent away, and who they were last.
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
