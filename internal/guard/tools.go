package guard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// FileTools are the tools that read and write files. Each call works on the
// files of its conversation: the workspace, a folder that was chosen for the
// conversation, or the folders of a guest.
func (g *Guard) FileTools() []tool.Tool {
	return perCall(g.fileTools(g.jail, g.tracker.origins.in("")), g.filesOf)
}

// ExtraTools are those of Options.Extra, with the files of each call.
func (g *Guard) ExtraTools() ([]tool.Tool, error) {
	if g.o.Extra == nil {
		return nil, nil
	}
	list, err := g.o.Extra(g.jail, g.places.media)
	return perCall(list, g.filesOf), err
}

// CommandTools makes the tools that run commands. It is called at most once,
// and only if commands are switched on.
func (g *Guard) CommandTools() ([]tool.Tool, error) {
	policy := g.o.Policy
	cfg := policy.Exec
	o := shell.Options{
		Workspace:   g.o.Workspace,
		Restrict:    policy.Restrict,
		Roots:       []string{g.places.media},
		Timeout:     cmp.Or(cfg.Timeout, shell.NoTimeout),
		PathPrepend: cfg.PathPrepend,
		PathAppend:  cfg.PathAppend,
		AllowedEnv:  cfg.AllowedEnv,
		Allow:       cfg.AllowPatterns,
		Deny:        cfg.DenyPatterns,
		Protected:   g.places.deny,
		Environ:     g.o.Env,
		MaxMemory:   policy.maxMemory(),
		MaxDisk:     cfg.MaxDisk,
		Wrap: g.asApproved(func(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
			return g.confiner.confine(c, cmd)
		}),
		Confine:   g.asApproved(g.confiner.confineTo),
		Remark:    g.confiner.proxy.remark,
		Sandboxed: policy.Sandbox != sandbox.None,
		AskRisky:  policy.Approval != approve.Off,
		Log:       g.log,
	}
	if runtime.GOOS != "windows" { // there is one PATH for all programs
		o.Programs = g.confiner.programs
	}

	sh, err := shell.New(o)
	if err != nil {
		return nil, fmt.Errorf("tools.exec: %w", err)
	}

	g.commands = sh
	return perCall(sh.Tools(), g.guests.commands), nil
}

// asApproved ties a command to what a person said yes to, from its start to its
// end. Its window is open before the last look at what was approved, so what is
// changed after that look is noticed as something from outside.
func (g *Guard) asApproved(confine func(tool.Call, *exec.Cmd) (shell.Confined, error)) func(tool.Call, *exec.Cmd) (shell.Confined, error) {
	return func(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
		out, err := confine(c, cmd)
		if err != nil {
			return out, err
		}
		if err := g.policy.Begin(c); err != nil {
			out.Release()
			return shell.Confined{}, err
		}

		release := out.Release
		out.Release = func() {
			g.policy.End(c, func() bool { return g.tracker.alone(c) })
			release()
		}
		return out, nil
	}
}

// UserShell runs a command that the owner typed: no one is asked, everything
// else is as for a command of the model. It is nil when there are no commands.
func (g *Guard) UserShell() func(ctx context.Context, c tool.Call, command string) (tool.Result, error) {
	if g.commands == nil {
		return nil
	}
	return func(ctx context.Context, c tool.Call, command string) (tool.Result, error) {
		t := byName(g.commands.Tools())["exec"]
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			return tool.Result{}, err
		}

		c.Name, c.Input = t.Name, input
		g.keep(ctx, t, c)
		res, err := tool.Execute(ctx, t, c, g.log)
		g.End(ctx, c, res)
		return res, err
	}
}

// Media opens a file that a turn wants to send. Only files that the tools of
// the call can read can be sent.
func (g *Guard) Media(ctx context.Context, c tool.Call, path string) (bus.Media, error) {
	jail := g.jail
	switch {
	case c.Scope != "":
		v, done, err := g.guests.of(ctx, c)
		if err != nil {
			return bus.Media{}, err
		}
		defer done()
		jail = v.jail
	case c.Project.Dir != "":
		v, err := g.folders.of(c)
		if err != nil {
			return bus.Media{}, err
		}
		jail = v.jail
	}

	if g.o.KeepSent {
		return g.keepMedia(ctx, jail, path)
	}
	return openMedia(jail, path)
}

