package sandbox

import (
	"fmt"
	"syscall"
	"unsafe"
)

// A new user namespace needs a process with a single thread, which a Go program
// never is. So the helper forks, and its child performs a list of system calls
// that was prepared before, without the Go runtime: no allocation, no growing
// stack, no scheduler. That is the same trick, and the same rules, by which the
// standard library starts programs.

// perform makes the calls in order and stops at the first that fails. Its
// callers may have no Go runtime, so it must not be split, preempted or watched.
//
//go:norace
//go:nosplit
func perform(steps []step) (failed int, errno syscall.Errno) {
	var result uintptr
	for i := 0; i < len(steps); i++ {
		s := &steps[i]
		first := s.args[0]
		if first == saved {
			first = result
		}

		r, _, e := syscall.RawSyscall6(s.nr, first, s.args[1], s.args[2], s.args[3], s.args[4], s.args[5])
		switch {
		case e == 0:
			if s.save {
				result = r
			}
		case e == s.fine || s.lax:
			i += s.skip
		default:
			return i, e
		}
	}

	return -1, 0
}

// launch holds the work of the child, as lists of system calls, and where it reports.
type launch struct {
	spaces            uintptr // namespaces to make, as flags of clone
	setup, leave, run []step
	freeze            []step // nil: the agent never asks for it
	report            int    // a descriptor for complaint
}

// complaint is how a child says which step failed.
type complaint struct {
	script, step int
	errno        syscall.Errno
}

// The order of routine.scripts.
const (
	scriptSetup = iota
	scriptLeave
	scriptRun
)

const sigSetMask = 2

// fork makes the child, which dies with the calling thread.
//
//go:norace
//go:nosplit
func (l *launch) fork() (uintptr, syscall.Errno) {
	// No signal may run a Go handler in the child; execve forgets handlers,
	// and the script restores the mask.
	all, old := ^uint64(0), uint64(0)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, l.spaces|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		l.child()
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	return pid, errno
}

// child never returns.
//
//go:norace
//go:nosplit
func (l *launch) child() {
	if l.spaces == 0 {
		l.become()
	}
	if i, e := perform(l.setup); e != 0 {
		l.fail(scriptSetup, i, e)
	}

	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		l.fail(scriptLeave, -1, e)
	}
	if pid == 0 {
		l.become()
	}
	if i, e := perform(l.leave); e != 0 {
		l.fail(scriptLeave, i, e)
	}

	for l.freeze != nil {
		l.listen()
		reap(pid, syscall.WNOHANG)
	}

	for {
		reap(pid, 0)
	}
}

// reap takes leave of processes that have ended. With the command it ends the
// namespace.
//
//go:norace
//go:nosplit
func reap(command, options uintptr) {
	for {
		var status uint32
		got, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), options, 0, 0, 0)
		switch {
		case e == syscall.EINTR:
		case e != 0:
			exit(failureCode)
		case got == command:
			exit(exitCode(status))
		case got == 0:
			return
		}
	}
}

// Descriptors of the first process of a namespace that can be frozen.
const (
	controlFD = 0
	endedFD   = 1 // can be read when a process has ended
)

// pollFD is struct pollfd.
type pollFD struct {
	fd              int32
	events, revents int16
}

const pollIn = 1

// listen waits until a process has ended or the agent asks to freeze what the
// command may write, which is answered by the number of an error. The end of
// the agent is the end of the command.
//
//go:norace
//go:nosplit
func (l *launch) listen() {
	fds := [2]pollFD{{fd: controlFD, events: pollIn}, {fd: endedFD, events: pollIn}}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 2, 0, 0, 0, 0)
	if fds[1].revents != 0 {
		var info [128]byte // struct signalfd_siginfo
		_, _, _ = syscall.RawSyscall6(syscall.SYS_READ, endedFD, uintptr(unsafe.Pointer(&info)), 128, 0, 0, 0)
	}

	if fds[0].revents == 0 {
		return
	}

	var request byte
	n, _, e := syscall.RawSyscall6(syscall.SYS_READ, controlFD, uintptr(unsafe.Pointer(&request)), 1, 0, 0, 0)
	if e == syscall.EINTR {
		return
	}

	if e != 0 || n == 0 {
		exit(failureCode)
	}

	_, e = perform(l.freeze)
	answer := byte(e) //nolint:gosec // an error number that remounting gives, all below 134
	_, _, _ = syscall.RawSyscall6(syscall.SYS_WRITE, controlFD, uintptr(unsafe.Pointer(&answer)), 1, 0, 0, 0)
}

// exitCode returns the number by which shells say how a process has ended.
//
//go:norace
//go:nosplit
func exitCode(status uint32) uintptr {
	if status&0x7f == 0 {
		return uintptr(status>>8) & 0xff
	}
	return 128 + uintptr(status&0x7f)
}

//go:norace
//go:nosplit
func (l *launch) become() {
	i, e := perform(l.run)
	l.fail(scriptRun, i, e)
}

//go:norace
//go:nosplit
func (l *launch) fail(script, i int, e syscall.Errno) {
	c := complaint{script, i, e}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_WRITE, uintptr(l.report), uintptr(unsafe.Pointer(&c)), unsafe.Sizeof(c), 0, 0, 0)
	exit(failureCode)
}

//go:norace
//go:nosplit
func exit(code uintptr) {
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}

// explain turns a complaint into words.
func (r *routine) explain(c complaint) error {
	what := "start the command"
	if c.script >= scriptSetup && c.script <= scriptRun {
		if list := r.scripts()[c.script].what; c.step >= 0 && c.step < len(list) {
			what = list[c.step]
		}
	}
	return fmt.Errorf("%s: %w", what, c.errno)
}
