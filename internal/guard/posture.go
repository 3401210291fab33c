package guard

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// Harden keeps other processes of the same user from reading the memory and
// the environment of this one. It is for the nanobot program, not for programs
// that embed the library.
func Harden() error { return shell.Harden() }

// Posture holds what is in force after defaults.
type Posture struct {
	Restrict bool // files and commands stay inside the workspace
	Sandbox  sandbox.Mode
	Network  sandbox.Network
	Approval approve.Mode
}

// DescribeExec says whether commands run and what confines them, as the
// settings have it. It does not try the sandbox.
func (p Policy) DescribeExec() string {
	switch {
	case !p.Exec.Enable:
		return "off"
	case p.Sandbox == sandbox.None:
		return "on, without a sandbox; only rules on the text of a command apply"
	}
	return fmt.Sprintf("on, in a sandbox (%s), network: %s", p.Sandbox, p.Network)
}

// ProbeExec is DescribeExec after a look at what the machine can do.
func (p Policy) ProbeExec(ctx context.Context, log *slog.Logger) string {
	if !p.Exec.Enable || p.Sandbox == sandbox.None {
		return p.DescribeExec()
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

// maxMemory returns what all processes of a command may use together.
func (p Policy) maxMemory() int64 {
	switch {
	case p.Exec.MaxMemory > 0:
		return p.Exec.MaxMemory
	case p.Sandbox == sandbox.None:
		return sandbox.HalfMemory() // as much as leaves the machine usable
	}
	return sandbox.TotalMemory()
}

// limits returns what the sandbox itself bounds.
func (p Policy) limits() sandbox.Limits {
	return sandbox.Limits{Total: p.maxMemory(), FileSize: p.Exec.MaxDisk}
}

// describe is the sandbox in one line; an approval is void when it changes.
func (p Policy) describe() string {
	return fmt.Sprintf("%s network=%s ro=%q rw=%q", p.Sandbox, p.Network, p.Exec.ReadOnly, p.Exec.ReadWrite)
}
