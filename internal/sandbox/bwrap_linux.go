package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/sandbox/launcher"
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
// the helper in them. The environment needs no clearing: it is the command's
// own already. A terminal session of its own is the caller's business, and the
// end of the agent is noticed by the helper.
func (b *Box) wrapBwrap(cmd *exec.Cmd, p *plan, private, descriptor string) error {
	args := []string{
		"bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL",
		// Bubblewrap's own first process would stay for as long as any other.
		"--as-pid-1",
	}
	if p.Inner = true; p.Profile.Network != NetHost && b.level.NetNS {
		args, p.OwnNet = append(args, "--unshare-net"), true
	}
	places, err := bwrapPlaces(p, private)
	if err != nil {
		return err
	}
	args = append(args, places...)
	self := b.o.Self
	if self == runningProgram { // bubblewrap is another process
		if self, err = os.Executable(); err != nil {
			return err
		}
	}
	args = append(args, "--ro-bind", self, launcher.InnerName)
	if p.Profile.Network == NetProxy {
		args = append(args, "--bind", p.Profile.ProxySocket, innerProxy)
		p.Profile.ProxySocket = innerProxy
	}
	args = append(args, "--remount-ro", "/", "--", launcher.InnerName, descriptor, cmd.Path)
	cmd.Path, cmd.Args = b.means.bwrap, append(args, cmd.Args...)
	return nil
}

// bwrapPlaces says the layout in bubblewrap's words. What has no source gets
// one in the private directory.
func bwrapPlaces(p *plan, private string) ([]string, error) {
	hidden := filepath.Join(private, "hidden")
	if err := os.WriteFile(hidden, nil, 0); err != nil {
		return nil, err
	}
	args := []string{"--dev", "/dev"}
	for _, e := range p.layout() {
		switch e.kind {
		case bindRead:
			args = append(args, "--ro-bind", e.source, e.at)
		case bindWrite:
			args = append(args, "--bind", e.source, e.at)
		case link:
			if !strings.HasPrefix(e.at, "/dev/") {
				args = append(args, "--symlink", e.source, e.at)
			}
		case text:
			file := filepath.Join(private, filepath.Base(e.at))
			if err := os.WriteFile(file, []byte(e.source), 0o644); err != nil { //nolint:gosec // a stand-in for a public file
				return nil, err
			}
			args = append(args, "--ro-bind", file, e.at)
		case folder:
			args = append(args, "--dir", e.at)
		case processes:
			args = append(args, "--proc", e.at)
			if p.ABI == 0 { // else its rules let nobody write there, not even root, who owns it
				args = append(args, "--remount-ro", e.at)
			}
		case hideFile:
			args = append(args, "--ro-bind", hidden, e.at)
		case hideDir:
			args = append(args, "--perms", "0000", "--tmpfs", e.at, "--remount-ro", e.at)
		case bindDevice, terminals, memory: // part of its own /dev
		}
	}
	return args, nil
}

// innerNetwork listens in the network that bubblewrap made.
func (p *plan) innerNetwork(out *launcher.Program) {
	if p.Profile.Network == NetProxy {
		listen(out, &out.Before, launcher.ListenFD)
	}
}
