package app

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
	"github.com/nanobot-go/nanobot/internal/tool/undo"
)

// oldResults is where versions before kept long results of tools, in the
// workspace. Some may still be there.
const oldResults = ".nanobot/tool-results"

// results is where long results of tools are kept, by conversation. It is in the
// data folder: what is read there is what a tool returned.
func (a *App) results() string {
	return datadir.ToolResults.In(a.Config.DataDir, a.Sessions.Workspace().ID)
}

// resultsOf is where those of one conversation are.
func (a *App) resultsOf(session string) string {
	return filepath.Join(a.results(), text.SafeName(session))
}

// maxOthers bounds the chats whose files are kept open.
const maxOthers = 64

// others are the files and commands of chats that are not the owner's alone:
// each has folders of its own, which nothing is made of before one of them
// calls a tool.
type others struct {
	app *App
	o   Options

	mu    sync.Mutex
	rooms map[string]*view
}

// of returns the view of a call. done gives it back.
func (x *others) of(ctx context.Context, c tool.Call) (v *view, done func(), err error) {
	return x.room(ctx, bus.Room(c.Route, c.Scope), c.SessionKey)
}

func (x *others) room(ctx context.Context, room, session string) (v *view, done func(), err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if v = x.rooms[room]; v == nil {
		x.makeRoom()
		if v, err = x.app.openGuest(x.o, room); err != nil {
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

func (x *others) now() time.Time {
	if x.o.Now != nil {
		return x.o.Now()
	}
	return time.Now()
}

// makeRoom closes the chat that was quiet for the longest time if there are too
// many. The caller holds the lock.
func (x *others) makeRoom() {
	if len(x.rooms) < maxOthers {
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
		x.app.log.Warn("close the workspace of a chat", "err", err)
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
	return errors.Join(err, v.undo.Close(), v.jail.Close())
}

// files returns the tools that work on files; nil for the owner in the workspace.
func (x *others) files(ctx context.Context, c tool.Call) (map[string]tool.Tool, func(), error) {
	switch {
	case c.Scope != "":
		v, done, err := x.of(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		return v.files, done, nil
	case c.Project.Dir == "":
		return nil, nil, nil
	}
	v, err := x.app.projects.of(c)
	if err != nil {
		return nil, nil, err
	}
	return v.files, func() {}, nil
}

// commands returns the tools that run commands; nil for the owner, whose
// commands know of folders themselves.
func (x *others) commands(ctx context.Context, c tool.Call) (map[string]tool.Tool, func(), error) {
	if c.Scope == "" {
		return nil, nil, nil
	}
	if x.app.safety.Sandbox == sandbox.None {
		return nil, nil, errors.New("commands are not run for guests without a sandbox; an owner can set tools.exec.sandbox to auto")
	}
	v, done, err := x.of(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if v.shell == nil {
		sh, err := x.app.guestShell(x.o, v.guestHome) //nolint:contextcheck // it serves later calls, too
		if err != nil {
			v.using--
			return nil, nil, err
		}
		v.shell, v.commands = sh, byName(sh.Tools())
	}
	return v.commands, done, nil
}

func byName(list []tool.Tool) map[string]tool.Tool {
	out := make(map[string]tool.Tool, len(list))
	for _, t := range list {
		out[t.Name] = t
	}
	return out
}

// apart makes tools that do what find returns for a call, or what they always
// did if that is nothing. find's last result is called after the call.
func apart(list []tool.Tool, find func(ctx context.Context, c tool.Call) (map[string]tool.Tool, func(), error)) []tool.Tool {
	out := slices.Clone(list)
	for i := range out {
		own, name := out[i].Run, out[i].Name
		out[i].Run = func(ctx context.Context, c tool.Call) (tool.Result, error) {
			theirs, done, err := find(ctx, c)
			if err != nil {
				return tool.Fail(tool.Unsupported, "%v", err), nil
			}
			if theirs == nil {
				return own(ctx, c)
			}
			defer done()
			t, ok := theirs[name]
			if !ok {
				return tool.Fail(tool.Unsupported, "%s cannot be used in this chat", name), nil
			}
			return t.Run(ctx, c)
		}
	}
	return out
}

// media opens a file that a turn wants to send.
func (x *others) media(ctx context.Context, c tool.Call, path string) (bus.Media, error) {
	jail := x.app.safety.jail
	switch {
	case c.Scope != "":
		v, done, err := x.of(ctx, c)
		if err != nil {
			return bus.Media{}, err
		}
		defer done()
		jail = v.jail
	case c.Project.Dir != "":
		v, err := x.app.projects.of(c)
		if err != nil {
			return bus.Media{}, err
		}
		jail = v.jail
	}
	if x.app.gateway {
		return x.app.keepMedia(ctx, jail, path)
	}
	return openMedia(jail, path)
}

// policy is what decides about a call: that of the owner, or one that knows the
// files of the guest.
func (x *others) policy(ctx context.Context, c tool.Call) (p *approve.Policy, done func(), err error) {
	if c.Scope == "" {
		return x.app.safety.policy, func() {}, nil
	}
	v, done, err := x.of(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return v.policy, done, nil
}

// kept is the record of changes that a call belongs to.
func (x *others) kept(ctx context.Context, c tool.Call) (s *undo.Store, done func(), err error) {
	if c.Scope == "" {
		return x.app.safety.undo, func() {}, nil
	}
	v, done, err := x.of(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return v.undo, done, nil
}

// all are the views that are open now.
func (x *others) all() []*view {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.rooms))
}

func (x *others) shells() []*shell.Shell {
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

func (x *others) stop(session string) {
	for _, sh := range x.shells() {
		sh.Stop(session)
	}
}

func (x *others) busy(session string) bool {
	return slices.ContainsFunc(x.shells(), func(sh *shell.Shell) bool { return sh.Busy(session) })
}

func (x *others) forget(session string) {
	for _, v := range x.all() {
		v.policy.Forget(session)
	}
}

func (x *others) close() error {
	var err error
	for _, v := range x.all() {
		err = errors.Join(err, v.close())
	}
	return err
}

// undoer takes back changes of the owner's turns, and of guests' in their own
// workspaces.
type undoer struct{ x *others }

func (u undoer) chat(ctx context.Context, r bus.Route, scope, session string) (undo.Chat, func(), error) {
	s, done, err := u.x.kept(ctx, tool.Call{Route: r, Scope: scope, SessionKey: session})
	return undo.Chat{Store: s}, done, err
}

// Undo implements agent.Undoer.
func (u undoer) Undo(ctx context.Context, in bus.Inbound, session, turn string, force bool) (reply string, paths []string, err error) {
	chat, done, err := u.chat(ctx, in.Route, in.Scope, session)
	if err != nil {
		return "", nil, err
	}
	defer done()
	return chat.Undo(ctx, session, turn, force)
}

// Diff implements agent.Undoer.
func (u undoer) Diff(ctx context.Context, in bus.Inbound, session, turn string) (string, error) {
	chat, done, err := u.chat(ctx, in.Route, in.Scope, session)
	if err != nil {
		return "", err
	}
	defer done()
	return chat.Diff(ctx, session, turn)
}
