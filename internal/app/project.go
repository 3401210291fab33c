package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// SetScope chooses the folder that a chat works in from its next turn on, and
// whether it is kept inside, and returns what is in force then. The path is
// absolute or relative to the workspace; an empty path or mode keeps what is.
// Remote peers can only narrow. It does not wait for a turn that runs, and an
// error is a sentence for the person. Calls for one chat must not overlap.
func (a *App) SetScope(ctx context.Context, chat bus.Route, want agent.WorkspaceScope, remote bool) (agent.WorkspaceScope, error) {
	key := a.Agent.KeyOf(chat)
	was, err := a.scopeOf(ctx, key)
	if err != nil {
		return was, err
	}
	now, err := a.chooseScope(was, want, remote)
	if err != nil {
		return was, err
	}
	if now == was {
		return now, nil // clients say it with every message
	}
	var value any // nothing is kept for what every chat begins with
	if now != a.houseScope() {
		value = now
	}
	err = a.Sessions.Annotate(ctx, key, func(s *session.Session) error {
		if err := s.SetMeta(agent.WorkspaceScopeKey, value); err != nil {
			return err
		}
		return errors.Join(s.SaveMeta(), s.Sync(ctx))
	})
	if err != nil {
		return was, fmt.Errorf("the folder cannot be kept: %w", err)
	}
	return now, nil
}

// houseScope is where a chat works that nothing was chosen for.
func (a *App) houseScope() agent.WorkspaceScope {
	dir, err := a.safety.jail.Folder(".")
	if err != nil {
		dir = a.Workspace
	}
	return agent.WorkspaceScope{Path: dir, Mode: agent.AccessFull}
}

func (a *App) scopeOf(ctx context.Context, key string) (agent.WorkspaceScope, error) {
	house := a.houseScope()
	values, err := a.Sessions.Metadata(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return house, nil
	}
	if err != nil {
		return house, err
	}
	if s := agent.ScopeOf(values); s != nil {
		return *s, nil
	}
	return house, nil
}

// chooseScope is what somebody wants, if they may have it.
func (a *App) chooseScope(was, want agent.WorkspaceScope, remote bool) (agent.WorkspaceScope, error) {
	switch want.Mode {
	case "":
		want.Mode = was.Mode
	case agent.AccessFull, agent.AccessRestricted:
	default:
		return was, fmt.Errorf("access_mode %q is unknown: it is full or restricted", want.Mode)
	}
	if want.Path == "" {
		want.Path = was.Path
	}
	if remote {
		if err := a.narrower(was, want); err != nil {
			return was, err
		}
	}
	dir, err := a.folder(want.Path)
	if err != nil {
		return was, err
	}
	want.Path = dir
	if remote { // also where links lead to
		return want, a.narrower(was, want)
	}
	return want, nil
}

// narrower refuses what would give somebody far away more than the chat has.
func (a *App) narrower(was, want agent.WorkspaceScope) error {
	if want.Mode != agent.AccessRestricted && want.Mode != was.Mode {
		return errors.New("from another machine, or without the token, the access of a chat can only be made narrower; ask for restricted, or change it on the machine itself")
	}
	path, err := a.safety.jail.Path(want.Path)
	if err != nil {
		return err
	}
	house := a.houseScope()
	inside := diskio.Within(path, was.Path)
	if was.Mode == agent.AccessFull {
		inside = inside || diskio.Within(path, house.Path) || diskio.Within(path, a.Workspace)
	}
	if !inside {
		return fmt.Errorf("from another machine, or without the token, a chat can only be moved to a folder inside %s", was.Path)
	}
	return nil
}

