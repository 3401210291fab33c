package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// runningProgram leads to the program that was started, even when its file has
// been replaced since.
const runningProgram = "/proc/self/exe"

// means is how a box does what its level says.
type means struct {
	spaces uintptr // as flags of clone
	noProc bool
	pidMax bool
	bwrap  string // path of bubblewrap, in that mode
	group  string // directory for control groups, if there is one
}

// open tries what the machine allows, strongest first.
func (b *Box) open(ctx context.Context) error {
	if b.o.Self == "" {
		b.o.Self = runningProgram
	}

	if b.o.Mode == Hide {
		return b.openHide(ctx)
	}
	if err := b.choose(ctx); err != nil {
		return err
	}

	if dir := delegatedGroup(); dir != "" && prepareGroup(dir) == nil {
		b.means.group = dir
		b.level.Cgroup = b.try(ctx) == nil
		if !b.level.Cgroup {
			b.means.group = ""
		}
	}

	return nil
}

func (b *Box) choose(ctx context.Context) error {
	if b.o.Mode == Bwrap {
		return b.openBwrap(ctx)
	}
	err := b.openLandlock(ctx, landlockABI(), variants())
	if err != nil && b.o.Mode == Auto && b.openBwrap(ctx) == nil {
		b.level.Missing = append(b.level.Missing, err.Error())
		return nil
	}
	return err
}

func (b *Box) openLandlock(ctx context.Context, abi int, ways []means) error {
	if abi < minLandlock {
		return fmt.Errorf("the kernel has Landlock version %d and %d is needed (Linux 6.2): install bubblewrap and set tools.exec.sandbox to \"bwrap\"", abi, minLandlock)
	}

	var first error
	for _, m := range ways {
		b.means, b.level = m, m.level(abi)
		err := b.try(ctx)
		if err == nil {
			break
		}
		if m.spaces == 0 || ctx.Err() != nil {
			return fmt.Errorf("the sandbox cannot be set up: %w", err)
		}

		if first == nil {
			first = err
		}
	}

	if first != nil && b.means.spaces != ways[0].spaces {
		b.level.Missing = append(b.level.Missing, "some namespaces ("+first.Error()+")")
	}

	if !b.level.PIDNS && abi < scopedLandlock {
		if !b.level.Seccomp {
			return fmt.Errorf("commands could send signals to the agent: there are no process namespaces (%w), and Landlock has version %d, where %d would be enough (Linux 6.12)",
				first, abi, scopedLandlock)
		}
		b.level.Missing = append(b.level.Missing, "protection of your other processes from signals")
	}

	return nil
}

// variants returns the combinations worth trying, strongest first.
func variants() []means {
	full := means{spaces: unix.CLONE_NEWUSER | unix.CLONE_NEWNET | allSpaces, pidMax: countsPerSpace()}
	out := []means{full}
	vary := func(m means) { out = append(out, m) }
	if full.pidMax {
		vary(means{spaces: full.spaces})
	}

	vary(means{spaces: full.spaces, noProc: true}) // inside most containers
	vary(means{spaces: full.spaces &^ unix.CLONE_NEWNET})
	if os.Geteuid() == 0 {
		vary(means{spaces: full.spaces &^ unix.CLONE_NEWUSER, pidMax: full.pidMax})
	}
	return append(out, means{})
}

const allSpaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// countsPerSpace reports whether the limit of processes belongs to a process
// namespace. In older kernels it is one number for the whole machine, which
// root must not change from inside a sandbox.
func countsPerSpace() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 14)
}

func (m means) level(abi int) Level {
	has := func(flag uintptr) bool { return m.spaces&flag != 0 }
	l := Level{
		Mode: Landlock, LandlockABI: abi, Seccomp: filter(NetHost, false, false) != nil,
		UserNS: has(unix.CLONE_NEWUSER), PIDNS: has(unix.CLONE_NEWPID), MountNS: has(unix.CLONE_NEWNS), NetNS: has(unix.CLONE_NEWNET),
	}
	if !l.Seccomp {
		l.Missing = append(l.Missing, "seccomp (not for this processor)")
	}
	if abi < scopedLandlock {
		l.Missing = append(l.Missing, fmt.Sprintf("separation of abstract sockets (Landlock %d, Linux 6.12)", scopedLandlock))
	}
	if !l.MountNS {
		l.Missing = append(l.Missing, "mount namespaces: names, permission bits and times of other files are not protected, /tmp and /proc are not there, local sockets are refused")
	}
	if m.noProc {
		l.Missing = append(l.Missing, "/proc inside the sandbox")
	}
	return l
}

