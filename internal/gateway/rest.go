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
		waiting := g.queue.Status().Outbound
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

// Unload lets go of conversations in memory that nobody works on. The next
// turn of each reads it again.
func (g *Gateway) Unload() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.agent == nil {
		return // one takes over from another, with nothing in memory
	}
	g.agent.app.Agent.DropCaches()
	if err := g.agent.app.Sessions.Unload(); err != nil {
		g.log.Warn("unload conversations", "err", err)
	}
}
