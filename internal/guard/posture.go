package guard

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// Harden keeps other processes of the same user from reading the memory and
// the environment of this one. It is for the nanobot program, not for programs
// that embed the library.
func Harden() error { return shell.Harden() }

// Posture is what is in force after defaults.
type Posture struct {
	Restrict bool // files and commands stay inside the workspace
	Sandbox  sandbox.Mode
	Network  sandbox.Network
	Approval approve.Mode
}

// PostureOf reads a configuration. An absent setting is the safe default, except in a
// file that Python nanobot wrote, which keeps the meaning it always had.
func PostureOf(l *config.Loaded) Posture {
	t := l.Config.Tools
	p := Posture{
		Restrict: t.RestrictToWorkspace,
		Sandbox:  sandbox.Mode(t.Exec.Sandbox),
		Network:  sandbox.Network(t.Exec.Network),
		Approval: approve.Mode(t.Approval.Mode),
	}
	if p.Sandbox == "" {
		p.Sandbox = sandbox.None
	}
	p.Restrict = p.Restrict || p.Sandbox != sandbox.None
	return p
}

// DescribeExec says whether commands run and what confines them, as the
// configuration has it. It does not try the sandbox.
func DescribeExec(l *config.Loaded) string {
	p := PostureOf(l)
	switch {
	case !l.Config.Tools.Exec.Enable:
		return "off"
	case p.Sandbox == sandbox.None:
		return "on, without a sandbox; only rules on the text of a command apply"
	}
	return fmt.Sprintf("on, in a sandbox (%s), network: %s", p.Sandbox, p.Network)
}

// ProbeExec is DescribeExec after a look at what the machine can do.
func ProbeExec(ctx context.Context, l *config.Loaded, log *slog.Logger) string {
	p := PostureOf(l)
	if !l.Config.Tools.Exec.Enable || p.Sandbox == sandbox.None {
		return DescribeExec(l)
	}

	box, err := sandbox.Open(ctx, sandbox.Options{Mode: p.Sandbox, Log: log})
	if err != nil {
		return fmt.Sprintf("off, because the sandbox they ask for (%s) cannot be used here: %v", p.Sandbox, err)
	}
	return fmt.Sprintf("on, in a sandbox (%s), network: %s", box.Level(), networkNote(p.Network, box.Level()))
}

// networkNote says what a command can reach, or why that is less than the
// settings ask for.
func networkNote(n sandbox.Network, l sandbox.Level) string {
	if n != sandbox.NetNone && !l.NetNS {
		return fmt.Sprintf("none (tools.exec.network is %q, but this machine has no network namespaces to keep a command to the proxy)", n)
	}
	switch n {
	case sandbox.NetHost:
		return "host (any public host, through the proxy)"
	case sandbox.NetProxy:
		return "proxy (package hosts and hosts that you allow)"
	default:
		return string(n)
	}
}

// maxMemory is what all processes of a command may use together.
func (p Posture) maxMemory(cfg config.Exec) int64 {
	switch {
	case cfg.MaxMemoryMB > 0:
		return int64(cfg.MaxMemoryMB) << 20
	case p.Sandbox == sandbox.None:
		return sandbox.HalfMemory() // as much as leaves the machine usable
	}
	return sandbox.TotalMemory()
}

// maxDisk is what a command may add to the disk, in every mode.
func (p Posture) maxDisk(cfg config.Exec) int64 { return int64(cfg.MaxDiskMB) << 20 }

// limits are what the sandbox itself bounds.
func (p Posture) limits(cfg config.Exec) sandbox.Limits {
	return sandbox.Limits{Total: p.maxMemory(cfg), FileSize: p.maxDisk(cfg)}
}

// describe is the sandbox in one line; an approval is void when it changes.
func (p Posture) describe(cfg config.Exec) string {
	return fmt.Sprintf("%s network=%s ro=%q rw=%q", p.Sandbox, p.Network, cfg.SandboxROBinds, cfg.SandboxRWBinds)
}
