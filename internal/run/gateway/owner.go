package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// ownerChat knows where the owner can be reached: the chat a message of theirs
// came from last. It is the way for what the owner did not ask about: a failed job, a
// configuration that cannot be used.
type ownerChat struct {
	state store.Store

	disk    sync.Mutex // held while writing
	mu      sync.Mutex
	route   bus.Route
	read    bool
	written bus.Route // on the disk
	work    sync.WaitGroup
}

// record stores where a message of the owner came from. If the process is killed,
// jobs of the next one still find the owner: the first chat is on the disk when note
// returns, another one a moment later.
func (o *ownerChat) record(in bus.Inbound) {
	if in.Scope != "" || in.Untrusted || in.Event != "" || !in.Interactive {
		return
	}

	r := in.Route
	r.MessageID = ""
	o.mu.Lock()
	o.load()
	changed, first := o.route != r, o.route.Channel == ""
	o.route = r
	o.mu.Unlock()

	switch {
	case !changed:
	case first:
		o.write()
	default:
		o.work.Go(o.write)
	}
}

// write puts the chat on the disk, unless it is there. With many chats at once nearly
// every message is a change; those that come while one is written share the next write.
func (o *ownerChat) write() {
	o.disk.Lock()
	defer o.disk.Unlock()

	o.mu.Lock()
	r, done := o.route, o.route == o.written
	o.mu.Unlock()
	if done {
		return
	}

	data, err := json.Marshal(r)
	if err == nil {
		_, err = o.state.Put(context.Background(), string(datadir.OwnerChat), append(data, '\n'), store.Any, true)
	}

	if err != nil {
		return // the next change tries again
	}

	o.mu.Lock()
	o.written = r
	o.mu.Unlock()
}

// flush waits until what was noted is written.
func (o *ownerChat) flush() { o.work.Wait() }

// load reads the chat of an earlier run. The caller holds the lock.
func (o *ownerChat) load() {
	if o.read {
		return
	}
	o.read = true
	if data, _, err := o.state.Doc(context.Background(), string(datadir.OwnerChat)); err == nil {
		_ = json.Unmarshal(data, &o.route) // damaged: not known
		o.written = o.route
	}
}

// last is where the owner was seen last.
func (o *ownerChat) last() (bus.Route, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.load()
	return o.route, o.route.Channel != ""
}

// restarted is where a restart remembers who asked for it.
type restarted struct {
	Route bus.Route `json:"route"`
	At    time.Time `json:"at"`
}

func (m *mail) rememberRestart(ctx context.Context, route bus.Route) {
	if route.Channel == "" {
		return
	}

	data, err := json.Marshal(restarted{route, m.now()})
	if err == nil {
		_, err = m.state.Put(ctx, string(datadir.Restart), append(data, '\n'), store.Any, true)
	}
	if err != nil {
		m.log.WarnContext(ctx, "cannot save who asked for the restart", "err", err)
	}
}

// announce tells who asked for a restart that it is over.
func (m *mail) announce(ctx context.Context) {
	data, version, err := m.state.Doc(ctx, string(datadir.Restart))
	if err != nil || version == store.Missing {
		return
	}

	_ = m.state.Remove(ctx, string(datadir.Restart)) // else it is told again
	var r restarted
	if json.Unmarshal(data, &r) != nil || r.Route.Channel == "" {
		return
	}

	took := m.now().Sub(r.At).Round(100 * time.Millisecond)
	err = m.post(ctx, bus.Outbound{Kind: bus.Message, Route: r.Route, ReplyTo: r.Route.MessageID, Text: phrase.In(m.directory.Language(r.Route.Channel), "Restarted in %s.", took), Plain: true})
	if err != nil {
		m.log.WarnContext(ctx, "cannot announce the restart", "err", err)
	}
}
