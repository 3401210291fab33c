// Package sandbox runs commands so that the kernel, not the text of the
// command, decides what they can reach. It hides how: on Linux a helper (our
// own program under another name) builds a small file system in new
// namespaces, sets limits, applies Landlock rules and a system call filter, and
// then runs the command; or bubblewrap builds the file system and the helper
// does the rest. Elsewhere there is sandbox-exec or nothing, and nothing means
// an error: a command never runs unconfined because a sandbox was missing.
//
// A Box says what this machine can do; Wrap changes a command that has not been
// started. A Box is safe for concurrent use. Every program that contains this
// package can be its own helper; nothing has to be called for that.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Mode is how commands are confined.
type Mode string

const (
	// Auto is the strongest that does not need another program, or bubblewrap
	// where the kernel is too old for that.
	Auto Mode = "auto"
	// Landlock confines with the kernel's own means alone: Landlock rules, a
	// system call filter, and namespaces where they are allowed.
	Landlock Mode = "landlock"
	// Bwrap lets bubblewrap make the namespaces.
	Bwrap Mode = "bwrap"
	// None runs commands as they are.
	None Mode = "none"
	// Hide leaves commands the disk and the network as they are, and covers
	// Profile.Protected and other processes. It is not a sandbox: who may
	// write every file of a user can have a program started later, outside.
	Hide Mode = "hide"
)

// Network says what a command can connect to.
type Network string

const (
	// NetHost is the network of the machine, private addresses included. Nothing
	// can be enforced on it.
	NetHost Network = "host"
	// NetProxy is nothing but Profile.ProxySocket, which the usual variables
	// present to programs as an HTTP proxy.
	NetProxy Network = "proxy"
	// NetNone is nothing.
	NetNone Network = "none"
)

// Profile holds what one command may reach. Paths are absolute.
type Profile struct {
	// Workspace may be read and changed.
	Workspace string
	// Exact says that Workspace and all further entries are without links, and
	// that others can put some there: then the command does not run, and such
	// entries are ignored. Bubblewrap does not notice links of the last moment.
	Exact bool
	// ReadOnly and ReadWrite are further files and directories. Entries that
	// do not exist, and those that are or contain the workspace, are ignored,
	// and so are those inside the workspace that lead out of it: whoever may
	// write there could open any place by a link.
	// A ReadOnly entry inside the workspace takes its write access away where
	// there is a mount namespace (Level.MountNS).
	ReadOnly, ReadWrite []string
	// Protected is hidden even inside what is granted. Only a mount namespace
	// can do that, and only for paths that exist. In Hide, what is granted
	// inside of it stays visible.
	Protected []string
	// Network is NetHost when empty.
	Network Network
	// ProxySocket is the Unix socket on which the proxy of NetProxy listens.
	ProxySocket string
	// ProxyCerts is a file of certificates, as PEM, which programs trust in place
	// of those of the system: a proxy may stand in for some hosts. It is used
	// with NetProxy only; empty leaves the system's.
	ProxyCerts string
	Limits     Limits

	links   []string // pairs: a name that is a link, and where it leads
	control *os.File // for requests to freeze; nil without
}

// privateHome is the folder inside the private temporary directory that is the
// home of a command whose environment names none.
const privateHome = "home"

// Limits bound what a command can use up. 0 is the default, a negative number
// no limit. Sizes are in bytes.
type Limits struct {
	Processes int64 // all processes and threads of the command together; 256
	Memory    int64 // writable memory of one process; 4 GiB
	FileSize  int64 // of one file; 2 GiB
	Files     int64 // open ones, of one process; 4096
	CPU       int64 // seconds of processor time of one process; 3600
	Total     int64 // memory of all processes together; see TotalMemory
}

// TotalMemory returns how much memory the processes of a command may use
// together unless the settings say otherwise: 4 GiB, or half of what a small
// machine has.
func TotalMemory() int64 {
	const most = 4 << 30
	if half := HalfMemory(); half > 0 {
		return min(most, half)
	}
	return most
}

// HalfMemory is half of the machine's memory in bytes, 0 where it is unknown.
func HalfMemory() int64 { return machineMemory() / 2 }

