package chain

import (
	"context"
	"encoding/json"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

const breakerName = string(datadir.Breakers)

// breakerFile is the document. Processes that run side by side write it in
// turn, each keeping what others changed later than itself.
type breakerFile struct {
	Version  int                 `json:"version"` // 1
	Circuits map[string]*circuit `json:"circuits"`
}

// read gives the circuits in the document; trouble with it is logged and means none.
func (b *Breakers) read(ctx context.Context) map[string]*circuit {
	if b.store == nil {
		return nil
	}

	data, _, err := b.store.Doc(ctx, breakerName)
	if err != nil {
		b.log.WarnContext(ctx, "state of the circuit breakers is unreadable, starting afresh", "path", b.store.Where(breakerName), "err", err)
		return nil
	}

	circuits, _ := b.decode(ctx, data)
	return circuits
}

func (b *Breakers) decode(ctx context.Context, data []byte) (circuits map[string]*circuit, err error) {
	var f breakerFile
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &f); err != nil {
		b.log.WarnContext(ctx, "state of the circuit breakers is unreadable, starting afresh", "path", b.store.Where(breakerName), "err", err)
		return nil, err
	}
	if f.Version != 1 {
		return nil, nil
	}
	return f.Circuits, nil
}

// merge takes over what another process changed later. What claims to be from
// the future was written before the clock was set back and would win for ever.
// The caller holds the lock.
func (b *Breakers) merge(other map[string]*circuit) {
	now := wall()
	for id, theirs := range other {
		if theirs == nil || theirs.Changed.After(now) {
			continue
		}

		ours := b.circuits[id]
		if ours == nil {
			ours = &circuit{}
			b.circuits[id] = ours
		}

		if theirs.Changed.After(ours.Changed) {
			theirs.probe, theirs.calls = ours.probe, ours.calls
			theirs.Step = min(max(theirs.Step, 0), 10)
			theirs.Recent = theirs.Recent[:min(len(theirs.Recent), tripFailures)]
			if limit := theirs.Failed.Add(quiet); theirs.Until.After(limit) {
				theirs.Until = limit
			}
			*ours = *theirs
		}
	}

	b.prune(knownCircuits)
}

// save writes the document. Whoever finds another call writing leaves the work
// to it, so no lock is held while the disk is busy.
func (b *Breakers) save(ctx context.Context) {
	if b.store == nil {
		return
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	if b.saving {
		return
	}

	b.saving = true
	defer func() { b.saving = false }()
	for b.dirty {
		b.dirty = false
		b.mu.Unlock()
		err := store.Update(ctx, b.store, breakerName, func(old []byte) ([]byte, error) { return b.write(ctx, old) })
		if err != nil {
			b.log.WarnContext(ctx, "state of the circuit breakers not saved", "path", b.store.Where(breakerName), "err", err)
		}
		b.mu.Lock()
	}
}

// write returns the document with what another process changed. A damaged one is
// kept beside.
func (b *Breakers) write(ctx context.Context, old []byte) ([]byte, error) {
	other, err := b.decode(ctx, old)
	if err != nil && len(old) > 0 {
		if _, err := store.SaveDamaged(ctx, b.store, breakerName, old, wall()); err != nil {
			return nil, err
		}
	}

	b.mu.Lock()
	b.merge(other)
	f := breakerFile{Version: 1, Circuits: map[string]*circuit{}}
	now := wall()
	for id, c := range b.circuits {
		if now.Sub(later(later(c.Until, c.Failed), c.Changed)) < quiet {
			cp := *c
			f.Circuits[id] = &cp
		}
	}

	b.mu.Unlock()
	data, err := json.Marshal(f)
	return append(data, '\n'), err
}
