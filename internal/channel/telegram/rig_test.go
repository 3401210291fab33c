package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/telegramtest"
)

// rig is a channel on a fake server.
type rig struct {
	t    *testing.T
	fake *telegramtest.Server
	*bot
	deps channel.Deps
	log  *lockedLog

	mu      sync.Mutex
	refuse  error // of submit
	got     []bus.Inbound
	ready   []string
	said    []bus.Outbound // by the gate
	changed chan struct{}
}

type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// section is the configuration most tests use, with changes.
func section(changes map[string]any) json.RawMessage {
	s := map[string]any{"enabled": true, "token": telegramtest.Token, "allowFrom": []string{"*"}}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

// newRig makes a channel on a fake server that is reached by loopback, or
// directly if it has no listener.
func newRig(t *testing.T, fake *telegramtest.Server, changes map[string]any) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{t: t, fake: fake, changed: make(chan struct{}), log: &lockedLog{}}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.deps = channel.Deps{
		Name:   "telegram",
		Media:  &channel.MediaStore{Dir: filepath.Join(dir, "media"), Max: 20 << 20},
		State:  channel.OpenState(filepath.Join(dir, "telegram.json")),
		Client: func(string) (*http.Client, error) { return &http.Client{Transport: fake.Transport()}, nil },
		Ready: func(identity string, err error) {
			if err != nil {
				identity += ": " + err.Error()
			}
			r.note(func() { r.ready = append(r.ready, identity) })
		},
		Commands: []channel.Command{{Name: "new", About: "start afresh"}, {Name: "dream-log", About: "what changed"}, {Name: "help", About: "list"}},
		Log:      log,
		Now:      time.Now,
	}
	r.reopen(changes)
	return r
}

// reopen makes the channel anew over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	all := map[string]any{"apiBase": r.fake.URL()}
	maps.Copy(all, changes)
	raw := section(all)
	var common channel.Common
	if err := json.Unmarshal(raw, &common); err != nil {
		r.t.Fatal(err)
	}
	r.deps.Gate = channel.NewGate(channel.GateOptions{
		Name: "telegram", Common: common, Now: time.Now,
		Say: func(_ context.Context, out bus.Outbound) error {
			r.note(func() { r.said = append(r.said, out) })
			return nil
		},
	})
	ch, err := New(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	b, ok := ch.(*bot)
	if !ok {
		r.t.Fatalf("New made a %T", ch)
	}
	r.bot = b
}

func (r *rig) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

// submit takes messages as the durable queue does: once per id.
func (r *rig) submit(_ context.Context, in bus.Inbound) error {
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

func (r *rig) setRefuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = err
}

func (r *rig) inbound() []bus.Inbound {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *rig) states() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ready)
}

// start runs the channel until the test ends or stop is called.
func (r *rig) start() (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx, r.submit) }()
	stop = sync.OnceValue(func() error { cancel(); return <-result })
	r.t.Cleanup(func() { _ = stop() })
	return stop
}

// begin starts the channel; end stops it, which must be no error.
func (r *rig) begin() (end func()) {
	stop := r.start()
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

// waitFor waits until cond holds; something must change for it to be asked again.
func (r *rig) waitFor(what string, cond func() bool) {
	r.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		fake := r.fake.Changed()
		r.mu.Lock()
		own := r.changed
		r.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-fake:
		case <-own:
		case <-limit:
			r.t.Fatalf("waited in vain for %s; log:\n%s", what, r.log)
		}
	}
}

func (r *rig) texts() []string {
	var out []string
	for _, in := range r.inbound() {
		out = append(out, in.Text)
	}
	return out
}

func (r *rig) receive(n int) []bus.Inbound {
	r.t.Helper()
	r.waitFor("messages", func() bool { return len(r.inbound()) >= n })
	return r.inbound()
}

var errDisk = errors.New("disk full")

func loopback(t *testing.T) *telegramtest.Server {
	t.Helper()
	fake := telegramtest.New()
	t.Cleanup(fake.Close)
	return fake
}
