package httpsafe

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// maxSocketPath is how long the path of a socket may be everywhere; the kernel of
// macOS takes 104 bytes with the zero at the end, that of Linux 108.
const maxSocketPath = 103

// ListenLocal opens a socket at a path that may be longer than an address of a
// socket can be. Only this user can use it. Closing the listener removes it.
func ListenLocal(path string) (net.Listener, error) {
	near, away, err := shorten(path)
	if err != nil {
		return nil, err
	}

	defer away()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: near, Net: "unix"})
	if err != nil {
		return nil, err
	}

	l.SetUnlinkOnClose(false) // it would look at the short path
	s := socket{l, path}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// DialLocal connects to a socket at such a path.
func DialLocal(ctx context.Context, path string) (net.Conn, error) {
	near, away, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer away()
	var d net.Dialer
	return d.DialContext(ctx, "unix", near)
}

// socket is a listener that removes its file.
type socket struct {
	net.Listener
	path string
}

func (s socket) Close() error {
	err := os.Remove(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(s.Listener.Close(), err)
}

// shorten finds another path to the folder of a socket if the path is too long: a
// link below a temporary folder of ours, which away removes. The socket itself
// stays where it belongs.
func shorten(path string) (near string, away func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}

	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}

	temp, err := os.MkdirTemp(shortTemp(), "nanobot-")
	if err != nil {
		return "", nil, err
	}

	away = func() { _ = os.RemoveAll(temp) } // the link, not what it leads to
	link := filepath.Join(temp, "d")
	if err := os.Symlink(dir, link); err != nil {
		away()
		return "", nil, err
	}
	return filepath.Join(link, filepath.Base(path)), away, nil
}

// shortTemp returns a folder for temporary files with a short name.
func shortTemp() string {
	const room = 40 // for what stands below it
	if dir := os.TempDir(); len(dir) <= maxSocketPath-room || filepath.Separator != '/' {
		return dir
	}
	return "/tmp"
}
