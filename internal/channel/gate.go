package channel

import (
	"context"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
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
	Owner     bool   // the channel itself has proof that this is the owner, such as a token
}

// Pass is the permission of a Visitor.
type Pass struct {
	visitor Visitor
	scope   string
	at      time.Time
}

// Inbound begins the message of an admitted visitor. The id is the platform's
// own, unique within the channel: it keeps a repeated message from being
// handled twice.
func (p Pass) Inbound(id, text string) bus.Inbound {
	v := p.visitor
	return bus.Inbound{
		ID: v.Route.Channel + ":" + id, Route: v.Route, SenderID: v.IDs[0], Text: text, At: p.at,
		Interactive: true, Scope: p.scope,
	}
}

// Gate decides who may talk to us on one channel.
type Gate struct {
	name     string
	common   Common
	usual    Policy // of groups, where the section says nothing
	pairing  func(ctx context.Context, v Visitor) bool
	now      func() time.Time
	refusing func(v Visitor)
}

// Admit decides about a visitor. It must be asked before anything else happens
// for a message: no download, no typing, no receipt, no session for people who
// may not be here. Somebody unknown who writes directly gets a pairing code
// from the gate itself.
func (g *Gate) Admit(ctx context.Context, v Visitor) (Pass, bool) {
	if len(v.IDs) == 0 || v.IDs[0] == "" || !v.Direct && !g.forUs(v) {
		return Pass{}, false
	}
	if !g.allowed(ctx, v) {
		return Pass{}, false
	}
	return Pass{visitor: v, scope: g.scope(v), at: g.now()}, true
}

func (g *Gate) forUs(v Visitor) bool {
	policy := g.common.GroupPolicy
	if policy == "" {
		policy = g.usual
	}
	switch policy {
	case Open:
		return true
	case Allowlist:
		return slices.Contains(g.common.GroupAllowFrom, v.Route.ChatID)
	}
	return v.Mentioned
}

func (g *Gate) allowed(ctx context.Context, v Visitor) bool {
	if v.Owner || slices.Contains(g.common.AllowFrom, "*") || g.listed(g.common.AllowFrom, v) || g.listed(g.common.Owners, v) {
		return true
	}
	return g.pairing != nil && g.pairing(ctx, v)
}

func (*Gate) listed(list []string, v Visitor) bool {
	return slices.ContainsFunc(v.IDs, func(id string) bool { return id != "" && id != "*" && slices.Contains(list, id) })
}

// scope says whose memory the words of a visitor belong to: the owner's where
// the owner speaks alone, else that of this person in this chat.
func (g *Gate) scope(v Visitor) string {
	owners := g.common.Owners
	if len(owners) == 0 {
		owners = g.common.AllowFrom
	}
	if v.Owner || v.Direct && g.listed(owners, v) {
		return ""
	}
	return v.Route.Channel + ":" + v.Route.ChatID + "/" + v.IDs[0]
}
