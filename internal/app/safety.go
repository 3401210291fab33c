package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
	"github.com/nanobot-go/nanobot/internal/tool/undo"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

// Harden keeps other processes of the same user from reading the memory and
// the environment of this one. It is for the program, not for hosts that embed us.
func Harden() error { return shell.Harden() }

// Posture is what is really in force, after defaults.
type Posture struct {
	Restrict bool // files and commands stay inside the workspace
	Sandbox  sandbox.Mode
	Network  sandbox.Network
	Approval approve.Mode
}

// PostureOf reads a configuration. A start without any file is a new install
// and gets the safe defaults; an existing file keeps the meaning it always had.
func PostureOf(l *config.Loaded) Posture {
	t := l.Config.Tools
	p := Posture{
		Restrict: t.RestrictToWorkspace, Sandbox: sandbox.Mode(t.Exec.Sandbox), Network: sandbox.Network(t.Exec.Network),
		Approval: approve.Mode(t.Approval.Mode),
	}
	if !l.Exists {
		p = Posture{Restrict: true, Sandbox: sandbox.Auto, Network: sandbox.NetProxy, Approval: approve.Auto}
	}
	if p.Sandbox == "" {
		p.Sandbox = sandbox.None
	}
	p.Restrict = p.Restrict || p.Sandbox != sandbox.None
	return p
}

// safety is what stands between the model and the machine.
type safety struct {
	Posture
	jail      *diskio.Jail
	protected []string
	names     []string // how further protected paths begin
	sockets   []string // of the user's session, see sessionSockets
	fixed     []string // inside the workspace, not to be changed
	secrets   *httpsafe.Registry
	policy    *approve.Policy
	undo      *undo.Store
	box       func(ctx context.Context) (*sandbox.Box, error) // opened by the first command
	strict    func(ctx context.Context) (*sandbox.Box, error) // for those that are kept inside a folder, never without a sandbox
	covers    func(ctx context.Context) (*sandbox.Box, error) // hides our data from what runs without a sandbox
	home      place                                           // the data folder
	media     string
	proxy     *commandProxy
	seal      seal
	origins   *origins
	share     string   // of the workspace, that guests write to; "" is none
	writing   sync.Map // key of a call to writing, of running calls that write files
	log       *slog.Logger
}

// guard sets up everything that is asked before a tool runs.
func (a *App) guard(o Options) error {
	s := &safety{
		Posture: PostureOf(a.Config),
		media:   datadir.Media.In(a.Config.DataDir),
		seal:    seal{workspace: a.Workspace},
		share:   a.untrustedRoot(),
		log:     o.Log,
	}
	id := filepath.Base(a.Sessions.Dir())
	s.origins = originsOf(a.Config, a.Workspace, id, o.Log)
	deny, denyWrite := a.protectedPaths()
	s.protected, s.names, s.sockets = deny, a.protectedNames(), sessionSockets(Getenv(o.Env))
	for _, p := range denyWrite {
		if diskio.Within(p, a.Workspace) {
			s.fixed = append(s.fixed, p)
		}
	}
	var err error
	s.jail, err = diskio.OpenJail(diskio.JailOptions{
		Workspace: a.Workspace, Restrict: s.Restrict, ReadOnly: []string{s.media, a.results()}, Protected: deny, ProtectedNames: s.names, ProtectedWrite: denyWrite, Unlinked: unlinked(a.Config.DataDir, deny),
		Straight: straight(a.untrustedRoot()),
	})
	if err != nil {
		return fmt.Errorf("open the workspace: %w", err)
	}
	s.secrets = o.Secrets
	s.undo, err = undo.Open(undo.Options{
		Dir: undoDir(a.Config, a.Sessions.Dir()), Jail: s.jail, Exclude: append(slices.Clone(deny), denyWrite...), Log: o.Log,
		Busy: func(session string) bool {
			return a.commands != nil && a.commands.Busy(session) || a.others.busy(session)
		},
	})
	if err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	s.proxy = newCommandProxy(a.Config, o)
	s.box = lazyBox(s.Sandbox, o.Log)
	s.covers, s.home = lazyBox(sandbox.Hide, o.Log), placeOf(a.Config.DataDir)
	if s.strict = s.box; s.Sandbox == sandbox.None {
		s.strict = lazyBox(sandbox.Auto, o.Log)
	}
	a.safety = s
	if s.policy, err = approve.New(a.approvalOptions(o, s.jail)); err != nil {
		return fmt.Errorf("tools.approval: %w", err)
	}
	return nil
}

// approvalOptions are those of a policy about calls whose files are behind a jail.
func (a *App) approvalOptions(o Options, jail *diskio.Jail) approve.Options {
	s, cfg := a.safety, a.Config.Config.Tools.Approval
	return approve.Options{
		Mode: s.Approval, Timeout: time.Duration(cfg.TimeoutS) * time.Second, FallbackAllow: cfg.Fallback == "allow",
		Rules: approvalRules(cfg.Rules), Sandboxed: s.Sandbox != sandbox.None, Network: string(s.Network),
		SandboxProfile: s.describe(a.Config.Config.Tools.Exec), Jail: jail, Contained: s.contained, Outside: s.outside, Exposed: s.exposed,
		CommandRisk: shell.Risk, CommandPrefix: shell.Prefix,
		CommandMatch: func(command, rule string) approve.Match { return approve.Match(shell.Matches(command, rule)) },
		Suspicious:   web.Suspicious, Leaks: s.secrets.Leaks, Log: o.Log,
		Known: func(c tool.Call, address string) bool { return web.Seen(c.State, address) },
	}
}