// SentFiles is the folder of the media directory with what was sent.
const SentFiles = "sent"

// maxSent bounds a file the model may send.
const maxSent = 50 << 20

// keepMedia is openMedia for files that are sent later: what was looked at is
// copied, because a command may put something else in its place meanwhile.
// Files of the media directory stay as they are.
func (g *Guard) keepMedia(ctx context.Context, jail *diskio.Jail, path string) (bus.Media, error) {
	f, err := jail.Open(path)
	if err != nil {
		return bus.Media{}, err
	}

	defer f.Close() //nolint:errcheck // read only
	if path, err = jail.Path(path); err != nil || diskio.Within(path, g.places.media) {
		return openMedia(jail, path)
	}

	name := filepath.Base(path)
	store := media.Store{Dir: filepath.Join(g.places.media, SentFiles), Max: maxSent}
	kept, err := store.Save(ctx, name, f)
	if err != nil {
		return bus.Media{}, err
	}
	return bus.Media{Path: kept.Path, Name: name, Size: kept.Size}, nil
}

// openMedia lets the message tool attach only what the file tools may read.
func openMedia(jail *diskio.Jail, path string) (bus.Media, error) {
	f, err := jail.Open(path)
	if err != nil {
		return bus.Media{}, err
	}

	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return bus.Media{}, err
	}
	if info.Size() > maxSent {
		return bus.Media{}, errors.New("larger than 50 MiB")
	}
	if path, err = jail.Path(path); err != nil {
		return bus.Media{}, err
	}
	return bus.Media{Path: path, Name: filepath.Base(path), Size: info.Size()}, nil
}

// viewTools are the file tools and the extra tools behind a jail, by name.
func (g *Guard) viewTools(jail *diskio.Jail, mediaDir string, records ...func() (*origin.Store, error)) map[string]tool.Tool {
	list := g.fileTools(jail, records...)
	if g.o.Extra != nil {
		extra, _ := g.o.Extra(jail, mediaDir) // the owner was told at the start
		list = append(list, extra...)
	}
	return byName(list)
}

// fileTools are the file tools behind a jail. The records say which files came
// from outside; without one only what is shared with guests did.
func (g *Guard) fileTools(jail *diskio.Jail, records ...func() (*origin.Store, error)) []tool.Tool {
	outside := []string{g.places.results(), filepath.Join(g.o.Workspace, filepath.FromSlash(oldResults))}
	if share := g.places.share; share != "" {
		outside = append(outside, share)
	}

	for _, dir := range slices.Clone(outside) {
		outside = append(outside, resolved(dir))
	}

	marked := func(says func(*origin.Store) bool) bool {
		return slices.ContainsFunc(records, func(open func() (*origin.Store, error)) bool {
			rec, err := open()
			return err != nil || says(rec)
		})
	}
	return files.Tools(files.Options{
		Jail:       jail,
		Virtual:    g.o.Builtin,
		StrictEdit: g.o.Policy.StrictEdit,
		Foreign: func(path string) bool {
			if slices.ContainsFunc(outside, func(dir string) bool { return diskio.Within(path, dir) }) {
				return true
			}
			return marked(func(rec *origin.Store) bool { return rec.Foreign(path) })
		},
		ForeignSum: func(sum [sha256.Size]byte) bool {
			return marked(func(rec *origin.Store) bool { return rec.ForeignSum(sum) })
		},
	})
}

// filesOf returns the tools that work on the files of a call; nil for the owner
// in the workspace.
func (g *Guard) filesOf(ctx context.Context, c tool.Call) (map[string]tool.Tool, func(), error) {
	switch {
	case c.Scope != "":
		v, done, err := g.guests.of(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		return v.files, done, nil
	case c.Project.Dir == "":
		return nil, nil, nil
	}

	v, err := g.folders.of(c)
	if err != nil {
		return nil, nil, err
	}
	return v.files, func() {}, nil
}

// perCall makes tools that do what find returns for a call, or what they do by
// themselves if that is nothing. find's last result is called after the call.
func perCall(list []tool.Tool, find func(ctx context.Context, c tool.Call) (map[string]tool.Tool, func(), error)) []tool.Tool {
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

func byName(list []tool.Tool) map[string]tool.Tool {
	out := make(map[string]tool.Tool, len(list))
	for _, t := range list {
		out[t.Name] = t
	}
	return out
}
