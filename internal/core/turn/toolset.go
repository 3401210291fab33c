package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// toolSets puts together the tools of turns and remembers the sets, so that
// turns with the same tools share one and the head of their prompts is measured
// once.
type toolSets struct {
	opts  Tools
	fixed *tool.Set   // the tools that are always there
	goal  []tool.Tool // offered while there is a goal
	owner []tool.Tool // not for guests

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

// choose puts together the tools of a turn: those always there, those of the
// servers connected now, the goal tools when there is a goal, and of all these
// what fits the model.
func (s *toolSets) choose(ctx context.Context, choice toolChoice, tier prompt.Tier) (*tool.Set, error) {
	var more []tool.Tool
	var generation uint64
	if s.opts.More != nil {
		more, generation = s.opts.More(ctx)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if s.built == nil || s.generation != generation {
		s.built, s.generation = map[toolChoice]*tool.Set{}, generation
	}

	if set, ok := s.built[choice]; ok {
		return set, nil
	}

	if choice.guest {
		more = forGuests(more)
	} else {
		more = append(more[:len(more):len(more)], s.owner...)
	}

	if choice.goal {
		more = append(more[:len(more):len(more)], s.goal...)
	}

	set := s.fixed
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

	if s.opts.Missing != nil {
		set = set.Explaining(s.absent)
	}

	s.built[choice] = set
	return set, nil
}

// forGuests are the tools that come and go which others than the owner may use:
// servers work with the owner's rights, files and accounts.
func forGuests(list []tool.Tool) []tool.Tool {
	return slices.DeleteFunc(slices.Clone(list), func(t tool.Tool) bool { return !t.Guests })
}

// known are the tools of the last turn like this one, else those that are
// always there: looking must not start servers.
func (s *toolSets) known(choice toolChoice, tier prompt.Tier) (*tool.Set, error) {
	s.mu.Lock()
	set := s.built[choice]
	s.mu.Unlock()
	if set != nil {
		return set, nil
	}
	return tier.Tools(s.fixed)
}

// prepare finds the tool of a call that the owner's model can make, among those
// of the last turns, and validates its arguments.
func (s *toolSets) prepare(name, arguments string) (tool.Tool, json.RawMessage, *tool.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for choice, set := range s.built {
		if _, ok := set.Get(name); ok && !choice.guest {
			return set.Prepare(name, arguments)
		}
	}
	return s.fixed.Prepare(name, arguments)
}

// missing is what cannot be used and a session was not told yet.
func (s *toolSets) missing(key string) (news []string) {
	if s.opts.Missing == nil {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	missing := s.opts.Missing()
	if len(missing) == 0 || s.told == nil {
		s.told = map[string]bool{} // what comes back and goes again is told again
	}

	for _, prefix := range slices.Sorted(maps.Keys(missing)) {
		if at := key + "\x00" + prefix; !s.told[at] {
			s.told[at] = true
			news = append(news, missing[prefix])
		}
	}
	return news
}

// readOnly reports whether a tool changes nothing.
func (s *toolSets) readOnly(name string) bool {
	tl, ok := s.fixed.Get(name)
	return ok && tl.ReadOnly
}

// forget drops what a session was told to be missing.
func (s *toolSets) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.told {
		if strings.HasPrefix(k, key+"\x00") {
			delete(s.told, k)
		}
	}
}

// absent tells the model why it misses a tool. The reason itself may be words
// of a server, so it is for the user only.
func (s *toolSets) absent(name string) string {
	for prefix := range s.opts.Missing() {
		if strings.HasPrefix(name, prefix) {
			return "its server is not connected. Go on without it and tell the user."
		}
	}
	return ""
}

func (t *Turn) toolChoice(tier prompt.Tier) toolChoice {
	_, goal := owntool.Goal(t.sess)
	return toolChoice{tier.Name, goal, t.msg.In.Scope != ""}
}

// chooseTools are the tools of the turn. The owner is told once per
// conversation what cannot be used.
func (t *Turn) chooseTools(ctx context.Context, tier prompt.Tier) (*tool.Set, error) {
	if t.msg.In.NoTools {
		return tool.NewSet()
	}

	if slow := t.engine.opts.Tools.Slow; slow != nil {
		if names := slow(ctx); len(names) > 0 {
			t.msg.Sink.Emit(bus.Outbound{Kind: bus.Progress, Route: t.msg.In.Route, Text: "Waiting for MCP servers: " + strings.Join(names, ", ")})
		}
	}

	set, err := t.engine.tools.choose(ctx, t.toolChoice(tier), tier)
	if err == nil {
		set, err = t.msg.Extra.tools(set)
	}

	if t.msg.In.Scope == "" {
		for _, text := range t.engine.tools.missing(t.key) {
			t.msg.Sink.Emit(bus.Outbound{Kind: bus.Notice, Route: t.msg.In.Route, Text: text})
		}
	}
	return set, err
}