// straight are the trees of a workspace in which no link is followed.
func straight(share string) []string {
	if share == "" {
		return nil
	}
	return []string{share}
}

// visible leaves out paths that lie in hidden ones. A folder around the
// workspace hides what is beside it, not what is in it.
func (s *safety) visible(paths, hidden []string) []string {
	return slices.DeleteFunc(paths, func(p string) bool {
		return slices.ContainsFunc(hidden, func(h string) bool { return diskio.Within(p, h) && !diskio.Within(s.seal.workspace, h) })
	})
}

// closed are the protected paths, with the copies there are now, the names that
// mounts give them now, and the sockets of the user's session.
func (s *safety) closed() []string {
	all := s.copies()
	return slices.Concat(all, diskio.ShownAt(all, s.seal.workspace), s.sockets)
}

// copies are the protected paths, with the copies there are now.
func (s *safety) copies() []string {
	all := slices.Clone(s.protected)
	for _, p := range s.names {
		all = append(all, diskio.Named(p)...)
	}
	return all
}

// mounted refuses commands in a workspace that shows protected files through a
// mount, if the sandbox has no means to hide them.
func (s *safety) mounted(box *sandbox.Box) error {
	if runtime.GOOS != "linux" || box.Level().MountNS {
		return nil
	}
	ws := resolved(s.seal.workspace)
	for _, at := range diskio.ShownAt(s.copies(), ws) {
		if diskio.Within(at, ws) {
			return fmt.Errorf("commands do not run: the mount at %s shows protected files, and the sandbox of this machine cannot hide them; unmount it", at)
		}
	}
	return nil
}

func approvalRules(in []config.ApprovalRule) []approve.Rule {
	out := make([]approve.Rule, len(in))
	for i, r := range in {
		out[i] = approve.Rule{Tool: r.Tool, Match: r.Match, Action: approve.Action(r.Action)}
	}
	return out
}

// approve decides about a call and keeps what it is going to change.
func (s *safety) approve(a *App, o Options) func(ctx context.Context, t tool.Tool, c tool.Call) *tool.Result {
	return func(ctx context.Context, t tool.Tool, c tool.Call) *tool.Result {
		policy, done, err := a.others.policy(ctx, c)
		if err != nil {
			no := tool.Fail(tool.Internal, "%v", err)
			return &no
		}
		defer done()
		policy.Saw(c, c.UserText)
		if no := policy.Check(ctx, t, c); no != nil {
			return no
		}
		if t.ReadOnly {
			return nil
		}
		if t.Paths != nil {
			if err := s.writes(c, t.Paths(c.Input)); err != nil {
				no := tool.Fail(tool.Internal, "the file was not written, because where it comes from cannot be recorded: %v", err)
				return &no
			}
		}
		kept, given, err := a.others.kept(ctx, c)
		if err == nil {
			defer given()
			err = kept.Before(ctx, inFull(t, c.Project), c)
		}
		if err != nil {
			o.Log.WarnContext(ctx, "this change cannot be undone", "tool", t.Name, "turn", c.TurnID, "err", err)
		}
		return nil
	}
}

// after notes what a call left behind and which addresses a search named.
func (s *safety) after(a *App, o Options) func(ctx context.Context, c tool.Call, r tool.Result, took time.Duration) {
	return func(ctx context.Context, c tool.Call, r tool.Result, _ time.Duration) {
		if c.Name == "web_search" && !r.IsError {
			if policy, done, err := a.others.policy(ctx, c); err == nil {
				policy.Saw(c, r.Content.String())
				done()
			}
		}
		if err := s.wrote(c); err != nil {
			o.Log.ErrorContext(ctx, "record where a file comes from", "tool", c.Name, "turn", c.TurnID, "err", err)
		}
		kept, done, err := a.others.kept(ctx, c)
		if err != nil {
			o.Log.WarnContext(ctx, "note what a call changed", "tool", c.Name, "turn", c.TurnID, "err", err)
			return
		}
		defer done()
		edits, err := kept.After(ctx, c)
		if err != nil {
			o.Log.WarnContext(ctx, "note what a call changed", "tool", c.Name, "turn", c.TurnID, "err", err)
		}
		if len(edits) == 0 || c.Publish == nil {
			return
		}
		for i := range edits {
			edits[i].Diff = s.secrets.Redact(edits[i].Diff)
		}
		_ = c.Publish(ctx, bus.Outbound{Kind: bus.FileEdit, Route: c.Route, Edits: edits}) // it only shows what happened
	}
}

// describe is the sandbox in one line; an approval is void when it changes.
func (s *safety) describe(cfg config.Exec) string {
	return fmt.Sprintf("%s network=%s ro=%q rw=%q", s.Sandbox, s.Network, cfg.SandboxROBinds, cfg.SandboxRWBinds)
}

// exposed reports that the sandbox cannot keep commands from changing what the
// agent follows.
func (s *safety) exposed() bool {
	box, err := s.box(context.Background()) // as in confine
	return err == nil && !box.Level().MountNS
}

// Networks parses tools.ssrfWhitelist; what cannot be parsed was warned about.
func Networks(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
			out = append(out, p)
		}
	}
	return out
}
