package launcher

import (
	"syscall"
	"time"
	"unsafe"
)

// self is the launcher that this process is, if it is one. It is a variable of
// the package because it is filled before there is a heap.
var self launcher //nolint:gochecknoglobals // see above

// launcher stays outside the command's namespaces and rules, ends the command
// when the agent ends, and carries the exit code.
//
// Everything in this file works without the Go runtime: see early.
type launcher struct {
	Program
	begun    bool
	trouble  string // what could not be done, if something could not
	errno    syscall.Errno
	lifeline int // its end means that the agent has ended
	launch   launch
	pid      int // of the child
	handle   int // can be read when the child has ended
	reports  int // the child's complaints
	told     bool
	said     complaint
	receive  int            // a socket on which the child hands over its listener
	signals  int            // what asks the launcher to end, as long as there is no runtime
	asked    syscall.Signal // came before there was one
}

const (
	closeRange        = 436
	closeRangeCloExec = 4
	pidfdOpen         = 434
	prSetDumpable     = 4
	prSetSubreaper    = 36
	mapPopulate       = 0x8000
	pollIn            = 1
)

// begin starts the command. argv are a launcher's own arguments and env its
// variables, both as execve takes them. What goes wrong is left in trouble.
func (l *launcher) begin(argv, env unsafe.Pointer) {
	const word = unsafe.Sizeof(argv)
	l.begun = true
	fd, ok := number(*(*unsafe.Pointer)(unsafe.Add(argv, word)))
	if !ok {
		l.fail("begin: not meant to be started by hand", 0)
		return
	}
	l.lifeline = fd
	// Nothing but the three streams reaches the command.
	if _, _, e := syscall.RawSyscall(closeRange, 3, ^uintptr(0)>>1, closeRangeCloExec); e != 0 {
		l.fail("close files", e)
		return
	}
	pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	data, problem := receive(fd)
	if problem == "" {
		problem = l.decode(data, int32(pid)) //nolint:gosec // a process number
	}
	if problem != "" {
		l.fail(problem, 0)
		return
	}
	l.prepare(unsafe.Add(argv, 2*word), unsafe.Add(env, uintptr(l.DropEnv)*word))
	if l.trouble == "" {
		l.start()
	}
}

func (l *launcher) fail(what string, e syscall.Errno) { l.trouble, l.errno = what, e }

// number reads a text of digits with a zero at its end.
func number(text unsafe.Pointer) (n int, ok bool) {
	for i := 0; ; i++ {
		c := *(*byte)(unsafe.Add(text, i))
		switch {
		case c == 0:
			return n, i > 0
		case c < '0' || c > '9' || i == 9:
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
}

// receive reads an encoded program into memory of its own.
func receive(fd int) (data []byte, problem string) {
	var h header
	head := raw(unsafe.Slice(&h, 1))
	if !readAll(fd, head) {
		return nil, "read the plan: it is not there"
	}
	if problem := h.check(); problem != "" {
		return nil, problem
	}
	at, _, e := syscall.RawSyscall6(syscall.SYS_MMAP, 0, uintptr(h.size), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|mapPopulate, ^uintptr(0), 0)
	if e != 0 {
		return nil, "read the plan: out of memory"
	}
	data = unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), h.size)
	if !readAll(fd, data[copy(data, head):]) {
		return nil, "read the plan: it is cut short"
	}
	return data, ""
}

func readAll(fd int, buf []byte) bool {
	for len(buf) > 0 {
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		switch {
		case e == syscall.EINTR:
		case e != 0 || n == 0:
			return false
		default:
			buf = buf[n:]
		}
	}
	return true
}

