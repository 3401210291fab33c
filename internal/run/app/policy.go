package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// policyOf is what a configuration says about tools. An absent setting is the safe
// default, except in a file that Python nanobot wrote, which keeps the meaning it
// always had.
func policyOf(l *config.Loaded) guard.Policy {
	tools := l.Config.Tools
	return guard.Policy{
		Posture:         Posture(l),
		DataDir:         l.DataDir,
		ConfigFile:      l.File,
		GuestShare:      l.Config.Agents.Defaults.GuestShare,
		Exec:            execPolicy(tools.Exec),
		StrictEdit:      tools.File.StrictEdit,
		StrictAddresses: tools.SSRF.Strict,
		MessageTargets:  tools.Message.AllowTargets,
		ApprovalRules:   approvalRules(tools.Approval.Rules),
		ApprovalTimeout: time.Duration(tools.Approval.TimeoutS) * time.Second,
		FallbackAllow:   tools.Approval.Fallback == "allow",
		Ports:           func() []uint16 { return listeningPorts(&l.Config) },
		AllowHost:       func(_ context.Context, host string) error { return keepHost(l.File, host) },
	}
}

// Posture is what is in force with a configuration.
func Posture(l *config.Loaded) guard.Posture {
	t := l.Config.Tools
	p := guard.Posture{
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

func execPolicy(e config.Exec) guard.Exec {
	return guard.Exec{
		Enable:           e.Enable,
		Timeout:          time.Duration(e.Timeout) * time.Second,
		PathAppend:       e.PathAppend,
		PathPrepend:      e.PathPrepend,
		AllowedHosts:     e.AllowedHosts,
		AllowedAddresses: e.AllowedAddresses,
		ReadOnly:         e.SandboxROBinds,
		ReadWrite:        e.SandboxRWBinds,
		MaxMemory:        int64(e.MaxMemoryMB) << 20,
		MaxDisk:          int64(e.MaxDiskMB) << 20,
		AllowedEnv:       e.AllowedEnvKeys,
		AllowPatterns:    e.AllowPatterns,
		DenyPatterns:     e.DenyPatterns,
	}
}

func approvalRules(in []config.ApprovalRule) []approve.Rule {
	out := make([]approve.Rule, len(in))
	for i, r := range in {
		out[i] = approve.Rule{Tool: r.Tool, Match: r.Match, Action: approve.Action(r.Action)}
	}
	return out
}

// guardOptions are those that every guard of a configuration has in common.
func guardOptions(l *config.Loaded, workspace string, log *slog.Logger) guard.Options {
	state := State(l, log)
	installed, err := skill.InstalledDirs(state)
	if err != nil {
		installed = nil // the library of skills reports it
	}
	return guard.Options{
		Policy:    policyOf(l),
		Workspace: workspace,
		State:     state,
		Installed: installed,
		Builtin:   skill.BuiltinFS(),
		Log:       log,
	}
}

// allOrigins are the records of files from outside of all workspaces.
func allOrigins(l *config.Loaded, log *slog.Logger) *guard.AllOrigins {
	workspaces := func() map[string]string { return session.Known(State(l, nil)) }
	return guard.OpenAllOrigins(l.DataDir, workspaces, log)
}

// keepHost adds a host to tools.exec.allowedHosts of a configuration file.
func keepHost(file, entry string) error {
	const key = "tools.exec.allowedHosts"
	return config.Edit(file, nil, func(f *config.File) error {
		raw, err := f.Get(key)
		if err != nil {
			return err
		}

		var list []string
		if len(raw) > 0 && json.Unmarshal(raw, &list) != nil {
			return fmt.Errorf("%s is not a list of names", key)
		}
		if slices.Contains(list, entry) {
			return nil
		}
		return f.SetValue(key, append(list, entry))
	})
}

// listeningPorts are those that a nanobot with this configuration listens on.
func listeningPorts(c *config.Config) []uint16 {
	var out []uint16
	add := func(n float64) {
		if n > 0 && n < 1<<16 {
			out = append(out, uint16(n))
		}
	}

	add(float64(c.API.Port))
	add(float64(c.Gateway.Port))
	var walk func(v any, name string)
	walk = func(v any, name string) {
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				walk(inner, k)
			}
		case float64:
			if strings.HasSuffix(strings.ToLower(name), "port") {
				add(v)
			}
		}
	}
	for _, ch := range c.Channels.Each {
		var v any
		if json.Unmarshal(ch.Raw.JSON(), &v) == nil {
			walk(v, "")
		}
	}
	return out
}
