package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	helperName = "nanobot-sandbox"
	// failureCode is how a command ends that could not be confined.
	failureCode = 126
)

// Every program that contains this package is its own helper, and finds out
// here: before main, and before most packages it consists of are initialised,
// which for a large program is most of the time a start takes. For that the
// package must not import net, directly or not; a test sees to it. A helper ends
// here, so nothing of the program itself ever runs in it.
var _ = helpInstead(os.Args)

func helpInstead(args []string) (handled bool) {
	if len(args) < 3 || args[0] != helperName && args[0] != innerHelper {
		return false
	}
	code, err := help(args[1], args[2:])
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
		code = failureCode
	}
	syscall.Exit(code)
	return true
}

// help runs argv (the path of a program, then its arguments from the zeroth)
// under the plan that it reads from a descriptor.
func help(descriptor string, argv []string) (code int, err error) {
	// The child dies with the thread that made it, so that must be ours for good.
	runtime.LockOSThread()
	fd, err := strconv.Atoi(descriptor)
	if err != nil {
		return 0, errors.New("not meant to be started by hand")
	}
	// Nothing but the three streams reaches the command.
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, fmt.Errorf("close files: %w", err)
	}
	lifeline := os.NewFile(uintptr(fd), "plan")
	p, err := readPlan(lifeline)
	if err != nil {
		return 0, fmt.Errorf("read the plan: %w", err)
	}
	h := &helper{plan: p, argv: argv, env: os.Environ()[p.DropEnv:]}
	defer h.close()
	if err := h.prepare(); err != nil {
		return 0, err
	}
	return h.run(lifeline)
}

// helper is the process between the agent and the command. It stays outside
// the command's namespaces and rules, ends the command when the agent ends, and
// carries the exit code.
type helper struct {
	plan    *plan
	argv    []string
	env     []string
	launch  launch
	reports *os.File // the child's complaints
	send    int      // the child's end of receive
	receive int      // a socket on which the child hands over its listener
	forward *forwarder
}

func (h *helper) close() {
	h.launch.setup.pin.Unpin()
	h.launch.leave.pin.Unpin()
	h.launch.run.pin.Unpin()
}

