package llm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// maxBreakerFile bounds what is read: the file of knownCircuits endpoints is a
// tenth of it.
const maxBreakerFile = 1 << 20

// breakerFile is the state on disk. Processes that run side by side write it in
// turn, each keeping what others changed later than itself; a change lost in a
// race costs one more failed call.
type breakerFile struct {
	Version  int                 `json:"version"` // 1
	Circuits map[string]*circuit `json:"circuits"`
}

// read gives the circuits in the file; trouble with it is logged and means none.
func (b *Breakers) read(ctx context.Context) map[string]*circuit {
	if b.path == "" {
		return nil
	}
	data, err := readBounded(b.path, maxBreakerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f breakerFile
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		b.log.WarnContext(ctx, "state of the circuit breakers is unreadable, starting afresh", "path", b.path, "err", err)
		return nil
	}
	if f.Version != 1 {
		return nil
	}
	return f.Circuits
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, limit))
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

// save writes the file. Whoever finds another call writing leaves the work to
// it, so no lock is held while the disk is busy.
func (b *Breakers) save(ctx context.Context) {
	if b.path == "" {
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
		err := b.write(b.read(ctx))
		if err != nil {
			b.log.WarnContext(ctx, "state of the circuit breakers not saved", "path", b.path, "err", err)
		}
		b.mu.Lock()
	}
}

func (b *Breakers) write(other map[string]*circuit) error {
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
	if err != nil {
		return err
	}
	if err := diskio.MkdirAll(filepath.Dir(b.path), 0o700); err != nil {
		return err
	}
	return diskio.WriteFile(b.path, append(data, '\n'), 0o600)
}