// try runs the helper without a command.
func (b *Box) try(ctx context.Context) error {
	dir, err := os.MkdirTemp(b.o.TempDir, "nanobot-try-")
	if err != nil {
		return err
	}

	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.CommandContext(ctx, "/bin/true")
	cmd.Dir, cmd.Env = dir, []string{}
	network := NetHost
	if b.level.NetNS && b.o.Mode != Hide {
		network = NetNone
	}

	cleanup, err := b.wrapTrial(cmd, Profile{Workspace: dir, Network: network, Limits: Limits{}.withDefaults()}, true)
	if err != nil {
		return err
	}

	defer cleanup()
	out, err := cmd.CombinedOutput()
	if err != nil {
		if text := strings.TrimPrefix(strings.TrimSpace(string(out)), "sandbox: "); text != "" {
			return errors.New(text)
		}
		return err
	}
	return nil
}

func (b *Box) wrap(cmd *exec.Cmd, p Profile) (func(), error) {
	return b.wrapTrial(cmd, p, false)
}

// canFreeze reports whether a process of ours stays among the mounts of a
// command. Bubblewrap leaves none there with the right to change them.
func (b *Box) canFreeze() bool {
	return b.level.MountNS && b.means.bwrap == "" && b.o.Mode != Hide
}

func (b *Box) wrapFreezable(cmd *exec.Cmd, p Profile) (freeze func() error, cleanup func(), err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("control socket: %w", err)
	}

	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	_ = theirs.Fd() // makes it blocking, for a process without a runtime
	p.control = theirs
	done, err := b.wrapTrial(cmd, p, false)
	cleanup = func() {
		_ = ours.Close()
		_ = theirs.Close()
		if done != nil {
			done()
		}
	}
	if err != nil {
		cleanup()
		return nil, nil, err
	}
	return sync.OnceValue(func() error {
		_ = theirs.Close() // the command has its own, and its end is to be seen
		return askToFreeze(ours)
	}), cleanup, nil
}

const (
	// freezeTries is how often a command is given the time to close its files.
	freezeTries = 10
	freezePause = 20 * time.Millisecond
	// freezeWait bounds the wait for an answer.
	freezeWait = 5 * time.Second
)

// askToFreeze asks until nothing is open for writing any more.
func askToFreeze(control *os.File) error {
	for try := range freezeTries {
		if try > 0 {
			<-time.After(freezePause)
		}

		err := control.SetDeadline(time.Now().Add(freezeWait))
		answer := make([]byte, 1)
		if err == nil {
			_, err = control.Write(answer)
		}
		if err == nil {
			_, err = io.ReadFull(control, answer)
		}

		if err != nil {
			return fmt.Errorf("freeze the files of a command: %w", err)
		}

		switch e := unix.Errno(answer[0]); e {
		case 0:
			return nil
		case unix.EBUSY:
		default:
			return fmt.Errorf("freeze the files of a command: %w", e)
		}
	}
	return ErrWriting
}

