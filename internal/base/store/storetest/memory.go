package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
)

// Disk opens stores in folders. Tests about files name it.
func Disk(_ testing.TB, place string) store.Store { return disk.Open(place, nil) }

// Each runs a test with every driver: what is built on a store must behave the
// same on all of them.
func Each(t *testing.T, test func(t *testing.T, open Open)) {
	t.Parallel()
	t.Helper()
	t.Run("disk", func(t *testing.T) { test(t, Disk) })
	t.Run("memory", func(t *testing.T) { test(t, Memory()) })
}

// Memory returns a driver without files, for tests: its places live as long as the
// Open.
func Memory() Open {
	var mu sync.Mutex
	places := map[string]*memoryPlace{}
	return func(_ testing.TB, place string) store.Store {
		mu.Lock()
		defer mu.Unlock()
		if places[place] == nil {
			places[place] = &memoryPlace{
				things:   map[string]*thing{},
				locks:    map[string]*memory{},
				watchers: map[chan struct{}][]string{},
			}
		}

		return &memory{memoryPlace: places[place], at: place}
	}
}

// memoryPlace holds what the stores of one place share.
type memoryPlace struct {
	mu       sync.Mutex
	made     int // for the ids of things
	things   map[string]*thing
	locks    map[string]*memory
	watchers map[chan struct{}][]string // with their folders
}

// thing is a log or a document.
type thing struct {
	id      string
	data    []byte
	changed time.Time
}

func (th *thing) info(name string) store.Info {
	if th == nil {
		return store.Info{Name: name}
	}
	return store.Info{Name: name, ID: th.id, Size: int64(len(th.data)), Changed: th.changed}
}

func (th *thing) version() store.Version {
	if th == nil {
		return store.Missing
	}
	return store.Version(fmt.Sprintf("%x", sha256.Sum256(th.data)))
}

// set replaces what a name stands for, with a nil th removes it, and wakes the watchers.
func (p *memoryPlace) set(name string, th *thing) {
	if th == nil {
		delete(p.things, name)
	} else {
		p.things[name] = th
	}
	for changed, dirs := range p.watchers {
		if slices.Contains(dirs, path.Dir(name)) {
			select {
			case changed <- struct{}{}:
			default: // a change that was not looked at yet waits
			}
		}
	}
}

func (p *memoryPlace) fresh(data []byte) *thing {
	p.made++
	return &thing{id: fmt.Sprint(p.made), data: bytes.Clone(data), changed: time.Now()}
}

// memory is one store of a place.
type memory struct {
	*memoryPlace
	at string
}

func valid(name string) error {
	if name == "." || !fs.ValidPath(name) || strings.Contains(name, "\x00") {
		return fmt.Errorf("%q is not a name in a store", name)
	}
	return nil
}

func (m *memory) Log(_ context.Context, name string) (store.Log, error) {
	return &memoryLog{memory: m, name: name}, valid(name)
}

func (m *memory) Logs(_ context.Context, dir string) iter.Seq2[store.Info, error] {
	return m.list(dir, ".jsonl")
}

func (m *memory) Docs(_ context.Context, dir string) iter.Seq2[store.Info, error] {
	return m.list(dir, ".json")
}