// prepare makes what the child inherits. command is the path of a program, then
// its arguments from the zeroth.
func (l *launcher) prepare(command, env unsafe.Pointer) {
	const word = unsafe.Sizeof(command)
	var pair [2]int32
	if _, _, e := syscall.RawSyscall(syscall.SYS_PIPE2, uintptr(unsafe.Pointer(&pair)), syscall.O_CLOEXEC, 0); e != 0 {
		l.fail("pipe", e)
		return
	}
	l.reports = int(pair[0])
	l.launch = launch{spaces: l.Spaces, setup: l.Setup.steps, leave: l.Leave.steps, run: l.Run.steps, report: int(pair[1])}
	if n := len(l.Run.steps); n > 0 && l.Run.steps[n-1].nr == syscall.SYS_EXECVE {
		l.Run.steps[n-1].args = [6]uintptr{*(*uintptr)(command), uintptr(unsafe.Add(command, word)), uintptr(env)}
	}
	if l.Proxy != "" && !l.Inner {
		_, _, e := syscall.RawSyscall6(syscall.SYS_SOCKETPAIR, syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0, uintptr(unsafe.Pointer(&pair)), 0, 0)
		if e == 0 {
			_, _, e = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(pair[1]), SendFD, syscall.O_CLOEXEC) //nolint:gosec // a descriptor
		}
		if e != 0 {
			l.fail("socket", e)
			return
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(pair[1]), 0, 0) //nolint:gosec // a descriptor
		l.receive = int(pair[0])
	}
	if i, e := perform(l.Before.steps); e != 0 {
		l.told, l.said = true, complaint{scriptBefore, i, e}
		l.fail("prepare", e)
		return
	}
	if l.PIDMax > 0 && writePIDMax(l.PIDMax) {
		l.Watch = 0
	}
}

// writePIDMax bounds the process numbers of this namespace.
func writePIDMax(n int) bool {
	const file = "/proc/sys/kernel/pid_max\x00"
	var digits [20]byte
	at := len(digits)
	for ; n > 0; n /= 10 {
		at--
		digits[at] = byte('0' + n%10)
	}
	fd, e := openFile(file, syscall.O_WRONLY)
	if e != 0 {
		return false
	}
	_, _, e = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&digits[at])), uintptr(len(digits)-at)) //nolint:gosec // no number has more digits
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0)
	return e == 0
}

// openFile opens a file whose name ends with a zero.
func openFile(name string, flags uintptr) (fd int, e syscall.Errno) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_OPENAT, AtCWD, uintptr(unsafe.Pointer(unsafe.StringData(name))), flags|syscall.O_CLOEXEC, 0, 0, 0)
	return int(n), e
}

// start forks. What can wait is done while the child is busy.
func (l *launcher) start() {
	if l.Spaces == 0 {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetSubreaper, 1, 0, 0, 0, 0)
	}
	pid, e := l.launch.fork()
	if e != 0 {
		l.fail("new namespaces", e)
		return
	}
	l.pid = int(pid)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(l.launch.report), 0, 0)
	if l.receive > 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, SendFD, 0, 0)
	}
	handle, _, e := syscall.RawSyscall(pidfdOpen, pid, 0, 0)
	if e != 0 { // older kernels do not close files as above either
		_, _, _ = syscall.RawSyscall(syscall.SYS_KILL, pid, uintptr(syscall.SIGKILL), 0)
		l.fail("watch the command", e)
		return
	}
	l.handle = int(handle)
}

// pollFD is struct pollfd.
type pollFD struct {
	fd              int32
	events, revents int16
}

// watched are the descriptors by which a launcher learns what happens.
type watched struct{ reports, lifeline, child, signals pollFD }

func (l *launcher) watched() watched {
	in := func(fd int) pollFD { return pollFD{fd: int32(fd), events: pollIn} } //nolint:gosec // a descriptor
	w := watched{in(l.reports), in(l.lifeline), in(l.handle), in(l.signals)}
	if l.told {
		w.reports.fd = -1
	}
	if l.signals == 0 {
		w.signals.fd = -1
	}
	return w
}

const (
	// brief is how long a launcher with a runtime does without goroutines. Most
	// commands end within it, and each goroutine that waits would cost a thread.
	// A request to end that comes sooner ends the command at once.
	brief = 3 * time.Millisecond
	// untilWatch is after what time the processes of a command are counted, where
	// the launcher has to do that.
	untilWatch = 50 * time.Millisecond
)

