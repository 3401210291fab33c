package reach

import (
	"cmp"
	"context"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Guest returns what a command of others than the owner may reach: stored
// content of package hosts, within a budget for the turn and one for the day of
// the room. Neither the owner's list nor an open network is for them, and they
// cannot be asked.
func (p *Policy) Guest(life context.Context, c tool.Call) *httpsafe.Access {
	u := p.user(life, c)
	u.room = cmp.Or(c.Scope, "guest")
	u.tainted.Store(true)
	a := u.access()
	a.Decide = func(_ context.Context, r httpsafe.HostRequest) (httpsafe.Reach, error) {
		if readable(r) {
			return httpsafe.ReachRead, nil
		}
		reason := "commands of guests reach package hosts only"
		if r.Exposes != "" {
			reason += ": " + r.Exposes
		}
		return httpsafe.ReachNone, &httpsafe.BlockedError{Target: r.String(), Reason: reason}
	}
	return a
}
