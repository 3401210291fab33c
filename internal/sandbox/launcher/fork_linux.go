package launcher

import (
	"errors"
	"syscall"
	"unsafe"
)

// A new user namespace needs a process with a single thread, which a Go program
// never is. So the launcher forks, and its child performs a list of system calls
// that was prepared before, without the Go runtime: no allocation, no growing
// stack, no scheduler. That is the same trick, and the same rules, by which the
// standard library starts programs.

// perform makes the calls in order and stops at the first that fails. Its
// callers may have no Go runtime, so it must not be split, preempted or watched.
//
//go:norace
//go:nosplit
func perform(steps []Step) (failed int, errno syscall.Errno) {
	var result uintptr
	for i := 0; i < len(steps); i++ {
		s := &steps[i]
		first := s.args[0]
		if first == Saved {
			first = result
		}
		r, _, e := syscall.RawSyscall6(s.nr, first, s.args[1], s.args[2], s.args[3], s.args[4], s.args[5])
		switch {
		case e == 0:
			if s.Save {
				result = r
			}
		case e == s.Fine || s.Lax:
			i += int(s.Skip)
		default:
			return i, e
		}
	}
	return -1, 0
}

// launch is what the child does.
type launch struct {
	spaces            uintptr
	setup, leave, run []Step
	report            int // a descriptor for complaint
}

// complaint is how a child says which step failed.
type complaint struct {
	script, step int
	errno        syscall.Errno
}

const (
	scriptBefore = iota
	scriptSetup
	scriptLeave
	scriptRun
)

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

const sigSetMask = 2

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
	for {
		var status uint32
		got, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), 0, 0, 0, 0)
		switch {
		case e == syscall.EINTR:
		case e != 0:
			exit(FailureCode)
		case got != pid:
		default:
			exit(exitCode(status))
		}
	}
}

// exitCode is how shells say how a process has ended.
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
	exit(FailureCode)
}

//go:norace
//go:nosplit
func exit(code uintptr) {
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}

// explain turns a complaint into words.
func (p *Program) explain(c complaint) error {
	what := "start the command"
	if c.script >= scriptBefore && c.script <= scriptRun {
		labels := p.scripts()[c.script].labels
		for i := 0; len(labels) > 0; i++ {
			verb, rest := cut(labels)
			object, rest := cut(rest)
			if i == c.step {
				what = string(verb) + " " + string(object)
			}
			labels = rest
		}
	}
	return errors.New(what + ": " + c.errno.Error())
}

// cut splits after the first zero.
func cut(data []byte) (text, rest []byte) {
	for i, b := range data {
		if b == 0 {
			return data[:i], data[i+1:]
		}
	}
	return data, nil
}
