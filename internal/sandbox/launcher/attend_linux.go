package launcher

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	pidfdOpen = 434
	pollIn    = 1
)

// pidHandle is a descriptor that can be read when a process has ended.
func pidHandle(pid int) (fd int, ok bool) {
	n, _, e := syscall.RawSyscall(pidfdOpen, uintptr(pid), 0, 0)
	return int(n), e == 0
}

// pollFD is struct pollfd.
type pollFD struct {
	fd              int32
	events, revents int16
}

// brief is how long a launcher stays without goroutines. Most commands end
// within it, and each goroutine that waits would cost a thread. A request to
// end that comes sooner ends the command at once.
const brief = 3 * time.Millisecond

// attend waits for the only child with one thread, as long as nothing else is
// to be done.
func (l *launcher) attend(pid, handle int) (int, error) {
	const reports, lifeline, child = 0, 1, 2
	fds := [3]pollFD{{fd: int32(l.reports), events: pollIn}, {fd: int32(l.lifeline), events: pollIn}, {fd: int32(handle), events: pollIn}} //nolint:gosec // descriptors
	orphaned := false
	timeout := syscall.NsecToTimespec(int64(brief))
	limit := &timeout
	for {
		n, _, e := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)), uintptr(unsafe.Pointer(limit)), 0, 0, 0)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 { // cannot happen; without it the launcher still waits
			fds[child].revents = pollIn
		}
		if n == 0 && e == 0 {
			limit = nil
			go l.pass(catch(), pid)
			if l.Watch > 0 {
				go l.watch(pid)
			}
			continue
		}
		if fds[reports].fd >= 0 && fds[reports].revents|fds[child].revents != 0 {
			fds[reports].fd = -1
			if err := l.complaint(); err != nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				_, _ = wait(pid)
				return 0, err
			}
			letGoOfStreams()
		}
		if fds[lifeline].fd >= 0 && fds[lifeline].revents != 0 {
			// The agent never writes again: whatever comes is the end.
			fds[lifeline].fd, orphaned = -1, true
			l.end(pid)
		}
		if fds[child].revents != 0 {
			code, err := wait(pid)
			if orphaned {
				RemoveAll(l.Temp) // nobody else is there to do it
			}
			return code, err
		}
	}
}
