package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// maxPins bounds what is remembered of one server.
const maxPins = 2000

// pins remembers how servers defined what they offer. A server that was
// looked at and found harmless may later describe the same tool differently,
// and nobody would notice.
type pins struct {
	path string // "" remembers for this process only

	mu  sync.Mutex
	all map[string]pin
}

// pin is what is remembered of one server.
type pin struct {
	Source string            `json:"source"` // hash of where the server comes from; another one starts anew
	Hashes map[string]string `json:"hashes"` // kind and name -> hash of the definition
	// Accepted are the definitions that the owner has looked at, in the same
	// form. All others are words from outside.
	Accepted map[string]string `json:"accepted,omitempty"`
}

func source(s Server) string {
	sum := sha256.Sum256([]byte(s.Type + "\x00" + s.Command + "\x00" + strings.Join(s.Args, "\x00") + "\x00" + s.URL))
	return hex.EncodeToString(sum[:16])
}

// load reads the file, every time: another process may have accepted something.
func (p *pins) load() error {
	if p.all == nil {
		p.all = map[string]pin{}
	}
	if p.path == "" {
		return nil
	}
	b, err := os.ReadFile(p.path)
	p.all = map[string]pin{}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &p.all)
	}
	if p.all == nil {
		p.all = map[string]pin{}
	}
	return err
}

// accept remembers definitions as those that the owner has looked at.
func (p *pins) accept(s Server, offers []offer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.load()
	now := pin{Source: source(s), Hashes: map[string]string{}, Accepted: map[string]string{}}
	for i := range offers[:min(len(offers), maxPins)] {
		now.Hashes[offers[i].key()], now.Accepted[offers[i].key()] = offers[i].hash, offers[i].hash
	}
	p.all[s.Name] = now
	if p.path != "" {
		err = errors.Join(err, p.save())
	}
	return err
}

// compare says which definitions are not the remembered ones, and remembers
// those that are new. With keep, changed ones stay remembered as they were. It
// notes which of them the owner has accepted.
func (p *pins) compare(s Server, offers []offer, keep bool) (changed []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	loadErr := p.load()
	old := p.all[s.Name]
	if old.Source != source(s) || old.Hashes == nil {
		old = pin{Source: source(s), Hashes: map[string]string{}}
	}
	dirty := false
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
	if dirty && p.path != "" {
		err = p.save()
	}
	slices.Sort(changed)
	return changed, errors.Join(loadErr, err)
}

func (p *pins) save() error {
	b, err := json.MarshalIndent(p.all, "", "  ")
	if err != nil {
		return err
	}
	if err := diskio.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return err
	}
	return diskio.WriteFile(p.path, append(b, '\n'), 0o600)
}

func (o offer) key() string { return o.kind.label() + ":" + o.raw }

// pinned compares a listing with what was remembered, and withholds what
// changed when the operator wants to see it first.
func (s *server) pinned(ctx context.Context, list *listing) {
	hold := s.pool.o.HoldChanged
	if s.pool.o.Accept || s.accepting.CompareAndSwap(true, false) {
		if err := s.pool.pins.accept(s.Server, list.offers); err != nil {
			s.log.WarnContext(ctx, "definitions of mcp tools cannot be accepted", "err", err)
		}
	}
	changed, err := s.pool.pins.compare(s.Server, list.offers, hold)
	if err != nil {
		s.log.WarnContext(ctx, "definitions of mcp tools cannot be remembered", "err", err)
	}
	if len(changed) == 0 {
		return
	}
	s.log.WarnContext(ctx, "mcp server changed the definition of what it offers", "changed", oneLine(strings.Join(changed, ", "), 1000), "held_back", hold)
	if hold {
		list.held = changed
		list.offers = slices.DeleteFunc(list.offers, func(o offer) bool { return slices.Contains(changed, o.key()) })
	}
}
