package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Begin says what happens to a service after its file is written. The zero
// value switches it on and starts it.
type Begin struct{ NoStart, NoEnable bool }

// commands make an installed service run.
func (b Begin) commands(m Manager) [][]string {
	return slices.DeleteFunc(m.start(), func(words []string) bool {
		verb := words[len(words)-2] // before the unit, or what launchd calls it
		switch {
		case slices.Contains(words, "daemon-reload"):
			return false
		case b.NoStart && m.OS == "darwin":
			return true // what is loaded runs
		}
		return b.NoEnable && verb == "enable" || b.NoStart && verb == "restart"
	})
}

// InstallPlan shows what Install and Start would do, for a person.
func (m Manager) InstallPlan(s Service, b Begin) string {
	return fmt.Sprintf("# %s\n%s\n# then:\n%s", m.Path(), m.text(s), shellLines(b.commands(m)))
}

// Install writes the file of a service and makes the folders it needs.
func (m Manager) Install(s Service) error {
	if err := m.Check(); err != nil {
		return err
	}
	if err := diskio.MkdirAll(filepath.Dir(m.Path()), 0o755); err != nil {
		return err
	}

	if m.System {
		if err := ownFolders(s.Write, s.User); err != nil {
			return err
		}
	}

	if s.Log != "" {
		if err := diskio.MkdirAll(filepath.Dir(s.Log), 0o700); err != nil {
			return err
		}
	}
	return diskio.WriteFile(m.Path(), []byte(m.text(s)), 0o644)
}

// Start makes an installed service run.
func (m Manager) Start(ctx context.Context, b Begin) error {
	commands := b.commands(m)
	switch left, err := m.run(ctx, commands); {
	case left == 1 && !b.NoStart: // the start itself
		return fmt.Errorf("%w\nThe service is installed, but the gateway does not start. Show the reason with: %s", err, m.journal())
	case err != nil:
		return fmt.Errorf("%w\nThe file is in place. Do the rest by hand:\n%s", err, strings.TrimRight(shellLines(commands), "\n"))
	}
	return nil
}

// UninstallPlan shows what Uninstall would do, for a person.
func (m Manager) UninstallPlan() string {
	return fmt.Sprintf("%srm %s\n%s", shellLines(m.stop()), shellWord(m.Path()), shellLines(m.forget()))
}

// Uninstall stops a service and removes its file. Removed reports whether the
// file is gone, also when a command failed.
func (m Manager) Uninstall(ctx context.Context) (removed bool, err error) {
	if err := m.Check(); err != nil {
		return false, err
	}

	_, stopped := m.run(ctx, m.stop())
	if err := os.Remove(m.Path()); err != nil {
		return false, err
	}

	_, err = m.run(ctx, m.forget())
	if err = errors.Join(stopped, err); err != nil {
		return true, fmt.Errorf("%w\nThe file is removed. Do the rest by hand:\n%s", err, strings.TrimRight(shellLines(slices.Concat(m.stop(), m.forget())), "\n"))
	}
	return true, nil
}

// ServiceOwner returns the user that a service of the machine runs as.
func ServiceOwner(name string) (*user.User, error) {
	if name == "" {
		return nil, &RequestError{"give the user that the gateway runs as: --user NAME"}
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, &RequestError{fmt.Sprintf("there is no user %q", name)}
	}
	return u, nil
}

// ownFolders makes folders that are missing and gives them to a user: a service
// manager refuses to open what is not there.
func ownFolders(dirs []string, owner string) error {
	u, err := ServiceOwner(owner)
	if err != nil {
		return err
	}

	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}

	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}

	for _, dir := range dirs {
		var missing []string
		for at := dir; ; at = filepath.Dir(at) {
			if _, err := os.Stat(at); !diskio.IsMissing(err) {
				break
			}
			missing = append(missing, at)
		}

		for _, at := range slices.Backward(missing) {
			if err := errors.Join(os.Mkdir(at, 0o700), os.Lchown(at, uid, gid)); err != nil {
				return err
			}
		}
	}

	return nil
}
