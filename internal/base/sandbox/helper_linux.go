package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// helperName is the zeroth argument by which a program becomes a helper. The
	// first is the number of the pipe with the plan, then come the path of the
	// command and its arguments from the zeroth.
	helperName = "nanobot-sandbox"
	// innerName is the same inside bubblewrap, where it must be a path.
	innerName = "/run/" + helperName
	// failureCode is how a command ends that could not be confined.
	failureCode = 126
)

// A helper ends here, before main and before most packages are initialised.
// Nothing of the program itself ever runs in it.
var _ = helpInstead(os.Args)

func helpInstead(args []string) (handled bool) {
	if len(args) < 3 || args[0] != helperName && args[0] != innerName {
		return false
	}

	code, err := serve(args)
	if err != nil {
		_, _ = os.Stderr.WriteString("sandbox: " + err.Error() + "\n")
		code = failureCode
	}

	syscall.Exit(code) // os.Exit waits a second in a program that has the race detector
	return true
}

// helper stays outside the command's namespaces and rules, ends the command
// when the agent ends, and carries the exit code.
type helper struct {
	*plan
	routine  *routine
	lifeline *os.File // its end means that the agent has ended
	reports  int      // the child's complaints
	receive  int      // a socket on which the child hands over its listener; 0 without
	pid      int      // of the child
	most     int      // processes, with which the helper ends the command; 0: the kernel counts
}

// serve starts the command and stays until it has ended.
func serve(args []string) (code int, err error) {
	runtime.LockOSThread() // the child dies with the thread that made it
	fd, err := strconv.Atoi(args[1])
	if err != nil {
		return 0, errors.New("begin: not meant to be started by hand")
	}
	// Nothing but the three streams reaches the command.
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, fmt.Errorf("close files: %w", err)
	}

	_ = unix.SetNonblock(fd, true) // so that waiting costs no thread
	h := &helper{lifeline: os.NewFile(uintptr(fd), "plan")}
	if h.plan, err = decodePlan(h.lifeline); err != nil {
		return 0, err
	}

	signals := catch()
	if err := h.start(args[2], args[3:]); err != nil {
		return 0, err
	}
	return h.attend(signals)
}

// start forks.
func (h *helper) start(path string, argv []string) error {
	h.countProcesses()
	var reports [2]int
	if err := unix.Pipe2(reports[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("pipe: %w", err)
	}

	h.reports = reports[0]
	send := 0
	if h.Profile.Network == NetProxy && !h.Inner {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		h.receive, send = pair[0], pair[1]
	}

	if h.Profile.Network == NetProxy && h.Inner {
		if err := forwardInner(h.Profile.ProxySocket); err != nil {
			return err
		}
	}

	env := os.Environ()[h.DropEnv:]
	h.routine = h.plan.routine(send)
	if err := h.routine.become(path, argv, env, h.Trial); err != nil {
		return err
	}

	if h.Spaces == 0 {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}

	r := h.routine
	l := launch{
		spaces: h.Spaces, setup: r.setup.steps, leave: r.leave.steps, run: r.run.steps, freeze: r.freeze.steps, report: reports[1],
	}
	pid, errno := l.fork()
	runtime.KeepAlive(r)
	if errno != 0 {
		return fmt.Errorf("new namespaces: %w", errno)
	}

	h.pid = int(pid)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.Close(reports[1])
	if h.Control > 0 {
		_ = unix.Close(h.Control)
	}
	if send > 0 {
		_ = unix.Close(send)
	}
	return nil
}

// become adds the last step: the program of the command.
func (r *routine) become(path string, argv, env []string, trial bool) error {
	if trial {
		r.run.add("end", "the trial", unix.SYS_EXIT_GROUP, 0)
		return nil
	}

	args, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return err
	}

	variables, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return err
	}

	r.held = append(r.held, args, variables)
	r.run.add("run", path, unix.SYS_EXECVE, path, unsafe.Pointer(&args[0]), unsafe.Pointer(&variables[0]))
	return nil
}

