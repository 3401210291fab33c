package launcher

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A launcher ends here, before main and before most packages are initialised:
// for a large program that is half of the time a start takes. Nothing of the
// program itself ever runs in it.
var _ = launchInstead(os.Args)

func launchInstead(args []string) (handled bool) {
	if len(args) < 3 || args[0] != Name && args[0] != InnerName {
		return false
	}
	code, err := serve(args[1], args[2:])
	if err != nil {
		_, _ = os.Stderr.WriteString("sandbox: " + err.Error() + "\n")
		code = FailureCode
	}
	syscall.Exit(code)
	return true
}

const (
	closeRange        = 436
	closeRangeCloExec = 4
	prSetDumpable     = 4
	prSetSubreaper    = 36
)

// serve runs argv (the path of a program, then its arguments from the zeroth)
// as the program says that it reads from a descriptor. The calling goroutine
// has a thread of its own, as everything that runs during initialisation.
func serve(descriptor string, argv []string) (code int, err error) {
	fd, err := strconv.Atoi(descriptor)
	if err != nil {
		return 0, errors.New("not meant to be started by hand")
	}
	// Nothing but the three streams reaches the command.
	if _, _, e := syscall.RawSyscall(closeRange, 3, ^uintptr(0)>>1, closeRangeCloExec); e != 0 {
		return 0, errors.New("close files: " + e.Error())
	}
	p, err := decode(descriptorReader(fd), syscall.Getpid())
	if err != nil {
		return 0, errors.New("read the plan: " + err.Error())
	}
	l := &launcher{Program: p, lifeline: fd}
	if err := l.prepare(argv, syscall.Environ()[p.DropEnv:]); err != nil {
		return 0, err
	}
	return l.run()
}

// descriptorReader reads without the poller, which would have to be started.
type descriptorReader int

func (d descriptorReader) Read(buf []byte) (int, error) {
	for {
		n, err := syscall.Read(int(d), buf)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// launcher stays outside the command's namespaces and rules, ends the command
// when the agent ends, and carries the exit code.
type launcher struct {
	*Program
	lifeline int // its end means that the agent has ended
	launch   launch
	argv     []*byte
	env      []*byte
	reports  int // the child's complaints
	receive  int // a socket on which the child hands over its listener
}

// prepare makes what the child inherits.
func (l *launcher) prepare(argv, env []string) error {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return errors.New("pipe: " + err.Error())
	}
	l.reports = pipe[0]
	l.launch = launch{spaces: l.Spaces, setup: l.Setup.steps, leave: l.Leave.steps, run: l.Run.steps, report: pipe[1]}
	var err error
	if l.argv, err = syscall.SlicePtrFromStrings(argv); err != nil {
		return err
	}
	if l.env, err = syscall.SlicePtrFromStrings(env); err != nil {
		return err
	}
	if n := len(l.Run.steps); n > 0 && l.Run.steps[n-1].nr == syscall.SYS_EXECVE {
		l.Run.steps[n-1].args = [6]uintptr{
			uintptr(unsafe.Pointer(l.argv[0])), uintptr(unsafe.Pointer(&l.argv[1])), uintptr(unsafe.Pointer(&l.env[0])),
		}
	}
	if l.Proxy != "" && !l.Inner {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			err = syscall.Dup3(pair[1], SendFD, syscall.O_CLOEXEC)
		}
		if err != nil {
			return errors.New("socket: " + err.Error())
		}
		_ = syscall.Close(pair[1])
		l.receive = pair[0]
	}
	if i, e := perform(l.Before.steps); e != 0 {
		return l.explain(complaint{scriptBefore, i, e})
	}
	if l.PIDMax > 0 && os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(l.PIDMax)), 0) == nil {
		l.Watch = 0
	}
	if l.Proxy != "" && l.Inner {
		(&forwarder{socket: l.Proxy}).listen(ListenFD)
	}
	return nil
}

// run starts the command and stays until it has ended. What can wait is done
// while the child is busy.
func (l *launcher) run() (int, error) {
	if l.Spaces == 0 {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetSubreaper, 1, 0, 0, 0, 0)
	}
	pid, err := l.launch.start()
	if err != nil {
		return 0, err
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0, 0)
	_ = syscall.Close(l.launch.report)
	if l.receive > 0 {
		_ = syscall.Close(SendFD)
	}
	if l.Spaces != 0 && l.receive == 0 {
		if handle, ok := pidHandle(pid); ok {
			return l.attend(pid, handle)
		}
	}
	signals := catch()
	var orphaned atomic.Bool
	go func() {
		// The agent never writes again: whatever comes is the end.
		_, _ = descriptorReader(l.lifeline).Read(make([]byte, 1))
		orphaned.Store(true)
		l.end(pid)
	}()
	if err := l.started(); err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = wait(pid)
		return 0, err
	}
	letGoOfStreams()
	go l.pass(signals, pid)
	if l.Watch > 0 {
		go l.watch(pid)
	}
	code, err := wait(pid)
	if l.Spaces == 0 && !l.Inner {
		endOrphans()
	}
	if orphaned.Load() && !l.Inner {
		RemoveAll(l.Temp) // nobody else is there to do it
	}
	return code, err
}

// catch takes the signals that would end the launcher. They are handled, not
// ignored, because the command would inherit that. What is sent to the group
// reaches the command anyway.
func catch() <-chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	return signals
}

// started returns when the command runs, or why it does not. It also takes
// over the listener that the child made in its own network.
func (l *launcher) started() error {
	if l.receive > 0 {
		if err := (&forwarder{socket: l.Proxy}).start(l.receive); err != nil {
			if c := l.complaint(); c != nil {
				return c
			}
			return err
		}
	}
	return l.complaint()
}

// complaint waits until the child has closed its end, which execve does.
func (l *launcher) complaint() error {
	var c complaint
	n, err := io.ReadFull(descriptorReader(l.reports), unsafe.Slice((*byte)(unsafe.Pointer(&c)), unsafe.Sizeof(c)))
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return errors.New("read the report: " + err.Error())
	}
	return l.explain(c)
}

// pass hands on what was sent to the launcher alone, as to any process that
// stands for a command. A command that was asked to end gets a second for it.
func (l *launcher) pass(signals <-chan os.Signal, pid int) {
	for sig := range signals {
		s, ok := sig.(syscall.Signal)
		if !ok || s != syscall.SIGTERM && s != syscall.SIGHUP {
			continue
		}
		to := pid
		if l.Spaces != 0 {
			to = firstChild(pid)
		}
		if to != 0 {
			_ = syscall.Kill(to, s)
		}
		time.AfterFunc(time.Second, func() { l.end(pid) })
	}
}

// watch bounds the number of processes where the kernel does not: it exempts
// root from the limit of a user, and without a namespace it counts all processes
// the user has.
func (l *launcher) watch(pid int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if countBelow(pid, l.Watch) >= l.Watch {
			l.end(pid)
			return
		}
	}
}

// end kills the command with everything it started. Without a namespace that
// takes several rounds, and the wait for the command ends them.
func (l *launcher) end(pid int) {
	if l.Spaces != 0 || l.Inner {
		_ = syscall.Kill(pid, syscall.SIGKILL) // and with it the namespace
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		killBelow(os.Getpid())
	}
}

// wait reaps until the one process has ended. Others may be orphans that were
// handed to the launcher.
func wait(pid int) (int, error) {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, errors.New("wait: " + err.Error())
		case got != pid:
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil
		default:
			return ws.ExitStatus(), nil
		}
	}
}
