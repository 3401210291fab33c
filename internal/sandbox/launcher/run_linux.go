package launcher

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
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
	code, err := serve(args)
	if err != nil {
		_, _ = os.Stderr.WriteString("sandbox: " + err.Error() + "\n")
		code = FailureCode
	}
	syscall.Exit(code)
	return true
}

// serve starts the command, unless that was done before the runtime started,
// and stays until it has ended. The calling goroutine has a thread of its own,
// as everything that runs during initialisation.
func serve(args []string) (code int, err error) {
	l := &self
	if !l.begun {
		argv, err := syscall.SlicePtrFromStrings(args)
		if err != nil {
			return 0, err
		}
		env, err := syscall.SlicePtrFromStrings(syscall.Environ())
		if err != nil {
			return 0, err
		}
		l.begin(unsafe.Pointer(&argv[0]), unsafe.Pointer(&env[0]))
		l.attendAlone(false)
		runtime.KeepAlive(argv)
		runtime.KeepAlive(env)
	}
	switch {
	case l.trouble != "" && l.told:
		return 0, l.explain(l.said)
	case l.trouble != "" && l.errno != 0:
		return 0, errors.New(l.trouble + ": " + l.errno.Error())
	case l.trouble != "":
		return 0, errors.New(l.trouble)
	case l.Spaces != 0 && l.Proxy == "":
		return l.attend()
	}
	return l.stay()
}

// attend waits for the only child with one thread.
func (l *launcher) attend() (int, error) {
	go l.pass(catch())
	if l.Watch > 0 {
		go l.watch()
	}
	orphaned := false
	for {
		w := l.watched()
		w.signals.fd = -1
		if orphaned {
			w.lifeline.fd = -1
		}
		_, _, e := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&w)), unsafe.Sizeof(w)/unsafe.Sizeof(w.child), 0, 0, 0, 0)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 { // cannot happen; without it the launcher still waits
			w.child.revents = pollIn
		}
		if l.told || w.reports.revents|w.child.revents != 0 {
			if err := l.started(); err != nil {
				return 0, err
			}
		}
		if w.lifeline.revents != 0 {
			// The agent never writes again: whatever comes is the end.
			orphaned = true
			l.end()
		}
		if w.child.revents != 0 {
			code, err := wait(l.pid)
			if orphaned {
				RemoveAll(l.Temp) // nobody else is there to do it
			}
			return code, err
		}
	}
}

// stay is attend for a launcher that has more to do: it carries connections, or
// reaps what the command leaves behind.
func (l *launcher) stay() (int, error) {
	signals := catch()
	var orphaned atomic.Bool
	go func() {
		// The agent never writes again: whatever comes is the end.
		for _, err := syscall.Read(l.lifeline, make([]byte, 1)); errors.Is(err, syscall.EINTR); {
			_, err = syscall.Read(l.lifeline, make([]byte, 1))
		}
		orphaned.Store(true)
		l.end()
	}()
	if l.Proxy != "" && l.Inner {
		(&forwarder{socket: l.Proxy}).listen(ListenFD)
	}
	if err := l.started(); err != nil {
		return 0, err
	}
	go l.pass(signals)
	if l.Watch > 0 {
		go l.watch()
	}
	code, err := wait(l.pid)
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
	for _, s := range caught() {
		signal.Notify(signals, s)
	}
	return signals
}

// started returns when the command runs, or why it does not. It also takes
// over the listener that the child made in its own network.
func (l *launcher) started() error {
	var err error
	if l.receive > 0 {
		err = (&forwarder{socket: l.Proxy}).start(l.receive)
		l.receive = 0
	}
	if !l.listen() {
		err = l.explain(l.said)
	}
	if err != nil {
		_ = syscall.Kill(l.pid, syscall.SIGKILL)
		_, _ = wait(l.pid)
	}
	return err
}

// pass hands on what was sent to the launcher alone, as to any process that
// stands for a command. A command that was asked to end gets a second for it.
func (l *launcher) pass(signals <-chan os.Signal) {
	if isRequest(l.asked) {
		l.passOne(l.asked)
	}
	for sig := range signals {
		if s, ok := sig.(syscall.Signal); ok && isRequest(s) {
			l.passOne(s)
		}
	}
}

func (l *launcher) passOne(s syscall.Signal) {
	to := l.pid
	if l.Spaces != 0 {
		to = firstChild(l.pid)
	}
	if to != 0 {
		_ = syscall.Kill(to, s)
	}
	time.AfterFunc(time.Second, l.end)
}

// watch bounds the number of processes where the kernel does not: it exempts
// root from the limit of a user, and without a namespace it counts all processes
// the user has.
func (l *launcher) watch() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if countBelow(l.pid, l.Watch) >= l.Watch {
			l.end()
			return
		}
	}
}

// end kills the command with everything it started. Without a namespace that
// takes several rounds, and the wait for the command ends them.
func (l *launcher) end() {
	if l.Spaces != 0 || l.Inner {
		_ = syscall.Kill(l.pid, syscall.SIGKILL) // and with it the namespace
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
