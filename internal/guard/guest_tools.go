package guard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// maxOpen bounds the chats, and the folders of chats, whose files are kept open.
const maxOpen = 64

// guestTools are the files and commands of chats that are not the owner's alone:
// each has folders of its own, which are made when one of them first calls a
// tool.
type guestTools struct {
	g *Guard

	mu    sync.Mutex
	rooms map[string]*view
}

// of returns the view of a call. done gives it back.
func (x *guestTools) of(ctx context.Context, c tool.Call) (v *view, done func(), err error) {
	return x.room(ctx, bus.Room(c.Route, c.Scope), c.SessionKey)
}

func (x *guestTools) room(ctx context.Context, room, session string) (v *view, done func(), err error) {
	x.mu.Lock()
	defer x.mu.Unlock()

	if v = x.rooms[room]; v == nil {
		x.makeRoom()
		if v, err = x.open(room); err != nil {
			return nil, nil, err
		}

		if x.rooms == nil {
			x.rooms = map[string]*view{}
		}

		x.rooms[room] = v
		v.sweepMedia(ctx, x.now())
	}

	v.using++
	v.used = x.now()
	v.sessions[session] = true
	return v, sync.OnceFunc(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		v.using--
	}), nil
}

func (x *guestTools) now() time.Time {
	if x.g.o.Now != nil {
		return x.g.o.Now()
	}
	return time.Now()
}

// makeRoom closes the chat that was quiet for the longest time if there are too
// many. The caller holds the lock.
func (x *guestTools) makeRoom() {
	if len(x.rooms) < maxOpen {
		return
	}

	oldest := ""
	for name, v := range x.rooms {
		if v.using == 0 && !v.running() && (oldest == "" || v.used.Before(x.rooms[oldest].used)) {
			oldest = name
		}
	}

	if oldest == "" {
		return
	}

	if err := x.rooms[oldest].close(); err != nil {
		x.g.log.Warn("close the workspace of a chat", "err", err)
	}
	delete(x.rooms, oldest)
}

// running reports whether a command of the chat goes on.
func (v *view) running() bool {
	if v.shell == nil {
		return false
	}
	for session := range v.sessions {
		if v.shell.Busy(session) {
			return true
		}
	}
	return false
}

func (v *view) close() error {
	var err error
	if v.shell != nil {
		err = v.shell.Close()
	}
	return errors.Join(err, v.changes.Close(), v.jail.Close())
}

// commands returns the tools that run commands; nil for the owner, whose
// commands know of folders themselves.
func (x *guestTools) commands(ctx context.Context, c tool.Call) (map[string]tool.Tool, func(), error) {
	if c.Scope == "" {
		return nil, nil, nil
	}
	if x.g.o.Policy.Sandbox == sandbox.None {
		return nil, nil, errors.New("commands are not run for guests without a sandbox; an owner can set tools.exec.sandbox to auto")
	}

	v, done, err := x.of(ctx, c)
	if err != nil {
		return nil, nil, err
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	if v.shell == nil {
		sh, err := x.newShell(v.guestHome) //nolint:contextcheck // it serves later calls, too
		if err != nil {
			v.using--
			return nil, nil, err
		}
		v.shell, v.commands = sh, byName(sh.Tools())
	}

	return v.commands, done, nil
}

// policy returns what decides about a call: that of the owner, or one that
// knows the files of the guest.
func (x *guestTools) policy(ctx context.Context, c tool.Call) (p *approve.Policy, done func(), err error) {
	if c.Scope == "" {
		return x.g.policy, func() {}, nil
	}
	v, done, err := x.of(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return v.policy, done, nil
}

// kept is the record of changes that a call belongs to.
func (x *guestTools) kept(ctx context.Context, c tool.Call) (r *change.Record, done func(), err error) {
	if c.Scope == "" {
		return x.g.changes, func() {}, nil
	}
	v, done, err := x.of(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return v.changes, done, nil
}

// all are the views that are open now.
func (x *guestTools) all() []*view {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.rooms))
}

func (x *guestTools) shells() []*shell.Shell {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []*shell.Shell
	for _, v := range x.rooms {
		if v.shell != nil {
			out = append(out, v.shell)
		}
	}
	return out
}

func (x *guestTools) busy(session string) bool {
	return slices.ContainsFunc(x.shells(), func(sh *shell.Shell) bool { return sh.Busy(session) })
}

func (x *guestTools) forget(session string) {
	for _, v := range x.all() {
		v.policy.Forget(session)
	}
}

func (x *guestTools) close() error {
	var err error
	for _, v := range x.all() {
		err = errors.Join(err, v.close())
	}
	return err
}
