package agent

import (
	"context"
	"fmt"
	"sync"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// toolSets remembers the sets that were put together, so that turns with the
// same tools share one and the head of their prompts is measured once.
type toolSets struct {
	mu         sync.Mutex
	generation uint64
	built      map[toolChoice]*tool.Set
}

// toolChoice is what a set depends on, besides the tools that come and go.
type toolChoice struct {
	tier string
	goal bool
}

// chooseTools puts together the tools of the turn: those always there, those
// of the servers connected now, the goal tools when there is a goal, and of
// all these what fits the model.
func (t *turn) chooseTools(ctx context.Context, tier Tier) (*tool.Set, error) {
	var more []tool.Tool
	var generation uint64
	if t.MoreTools != nil {
		more, generation = t.MoreTools(ctx)
	}
	s := &t.sets
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.built == nil || s.generation != generation {
		s.built, s.generation = map[toolChoice]*tool.Set{}, generation
	}
	choice := toolChoice{tier.Name, t.goalTools()}
	if set, ok := s.built[choice]; ok {
		return set, nil
	}
	if choice.goal {
		more = append(more[:len(more):len(more)], t.Agent.goalTools()...)
	}
	set := t.fixed
	if len(more) > 0 {
		var err error
		if set, err = set.With(more...); err != nil {
			return nil, fmt.Errorf("add tools: %w", err)
		}
	}
	set, err := tier.Tools(set)
	if err == nil {
		s.built[choice] = set
	}
	return set, err
}

// turnOf finds the running turn a call belongs to.
func (a *Agent) turnOf(c tool.Call) (*turn, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	act := a.actors[c.SessionKey]
	if act == nil || act.turn == nil || act.turn.id != c.TurnID {
		return nil, false
	}
	return act.turn, true
}