func (m *memory) list(dir, suffix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		m.mu.Lock()
		var found []store.Info
		for _, name := range slices.Sorted(maps.Keys(m.things)) {
			if path.Dir(name) == path.Clean(dir) && strings.HasSuffix(name, suffix) {
				found = append(found, m.things[name].info(name))
			}
		}

		m.mu.Unlock()
		for _, info := range found {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (m *memory) Archive(_ context.Context, name, as string, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	from, to := m.things[name], m.things[as]
	switch {
	case from == nil:
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case int64(len(from.data)) < n:
		return fmt.Errorf("%s: %w", name, store.ErrMoved)
	case to == nil:
		m.set(as, m.fresh(from.data[:n]))
	case !bytes.Equal(to.data, from.data[:n]):
		return fmt.Errorf("%s: %w", as, store.ErrExists)
	}

	return valid(as)
}

func (m *memory) Doc(_ context.Context, name string) ([]byte, store.Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	th := m.things[name]
	if th == nil {
		return nil, store.Missing, valid(name)
	}
	return bytes.Clone(th.data), th.version(), nil
}

func (m *memory) Put(_ context.Context, name string, data []byte, old store.Version, _ bool) (store.Version, error) {
	if err := valid(name); err != nil {
		return "", err
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	if old != store.Any && old != m.things[name].version() {
		return "", fmt.Errorf("%s: %w", name, store.ErrChanged)
	}

	th := m.fresh(data)
	m.set(name, th)
	return th.version(), nil
}

func (m *memory) Stat(_ context.Context, name string) (store.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info := m.things[name].info(name)
	if m.locks[name] != nil {
		info.ID = "lock"
	}
	return info, valid(name)
}

func (m *memory) Remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(name, nil)
	return valid(name)
}

func (m *memory) Where(name string) string { return "memory:" + path.Join(m.at, name) }

func (m *memory) Lock(_ context.Context, name string) (release func() error, err error) {
	if err := valid(name); err != nil {
		return nil, err
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	if m.locks[name] != nil {
		return nil, &store.LockedError{Path: m.Where(name), PID: os.Getpid()}
	}

	m.locks[name] = m
	return sync.OnceValue(func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.locks[name] == m {
			delete(m.locks, name)
		}
		return nil
	}), nil
}

func (m *memory) Watch(ctx context.Context, dirs []string, changed func()) error {
	happened := make(chan struct{}, 1)
	full := make([]string, len(dirs))
	for i, dir := range dirs {
		full[i] = path.Clean(dir)
	}

	m.mu.Lock()
	m.watchers[happened] = full
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, happened)
	}()

	for {
		changed()
		select {
		case <-happened:
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *memory) Wake(context.Context, time.Time) error { return nil }
func (m *memory) Lost() <-chan struct{}                 { return nil }
func (m *memory) Fresh() bool                           { return true }

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.locks, func(_ string, by *memory) bool { return by == m })
	return nil
}

// memoryLog is one log, as it was when last looked at.
type memoryLog struct {
	*memory
	name string
	seen *thing
}

func (l *memoryLog) ReadAt(p []byte, off int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		return 0, io.EOF
	}
	return bytes.NewReader(l.seen.data).ReadAt(p, off)
}

func (l *memoryLog) Info(context.Context) (store.Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = l.things[l.name]
	return l.seen.info(l.name), nil
}

func (l *memoryLog) Append(_ context.Context, at int64, lines []byte, _ bool) error {
	if len(lines) == 0 {
		return errors.New("only whole lines can be appended to a log")
	}
	return l.write(at, lines, func() *thing {
		th := l.things[l.name]
		if th == nil {
			return l.fresh(lines)
		}
		th.data, th.changed = append(th.data, lines...), time.Now()
		return th
	})
}

func (l *memoryLog) Replace(_ context.Context, at int64, lines []byte) error {
	return l.write(at, lines, func() *thing { return l.fresh(lines) })
}

func (l *memoryLog) write(at int64, lines []byte, change func() *thing) error {
	if len(lines) > 0 && lines[len(lines)-1] != '\n' {
		return errors.New("a log holds whole lines only")
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if size := l.things[l.name].info("").Size; at >= 0 && at != size {
		return fmt.Errorf("%s: %w (%d bytes, expected %d)", l.name, store.ErrMoved, size, at)
	}

	l.seen = change()
	l.set(l.name, l.seen)
	return nil
}

func (l *memoryLog) Sync(context.Context) error            { return nil }
func (l *memoryLog) Repair(context.Context) (int64, error) { return 0, nil }
func (l *memoryLog) Close() error                          { return nil }