func (l Limits) withDefaults() Limits {
	if l.Processes == 0 {
		l.Processes = 256
	}
	if l.Memory == 0 {
		l.Memory = 4 << 30
	}
	if l.FileSize == 0 {
		l.FileSize = 2 << 30
	}
	if l.Files == 0 {
		l.Files = 4096
	}
	if l.CPU == 0 {
		l.CPU = 3600
	}
	if l.Total == 0 {
		l.Total = TotalMemory()
	}
	return l
}

// Options say how a Box confines.
type Options struct {
	Mode Mode // empty is Auto
	// Self is a program that contains this package; empty is the running one.
	Self string
	// TempDir holds the private temporary directories of commands; empty is
	// os.TempDir. It must not be inside a workspace.
	TempDir string
	Log     *slog.Logger // nil discards
}

// Level holds what a Box really does. Missing says in words what this machine
// does not allow.
type Level struct {
	Mode        Mode
	LandlockABI int // 0 without Landlock
	Seccomp     bool
	UserNS      bool // namespaces belong to a user namespace, so nothing in them is privileged outside
	PIDNS       bool // other processes are invisible
	MountNS     bool // files that are not granted are invisible, Protected works
	NetNS       bool // NetProxy works
	Freeze      bool // WrapFreezable works
	Cgroup      bool // memory and processes are bounded for the command as a whole
	Missing     []string
}

// String describes the level in one line.
func (l Level) String() string {
	switch l.Mode {
	case None:
		return "none: commands run with all rights of the agent"
	case Hide:
		return "none: commands have all rights of the agent, except that nanobot's own data and other processes are hidden"
	}

	var parts []string
	if l.Mode == Bwrap {
		parts = append(parts, "bubblewrap")
	}
	if l.LandlockABI > 0 {
		parts = append(parts, fmt.Sprintf("Landlock %d", l.LandlockABI))
	}
	if l.Seccomp {
		parts = append(parts, "seccomp")
	}

	var spaces []string
	for _, s := range []struct {
		have bool
		name string
	}{{l.UserNS, "user"}, {l.PIDNS, "process"}, {l.MountNS, "mount"}, {l.NetNS, "network"}} {
		if s.have {
			spaces = append(spaces, s.name)
		}
	}

	if len(spaces) > 0 {
		parts = append(parts, strings.Join(spaces, ", ")+" namespaces")
	}
	if l.Cgroup {
		parts = append(parts, "cgroup")
	}

	text := string(l.Mode) + ": " + strings.Join(parts, "; ")
	if len(l.Missing) > 0 {
		text += "; missing: " + strings.Join(l.Missing, ", ")
	}
	return text
}

// Box confines commands in one way.
type Box struct {
	o     Options
	level Level
	means means // what the system's own part of this package found out
}

// Probe says what Open would do, without its error: Level.Missing holds the
// reason when nothing can be done.
func Probe(ctx context.Context, o Options) Level {
	b, err := Open(ctx, o)
	if err != nil {
		return Level{Mode: o.Mode, Missing: []string{err.Error()}}
	}
	return b.level
}

// Open finds out what the machine allows by trying it once, which takes some
// milliseconds; the result holds for the life of the Box. An error says what is
// missing and what to do: there is no weaker Box instead.
func Open(ctx context.Context, o Options) (*Box, error) {
	if o.Mode == "" {
		o.Mode = Auto
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
	}

	b := &Box{o: o, level: Level{Mode: None}}
	switch o.Mode {
	case None:
		return b, nil
	case Auto, Landlock, Bwrap, Hide:
	default:
		return nil, fmt.Errorf("unknown sandbox %q: use auto, landlock, bwrap or none", o.Mode)
	}

	if err := b.open(ctx); err != nil {
		return nil, err
	}

	b.level.Freeze = b.canFreeze()
	return b, nil
}

// Level returns what this box does.
func (b *Box) Level() Level { return b.level }

// Wrap rewrites a command that has not been started so that it runs confined.
// The caller sets Env (never nil: that would be the agent's own), Dir, the
// standard streams and SysProcAttr before; ExtraFiles are not passed on. TMPDIR
// and, with NetProxy, the proxy variables are set here. A command that cannot
// be confined ends with code 126 and a line on its standard error.
//
// cleanup removes the private temporary directory and ends whatever is left of
// the command; call it after Wait, or when Start failed. It is never nil.
func (b *Box) Wrap(cmd *exec.Cmd, p Profile) (cleanup func(), err error) {
	none := func() {}
	if b.level.Mode == None {
		return none, nil
	}
	if p, err = checked(cmd, p); err != nil {
		return none, err
	}

	done, err := b.wrap(cmd, p)
	if err != nil {
		return none, err
	}
	return done, nil
}