// attendAlone waits for the end of the command, and with it ends the process.
// It returns when something is to be done for which a runtime is needed. early
// says that there is none yet.
func (l *launcher) attendAlone(early bool) {
	limit := syscall.Timespec{Nsec: int64(brief)} // the kernel counts down
	if early {
		limit.Nsec = int64(untilWatch)
		ignoreStops()
	}
	if l.trouble != "" || l.Proxy != "" {
		return
	}
	for done := false; !done; {
		done = l.look(&limit, early && l.Watch == 0)
	}
}

// look waits for something to happen, for ever or up to a limit, and reports
// whether a runtime is needed. It does not return when the command has ended
// and nothing is to be done about that.
func (l *launcher) look(limit *syscall.Timespec, forEver bool) bool {
	w := l.watched()
	to := uintptr(unsafe.Pointer(limit))
	if forEver {
		to = 0
	}
	n, _, e := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&w)), unsafe.Sizeof(w)/unsafe.Sizeof(w.child), to, 0, 0, 0)
	switch {
	case e == syscall.EINTR:
		return false
	case e != 0 || n == 0 || w.lifeline.revents != 0:
		return true
	}
	if w.signals.revents != 0 {
		var info [128]byte // struct signalfd_siginfo
		if readAll(l.signals, info[:]) {
			l.asked = syscall.Signal(*(*uint32)(unsafe.Pointer(&info)))
		}
		return isRequest(l.asked)
	}
	if w.reports.revents|w.child.revents != 0 && !l.listen() {
		return true
	}
	if w.child.revents == 0 {
		return false
	}
	if l.Spaces == 0 && !l.Inner {
		return true // what it left behind is to be ended
	}
	var status uint32
	_, _, e = syscall.RawSyscall6(syscall.SYS_WAIT4, uintptr(l.pid), uintptr(unsafe.Pointer(&status)), 0, 0, 0, 0)
	if e == 0 {
		exit(exitCode(status))
	}
	return e != syscall.EINTR
}

// holdSignals makes the signals that catch takes readable from a descriptor.
// They stay blocked: the runtime unblocks what it is told to catch.
func (l *launcher) holdSignals() {
	set, old := uint64(0), uint64(0)
	for _, s := range caught() {
		set |= 1 << (s - 1)
	}
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigBlock, uintptr(unsafe.Pointer(&set)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if e != 0 {
		return
	}
	fd, _, e := syscall.RawSyscall6(syscall.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&set)), 8, syscall.O_CLOEXEC, 0, 0)
	if e != 0 {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
		return
	}
	l.signals = int(fd)
}

// ignoreStops makes nothing of signals that would stop the launcher. The command
// was forked already, or it would inherit that. Left to the runtime, one that
// is pending would be let through before it is caught.
func ignoreStops() {
	action := [4]uintptr{1} // struct sigaction with SIG_IGN
	for _, s := range [...]syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

// caught are the signals that would end or stop a launcher.
func caught() [7]syscall.Signal {
	return [7]syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}
}

// isRequest reports whether a signal asks the command to end.
func isRequest(s syscall.Signal) bool { return s == syscall.SIGTERM || s == syscall.SIGHUP }

const sigBlock = 0

// listen reads the child's report, if that was not done yet. It waits until the
// child has closed its end, which execve does, and reports whether all is well.
func (l *launcher) listen() bool {
	if l.told {
		return l.said == complaint{}
	}
	l.told = true
	if readAll(l.reports, raw(unsafe.Slice(&l.said, 1))) {
		return false
	}
	letGoOfStreams()
	return true
}

// letGoOfStreams leaves the streams to the command, so that their readers see
// the end when the command closes them.
func letGoOfStreams() {
	null, e := openFile("/dev/null\x00", syscall.O_RDWR)
	if e != 0 {
		return
	}
	for fd := range uintptr(3) {
		_, _, _ = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(null), fd, 0)
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(null), 0, 0)
}