// prepare writes the scripts of the child.
func (h *helper) prepare() error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	h.reports, h.launch.report = os.NewFile(uintptr(pipe[0]), "reports"), pipe[1]
	p, l := h.plan, &h.launch
	l.spaces = uintptr(p.Spaces) //nolint:gosec // flags
	if p.Spaces != 0 {
		s := &l.setup
		s.add("die with", "the helper", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
		if p.Spaces&unix.CLONE_NEWUSER != 0 {
			s.write("/proc/self/setgroups", "deny")
			s.write("/proc/self/uid_map", idMap(os.Getuid()))
			s.write("/proc/self/gid_map", idMap(os.Getgid()))
		}
		p.buildRoot(s)
		if err := h.network(s); err != nil {
			return err
		}
		s.add("be", "untouchable", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
		dropRights(s)
		l.leave.add("close", "files", unix.SYS_CLOSE_RANGE, 0, ^uintptr(0)>>1, 0)
	}
	if err := h.innerNetwork(); err != nil {
		return err
	}
	h.innerLimit()
	return h.confine(&l.run)
}

func idMap(id int) string { return fmt.Sprintf("%d %d 1\n", id, id) }

// dropRights takes all capabilities away, for good, from root too.
func dropRights(s *script) {
	s.add("refuse", "new rights", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	s.add("clear", "ambient rights", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0).fine = unix.EINVAL
	for c := range unix.CAP_LAST_CAP + 1 {
		// Who has no rights to begin with is not permitted this either.
		s.add("bound", "rights", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0).fine = unix.EPERM
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	s.add("drop", "rights", unix.SYS_CAPSET, unsafe.Pointer(header), unsafe.Pointer(new([2]unix.CapUserData)))
}

// confine adds the steps by which the child becomes the command.
func (h *helper) confine(s *script) error {
	p := h.plan
	if p.Spaces == 0 { // else setup did
		s.add("die with", "the helper", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
		dropRights(s)
	}
	if p.ABI > 0 {
		r, err := h.rules(s)
		if err != nil {
			return err
		}
		s.add("apply", "Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, r.fd, 0)
	}
	h.limits(s)
	// Many busy processes must not starve the agent. Who started with less
	// priority than this may not raise it, and need not.
	s.add("lower", "the priority", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 10).fine = unix.EACCES
	if code := filter(p.Profile.Network, p.ownNet(), p.ownFiles(), h.guarded()...); code != nil {
		s.pin.Pin(&code[0])
		s.add("apply", "the system call filter", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
			unsafe.Pointer(&unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})) //nolint:gosec // far below 65536
	}
	s.add("unblock", "signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, unsafe.Pointer(new(uint64)), 0, 8)
	s.add("enter", p.Dir, unix.SYS_CHDIR, p.Dir)
	if p.Trial {
		s.add("end", "the trial", unix.SYS_EXIT_GROUP, 0)
		return nil
	}
	s.add("run", h.argv[0], unix.SYS_EXECVE, h.argv[0], s.strings(h.argv[1:]), s.strings(h.env))
	return nil
}

// guarded are the agent and the helper, where neither a namespace nor Landlock
// keeps signals away from them.
func (h *helper) guarded() []int {
	if h.plan.ABI >= scopedLandlock || h.plan.ownFiles() {
		return nil
	}
	out := []int{os.Getpid()}
	if agent := os.Getppid(); agent > 1 {
		out = append(out, agent)
		if group, err := unix.Getpgid(agent); err == nil && group > 1 && group != agent {
			out = append(out, group)
		}
	}
	return out
}

// rules writes the Landlock rules. With a file system of its own the command
// may read all of it; without, what may be read is listed one by one.
func (h *helper) rules(s *script) (*rules, error) {
	p := h.plan
	r, err := newRules(int(p.ABI), p.Profile.Network != NetHost && !p.ownNet())
	if err != nil {
		return nil, err
	}
	write := slices.Concat([]string{p.Profile.Workspace, p.Temp}, p.Profile.ReadWrite)
	var read, device []string
	switch {
	case p.Inner:
		read, device = []string{"/"}, []string{"/dev"}
		write = append(write, "/tmp", "/dev/shm", "/dev/pts")
	case p.ownFiles():
		r.allowLater(s, "/", accessRead)
		r.allowLater(s, "/dev", accessRead|accessWrite|accessDevice)
	default:
		read = slices.Concat(systemPaths(), etcPaths(), p.Profile.ReadOnly)
		device = append(devices(), "/dev/pts", "/dev/ptmx")
	}
	for access, paths := range map[uint64][]string{accessRead: read, accessRead | accessDevice: device, accessRead | accessWrite: write} {
		for _, path := range paths {
			if err := r.allow(path, access); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// run starts the command and stays until it has ended. What can wait is done
// while the child is busy.
func (h *helper) run(lifeline io.Reader) (int, error) {
	if h.plan.Spaces == 0 {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	pid, err := h.launch.start()
	if err != nil {
		return 0, err
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	raiseOOMScore(pid)
	_ = unix.Close(h.launch.report)
	if h.send > 0 {
		_ = unix.Close(h.send)
	}
	signals := make(chan os.Signal, 8)
	// Handled, not ignored, because the command would inherit that. What is
	// sent to the group reaches the command anyway.
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	var orphaned atomic.Bool
	go func() {
		// The agent never writes again: whatever comes is the end.
		_, _ = lifeline.Read(make([]byte, 1))
		orphaned.Store(true)
		h.end(pid)
	}()
	if err := h.started(); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = wait(pid)
		return 0, err
	}
	letGoOfStreams()
	go h.pass(signals, pid)
	if n := h.plan.Profile.Limits.Processes; n > 0 && !h.plan.PIDMax && (os.Getuid() == 0 || !h.plan.ownFiles()) {
		go h.watch(pid, int(n))
	}
	code, err := wait(pid)
	if h.plan.Spaces == 0 && !h.plan.Inner {
		endOrphans()
	}
	if orphaned.Load() && !h.plan.Inner {
		removeAll(h.plan.Temp) // nobody else is there to do it
	}
	return code, err
}

// started returns when the command runs, or why it does not. It also takes
// over the listener that the child made in its own network.
func (h *helper) started() error {
	if h.forward != nil {
		if err := h.forward.start(h.receive); err != nil {
			if c := h.complaint(); c != nil {
				return c
			}
			return err
		}
	}
	return h.complaint()
}

// complaint waits until the child has closed its end, which execve does.
func (h *helper) complaint() error {
	var c complaint
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&c)), unsafe.Sizeof(c))
	n, err := io.ReadFull(h.reports, buf)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("read the report: %w", err)
	}
	return h.launch.explain(c)
}

// pass hands on what was sent to the helper alone, as to any process that
// stands for a command. A command that was asked to end gets a second for it.
func (h *helper) pass(signals <-chan os.Signal, pid int) {
	for sig := range signals {
		s, ok := sig.(syscall.Signal)
		if !ok || s != unix.SIGTERM && s != unix.SIGHUP {
			continue
		}
		to := pid
		if h.plan.Spaces != 0 {
			to = firstChild(pid)
		}
		if to != 0 {
			_ = unix.Kill(to, s)
		}
		time.AfterFunc(time.Second, func() { h.end(pid) })
	}
}

// watch bounds the number of processes where the kernel does not: it exempts
// root from the limit of a user, and without a namespace it counts all processes
// the user has.
func (h *helper) watch(pid, most int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if countBelow(pid, most) >= most {
			h.end(pid)
			return
		}
	}
}

// end kills the command with everything it started. Without a namespace that
// takes several rounds, and the wait for the command ends them.
func (h *helper) end(pid int) {
	if h.plan.Spaces != 0 || h.plan.Inner {
		_ = unix.Kill(pid, unix.SIGKILL) // and with it the namespace
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		killBelow(os.Getpid())
	}
}

// wait reaps until the one process has ended. Others may be orphans that were
// handed to the helper.
func wait(pid int) (int, error) {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case got != pid:
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil
		default:
			return ws.ExitStatus(), nil
		}
	}
}
