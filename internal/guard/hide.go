package guard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/keyring"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// coverWith hides the data folder and other processes from a command that has no
// sandbox; it changes nothing else about disk and network. If the system does not
// support that, the command runs unchanged, and doctor reports it.
func (f *confiner) coverWith(cmd *exec.Cmd, named []string) (func(), error) {
	box, err := f.covers(context.Background()) // as in confine
	if err != nil {
		return func() {}, nil //nolint:nilerr // the owner chose no sandbox; doctor names what is open
	}
	if err := f.home.moved(); err != nil {
		return nil, err
	}

	if cmd.Dir == "" {
		if cmd.Dir, err = os.Getwd(); err != nil || diskio.Within(cmd.Dir, f.places.data) {
			cmd.Dir = f.places.workspace
		}
	}

	none := sandbox.Limits{Processes: -1, Memory: -1, FileSize: -1, Files: -1, CPU: -1}
	if most := f.policy.Exec.MaxDisk; most > 0 {
		none.FileSize = most
	}
	return box.Wrap(cmd, sandbox.Profile{
		Workspace: f.places.workspace,
		ReadOnly:  []string{f.places.media},
		ReadWrite: named,
		Protected: f.covered(),
		Limits:    none,
	})
}

// covered returns our own folders, and the sockets of the user's session, which
// are hidden from commands without a sandbox.
func (f *confiner) covered() []string {
	return slices.DeleteFunc(f.closed(), func(p string) bool {
		return !diskio.Within(p, f.places.data) && !slices.Contains(f.sockets, p)
	})
}

// sessionSockets returns the sockets that answer every process of the user: the
// session bus with the keyring, the keyring's own socket, and the service manager,
// which can start programs outside of the sandbox. Keys go to the keyring only over
// one of these.
func sessionSockets(getenv func(string) string) []string {
	if runtime.GOOS != "linux" {
		return nil
	}

	var out []string
	for _, dir := range []string{filepath.Join("/run/user", strconv.Itoa(os.Getuid())), getenv("XDG_RUNTIME_DIR")} {
		if filepath.IsAbs(dir) {
			out = append(out, filepath.Join(dir, "bus"), filepath.Join(dir, "systemd"), filepath.Join(dir, "keyring"))
		}
	}

	if path, ok := keyring.BusSocket(getenv("DBUS_SESSION_BUS_ADDRESS")); ok {
		out = append(out, path)
	}

	slices.Sort(out)
	return slices.Compact(out)
}

// isOurselves reports whether a program is this executable.
func isOurselves(path string) bool {
	exe, err := os.Executable()
	if err != nil {
		return false
	}

	one, err := os.Stat(exe)
	if err != nil {
		return false
	}

	two, err := os.Stat(path)
	return err == nil && os.SameFile(one, two)
}

// besideState returns the folder in the data folder that a word of a command
// names, unless it is one of our own.
func besideState(data, word string) string {
	if _, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
		word = value
	}

	if !filepath.IsAbs(word) {
		return ""
	}

	rel, err := filepath.Rel(data, filepath.Clean(word))
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return ""
	}

	top, _, _ := strings.Cut(rel, string(filepath.Separator))
	if datadir.Own(top) || slices.Contains(datadir.Closed(), datadir.Name(top)) {
		return ""
	}

	dir := filepath.Join(data, top)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// place is a folder and its identity at the start of the program.
type place struct {
	path string
	info os.FileInfo
}

func placeOf(path string) place {
	info, _ := os.Stat(path) // it may not be there yet
	return place{path, info}
}

// moved fails if a command has moved the folder to a path that is not hidden.
func (p place) moved() error {
	now, err := os.Stat(p.path)
	switch {
	case p.info == nil && err != nil:
		return nil //nolint:nilerr // still missing, as at the start
	case p.info == nil || err != nil || !os.SameFile(now, p.info):
		return fmt.Errorf("the data folder %s is not the one that this program was started with: move it back, or start again", p.path)
	}
	return nil
}
