package guard

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/reach"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
	"github.com/nanobot-go/nanobot/internal/tool/undo"
)

// guestHome are the folders of one chat that is not the owner's alone. Only
// workspace, home and share can be changed by what runs there.
type guestHome struct {
	root      string
	workspace string // what they work on
	home      string // of their commands
	media     string // what was sent in the chat, and pictures that were made for it
	results   string // long results of tools
	undo      string
	share     string // of the owner's workspace; "" is none
}

// guestFolders names the folders of a room. It makes nothing.
func guestFolders(data, room string) guestHome {
	root := datadir.Guests.In(resolved(data), text.SafeName(room))
	return guestHome{
		root:      root,
		workspace: filepath.Join(root, "workspace"),
		home:      filepath.Join(root, "home"),
		media:     filepath.Join(root, "media"),
		results:   filepath.Join(root, "tool-results"),
		undo:      filepath.Join(root, "undo"),
	}
}

// guest names the folders of a room, with the one that is shared.
func (p *places) guest(room string) guestHome {
	g := guestFolders(p.config.DataDir, room)
	g.share = p.share
	return g
}

// make makes the folders.
func (g guestHome) make() error {
	for _, dir := range []string{g.root, g.workspace, g.home, g.media, g.results} {
		if err := diskio.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the workspace of this chat: %w", err)
		}
	}
	return nil
}

// shareOf is the folder of the workspace that guests can write to, without
// links; "" if there is none. What lies there is data for both sides.
func shareOf(l *config.Loaded, workspace string) string {
	name := guestShare(l.Config.Agents.Defaults.GuestShare)
	if name == "" {
		return ""
	}
	return filepath.Join(resolved(workspace), name)
}

// guestShare is the name of the shared folder in the workspace. A name that
// leads elsewhere, or to what the agent follows, shares nothing.
func guestShare(setting string) string {
	name := filepath.Clean(filepath.FromSlash(setting))
	if setting == "" || !filepath.IsLocal(name) || name == "." {
		return ""
	}
	top, _, _ := strings.Cut(filepath.ToSlash(name), "/")
	own := slices.Concat(datadir.FollowedFiles(), datadir.WorkspaceFolders())
	if slices.ContainsFunc(own, func(own string) bool { return strings.EqualFold(own, top) }) {
		return ""
	}
	return name
}

// view is what the people of one chat have instead of the owner's files.
type view struct {
	jail  *diskio.Jail
	files map[string]tool.Tool

	// Of guests only.
	guestHome
	undo     *undo.Store
	policy   *approve.Policy
	shell    *shell.Shell // nil: not needed yet
	commands map[string]tool.Tool
	sessions map[string]bool // that were here
	using    int
	used     time.Time
}

// open opens the files of a room, and makes them if they are missing.
func (x *guestTools) open(room string) (*view, error) {
	home := x.g.places.guest(room)
	if err := home.make(); err != nil {
		return nil, err
	}
	jail, err := diskio.OpenJail(diskio.JailOptions{
		Workspace: home.workspace,
		Restrict:  true,
		ReadOnly:  []string{home.media, home.results},
		Home:      home.workspace,
	})
	if err != nil {
		return nil, fmt.Errorf("open the workspace of this chat: %w", err)
	}
	if home.share != "" {
		jail.Share(x.g.jail, home.share)
	}

	v := &view{jail: jail, guestHome: home, sessions: map[string]bool{}}
	v.undo, err = undo.Open(undo.Options{Dir: home.undo, Jail: jail, MaxBytes: guestUndoBytes, Busy: x.busy, Log: x.g.log})
	if err == nil {
		v.policy, err = approve.New(x.approval(jail))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the workspace of this chat: %w", err), jail.Close())
	}
	v.files = x.g.viewTools(jail, home.media)
	return v, nil
}

// guestUndoBytes is what the old versions of a chat's files may take up.
const guestUndoBytes = 32 << 20

// approval is the owner's policy, about the files of a guest. Commands of
// guests can never change what the agent follows.
func (x *guestTools) approval(jail *diskio.Jail) approve.Options {
	p := x.g.approval(jail)
	p.Targets = nil
	p.Sandboxed, p.Exposed = true, func() bool { return false }
	p.SandboxProfile = "guest " + jail.Workspace()
	if p.Network == string(sandbox.NetHost) || p.Network == "" {
		p.Network = string(sandbox.NetProxy)
	}
	return p
}

