//go:build unix

package tui

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// wakeReader reads a terminal so that a pending read can be ended: it waits
// for the file or for a pipe of its own, whichever has something first.
type wakeReader struct {
	fd   int
	r, w *os.File
	once sync.Once
}

func newWakeReader(f *os.File) (*wakeReader, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if f.Fd() >= unix.FD_SETSIZE || r.Fd() >= unix.FD_SETSIZE {
		_, _ = r.Close(), w.Close()
		return nil, errors.New("too many open files")
	}
	return &wakeReader{fd: int(f.Fd()), r: r, w: w}, nil
}

// Read returns io.EOF after wake. It uses select because some systems cannot
// poll a terminal.
func (r *wakeReader) Read(p []byte) (int, error) {
	pipe := int(r.r.Fd())
	for {
		var set unix.FdSet
		set.Set(r.fd)
		set.Set(pipe)
		_, err := unix.Select(max(r.fd, pipe)+1, &set, nil, nil, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case set.IsSet(pipe):
			return 0, io.EOF
		}

		n, err := unix.Read(r.fd, p)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}

		return n, nil
	}
}

// unread reports whether a read would return at once.
func (r *wakeReader) unread() bool {
	var set unix.FdSet
	set.Set(r.fd)
	n, err := unix.Select(r.fd+1, &set, nil, nil, &unix.Timeval{})
	return err == nil && n > 0
}

// wake ends the read that is pending and all later ones.
func (r *wakeReader) wake() { r.once.Do(func() { _ = r.w.Close() }) }

// close is called by the reading side when it is done.
func (r *wakeReader) close() { _ = r.r.Close() }

func enableEscapes(*os.File) (func(), error) { return func() {}, nil }

// suspendSelf stops the process group as the terminal would on Ctrl-Z. It may
// return before the stop has happened.
func suspendSelf() { _ = unix.Kill(0, unix.SIGTSTP) }

// watchTerminal reports new sizes of the terminal and the end of a stop.
func watchTerminal(changed chan<- os.Signal) (stop func()) {
	signal.Notify(changed, unix.SIGWINCH, unix.SIGCONT)
	return func() { signal.Stop(changed) }
}

// continued reports whether a signal of watchTerminal ends a stop.
func continued(s os.Signal) bool { return s == unix.SIGCONT }
