package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const innerProxy = "/run/nanobot-proxy"

// openBwrap looks for bubblewrap and tries it.
func (b *Box) openBwrap(ctx context.Context) error {
	program, err := exec.LookPath("bwrap")
	if err != nil || !filepath.IsAbs(program) {
		return errors.New("bubblewrap is not installed: install the package \"bubblewrap\", or set tools.exec.sandbox to \"auto\"")
	}

	abi := landlockABI()
	level := Level{
		Mode: Bwrap, LandlockABI: abi, Seccomp: filter(NetHost, false, true) != nil,
		UserNS: true, PIDNS: true, MountNS: true, NetNS: true,
	}
	if abi < minLandlock {
		level.LandlockABI = 0
		level.Missing = append(level.Missing, fmt.Sprintf("Landlock %d (Linux 6.2)", minLandlock))
	}
	if !level.Seccomp {
		level.Missing = append(level.Missing, "seccomp (not for this processor)")
	}

	b.means, b.level = means{bwrap: program}, level
	if err = b.try(ctx); err == nil {
		return nil
	}

	b.level.NetNS = false
	b.level.Missing = append(b.level.Missing, "network namespaces ("+err.Error()+")")
	if err := b.try(ctx); err != nil {
		return fmt.Errorf("bubblewrap does not work here: %w", err)
	}
	return nil
}

// wrapBwrap lets bubblewrap make the file system and the namespaces, and run
// the helper in them. done is never nil and to be called when the command has
// started or never will. The environment does not have to be cleared: it is the
// command's own already. A terminal session of its own is the caller's
// business, and the end of the agent is noticed by the helper.
func (b *Box) wrapBwrap(cmd *exec.Cmd, p *plan, private string) (done func(), err error) {
	args := []string{
		"bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL",
		// Bubblewrap's own first process would stay for as long as any other.
		"--as-pid-1",
	}
	if p.Inner = true; p.Profile.Network != NetHost && b.level.NetNS {
		args, p.OwnNet = append(args, "--unshare-net"), true
	}

	w := bwrapWords{args: args, private: private, cmd: cmd}
	if err := w.describe(p); err != nil {
		return w.close, err
	}

	args = w.args
	self := b.o.Self
	if self == runningProgram { // bubblewrap is another process
		if self, err = os.Executable(); err != nil {
			return w.close, err
		}
	}

	args = append(args, "--ro-bind", self, innerName)
	if p.Profile.Network == NetProxy {
		args = append(args, "--bind", p.Profile.ProxySocket, innerProxy)
		p.Profile.ProxySocket = innerProxy
	}

	args = append(args, "--remount-ro", "/", "--", innerName, nextDescriptor(cmd), cmd.Path)
	cmd.Path, cmd.Args = b.means.bwrap, append(args, cmd.Args...)
	return w.close, nil
}

// bwrapWords says a layout in bubblewrap's words.
type bwrapWords struct {
	args    []string
	private string    // a directory for what has no source
	cmd     *exec.Cmd // gets descriptors that bubblewrap reads
	opened  []*os.File
}

func (w *bwrapWords) add(args ...string) { w.args = append(w.args, args...) }

func (w *bwrapWords) close() {
	for _, f := range w.opened {
		_ = f.Close()
	}
}

// copy makes bubblewrap put the content of a file somewhere. For every mount it
// reads the list of all mounts, so a copy of a small file is far cheaper.
func (w *bwrapWords) copy(from *os.File, at string) {
	w.add("--file", nextDescriptor(w.cmd), at)
	w.opened = append(w.opened, from)
	w.cmd.ExtraFiles = append(slices.Clip(w.cmd.ExtraFiles), from)
}

// nextDescriptor returns the number of the next extra file.
func nextDescriptor(cmd *exec.Cmd) string { return strconv.Itoa(3 + len(cmd.ExtraFiles)) }

// maxCopy is the size up to which settings of the system are copied.
const maxCopy = 128 << 10

func (w *bwrapWords) describe(p *plan) error {
	w.add("--dev", "/dev")
	hidden := ""
	for _, e := range p.layout() {
		switch e.kind {
		case bindRead:
			if !w.copySetting(e) {
				w.add("--ro-bind", e.source, e.at)
			}
		case bindWrite:
			w.add("--bind", e.source, e.at)
		case link:
			if !strings.HasPrefix(e.at, "/dev/") {
				w.add("--symlink", e.source, e.at)
			}
		case text:
			file, err := textFile(e.source)
			if err != nil {
				return err
			}
			w.copy(file, e.at)

		case folder:
			w.add("--dir", e.at)
		case processes:
			w.add("--proc", e.at)
			if p.ABI == 0 { // else its rules let no user write there, not even root, who owns it
				w.add("--remount-ro", e.at)
			}

		case hideFile:
			if hidden == "" {
				hidden = filepath.Join(w.private, "hidden")
				if err := os.WriteFile(hidden, nil, 0); err != nil {
					return err
				}
			}
			w.add("--ro-bind", hidden, e.at)

		case hideDir:
			w.add("--perms", "0000", "--tmpfs", e.at, "--remount-ro", e.at)
		case bindDevice, terminals, memory: // part of its own /dev
		}
	}

	return nil
}

// copySetting copies a small file of the system's settings. Whoever grants a
// file by name gets that file itself, and its changes.
func (w *bwrapWords) copySetting(e place) bool {
	if e.isDir || e.at != e.source || !slices.Contains(etcPaths(), e.at) {
		return false
	}

	file, err := os.OpenFile(e.source, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxCopy {
		_ = file.Close()
		return false
	}

	w.copy(file, e.at)
	return true
}

// textFile returns a small text that can be read from a descriptor.
func textFile(content string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	_, err = w.WriteString(content)
	if err = errors.Join(err, w.Close()); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}