// newShell makes the tools that run commands in a chat of guests. Nothing that
// the settings open for the owner's commands is open for them: no variables, no
// programs of the owner's, no folders.
func (x *guestTools) newShell(home guestHome) (*shell.Shell, error) {
	cfg, posture := x.g.o.Config.Config.Tools.Exec, x.g.posture
	timeout := time.Duration(cfg.Timeout) * time.Second
	if cfg.Timeout == 0 {
		timeout = shell.DefaultTimeout
	}
	sh, err := shell.New(shell.Options{
		Workspace: home.workspace,
		Restrict:  true,
		Roots:     home.roots(),
		Timeout:   timeout,
		Allow:     cfg.AllowPatterns,
		Deny:      cfg.DenyPatterns,
		Environ:   x.g.o.Env,
		MaxMemory: posture.maxMemory(cfg),
		MaxDisk:   posture.maxDisk(cfg),
		Wrap: func(_ tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
			return x.g.confiner.confineGuest(home, cmd) // what it prints is from outside
		},
		Sandboxed: true,
		AskRisky:  posture.Approval != approve.Off,
		Log:       x.g.log,
	})
	if err != nil {
		return nil, fmt.Errorf("tools.exec: %w", err)
	}
	return sh, nil
}

// roots are the folders beside the workspace that a chat of guests reaches.
func (g guestHome) roots() []string {
	out := []string{g.media, g.results}
	if g.share != "" {
		out = append(out, g.share)
	}
	return out
}

// confineGuest puts a command of a guest into a sandbox of its own.
func (f *confiner) confineGuest(g guestHome, cmd *exec.Cmd) (held shell.Confined, err error) {
	box, err := f.box(context.Background()) // as for the owner's commands
	if err != nil {
		return held, fmt.Errorf("commands do not run in this chat: nothing here can keep the owner's files from them: %w", err)
	}
	p, err := f.guestProfile(box, g)
	if err != nil {
		return held, err
	}
	if err := g.make(); err != nil { // it may have been removed by hand
		return held, err
	}
	cmd.Env = append(slices.DeleteFunc(slices.Clone(cmd.Env), func(kv string) bool { return strings.HasPrefix(kv, "HOME=") }), "HOME="+g.home)
	out, err := connect(box, &p, func() (*line, error) {
		return f.proxy.open(func(context.Context) *httpsafe.Access { return reach.Guest() }, func(httpsafe.Traffic) {})
	})
	if err != nil {
		return held, err
	}
	defer out.attach(&held.Release, &err)
	held.Brief = !box.Level().Freeze
	held.Freeze, held.Release, err = box.WrapFreezable(cmd, p)
	return held, err
}

// guestProfile is what a command of a guest can reach: its own folders and the
// programs of the machine. Nothing of the owner's is in it, so that it does not
// matter what the owner's turns make or rename while it runs.
func (f *confiner) guestProfile(box *sandbox.Box, g guestHome) (sandbox.Profile, error) {
	p := sandbox.Profile{
		Workspace: g.workspace,
		Exact:     true,
		ReadOnly:  []string{g.media, g.results},
		ReadWrite: []string{g.home},
		Protected: []string{f.places.workspace}, // where it lies among the programs of the machine
		Network:   f.posture.Network,
		Limits:    f.posture.limits(f.exec),
	}
	switch {
	case !box.Level().MountNS:
		return p, errors.New("commands do not run in this chat: the sandbox of this machine has no mount namespaces, so it cannot hide the owner's files from them")
	case sandbox.Shows(g.root):
		return p, fmt.Errorf("commands do not run in this chat: the data folder %s lies in a folder of programs, which every command can read", filepath.Dir(filepath.Dir(g.root)))
	}
	if g.share != "" {
		p.ReadWrite = append(p.ReadWrite, g.share)
	}
	return p, nil
}

// guestMediaKeep is how long files that were sent in a chat of guests are kept.
const guestMediaKeep = 30 * 24 * time.Hour

// sweepMedia removes what was sent long ago.
func (g guestHome) sweepMedia(ctx context.Context, now time.Time) {
	store := channel.MediaStore{Dir: g.media}
	_, _ = store.Sweep(ctx, now.Add(-guestMediaKeep)) // the next time tries again
}
