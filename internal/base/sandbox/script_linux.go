package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// routine says what the processes of one command do until it runs, as lists of
// system calls: a process that was forked from a Go program can do nothing else.
type routine struct {
	// With namespaces, setup is performed by their first process, which then
	// forks, performs leave and stays to reap; the fork performs run. Without,
	// the child performs run alone, which ends with the command.
	setup, leave, run script
	// freeze is performed by the first process when the agent asks for it.
	freeze script

	held []any // what steps point to; the collector does not know them
}

// Descriptors that steps can mention before they exist.
const (
	passFD  = 200
	rulesFD = 201
	// frozenFD is the first of those that lead to what can be frozen.
	frozenFD = 300
)

// saved as the first argument stands for the result of the last step that
// saved one.
const saved = ^uintptr(0) - 1

// atCWD is AT_FDCWD.
const atCWD = ^uintptr(99)

func newRoutine() *routine {
	r := &routine{}
	for _, s := range r.scripts() {
		s.of = r
	}
	return r
}

func (r *routine) scripts() [4]*script { return [4]*script{&r.setup, &r.leave, &r.run, &r.freeze} }

// script is a list of system calls.
type script struct {
	steps []step
	what  []string // a step is for, should it fail
	of    *routine
}

// step is one system call.
type step struct {
	nr   uintptr
	args [6]uintptr
	// fine is an error that is none, and lax says that every error is.
	fine unix.Errno
	lax  bool
	skip int  // how many of the following steps are left out after such an error
	save bool // later steps may use the result
}

// hold makes a copy of a value for steps to point to.
func hold[T any](r *routine, v T) unsafe.Pointer {
	r.held = append(r.held, &v)
	return unsafe.Pointer(&v)
}

// add appends a call. Strings become texts with a zero at the end. The result
// is valid until the next call.
func (s *script) add(verb, object string, nr uintptr, args ...any) *step {
	st := step{nr: nr}
	for i, a := range args {
		switch v := a.(type) {
		case nil:
		case int:
			st.args[i] = uintptr(v)
		case uintptr:
			st.args[i] = v
		case unsafe.Pointer:
			st.args[i] = uintptr(v)
		case string:
			text := append([]byte(v), 0)
			s.of.held = append(s.of.held, text)
			st.args[i] = uintptr(unsafe.Pointer(&text[0]))
		default:
			panic("sandbox: no system call takes such an argument")
		}
	}

	s.steps = append(s.steps, st)
	s.what = append(s.what, verb+" "+object)
	return &s.steps[len(s.steps)-1]
}

// write puts text into a file that exists. If lax, no error matters.
func (s *script) write(path, text string, lax bool) {
	open := s.add("open", path, unix.SYS_OPENAT, atCWD, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	open.save = true
	open.lax = lax
	open.skip = 2
	s.add("write", path, unix.SYS_WRITE, saved, text, len(text)).lax = lax
	s.add("close", path, unix.SYS_CLOSE, saved)
}
