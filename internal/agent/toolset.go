package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/agent/prompt"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// toolSets remembers the sets that were put together, so that turns with the
// same tools share one and the head of their prompts is measured once.
type toolSets struct {
	mu         sync.Mutex
	generation uint64
	built      map[toolChoice]*tool.Set
	told       map[string]bool // session and what it was told to be missing
}

// toolChoice is what a set depends on, besides the tools that come and go.
type toolChoice struct {
	tier  string
	goal  bool
	guest bool // with less of the tools that come and go
}

// chooseTools puts together the tools of the turn: those always there, those
// of the servers connected now, the goal tools when there is a goal, and of
// all these what fits the model.
func (t *turn) chooseTools(ctx context.Context, tier prompt.Tier) (*tool.Set, error) {
	var more []tool.Tool
	var generation uint64
	if t.MoreTools != nil {
		more, generation = t.MoreTools(ctx)
	}
	s := &t.sets
	s.mu.Lock()
	defer s.mu.Unlock()
	t.tellMissing(s)
	if s.built == nil || s.generation != generation {
		s.built, s.generation = map[toolChoice]*tool.Set{}, generation
	}
	choice := toolChoice{tier.Name, t.goalTools(), t.it.in.Scope != ""}
	if choice.guest {
		more = forGuests(more)
	}
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
	if err != nil {
		return nil, err
	}
	if t.Missing != nil {
		set = set.Explaining(t.absent)
	}
	s.built[choice] = set
	return set, nil
}

// forGuests are the tools that come and go which others than the owner may use:
// servers work with the owner's rights, files and accounts.
func forGuests(list []tool.Tool) []tool.Tool {
	return slices.DeleteFunc(slices.Clone(list), func(t tool.Tool) bool { return !t.Guests })
}

// tellMissing lets the user know once per conversation what cannot be used.
func (t *turn) tellMissing(s *toolSets) {
	if t.Missing == nil || t.it.in.Scope != "" {
		return
	}
	missing := t.Missing()
	if len(missing) == 0 || s.told == nil {
		s.told = map[string]bool{} // what comes back and goes again is told again
	}
	for _, prefix := range slices.Sorted(maps.Keys(missing)) {
		if key := t.key + "\x00" + prefix; !s.told[key] {
			s.told[key] = true
			t.it.emit(bus.Outbound{Kind: bus.Notice, Route: t.it.in.Route, Text: missing[prefix]})
		}
	}
}

// absent tells the model why it misses a tool. The reason itself may be words
// of a server, so it is for the user only.
func (a *Agent) absent(name string) string {
	for prefix := range a.Missing() {
		if strings.HasPrefix(name, prefix) {
			return "its server is not connected. Go on without it and tell the user."
		}
	}
	return ""
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