// Why a command keeps what it may write.
var (
	ErrWriting      = errors.New("a file is open for writing")
	errCannotFreeze = errors.New("this sandbox cannot take write access away from a running command")
)

// WrapFreezable is Wrap for a command that may lose its write access while it
// runs. After a nil error of freeze the kernel refuses every change of what the
// profile lets it write, through whatever it has opened before; only its private
// temporary directory stays writable. ErrWriting means that it holds a file
// open for writing, or a part of one in memory, and did not close it within a
// fifth of a second. Without Level.Freeze there is always an error. After one
// the caller ends the command. freeze works once; it is never nil after a nil
// error, and may be called until cleanup is.
func (b *Box) WrapFreezable(cmd *exec.Cmd, p Profile) (freeze func() error, cleanup func(), err error) {
	if !b.level.Freeze {
		cleanup, err = b.Wrap(cmd, p)
		return func() error { return errCannotFreeze }, cleanup, err
	}

	if p, err = checked(cmd, p); err == nil {
		freeze, cleanup, err = b.wrapFreezable(cmd, p)
	}

	if err != nil {
		return nil, func() {}, err
	}
	return freeze, cleanup, nil
}

// checked returns the clean profile of a command that can be wrapped.
func checked(cmd *exec.Cmd, p Profile) (Profile, error) {
	switch {
	case cmd.Err != nil:
		return p, cmd.Err
	case cmd.Process != nil:
		return p, errors.New("the command has already been started")
	case cmd.Env == nil:
		return p, errors.New("a confined command needs an environment of its own")
	}
	return p.clean()
}

// clean checks a profile and resolves its links, because rules apply to what a
// path leads to.
func (p Profile) clean() (Profile, error) {
	switch p.Network {
	case "":
		p.Network = NetHost
	case NetHost, NetNone:
	case NetProxy:
		if p.ProxySocket == "" {
			return p, errors.New("network \"proxy\" needs the socket of a proxy")
		}
	default:
		return p, fmt.Errorf("unknown network %q: use host, proxy or none", p.Network)
	}

	if !filepath.IsAbs(p.Workspace) || filepath.Clean(p.Workspace) == string(filepath.Separator) {
		return p, fmt.Errorf("workspace %q: a confined command needs an absolute path other than the root", p.Workspace)
	}

	ws, err := filepath.EvalSymlinks(p.Workspace)
	if err != nil {
		return p, fmt.Errorf("workspace: %w", err)
	}
	if p.Exact && ws != p.Workspace {
		return p, fmt.Errorf("workspace %s: leads to another place now", p.Workspace)
	}

	p.links = nil
	note := func(name, target string) {
		if name = filepath.Clean(name); name != target {
			p.links = append(p.links, name, target)
		}
	}

	note(p.Workspace, ws)
	given := filepath.Clean(p.Workspace)
	p.Workspace = ws
	resolve := func(list []string, keep func(path, target string) bool) []string {
		var out []string
		for _, path := range list {
			if target, err := filepath.EvalSymlinks(path); err == nil && filepath.IsAbs(target) && keep(filepath.Clean(path), target) {
				out = append(out, target)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}

	inside := func(path string) bool { return within(path, ws) || within(path, given) }
	further := func(path, target string) bool {
		return !within(ws, target) && (!inside(path) || within(target, ws)) && (!p.Exact || target == path)
	}
	for _, path := range slices.Concat(p.ReadOnly, p.ReadWrite) {
		path = filepath.Clean(path)
		if target, err := filepath.EvalSymlinks(path); err == nil && further(path, target) && !inside(path) { // links inside are there anyway
			note(path, target)
		}
	}

	p.ReadOnly, p.ReadWrite = resolve(p.ReadOnly, further), resolve(p.ReadWrite, further)
	p.Protected = resolve(p.Protected, func(_, target string) bool { return target != ws })
	p.Limits = p.Limits.withDefaults()
	return p, nil
}

// within reports whether path is dir or below it; both are clean.
func within(path, dir string) bool {
	if dir == string(filepath.Separator) {
		return true
	}
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == filepath.Separator)
}