// folder is the link-free path of a folder that a conversation may work in.
func (a *App) folder(path string) (string, error) {
	dir, err := a.safety.jail.Folder(path)
	switch {
	case err == nil:
	case errors.Is(err, diskio.ErrOutside):
		return "", fmt.Errorf("%s is outside the workspace %s, and the settings keep all chats inside it; name a folder in the workspace", path, a.Workspace)
	case errors.Is(err, diskio.ErrProtected):
		return "", fmt.Errorf("%s is protected; name another folder", path)
	case errors.Is(err, diskio.ErrNotRegular):
		return "", fmt.Errorf("%s is not a folder", path)
	case diskio.IsMissing(err):
		return "", fmt.Errorf("there is no folder %s; create it first, or name another one", path)
	default:
		return "", err
	}
	switch {
	case dir == filepath.VolumeName(dir)+string(filepath.Separator):
		return "", errors.New("a chat cannot work in the whole disk; name a folder")
	case strings.ContainsFunc(dir, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("the name of the folder %q contains a control character; rename it first", dir)
	}
	// What the agent itself follows or keeps is not a place to work in.
	house := a.houseScope().Path
	for _, name := range datadir.WorkspaceFolders() {
		if diskio.Within(dir, filepath.Join(house, name)) {
			return "", fmt.Errorf("%s belongs to the agent itself; name a folder with your own files", path)
		}
	}
	return dir, nil
}

// projects are the files as conversations see them that work in a folder of
// their own.
type projects struct {
	app *App
	o   Options

	mu   sync.Mutex
	seen map[projectKey]*view
}

// projectKey tells views apart. The conversation counts where it is kept inside
// its folder: what it may read besides is its own.
type projectKey struct {
	tool.Project
	session string
}

// of returns the view of a call.
func (x *projects) of(c tool.Call) (*view, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := projectKey{Project: c.Project}
	if c.Project.Only {
		key.session = c.SessionKey
	}
	house := x.app.safety.jail
	if v := x.seen[key]; v != nil && house.Holds(v.jail) {
		return v, nil
	}
	if x.seen == nil || len(x.seen) >= maxOthers {
		x.seen = map[projectKey]*view{} // a call that still uses one keeps it open
	}
	delete(x.seen, key)
	jail, err := house.At(diskio.Base{
		Dir: c.Project.Dir, Only: c.Project.Only, ReadOnly: besides(c), Unlisted: []string{x.app.safety.media},
		Protected: []string{x.app.results()}, Except: []string{x.app.resultsOf(c.SessionKey)},
	})
	if err != nil {
		return nil, fmt.Errorf("the folder %s of this chat cannot be used now: %w", c.Project.Dir, err)
	}
	v := &view{jail: jail}
	pictures, _ := x.app.pictures(x.o, jail, x.app.safety.media) // the owner was told at the start
	v.files = byName(append(x.app.fileTools(jail, x.app.safety.origins.in(c.Project.Dir)), pictures...))
	x.seen[key] = v
	return v, nil
}

func (x *projects) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var err error
	for _, v := range x.seen {
		err = errors.Join(err, v.jail.Close())
	}
	x.seen = nil
	return err
}

// besides is what of the workspace a conversation that is kept inside a folder
// may read besides: the skills, and long results of its own tools.
func besides(c tool.Call) []string {
	return []string{"skills", filepath.Join(filepath.FromSlash(oldResults), text.SafeName(c.SessionKey))}
}

// inFull makes a tool name the files it changes as they are called from
// everywhere, for a call whose names begin in a folder of its own.
func inFull(t tool.Tool, p tool.Project) tool.Tool {
	if paths := t.Paths; paths != nil && p.Dir != "" {
		t.Paths = func(input json.RawMessage) []string {
			names := slices.Clone(paths(input))
			for i, name := range names {
				names[i] = p.Path(name)
			}
			return names
		}
	}
	return t
}

// userShell runs what the owner typed: nobody is asked, everything else is as
// for a command of the model. nil when there are no commands.
func (a *App) userShell(o Options) func(ctx context.Context, c tool.Call, command string) (tool.Result, error) {
	if a.commands == nil {
		return nil
	}
	after := a.safety.after(a, o)
	return func(ctx context.Context, c tool.Call, command string) (tool.Result, error) {
		t := byName(a.commands.Tools())["exec"]
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			return tool.Result{}, err
		}
		c.Name, c.Input = t.Name, input
		if err := a.safety.undo.Before(ctx, t, c); err != nil {
			o.Log.WarnContext(ctx, "this change cannot be undone", "tool", t.Name, "turn", c.TurnID, "err", err)
		}
		res, err := tool.Execute(ctx, t, c, o.Log)
		after(ctx, c, res, 0)
		return res, err
	}
}
