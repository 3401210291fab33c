package tui

import (
	"context"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// startReading sends what in delivers to out until it ends, and then closes
// out. Stop ends it early; unread reports whether there is more to be read
// already. A terminal's reader is joined through
// work; any other reader cannot be interrupted, so its goroutine ends with the
// read it is in.
func startReading(ctx context.Context, in io.Reader, out chan<- []byte, work *sync.WaitGroup) (stop func(), unread func() bool) {
	read := in.Read
	stop, unread = func() {}, func() bool { return false }
	done := stop
	start := func(f func()) { go f() }
	if f, ok := in.(*os.File); ok {
		if r, err := newWakeReader(f); err == nil {
			read = r.Read
			stop = r.wake
			done = r.close
			start = work.Go
			unread = r.unread
		}
	}

	start(func() {
		defer done()
		defer close(out)
		buf := make([]byte, 4096)
		for {
			n, err := read(buf)
			if n > 0 {
				select {
				case out <- append([]byte(nil), buf[:n]...):
				case <-ctx.Done():
					return
				}
			}

			if err != nil {
				return
			}
		}
	})
	return stop, unread
}

// rawMode makes the terminal hand over every key as it is pressed and returns
// the way back. Consoles that are not files are taken to be ready.
func rawMode(c Console) (restore func(), err error) {
	undo, err := terminalEscapes(c)
	if err != nil {
		return nil, err
	}

	f, ok := c.In.(*os.File)
	if !ok {
		return undo, nil
	}

	state, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		undo()
		return nil, err
	}
	return func() {
		_ = term.Restore(int(f.Fd()), state) // nothing better can be done with a lost terminal
		undo()
	}, nil
}

// terminalEscapes makes Out understand escape sequences where that is a switch.
func terminalEscapes(c Console) (undo func(), err error) {
	if f, ok := c.Out.(*os.File); ok {
		return enableEscapes(f)
	}
	return func() {}, nil
}