// attend waits for the end of the command.
func (h *helper) attend(signals <-chan os.Signal) (int, error) {
	var orphaned atomic.Bool
	go func() {
		// The agent never writes again: whatever comes is the end.
		_, _ = h.lifeline.Read(make([]byte, 1))
		orphaned.Store(true)
		h.kill()
	}()
	if err := h.started(); err != nil {
		return 0, err
	}

	go h.pass(signals)
	if h.most > 0 {
		go h.watch()
	}

	code, err := wait(h.pid)
	if h.Spaces == 0 && !h.Inner {
		killOrphans()
	}
	if orphaned.Load() && !h.Inner {
		removeAll(h.Temp) // the agent cannot do it any more
	}
	return code, err
}

// catch takes the signals that would end the helper. They are handled, not
// ignored, because the command would inherit that. What is sent to the group
// reaches the command anyway.
func catch() <-chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	return signals
}

// started returns when the command runs, or why it does not. It also takes
// over the listener that the child made in its own network.
func (h *helper) started() error {
	var err error
	if h.receive > 0 {
		err = forwardFrom(h.receive, h.Profile.ProxySocket)
	}

	var said complaint
	if readAll(h.reports, unsafe.Slice((*byte)(unsafe.Pointer(&said)), unsafe.Sizeof(said))) {
		err = h.routine.explain(said)
	}

	if err != nil {
		_ = unix.Kill(h.pid, unix.SIGKILL)
		_, _ = wait(h.pid)
		return err
	}

	letGoOfStreams()
	return nil
}

// readAll waits until the other end is closed, which execve does, or reports
// that there was enough to fill buf.
func readAll(fd int, buf []byte) bool {
	for len(buf) > 0 {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			return false
		default:
			buf = buf[n:]
		}
	}
	return true
}

// letGoOfStreams leaves the streams to the command, so that their readers see
// the end when the command closes them.
func letGoOfStreams() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		_ = unix.Dup3(null, fd, 0)
	}
	_ = unix.Close(null)
}

// pass hands on what was sent to the helper alone, as to any process that
// stands for a command. A command that was asked to end gets a second for it.
func (h *helper) pass(signals <-chan os.Signal) {
	for sig := range signals {
		s, ok := sig.(syscall.Signal)
		if !ok || s != unix.SIGTERM && s != unix.SIGHUP {
			continue
		}

		to := h.pid
		if h.Spaces != 0 {
			to = firstChild(h.pid)
		}
		if to != 0 {
			_ = unix.Kill(to, s)
		}
		time.AfterFunc(time.Second, h.kill)
	}
}

// watch bounds the number of processes where the kernel does not: it exempts
// root from the limit of a user, and without a namespace it counts all processes
// the user has.
func (h *helper) watch() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if countBelow(h.pid, h.most) >= h.most {
			h.kill()
			return
		}
	}
}

// countProcesses decides whether the helper has to count the processes of the
// command. In the namespace of bubblewrap it can leave that to the kernel.
func (h *helper) countProcesses() {
	n := h.Profile.Limits.Processes
	if n <= 0 || h.PIDMax || h.UID != 0 && h.ownFiles() {
		return
	}
	h.most = int(n)
	if h.Inner && countsPerSpace() &&
		os.WriteFile("/proc/sys/kernel/pid_max", strconv.AppendInt(nil, numbersOnce+n, 10), 0o600) == nil {
		h.most = 0
	}
}

// kill kills the command with everything it started. Without a namespace that
// takes several rounds, and the wait for the command ends them.
func (h *helper) kill() {
	if h.Spaces != 0 || h.Inner {
		_ = unix.Kill(h.pid, unix.SIGKILL) // and with it the namespace
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
		case got == pid:
			return int(exitCode(uint32(ws))), nil
		}
	}
}
