package sandbox

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A new user namespace needs a process with a single thread, which a Go program
// never is. So the helper forks, and its child performs a list of system calls
// that was prepared before, without the Go runtime: no allocation, no growing
// stack, no scheduler. That is the same trick, and the same rules, by which the
// standard library starts programs.

// step is one system call of such a child.
type step struct {
	nr   uintptr
	args [6]uintptr
	fine syscall.Errno // an error that is none
	save bool          // later steps may use the result
}

// saved as the first argument stands for the result of the last step that
// saved one.
const saved = ^uintptr(0) - 1

// passFD is a descriptor number that prepared memory can mention before the
// descriptor exists.
const passFD = 200

// script is a list of steps with what is needed to run and explain it.
type script struct {
	steps  []step
	labels []label
	memory []byte // of the current piece; what was put there stays where it is
	pin    runtime.Pinner
}

// label says what a step is for, should it fail.
type label struct{ verb, object string }

// add appends a call. Strings and pointers become addresses of memory that
// stays where it is.
func (s *script) add(verb, object string, nr uintptr, args ...any) *step {
	if s.steps == nil {
		s.steps, s.labels = make([]step, 0, 256), make([]label, 0, 256)
	}
	var st step
	st.nr = nr
	for i, a := range args {
		st.args[i] = s.word(a)
	}
	s.steps = append(s.steps, st)
	s.labels = append(s.labels, label{verb, object})
	return &s.steps[len(s.steps)-1]
}

func (s *script) word(a any) uintptr {
	switch v := a.(type) {
	case nil:
		return 0
	case int:
		return uintptr(v)
	case uintptr:
		return v
	case string:
		return s.bytes(v, 1)
	case []byte:
		return s.address(unsafe.Pointer(&v[0]))
	case unsafe.Pointer:
		return s.address(v)
	default:
		panic(fmt.Sprintf("sandbox: no system call takes a %T", a))
	}
}

// bytes keeps a copy of text with some zeros after it. Many small texts share a
// piece of memory, because each piece has to be pinned.
func (s *script) bytes(text string, zeros int) uintptr {
	need := len(text) + zeros
	if need > len(s.memory) {
		s.memory = make([]byte, max(16<<10, need))
		s.pin.Pin(&s.memory[0])
	}
	copy(s.memory, text)
	at := uintptr(unsafe.Pointer(&s.memory[0]))
	s.memory = s.memory[need:]
	return at
}

func (s *script) address(p unsafe.Pointer) uintptr {
	s.pin.Pin(p)
	return uintptr(p)
}

// strings is a list for execve, ended by a null pointer.
func (s *script) strings(list []string) unsafe.Pointer {
	words := make([]uintptr, len(list)+1)
	for i, v := range list {
		words[i] = s.word(v)
	}
	return unsafe.Pointer(&words[0])
}

// write puts text into a file that exists.
func (s *script) write(path, text string) {
	s.add("open", path, unix.SYS_OPENAT, atCWD, path, unix.O_WRONLY|unix.O_CLOEXEC, 0).save = true
	s.add("write", path, unix.SYS_WRITE, saved, text, len(text))
	s.add("close", path, unix.SYS_CLOSE, saved)
}

const atCWD = ^uintptr(99) // AT_FDCWD, -100

// perform makes the calls in order and stops at the first that fails. Its
// callers may have no Go runtime, so it must not be split, preempted or watched.
//
//go:norace
//go:nosplit
func perform(steps []step) (failed int, errno syscall.Errno) {
	var result uintptr
	for i := range steps {
		s := &steps[i]
		first := s.args[0]
		if first == saved {
			first = result
		}
		r, _, e := syscall.RawSyscall6(s.nr, first, s.args[1], s.args[2], s.args[3], s.args[4], s.args[5])
		if e != 0 && e != s.fine {
			return i, e
		}
		if s.save {
			result = r
		}
	}
	return -1, 0
}

// launch is what the helper's child does. With namespaces the child becomes
// their first process: it performs setup, forks the command, performs leave and
// then only reaps. Without, it is the command itself. Either way run ends with
// an execve.
type launch struct {
	spaces            uintptr
	setup, leave, run script
	report            int // a descriptor for complaint
}

// complaint is how a child says which step failed.
type complaint struct {
	stage, step int
	errno       syscall.Errno
}

const (
	stageSetup = iota
	stageRun
	stageLeave
)

// start forks. The calling goroutine must be locked to its thread, because the
// child dies with that thread.
func (l *launch) start() (pid int, err error) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	n, errno := l.fork()
	if errno != 0 {
		return 0, fmt.Errorf("new namespaces: %w", errno)
	}
	runtime.KeepAlive(l)
	return int(n), nil
}

//go:norace
//go:nosplit
func (l *launch) fork() (uintptr, syscall.Errno) {
	// No signal may run a Go handler in the child; execve forgets handlers,
	// and run restores the mask.
	all, old := ^uint64(0), uint64(0)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, l.spaces|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		l.child()
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
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
	if i, e := perform(l.setup.steps); e != 0 {
		l.fail(stageSetup, i, e)
	}
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		l.fail(stageLeave, 0, e)
	}
	if pid == 0 {
		l.become()
	}
	if i, e := perform(l.leave.steps); e != 0 {
		l.fail(stageLeave, i, e)
	}
	for {
		var status uint32
		got, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), 0, 0, 0, 0)
		switch {
		case e == syscall.EINTR:
		case e != 0:
			exit(failureCode)
		case got != pid:
		case status&0x7f == 0:
			exit(uintptr(status>>8) & 0xff)
		default:
			exit(128 + uintptr(status&0x7f))
		}
	}
}

//go:norace
//go:nosplit
func (l *launch) become() {
	i, e := perform(l.run.steps)
	l.fail(stageRun, i, e)
}

//go:norace
//go:nosplit
func (l *launch) fail(stage, i int, e syscall.Errno) {
	c := complaint{stage, i, e}
	_, _, _ = syscall.RawSyscall6(unix.SYS_WRITE, uintptr(l.report), uintptr(unsafe.Pointer(&c)), unsafe.Sizeof(c), 0, 0, 0)
	exit(failureCode)
}

//go:norace
//go:nosplit
func exit(code uintptr) {
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}

// explain turns a complaint into words.
func (l *launch) explain(c complaint) error {
	labels := map[int][]label{stageSetup: l.setup.labels, stageRun: l.run.labels, stageLeave: l.leave.labels}[c.stage]
	what := label{"start", "the command"}
	if i := c.step; i >= 0 && i < len(labels) {
		what = labels[i]
	}
	return fmt.Errorf("%s %s: %w", what.verb, what.object, c.errno)
}
