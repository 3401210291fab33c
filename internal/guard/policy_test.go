package guard

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// allowedFile is where policyOf puts the host that was allowed for good.
func allowedFile(l *config.Loaded) string { return filepath.Join(l.DataDir, "allowed") }

// policyOf is what package app makes of a configuration, as far as these tests
// write one.
func policyOf(l *config.Loaded) Policy {
	tools := l.Config.Tools
	p := Policy{
		Posture: Posture{
			Restrict: tools.RestrictToWorkspace,
			Sandbox:  sandbox.Mode(tools.Exec.Sandbox),
			Network:  sandbox.Network(tools.Exec.Network),
			Approval: approve.Mode(tools.Approval.Mode),
		},
		DataDir:    l.DataDir,
		ConfigFile: l.File,
		GuestShare: l.Config.Agents.Defaults.GuestShare,
		Exec: Exec{
			Enable:           tools.Exec.Enable,
			Timeout:          time.Duration(tools.Exec.Timeout) * time.Second,
			PathAppend:       tools.Exec.PathAppend,
			PathPrepend:      tools.Exec.PathPrepend,
			AllowedHosts:     tools.Exec.AllowedHosts,
			AllowedAddresses: tools.Exec.AllowedAddresses,
			ReadOnly:         tools.Exec.SandboxROBinds,
			ReadWrite:        tools.Exec.SandboxRWBinds,
			MaxDisk:          int64(tools.Exec.MaxDiskMB) << 20,
			AllowedEnv:       tools.Exec.AllowedEnvKeys,
		},
		ApprovalTimeout: time.Duration(tools.Approval.TimeoutS) * time.Second,
		AllowHost:       func(_ context.Context, host string) error { return os.WriteFile(allowedFile(l), []byte(host), 0o600) },
	}
	if p.Sandbox == "" {
		p.Sandbox = sandbox.None
	}
	p.Restrict = p.Restrict || p.Sandbox != sandbox.None
	return p
}
