package gateway

import (
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
)

// carryOut waits a moment until the answers of the last turns are with their
// platforms, so that nobody waits for them until the next start, which would
// deliver them and finish what is shown of them. A platform that is away is
// not waited for.
func (g *Gateway) carryOut() {
	end := time.NewTimer(carryWait)
	defer end.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		waiting := g.messenger.queue.Status().Outbound
		if !slices.ContainsFunc(g.channels.Status(), func(s channel.Status) bool { return s.State == channel.Running && waiting[s.Name] > 0 }) {
			return
		}
		select {
		case <-look.C:
		case <-end.C:
			return
		}
	}
}

// carryWait is how long answers may take to get out when we stop.
const carryWait = 3 * time.Second

// DropCaches lets go of conversations in memory that nobody works on. The next
// turn of each reads it again.
func (g *Gateway) DropCaches() {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	gen := g.state.agent
	if gen == nil {
		return // one takes over from another, with nothing in memory
	}
	gen.app.Agent.DropCaches()
	if err := gen.app.Sessions.DropCaches(); err != nil {
		g.log.Warn("unload conversations", "err", err)
	}
}
