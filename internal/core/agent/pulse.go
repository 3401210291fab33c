package agent

import (
	"slices"
	"time"
)

// Pulse is what goes on in an agent.
type Pulse struct {
	Turns   int      `json:"turns"`           // running now
	Waiting int      `json:"waiting"`         // messages behind them
	Stuck   []string `json:"stuck,omitempty"` // sessions whose turn has not moved
}

// Pulse looks at the running turns. One that neither said anything nor called
// a tool nor heard from its model for longer than limit counts as stuck, unless
// it waits for a person.
func (a *Agent) Pulse(limit time.Duration) Pulse { return a.mailboxes.pulse(limit) }

// Busy reports whether a turn is running.
func (a *Agent) Busy() bool { return a.mailboxes.active() > 0 }

func (m *mailboxes) pulse(limit time.Duration) Pulse {
	m.mu.Lock()
	defer m.mu.Unlock()

	var p Pulse
	for key, act := range m.actors {
		p.Waiting += len(act.queue)
		if act.current == nil {
			continue
		}
		p.Turns++
		if rest := time.Since(act.current.began) - time.Duration(act.current.moved.Load()); act.waiting == nil && rest > limit {
			p.Stuck = append(p.Stuck, key)
		}
	}

	slices.Sort(p.Stuck)
	return p
}
