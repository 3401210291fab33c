package tui

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// wakeReader does not exist here: a console read cannot be ended from outside,
// and waiting on the handle also wakes for events that are not input.
type wakeReader struct{}

func newWakeReader(*os.File) (*wakeReader, error) { return nil, errors.ErrUnsupported }

func (*wakeReader) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (*wakeReader) unread() bool { return false }

func (*wakeReader) wake() {}

func (*wakeReader) close() {}

// enableEscapes switches the console to understand escape sequences.
func enableEscapes(f *os.File) (func(), error) {
	h := windows.Handle(f.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(h, &mode); err != nil {
		return nil, err
	}

	want := mode | windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
	if err := windows.SetConsoleMode(h, want); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(h, mode) }, nil
}

// suspendSelf does nothing: there is no shell that could continue the program.
func suspendSelf() {}

func watchTerminal(chan<- os.Signal) (stop func()) { return func() {} }

func continued(os.Signal) bool { return false }
