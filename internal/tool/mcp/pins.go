package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// maxPins bounds what is remembered of one server.
const maxPins = 2000

// pins remembers how servers defined what they offer. A server that was
// looked at and found harmless may later describe the same tool differently,
// and the change would go unnoticed.
type pins struct {
	store store.Store // nil remembers for this process only

	mu  sync.Mutex
	all map[string]pin
}

// pinsName is the document of a store.
const pinsName = string(datadir.MCPTools)

// pin holds what is remembered of one server.
type pin struct {
	Source string            `json:"source"` // hash of where the server comes from; another one starts again
	Hashes map[string]string `json:"hashes"` // kind and name -> hash of the definition
	// Accepted are the definitions that the owner has looked at, in the same
	// form. All others are words from outside.
	Accepted map[string]string `json:"accepted,omitempty"`
}

func source(s Server) string {
	sum := sha256.Sum256([]byte(s.Type + "\x00" + s.Command + "\x00" + strings.Join(s.Args, "\x00") + "\x00" + s.URL))
	return hex.EncodeToString(sum[:16])
}

// change lets fn work on what is remembered, as it is now: another process may
// have accepted something. It is kept when fn says so. What cannot be read is
// kept beside and counts as nothing.
func (p *pins) change(ctx context.Context, fn func() (keep bool)) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.store == nil {
		if p.all == nil {
			p.all = map[string]pin{}
		}
		fn()
		return nil
	}

	var damage error
	err := store.Update(ctx, p.store, pinsName, func(old []byte) ([]byte, error) {
		damage, p.all = nil, map[string]pin{}
		if len(old) > 0 {
			damage = json.Unmarshal(old, &p.all)
		}
		if damage != nil || p.all == nil {
			p.all = map[string]pin{}
		}

		if !fn() {
			return nil, nil
		}

		if damage != nil {
			if _, err := store.SaveDamaged(ctx, p.store, pinsName, old, time.Now()); err != nil {
				return nil, err
			}
		}
		return store.Indented(p.all)
	})
	return errors.Join(damage, err)
}

// accept remembers definitions as those that the owner has looked at.
func (p *pins) accept(ctx context.Context, s Server, offers []offer) error {
	return p.change(ctx, func() bool {
		now := pin{Source: source(s), Hashes: map[string]string{}, Accepted: map[string]string{}}
		for i := range offers[:min(len(offers), maxPins)] {
			now.Hashes[offers[i].key()], now.Accepted[offers[i].key()] = offers[i].hash, offers[i].hash
		}
		p.all[s.Name] = now
		return true
	})
}

// compare says which definitions are not the remembered ones, and remembers
// those that are new. With keep, changed ones stay remembered as they were. It
// notes which of them the owner has accepted.
func (p *pins) compare(ctx context.Context, s Server, offers []offer, keep bool) (changed []string, err error) {
	err = p.change(ctx, func() (dirty bool) {
		changed = nil
		old := p.all[s.Name]
		if old.Source != source(s) || old.Hashes == nil {
			old = pin{Source: source(s), Hashes: map[string]string{}}
		}

		for i, o := range offers {
			key := o.key()
			offers[i].accepted = old.Accepted[key] == o.hash && o.hash != ""
			was, known := old.Hashes[key]
			switch {
			case known && was == o.hash:
				continue
			case known:
				changed = append(changed, key)
				if keep {
					continue
				}

			case len(old.Hashes) >= maxPins:
				continue
			}

			old.Hashes[key] = o.hash
			dirty = true
		}

		p.all[s.Name] = old
		return dirty
	})

	slices.Sort(changed)
	return changed, err
}

func (o offer) key() string { return o.kind.label() + ":" + o.raw }

// digest names a list of definitions, in whatever order they come.
func digest(offers []offer) string {
	lines := make([]string, 0, len(offers))
	for _, o := range offers {
		lines = append(lines, o.key()+" "+o.hash)
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

// unaccepted counts the definitions that the owner has not looked at.
func (l listing) unaccepted() int {
	n := len(l.held)
	for _, o := range l.offers {
		if !o.accepted {
			n++
		}
	}
	return n
}

// pinned compares a listing with what was remembered, and withholds what
// changed when the operator wants to see it first.
func (s *server) pinned(ctx context.Context, list *listing) {
	hold := s.pool.o.HoldChanged
	list.digest = digest(list.offers)
	seen := s.pool.o.Expect == "" || s.pool.o.Expect == list.digest
	if s.pool.o.Accept && seen {
		if err := s.pool.pins.accept(ctx, s.Server, list.offers); err != nil {
			s.log.WarnContext(ctx, "definitions of mcp tools cannot be accepted", "err", err)
		}
	}

	changed, err := s.pool.pins.compare(ctx, s.Server, list.offers, hold)
	if err != nil {
		s.log.WarnContext(ctx, "definitions of mcp tools cannot be saved", "err", err)
	}

	if len(changed) == 0 {
		return
	}

	s.log.WarnContext(ctx, "mcp server changed the definition of what it offers", "changed", text.Label(strings.Join(changed, ", "), 1000), "held_back", hold)
	if hold {
		list.held = changed
		list.offers = slices.DeleteFunc(list.offers, func(o offer) bool { return slices.Contains(changed, o.key()) })
	}
}