func (b *Box) wrapTrial(cmd *exec.Cmd, p Profile, trial bool) (_ func(), err error) {
	if b.o.Mode == Hide && p.Network != NetHost {
		return nil, errors.New("commands without a sandbox have the network of the machine")
	}
	if p.Network == NetProxy && !b.level.NetNS {
		return nil, errors.New("network \"proxy\" needs network namespaces, which this machine does not allow: use \"none\"")
	}
	if p.Network == NetNone && !b.level.NetNS && !b.level.Seccomp {
		return nil, errors.New("network \"none\" cannot be kept here: there are neither network namespaces nor a system call filter for this processor")
	}

	private, err := os.MkdirTemp(b.o.TempDir, "nanobot-")
	if err != nil {
		return nil, fmt.Errorf("private directory: %w", err)
	}

	var r, w *os.File
	leave, done := func() {}, func() {}
	cleanup := sync.OnceFunc(func() {
		if w != nil {
			_ = w.Close() // ends the helper, if it still runs
			_ = r.Close()
		}
		done()
		leave()
		removeAll(private)
	})
	defer func() {
		if err != nil {
			cleanup()
		}
	}()
	if r, w, err = os.Pipe(); err != nil {
		return nil, err
	}

	temp := private
	if b.means.bwrap != "" { // it needs a few files, too
		temp = filepath.Join(private, "tmp")
		if err := os.Mkdir(temp, 0o700); err != nil {
			return nil, fmt.Errorf("private directory: %w", err)
		}
	}

	if err := os.Mkdir(filepath.Join(temp, privateHome), 0o700); err != nil {
		return nil, fmt.Errorf("private home: %w", err)
	}

	pl := b.plan(cmd, p, temp)
	pl.Trial = trial
	if p.control != nil {
		pl.Control = 4 + len(cmd.ExtraFiles) // after the pipe
	}

	if b.means.bwrap != "" {
		if done, err = b.wrapBwrap(cmd, pl, private); err != nil {
			return nil, err
		}
	} else {
		cmd.Args = append([]string{helperName, nextDescriptor(cmd), cmd.Path}, cmd.Args...)
		cmd.Path = b.o.Self
	}

	if !slices.ContainsFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "GOMAXPROCS=") }) {
		cmd.Env = append([]string{"GOMAXPROCS=1"}, cmd.Env...) // the helper waits, nothing else
		pl.DropEnv = 1
	}

	if err := send(pl, w); err != nil {
		return nil, err
	}

	if b.means.group != "" {
		if leave, err = intoGroup(cmd, b.means.group, p.Limits); err != nil {
			leave = func() {}
			return nil, err
		}
	}

	cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), r)
	if p.control != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, p.control)
	}
	return cleanup, nil
}

// send leaves the plan in the pipe, which has no reader yet, so it has to fit.
func send(p *plan, w *os.File) error {
	data, err := p.encode()
	if err != nil {
		return err
	}

	if len(data) > pipeSize {
		raw, err := w.SyscallConn()
		if err != nil {
			return err
		}

		var small error
		err = raw.Control(func(fd uintptr) { _, small = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 2*len(data)) })
		if err = errors.Join(err, small); err != nil {
			return fmt.Errorf("the profile names too many paths: %w", err)
		}
	}

	_, err = w.Write(data)
	return err
}

// pipeSize is a number of bytes that every pipe holds.
const pipeSize = 60 << 10

// plan completes the environment of the command and writes down the rest.
func (b *Box) plan(cmd *exec.Cmd, p Profile, temp string) *plan {
	pl := &plan{
		Profile: p, Command: cmd.Path, Dir: cmd.Dir, Temp: temp, Links: p.links, Spaces: b.means.spaces,
		NoProc: b.means.noProc, PIDMax: b.means.pidMax, ABI: b.level.LandlockABI, identity: identity{UID: os.Getuid(), GID: os.Getgid(), Agent: os.Getpid(), Group: unix.Getpgrp()},
	}
	if cmd.SysProcAttr != nil && cmd.SysProcAttr.Credential != nil {
		pl.UID, pl.GID = int(cmd.SysProcAttr.Credential.Uid), int(cmd.SysProcAttr.Credential.Gid)
	}
	if pl.Dir == "" {
		pl.Dir = p.Workspace
	}

	if f, ok := cmd.Stdin.(*os.File); ok && strings.HasPrefix(f.Name(), "/dev/pts/") {
		pl.Console = f.Name()
		if cmd.SysProcAttr != nil { // the command takes it, not the helper
			attr := *cmd.SysProcAttr
			attr.Setctty = false
			cmd.SysProcAttr = &attr
		}
	}

	if p.Network == NetHost {
		pl.Spaces &^= unix.CLONE_NEWNET
	}

	if b.o.Mode == Hide {
		pl.Hide = true
		return pl
	}

	if b.level.MountNS {
		temp = "/tmp"
	}

	cmd.Env = append(slices.Clip(cmd.Env), "TMPDIR="+temp)
	if p.Network == NetProxy {
		cmd.Env = append(cmd.Env, proxyVariables()...)
		if p.ProxyCerts != "" {
			cmd.Env = append(cmd.Env, certVariables()...)
		}
	}

	for _, kv := range cmd.Env {
		if v, ok := strings.CutPrefix(kv, "HOME="); ok {
			pl.Home = v
		}
	}

	if pl.Home == "" {
		pl.Home = filepath.Join(temp, privateHome)
		cmd.Env = append(cmd.Env, "HOME="+pl.Home)
	}
	return pl
}
