package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"strings"
	"time"
)

// invitation lets whoever sends its code in as the owner, once. Only the hash of
// the code is kept, in memory.
type invitation struct {
	channel string
	expires time.Time
}

// Invite returns a code for the owner: whoever sends it to the channel alone is
// let in as the owner. It takes the place of the one before.
func (p *Pairing) Invite(channel string) (code string, expires time.Time) {
	code, expires = rand.Text(), p.now().Add(pairingLife)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.invited == nil {
		p.invited = map[[sha256.Size]byte]invitation{}
	}
	maps.DeleteFunc(p.invited, func(_ [sha256.Size]byte, i invitation) bool { return i.channel == channel || p.now().After(i.expires) })
	p.invited[sha256.Sum256([]byte(code))] = invitation{channel, expires}
	return code, expires
}

// redeem lets a person in as the owner if their message ends with an open code of
// the channel. The code is gone then, also if this fails.
func (p *Pairing) redeem(ctx context.Context, channel, message string, ids []string) (bool, error) {
	words := strings.Fields(message)
	if len(words) == 0 || len(words) > 2 || len(words) == 2 && words[0] != "/start" {
		return false, nil
	}
	sum := sha256.Sum256([]byte(words[len(words)-1]))
	p.mu.Lock()
	i, ok := p.invited[sum]
	if ok && i.channel == channel {
		delete(p.invited, sum)
	}
	p.mu.Unlock()
	if !ok || i.channel != channel || p.now().After(i.expires) {
		return false, nil
	}
	return true, p.change(ctx, func(b *book) error {
		b.addOwner(request{Channel: channel, Sender: ids[0], Aliases: ids[1:]})
		maps.DeleteFunc(b.Pending, func(_ string, r request) bool { return r.Channel == channel && r.Sender == ids[0] })
		return nil
	})
}

// redeemInvitation lets the owner in who sends the code of an invitation.
func (g *Gate) redeemInvitation(ctx context.Context, v Visitor) {
	if !v.Direct || v.Text == "" || g.o.Pairing == nil || len(v.IDs) == 0 || v.IDs[0] == "" {
		return
	}
	switch in, err := g.o.Pairing.redeem(ctx, g.o.Name, v.Text, v.IDs); {
	case err != nil:
		g.o.Log.ErrorContext(ctx, "the owner sent the code of an invitation but cannot be let in", "channel", g.o.Name, "sender", v.IDs[0], "err", err)
	case in:
		g.o.Log.InfoContext(ctx, "the owner was let in with the code of an invitation", "channel", g.o.Name, "sender", v.IDs[0])
	}
}
