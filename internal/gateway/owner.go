package gateway

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/api"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// ownerChat knows where the owner can be reached: the chat a message of theirs
// came from last. It is the way for what nobody asked about: a failed job, a
// configuration that cannot be used.
type ownerChat struct {
	path string

	disk    sync.Mutex // held while writing
	mu      sync.Mutex
	route   bus.Route
	read    bool
	writing *time.Timer // set while a change is not on the disk
}

// noteDelay is how long a change may wait for the disk: with many chats at
// once nearly every message is one.
const noteDelay = time.Second

// note remembers where a message of the owner came from.
func (o *ownerChat) note(in bus.Inbound) {
	if in.Scope != "" || in.Untrusted || in.Event != "" || !in.Interactive {
		return
	}
	r := in.Route
	r.MessageID = ""
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.load(); o.route == r {
		return
	}
	o.route = r
	if o.writing == nil {
		o.writing = time.AfterFunc(noteDelay, o.flush)
	}
}

// flush writes what was noted since the last time.
func (o *ownerChat) flush() {
	o.disk.Lock()
	defer o.disk.Unlock()
	o.mu.Lock()
	r, timer := o.route, o.writing
	o.writing = nil
	o.mu.Unlock()
	if timer == nil {
		return
	}
	timer.Stop()
	if data, err := json.Marshal(r); err == nil && diskio.MkdirAll(filepath.Dir(o.path), 0o700) == nil {
		_ = diskio.WriteFile(o.path, append(data, '\n'), 0o600) // the next change tries again
	}
}

// load reads the chat of an earlier run. The caller holds the lock.
func (o *ownerChat) load() {
	if o.read {
		return
	}
	o.read = true
	if data, err := os.ReadFile(o.path); err == nil {
		_ = json.Unmarshal(data, &o.route) // damaged: not known
	}
}

// last is where the owner was seen last.
func (o *ownerChat) last() (bus.Route, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.load()
	return o.route, o.route.Channel != ""
}

// queue is what a gateway needs of the bus.
type queue interface {
	bus.Queue
	bus.Knower
	// Redeliver hands out again what was received and not completed.
	Redeliver()
	Status() journal.Status
	Close() error
}

// frontDoor is the queue as channels and agent see it: what passes is noted.
type frontDoor struct {
	queue
	owner   *ownerChat
	figures *api.Figures
	guests  func(ctx context.Context, in *bus.Inbound)
	clean   func(ctx context.Context, in bus.Inbound) bus.Inbound
}

func (g *Gateway) door() frontDoor {
	return frontDoor{g.queue, g.owner, g.o.Figures, g.guestMedia, g.withoutKeys}
}

func (g *Gateway) guestMedia(ctx context.Context, in *bus.Inbound) {
	guard.GuestMedia(ctx, g.config().DataDir, in, g.o.Now(), g.log)
}

// withoutKeys is a message as it may be kept; the sender of a key is told.
func (g *Gateway) withoutKeys(ctx context.Context, in bus.Inbound) bus.Inbound {
	clean, note := g.vault.Clean(in)
	if note != "" {
		out := bus.Outbound{Kind: bus.Message, Route: in.Route, Text: note, Plain: true}
		if err := g.publish(ctx, out); err != nil {
			g.log.WarnContext(ctx, "tell about a key that was typed", "err", err)
		}
	}
	return clean
}

// Submit implements bus.Inbox.
func (f frontDoor) Submit(ctx context.Context, in bus.Inbound) error {
	in = f.clean(ctx, in)
	f.guests(ctx, &in)
	err := f.queue.Submit(ctx, in)
	if err == nil {
		f.owner.note(in)
	}
	return err
}

// Complete implements bus.Inbox.
func (f frontDoor) Complete(ctx context.Context, id string, outs ...bus.Outbound) error {
	for i := range outs {
		f.figures.Turn(outs[i].Route.Channel, outs[i].Turn)
	}
	return f.queue.Complete(ctx, id, outs...)
}

// tellOwner says something to the owner, wherever they were last. The log has
// it already, so it does not matter if nobody can be reached.
func (g *Gateway) tellOwner(ctx context.Context, text string) {
	r, ok := g.owner.last()
	if !ok {
		return
	}
	out := bus.Outbound{Kind: bus.Message, Route: r, Text: g.secrets.Redact(text), Plain: true}
	if err := g.publish(ctx, out); err != nil {
		g.log.WarnContext(ctx, "tell the owner", "err", err)
	}
}

// restartNote is where a restart remembers who asked for it.
func (g *Gateway) restartNote() string {
	return datadir.Restart.In(g.config().DataDir)
}

type restarted struct {
	Route bus.Route `json:"route"`
	At    time.Time `json:"at"`
}

func (g *Gateway) rememberRestart(ctx context.Context, route bus.Route) {
	if route.Channel == "" {
		return
	}
	data, err := json.Marshal(restarted{route, g.o.Now()})
	if err == nil {
		err = diskio.WriteFile(g.restartNote(), append(data, '\n'), 0o600)
	}
	if err != nil {
		g.log.WarnContext(ctx, "remember who asked for the restart", "err", err)
	}
}

// announce tells who asked for a restart that it is over.
func (g *Gateway) announce(ctx context.Context) {
	path := g.restartNote()
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	_ = os.Remove(path) // else it is told again
	var r restarted
	if json.Unmarshal(data, &r) != nil || r.Route.Channel == "" {
		return
	}
	took := g.o.Now().Sub(r.At).Round(100 * time.Millisecond)
	err = g.publish(ctx, bus.Outbound{Kind: bus.Message, Route: r.Route, ReplyTo: r.Route.MessageID, Text: "Restarted in " + took.String() + ".", Plain: true})
	if err != nil {
		g.log.WarnContext(ctx, "announce the restart", "err", err)
	}
}
