package app

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// private are the paths of a workspace that belong to the owner, or to one
// conversation, and are hidden from everybody who has a scope of their own:
// what is known about people, and where old versions of it lie.
func private(workspace string) []string {
	var out []string
	for _, name := range []string{"USER.md", "HEARTBEAT.md", "memory", "sessions", "cron", "triggers", ".git", keptResults} {
		out = append(out, filepath.Join(workspace, filepath.FromSlash(name)))
	}
	return out
}

// keptResults is where long results of tools are kept, by conversation.
const keptResults = ".nanobot/tool-results"

// persona are the paths that everybody's turns follow: they may be read by
// all and changed by the owner.
func persona(workspace string) []string {
	var out []string
	for _, name := range []string{"AGENTS.md", "SOUL.md", "TOOLS.md", "skills"} {
		out = append(out, filepath.Join(workspace, name))
	}
	return out
}

// maxOthers bounds the conversations whose tools are kept in memory.
const maxOthers = 64

// others are the files and commands as people with a scope see them: without
// what is the owner's alone. Nothing is made before one of them writes.
type others struct {
	app *App
	o   Options

	mu    sync.Mutex
	seen  map[[2]string]*view // by conversation and scope
	shell *shell.Shell        // nil: not needed yet
	tools map[string]tool.Tool
}

// view is what one of them sees.
type view struct {
	jail  *diskio.Jail
	files map[string]tool.Tool
}

// of returns the view of a call.
func (x *others) of(c tool.Call) *view {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := [2]string{c.SessionKey, c.Scope}
	if v := x.seen[key]; v != nil {
		return v
	}
	if x.seen == nil || len(x.seen) >= maxOthers {
		x.seen = map[[2]string]*view{}
	}
	ws := x.app.Workspace
	v := &view{jail: x.app.safety.jail.Narrower(diskio.Narrow{
		Protected: private(ws), ProtectedWrite: persona(ws), Unlisted: []string{x.app.safety.media}, Restrict: true,
		Except: []string{
			filepath.Join(ws, filepath.FromSlash(filepath.Dir(memory.ScopeFile(c.Scope)))),
			filepath.Join(ws, filepath.FromSlash(keptResults), text.SafeName(c.SessionKey)),
		},
	})}
	pictures, _ := x.app.pictures(x.o, v.jail) // the owner was told at the start
	v.files = byName(append(x.app.fileTools(v.jail, ""), pictures...))
	x.seen[key] = v
	return v
}

// files returns the tools that work on files; nil for the owner in the workspace.
func (x *others) files(c tool.Call) (map[string]tool.Tool, error) {
	switch {
	case c.Scope != "":
		return x.of(c).files, nil
	case c.Project.Dir == "":
		return nil, nil
	}
	v, err := x.app.projects.of(c)
	if err != nil {
		return nil, err
	}
	return v.files, nil
}

// commands returns the tools that run commands; nil for the owner, whose
// commands know of folders themselves.
func (x *others) commands(c tool.Call) (map[string]tool.Tool, error) {
	if c.Scope == "" {
		return nil, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.shell != nil {
		return x.tools, nil
	}
	if x.app.safety.Sandbox == sandbox.None {
		return nil, errors.New("commands are not run for guests without a sandbox; an owner can set tools.exec.sandbox to auto")
	}
	sh, err := x.app.shell(x.o, true)
	if err != nil {
		return nil, err
	}
	x.shell, x.tools = sh, byName(sh.Tools())
	return x.tools, nil
}

func byName(list []tool.Tool) map[string]tool.Tool {
	out := make(map[string]tool.Tool, len(list))
	for _, t := range list {
		out[t.Name] = t
	}
	return out
}

// apart makes tools that do what find returns for a call, or what they always
// did if that is nothing.
func apart(list []tool.Tool, find func(c tool.Call) (map[string]tool.Tool, error)) []tool.Tool {
	out := slices.Clone(list)
	for i := range out {
		own, name := out[i].Run, out[i].Name
		out[i].Run = func(ctx context.Context, c tool.Call) (tool.Result, error) {
			theirs, err := find(c)
			if err != nil {
				return tool.Fail(tool.Unsupported, "%v", err), nil
			}
			if theirs == nil {
				return own(ctx, c)
			}
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
func (x *others) media(c tool.Call, path string) (bus.Media, error) {
	jail := x.app.safety.jail
	switch {
	case c.Scope != "":
		jail = x.of(c).jail
	case c.Project.Dir != "":
		v, err := x.app.projects.of(c)
		if err != nil {
			return bus.Media{}, err
		}
		jail = v.jail
	}
	if x.app.gateway {
		return x.app.keepMedia(jail, path)
	}
	return openMedia(jail, path)
}

func (x *others) started() *shell.Shell {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shell
}

func (x *others) stop(session string) {
	if sh := x.started(); sh != nil {
		sh.Stop(session)
	}
}

func (x *others) busy(session string) bool {
	sh := x.started()
	return sh != nil && sh.Busy(session)
}

func (x *others) close() error {
	if sh := x.started(); sh != nil {
		return sh.Close()
	}
	return nil
}

// hide narrows the profile of a command of somebody with a scope.
func (s *safety) hide(workspace string, box *sandbox.Box, p *sandbox.Profile) error {
	if runtime.GOOS == "linux" && !box.Level().MountNS {
		return errors.New("commands do not run in this chat: the sandbox of this machine cannot hide the owner's files from them")
	}
	p.Protected = slices.Concat(p.Protected, private(workspace))
	// There is no telling whose files these are.
	p.ReadOnly = slices.DeleteFunc(slices.Clone(p.ReadOnly), func(path string) bool { return path == s.media })
	return s.offHost(box, p)
}

// visible leaves out paths that lie in hidden ones.
func visible(paths, hidden []string) []string {
	return slices.DeleteFunc(paths, func(p string) bool {
		return slices.ContainsFunc(hidden, func(h string) bool { return within(p, h) })
	})
}
