package chattest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// Rig is what stands around a channel that is tested alone: a queue that takes
// each message once, and notes about all that the channel said.
type Rig struct {
	Log *Log
	// Ahead is how wrong the clock of the channel and of its gate is. It is set
	// before they are made.
	Ahead time.Duration

	t       *testing.T
	mu      sync.Mutex
	refuse  error // of Submit
	got     []bus.Inbound
	ready   []string
	said    []bus.Outbound // by the gate
	refined chat.Caps
	changed chan struct{}
}

// Log collects what is logged, for any number of goroutines.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// NewRig makes a rig.
func NewRig(t *testing.T) *Rig {
	t.Helper()
	return &Rig{t: t, Log: &Log{}, changed: make(chan struct{})}
}

// Deps returns what a channel of this name gets, without a client and a gate.
func (r *Rig) Deps(name string) chat.Deps {
	dir := r.t.TempDir()
	return chat.Deps{
		Name:  name,
		Media: &media.Store{Dir: filepath.Join(dir, "media"), Max: 20 << 20},
		State: chat.OpenState(disk.Open(dir, nil), name+".json", nil),
		Ready: func(identity string, err error) {
			if err != nil {
				identity += ": " + err.Error()
			}
			r.note(func() { r.ready = append(r.ready, identity) })
		},
		Quoted: func(bus.Route, string) (chat.Quoted, bool) { return chat.Quoted{}, false },
		Refine: func(change func(*chat.Caps)) { r.note(func() { change(&r.refined) }) },
		Dir:    func() (string, error) { return dir, nil },
		Claim:  func(string) error { return nil },
		Forget: func(context.Context, string, string) error { return nil },
		Log:    slog.New(slog.NewTextHandler(r.Log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:    r.now,
	}
}

func (r *Rig) now() time.Time { return time.Now().Add(r.Ahead) }

// Gate returns one for a channel with this configuration. pairing may be nil.
func (r *Rig) Gate(name string, section json.RawMessage, book *access.Book) *access.Gate {
	r.t.Helper()
	var lists access.Lists
	if err := json.Unmarshal(section, &lists); err != nil {
		r.t.Fatal(err)
	}
	return access.NewGate(access.GateOptions{
		Name: name, Lists: lists, Now: r.now, Book: book,
		Send: func(_ context.Context, out bus.Outbound) error {
			r.note(func() { r.said = append(r.said, out) })
			return nil
		},
	})
}

func (r *Rig) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Submit takes messages as the durable queue does: once per id.
func (r *Rig) Submit(_ context.Context, in bus.Inbound) error {
	r.mu.Lock()
	err := r.refuse
	seen := slices.ContainsFunc(r.got, func(g bus.Inbound) bool { return g.ID == in.ID })
	r.mu.Unlock()
	if err != nil || seen {
		return err
	}
	r.note(func() { r.got = append(r.got, in) })
	return nil
}

// Refuse lets Submit fail with err, until it is nil.
func (r *Rig) Refuse(err error) { r.note(func() { r.refuse = err }) }

// Forget takes all messages away that were submitted.
func (r *Rig) Forget() { r.note(func() { r.got = nil }) }

// Inbound returns the messages that were submitted.
func (r *Rig) Inbound() []bus.Inbound {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// States returns what the channel said to Deps.Ready: who it is, and behind a colon
// why it is not connected.
func (r *Rig) States() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ready)
}

// Refined returns what the channel made of the limits by Deps.Refine.
func (r *Rig) Refined() chat.Caps {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refined
}

// Said returns what the gate said to people.
func (r *Rig) Said() []bus.Outbound {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

// Start runs a channel until the test ends or stop is called.
func (r *Rig) Start(run func(context.Context, chat.Submit) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	result := make(chan error, 1)
	go func() { result <- run(ctx, r.Submit) }()
	stop = sync.OnceValue(func() error { cancel(); return <-result })
	r.t.Cleanup(func() { _ = stop() })
	return stop
}

// Await waits until cond holds. It is asked again when something was noted
// and every few milliseconds, because fakes may change
// without a word.
func (r *Rig) Await(what string, cond func() bool) {
	r.t.Helper()
	limit := time.After(timeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()

	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if cond() {
			return
		}

		select {
		case <-changed:
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("waited in vain for %s; log:\n%s", what, r.Log)
		}
	}
}
