package gateway

import "time"

// carryOut waits a moment until the answers of the last turns are with their
// platforms, so that no reader waits for them until the next start, which would
// deliver them and finish what is shown of them. What cannot be delivered now is
// not waited for: it is in the journal.
func (g *Gateway) carryOut() {
	end := time.NewTimer(carryWait)
	defer end.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()

	for {
		if !g.channels.Delivering(g.mail.Status().Outbound) {
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

// DropCaches lets go of conversations in memory that no turn works on. The next
// turn of each reads it again.
func (g *Gateway) DropCaches() {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()

	gen := g.state.inUse.agent
	if gen == nil {
		return // one takes over from another, with nothing in memory
	}

	gen.app.Agent.DropCaches()
	if err := gen.app.Sessions.DropCaches(); err != nil {
		g.log.Warn("unload conversations", "err", err)
	}
}
