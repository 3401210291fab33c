package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// event is one call the platform saw.
type event struct {
	What string // send, edit, final edit, erase, and the phases
	Chat string
	ID   string
	Text string
	At   time.Duration // since the rig was made
}

func (e event) String() string { return fmt.Sprintf("%s %s %q", e.What, e.Chat, e.Text) }

// platform is a channel that remembers what it was told.
type platform struct {
	caps  chat.Caps
	deps  chat.Deps
	start time.Time
	run   func(ctx context.Context) error // nil: ready at once, then waits
	fail  func(what string, out bus.Outbound) error
	hang  chan struct{}
	marks time.Duration // what the mark of a message takes
	dead  atomic.Bool   // it hears nothing

	mu     sync.Mutex
	submit chat.Submit
	events []event
	next   int
	known  map[string]string // ids by key, of a platform with Caps.Keys
}

var errDead = errors.New("nobody is there")

func (p *platform) Name() string    { return p.deps.Name }
func (p *platform) Caps() chat.Caps { return p.caps }

func (p *platform) Run(ctx context.Context, submit chat.Submit) error {
	p.mu.Lock()
	p.submit = submit
	p.mu.Unlock()
	if p.run != nil {
		return p.run(ctx)
	}
	p.deps.Ready("bot", nil)
	<-ctx.Done()
	return nil
}

func (p *platform) note(what string, to bus.Route, id, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event{what, to.ChatID, id, text, time.Since(p.start)})
}

func (p *platform) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if p.dead.Load() {
		return "", errDead
	}
	if p.hang != nil {
		select {
		case <-p.hang:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if p.fail != nil {
		if err := p.fail("send", out); err != nil {
			p.note("refused", out.Route, "", out.Text)
			return "", err
		}
	}
	p.mu.Lock()
	if id, ok := p.known[out.Key]; ok && p.caps.Keys && out.Key != "" {
		p.mu.Unlock()
		return id, nil
	}
	p.next++
	id := "m" + strconv.Itoa(p.next)
	if p.known == nil {
		p.known = map[string]string{}
	}
	p.known[out.Key] = id
	p.mu.Unlock()
	var text strings.Builder
	text.WriteString(out.Text)
	for _, m := range out.Media {
		text.WriteString("<" + m.Name + ">")
	}
	p.note("send", out.Route, id, text.String())
	return id, nil
}

func (p *platform) Edit(_ context.Context, out bus.Outbound, id string, final bool) error {
	to, text := out.Route, out.Text
	if p.dead.Load() {
		return errDead
	}
	what := "edit"
	if final {
		what = "final edit"
	}
	if p.fail != nil {
		if err := p.fail(what, out); err != nil {
			p.note("refused", to, id, text)
			return err
		}
	}
	p.note(what, to, id, text)
	return nil
}

func (p *platform) Erase(_ context.Context, to bus.Route, id string) error {
	if p.fail != nil {
		if err := p.fail("erase", bus.Outbound{Route: to}); err != nil {
			return err
		}
	}
	p.note("erase", to, id, "")
	return nil
}

func (p *platform) Signal(ctx context.Context, to bus.Route, phase chat.Phase) error {
	if phase == chat.Seen && wait.For(ctx, p.marks) != nil {
		p.note("given up", to, to.MessageID, "")
		return ctx.Err()
	}
	p.note(string(phase), to, to.MessageID, "")
	return nil
}

// saw lists what happened of these kinds.
func (p *platform) saw(kinds ...string) (out []event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		for _, k := range kinds {
			if e.What == k {
				out = append(out, e)
			}
		}
	}
	return out
}

func (p *platform) texts(kinds ...string) (out []string) {
	for _, e := range p.saw(kinds...) {
		out = append(out, e.Text)
	}
	return out
}

// rig is a manager with platforms named a, b ... in a bubble.
type rig struct {
	t    *testing.T
	dir  string
	q    *journal.Journal
	m    *deliver.Manager
	all  map[string]*platform
	stop func()
	opts deliver.Options
	wrap func(*journal.Journal) bus.Queue // nil: the queue as it is
}

const plainSection = `{"enabled":true,"allowFrom":["7"],"streaming":true}`

func newRig(t *testing.T, platforms map[string]*platform, change ...func(*deliver.Options)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), all: platforms}
	r.opts = deliver.Options{
		Drivers: map[string]chat.Driver{}, Sections: map[string]json.RawMessage{}, Store: disk.Open(r.dir, nil), DataDir: r.dir, MaxRetries: 3,
		Defaults: chat.Filters{SendProgress: true},
	}
	for name, p := range platforms {
		p.start = time.Now()
		r.opts.Drivers[name] = chat.Driver{New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) { p.deps = d; return p, nil }}
		r.opts.Sections[name] = json.RawMessage(plainSection)
	}
	for _, f := range change {
		f(&r.opts)
	}
	r.begin()
	t.Cleanup(func() { r.end() })
	return r
}

func (r *rig) begin() {
	r.t.Helper()
	q, err := journal.Open(disk.Open(r.dir+"/bus", nil), journal.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.q, r.opts.Queue = q, q
	if r.wrap != nil {
		r.opts.Queue = r.wrap(q)
	}
	if r.m, err = deliver.NewManager(r.opts); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.m.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		if err := q.Close(); err != nil {
			r.t.Error(err)
		}
	}
	synctest.Wait()
}

func (r *rig) end() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
}

// kill ends the process without a warning: the next one finds what was in the
// files at this moment.
func (r *rig) kill() {
	r.t.Helper()
	synctest.Wait()
	after := r.t.TempDir()
	if err := os.CopyFS(after, os.DirFS(r.dir)); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range r.all {
		p.dead.Store(true) // what the dying one still does, it does in vain
	}
	r.end()
	for _, p := range r.all {
		p.dead.Store(false)
	}
	r.dir, r.opts.DataDir = after, after
	r.begin()
}

func (r *rig) publish(outs ...bus.Outbound) {
	r.t.Helper()
	for _, o := range outs {
		if err := r.q.Publish(r.t.Context(), o); err != nil {
			r.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// undelivered counts what a new reader of channel a would get.
func (r *rig) undelivered() (n int) {
	r.t.Helper()
	q, err := journal.Open(disk.Open(r.dir+"/bus", nil), journal.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	ctx, cancel := context.WithCancel(r.t.Context())
	go func() { synctest.Wait(); cancel() }()
	for range q.Outgoing(ctx, "a") {
		n++
	}
	return n
}

func route(ch, chatID string) bus.Route { return bus.Route{Channel: ch, ChatID: chatID} }

func final(id, chatID, text string) bus.Outbound {
	return bus.Outbound{ID: id, Kind: bus.Final, Route: route("a", chatID), Text: text}
}

func delta(chatID, stream, text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Delta, Route: route("a", chatID), StreamID: stream, Text: text}
}
