//go:build unix

package shell

import (
	"errors"
	"fmt"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo terminal: our end, and that of a command.
func openTerminal() (ours, theirs *os.File, err error) {
	master, theirs, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}

	defer master.Close() //nolint:errcheck // a copy of it is used
	err = pty.Setsize(theirs, &pty.Winsize{Rows: terminalRows, Cols: terminalColumns})

	// The library leaves its own in blocking mode, where reads cannot be given up.
	fd := -1
	if err == nil {
		fd, err = unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}

	if err != nil {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, nil, errors.Join(fmt.Errorf("set up a terminal: %w", err), theirs.Close())
	}
	return os.NewFile(uintptr(fd), master.Name()), theirs, nil
}
