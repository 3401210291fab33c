package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// guestHome holds the folders of a guest or a group. Its tools and commands write
// only to workspace, home and share.
type guestHome struct {
	root      string
	workspace string // files of the guest or group
	home      string // the home folder of their commands
	media     string // received files and generated pictures
	results   string // long results of tools
	undo      string
	share     string // the shared folder of the owner's workspace; "" if there is none
}

// guestFolders returns the folders of a room without creating them.
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

// guest returns the folders of a room, with the shared one.
func (p *places) guest(room string) guestHome {
	g := guestFolders(p.data, room)
	g.share = p.share
	return g
}

// make creates the folders.
func (g guestHome) make() error {
	for _, dir := range []string{g.root, g.workspace, g.home, g.media, g.results} {
		if err := diskio.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the workspace of this chat: %w", err)
		}
	}
	return nil
}

// shareOf returns the resolved folder of the workspace that guests can write to, or
// "". Its files are data, never instructions, for both sides.
func shareOf(setting, workspace string) string {
	name := guestShare(setting)
	if name == "" {
		return ""
	}
	return filepath.Join(resolved(workspace), name)
}

// guestShare returns the name of the shared folder in the workspace; "" if the
// configured name leaves the workspace or is one that the agent follows or owns.
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

// view holds the files and tools of a guest or group, in place of the owner's.
type view struct {
	jail  *diskio.Jail
	files map[string]tool.Tool

	// The following are set for guests only.
	guestHome
	changes  *change.Record
	policy   *approve.Policy
	shell    *shell.Shell // nil before the first command
	commands map[string]tool.Tool
	sessions map[string]bool // that used this view
	using    int
	used     time.Time
}

// open opens the files of a room and creates missing folders.
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
	v.changes, err = change.Open(change.Options{Dir: home.undo, Jail: jail, MaxBytes: guestUndoBytes, Busy: x.busy, Log: x.g.log})
	if err == nil {
		v.policy, err = approve.New(x.approval(jail))
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the workspace of this chat: %w", err), jail.Close())
	}

	v.files = x.g.viewTools(jail, home.media)
	return v, nil
}

// guestUndoBytes limits the old versions of a guest's files.
const guestUndoBytes = 32 << 20

// approval returns the owner's policy, applied to the files of a guest. Commands of
// guests can never change files that the agent follows.
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

// newShell creates the tools that run commands of guests. They have none of the
// variables, programs and folders that the settings give to the owner's commands.
func (x *guestTools) newShell(home guestHome) (*shell.Shell, error) {
	policy := x.g.o.Policy
	sh, err := shell.New(shell.Options{
		Workspace: home.workspace,
		Restrict:  true,
		Roots:     home.roots(),
		Timeout:   cmp.Or(policy.Exec.Timeout, shell.DefaultTimeout),
		Allow:     policy.Exec.AllowPatterns,
		Deny:      policy.Exec.DenyPatterns,
		Environ:   x.g.o.Env,
		MaxMemory: policy.maxMemory(),
		MaxDisk:   policy.Exec.MaxDisk,
		Wrap: func(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
			return x.g.confiner.confineGuest(c, home, cmd) // its output is untrusted
		},
		Sandboxed: true,
		AskRisky:  policy.Approval != approve.Off,
		Log:       x.g.log,
	})
	if err != nil {
		return nil, fmt.Errorf("tools.exec: %w", err)
	}
	return sh, nil
}

// roots returns the folders beside the workspace that guests can reach.
func (g guestHome) roots() []string {
	out := []string{g.media, g.results}
	if g.share != "" {
		out = append(out, g.share)
	}
	return out
}

// confineGuest runs a command of a guest in its own sandbox.
func (f *confiner) confineGuest(c tool.Call, g guestHome, cmd *exec.Cmd) (held shell.Confined, err error) {
	box, err := f.box(context.Background()) // as for the owner's commands
	if err != nil {
		return held, fmt.Errorf("commands do not run in this chat: nothing here can keep the owner's files from them: %w", err)
	}

	p, err := f.guestProfile(box, g)
	if err != nil {
		return held, err
	}
	if err := g.make(); err != nil { // a person may have removed them
		return held, err
	}

	cmd.Env = append(slices.DeleteFunc(slices.Clone(cmd.Env), func(kv string) bool { return strings.HasPrefix(kv, "HOME=") }), "HOME="+g.home)
	neutralGit(cmd) // the shared folder holds repositories of others
	out, err := connect(box, &p, func() (*line, error) {
		access := func(life context.Context) *httpsafe.Access {
			return f.proxy.policy.Guest(life, c)
		}
		return f.proxy.open(access, func(httpsafe.Traffic) {})
	})
	if err != nil {
		return held, err
	}

	defer out.attach(&held.Release, &err)
	held.Brief = !box.Level().Freeze
	held.Writes = append([]string{p.Workspace}, p.ReadWrite...)
	held.Freeze, held.Release, err = box.WrapFreezable(cmd, p)
	return held, err
}

// guestProfile returns what a command of a guest can reach: its own folders and the
// machine's programs. It contains nothing of the owner's, so the owner's turns can
// create and rename files while the command runs.
func (f *confiner) guestProfile(box *sandbox.Box, g guestHome) (sandbox.Profile, error) {
	p := sandbox.Profile{
		Workspace: g.workspace,
		Exact:     true,
		ReadOnly:  []string{g.media, g.results},
		ReadWrite: []string{g.home},
		Protected: []string{f.places.workspace}, // in case it is inside of a folder of programs
		Network:   f.policy.Network,
		Limits:    f.policy.limits(),
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

// guestMediaKeep is how long files that guests sent are kept.
const guestMediaKeep = 30 * 24 * time.Hour

// sweepMedia removes old received files.
func (g guestHome) sweepMedia(ctx context.Context, now time.Time) {
	store := media.Store{Dir: g.media}
	_, _ = store.Sweep(ctx, now.Add(-guestMediaKeep)) // the next sweep tries again
}
