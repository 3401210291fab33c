// Package guard is the policy around tools: it stands between the model and
// the machine. It decides which files a tool may open (the path jail), where
// commands and MCP servers run (the sandbox and the proxy that is their only
// way to the network), which calls the owner must approve, what a turn that
// read content from outside may still do (containment by origin), how changes
// are undone, and what people other than the owner get instead of the owner's
// workspace.
//
// It keeps these promises, in every mode:
//
//   - Tools reach neither the data folder nor credentials of the user, except
//     for the parts of the data folder that are opened to them by name.
//   - A command has the rights of the least trusted thing that it can read. If
//     that came from outside, what it writes and prints counts as from outside,
//     and it cannot change hooks and settings of repositories.
//   - No command in a sandbox changes what the agent follows: instructions,
//     skills, memory and identity files.
//   - A guest's tools see the guest's own folders and nothing of the owner's.
//   - A command that must be confined does not run where nothing can confine it.
//
// Everything else hides behind Guard: package app makes one for its agent and
// hands its methods to the agent, the tools and the MCP pool.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/guard/reach"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

// Options of a Guard.
type Options struct {
	Policy      Policy
	Workspace   string      // absolute
	WorkspaceID string      // names its records; "" while only servers are confined
	Folder      string      // the owner started the program there, outside of the workspace; "" is no such folder
	Scopes      ScopeStore  // of conversations; may be nil if none chooses a folder
	State       store.Store // of the data folder
	Secrets     *httpsafe.Registry
	Env         []string
	Getenv      func(string) string // looks variables up in Env; required

	// Installed are the folders of skills that the user installed; no tool writes
	// there. Builtin is what read_file finds below builtin://; nil is nothing.
	Installed []string
	Builtin   fs.FS

	// Extra makes further tools that work on files, behind a jail; what they
	// make belongs into the media folder. May be nil.
	Extra func(jail *diskio.Jail, media string) ([]tool.Tool, error)

	// KeepSent copies files that a turn sends, because they leave later: a
	// command may replace them meanwhile.
	KeepSent bool

	Now func() time.Time // nil is time.Now
	Log *slog.Logger
}

// Guard decides about the tools of one agent. Its methods may be called from
// several goroutines.
type Guard struct {
	o        Options
	places   *places
	jail     *diskio.Jail
	policy   *approve.Policy
	changes  *change.Record
	files    *change.Writer
	tracker  *tracker
	confiner *confiner
	scopes   *scopes
	guests   *guestTools
	folders  *folderTools
	commands *shell.Shell // nil: commands are switched off, or not yet made
	log      *slog.Logger
}

// New opens the workspace and the records that belong to it. It starts nothing.
func New(o Options) (_ *Guard, err error) {
	g := &Guard{o: o, places: placesOf(o), log: o.Log}
	g.guests, g.folders = &guestTools{g: g}, &folderTools{g: g}

	g.jail, err = diskio.OpenJail(diskio.JailOptions{
		Workspace:      o.Workspace,
		Also:           slices.DeleteFunc([]string{o.Folder}, func(p string) bool { return p == "" }),
		Restrict:       o.Policy.Restrict,
		ReadOnly:       []string{g.places.media, g.places.results()},
		Protected:      g.places.deny,
		ProtectedNames: g.places.protectedNames(),
		ProtectedWrite: g.places.denyWrite,
		Unlinked:       g.places.unlinked(),
		Straight:       g.places.straight(),
	})
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}

	g.scopes = &scopes{jail: g.jail, workspace: o.Workspace, store: o.Scopes}

	records := originsOf(o.Policy.DataDir, o.Workspace, g.places.id, o.Log)
	records.folder = o.Folder
	g.changes, err = openChanges(g.places, g.jail, records, g.busy, o)
	if err != nil {
		return nil, fmt.Errorf("undo: %w", err)
	}

	g.files = change.NewWriter(o.Workspace, records.in(""))

	g.tracker = &tracker{
		posture: o.Policy.Posture,
		origins: records,
		jail:    g.jail,
		media:   g.places.media,
		share:   g.places.share,
		log:     o.Log,
	}

	g.confiner = newConfiner(o, g.places, g.tracker)

	if g.policy, err = approve.New(g.approval(g.jail)); err != nil {
		return nil, fmt.Errorf("tools.approval: %w", err)
	}
	return g, nil
}

// Close gives everything back. No tool may run any more.
func (g *Guard) Close() error {
	err := g.changes.Close()
	if g.commands != nil {
		err = errors.Join(err, g.commands.Close())
	}
	err = errors.Join(err, g.guests.close(), g.folders.close())
	g.confiner.proxy.close()
	return err
}

// Ended tells the tools that a conversation was stopped, or starts over.
func (g *Guard) Ended(session string, stopped bool) {
	for _, sh := range g.shells() {
		sh.Stop(session)
	}
	if !stopped {
		g.policy.Forget(session)
		g.guests.forget(session)
		g.confiner.proxy.policy.Forget(session)
	}
}

// busy reports whether a command of a conversation is running.
func (g *Guard) busy(session string) bool {
	return slices.ContainsFunc(g.shells(), func(sh *shell.Shell) bool { return sh.Busy(session) })
}

// Running has a line for each command of a conversation that goes on after its
// call; "" is those of all conversations.
func (g *Guard) Running(session string) []string {
	var out []string
	for _, sh := range g.shells() {
		out = append(out, sh.Running(session)...)
	}
	return out
}

// StopCommand ends one of them by its id.
func (g *Guard) StopCommand(session, id string) bool {
	return slices.ContainsFunc(g.shells(), func(sh *shell.Shell) bool { return sh.StopOne(session, id) })
}

// shells are those of the owner and of guests.
func (g *Guard) shells() []*shell.Shell {
	out := g.guests.shells()
	if g.commands != nil {
		out = append(out, g.commands)
	}
	return out
}

// Policy returns what the settings say.
func (g *Guard) Policy() Policy { return g.o.Policy }

// Posture returns what is in force.
func (g *Guard) Posture() Posture { return g.o.Policy.Posture }

// Jail opens files of the workspace.
func (g *Guard) Jail() *diskio.Jail { return g.jail }

// Changes returns what is kept of the files that the owner's turns changed.
func (g *Guard) Changes() *change.Record { return g.changes }

// Files writes files of the workspace for the program itself.
func (g *Guard) Files() *change.Writer { return g.files }

// Reach decides which hosts commands may use, and counts what leaves.
func (g *Guard) Reach() *reach.Policy { return g.confiner.proxy.policy }

// Results returns where long results of tools are kept.
func (g *Guard) Results() string { return g.places.results() }

// Place is where the files of a turn are.
type Place struct {
	Workspace string // relative names start there
	Results   string // long results of tools are kept there
	Share     string // what a guest and the owner exchange; "" is nothing
	Folder    string // that the owner started the conversation in, outside of the workspace; "" is no such folder
}

// Place returns where a message of a guest works.
func (g *Guard) Place(r bus.Route, scope string) Place {
	home := g.places.guest(bus.Room(r, scope))
	return Place{Workspace: home.workspace, Results: home.results, Share: home.share}
}

// Folder is the link-free path of a folder that a conversation may work in.
func (g *Guard) Folder(path string) (string, error) { return g.scopes.folder(path) }

// Start is the scope of a conversation that the owner starts in a folder: in
// Options.Folder, or wherever the settings let files be reached.
func (g *Guard) Start(path string) (Scope, error) { return g.scopes.start(path) }

// SetScope chooses the folder that a conversation works in from its next turn
// on, and whether it is kept inside, and returns what is in force then. The
// path is absolute or relative to the workspace; an empty path or mode keeps
// what is in force. Remote peers can only narrow. It does not wait for a
// running turn, and an error is a sentence for the person. Calls for one
// conversation must not overlap.
func (g *Guard) SetScope(ctx context.Context, key string, want Scope, remote bool) (Scope, error) {
	return g.scopes.set(ctx, key, want, remote)
}

// Foreign reports whether a file of the workspace came from outside, so that
// the agent must not follow what it says.
func (g *Guard) Foreign(path string) bool { return g.tracker.origins.foreign(path) }

// Notes tell the owner which of the files that the agent follows are left out
// because a command or a tainted turn wrote them.
func (g *Guard) Notes() []string {
	if err := g.tracker.origins.readable(); err != nil {
		return []string{fmt.Sprintf("The record of files from outside cannot be read: %v. Until it can be, no instructions in files of the workspace are followed.", err)}
	}

	var names []string
	for _, name := range datadir.FollowedFiles() {
		if g.Foreign(filepath.Join(g.o.Workspace, name)) {
			names = append(names, name)
		}
	}

	if own := filepath.Join(g.o.Folder, FolderFile); g.o.Folder != "" && g.Foreign(own) {
		names = append(names, own)
	}

	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s came from outside and is not followed. Look at it; then, if it is yours: nanobot trust %s",
		strings.Join(names, ", "), strings.Join(names, " "))}
}

// approval is the policy about calls whose files are behind a jail.
func (g *Guard) approval(jail *diskio.Jail) approve.Options {
	p := g.o.Policy
	return approve.Options{
		Mode:           p.Approval,
		Timeout:        p.ApprovalTimeout,
		FallbackAllow:  p.FallbackAllow,
		Rules:          p.ApprovalRules,
		Targets:        p.MessageTargets,
		Sandboxed:      p.Sandbox != sandbox.None,
		Network:        string(p.Network),
		SandboxProfile: p.describe(),
		Jail:           jail,
		Contained:      g.tracker.contained,
		Outside:        g.tracker.outside,
		Exposed:        g.confiner.exposed,
		CommandRisk:    shell.Risk,
		CommandPrefix:  shell.Prefix,
		CommandMatch: func(command, rule string) approve.Match {
			return approve.Match(shell.Matches(command, rule))
		},
		Suspicious: web.Suspicious,
		Leaks:      g.o.Secrets.Leaks,
		Known:      func(c tool.Call, address string) bool { return web.Seen(c.State, address) },
		Log:        g.log,
	}
}

// Explain says what would happen to a call of the owner.
func (g *Guard) Explain(ctx context.Context, t tool.Tool, c tool.Call) approve.Explained {
	return g.policy.Explain(ctx, t, c)
}

// Begin decides about a call and keeps what it is going to change. It
// returns the result of a call that must not run, or nil. End follows in any case.
func (g *Guard) Begin(ctx context.Context, t tool.Tool, c tool.Call) *tool.Result {
	policy, done, err := g.guests.policy(ctx, c)
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
		if err := g.unapproved(c, t.Paths(c.Input)); err != nil {
			no := tool.Fail(tool.DeniedPolicy, "%v", err)
			return &no
		}
		if err := g.tracker.redirected(c, t.Paths(c.Input)); err != nil {
			no := tool.Fail(tool.DeniedPolicy, "%v", err)
			return &no
		}
	}

	// The old content is kept with what is known about it until now, before the
	// call gives the file a mark of its own.
	g.keep(ctx, t, c)
	if t.Paths != nil {
		if err := g.tracker.writes(c, t.Paths(c.Input)); err != nil {
			no := tool.Fail(tool.Internal, "the file was not written, because where it comes from cannot be recorded: %v", err)
			return &no
		}
	}
	return nil
}

// unapproved refuses what a tainted turn writes to a file that is part of an approval,
// while the approved command runs: it may open the file at any time.
func (g *Guard) unapproved(c tool.Call, names []string) error {
	switch {
	case c.Scope != "": // files of guests are none of the owner's
		return nil
	case !c.Tainted: // it is the owner's own change
		return nil
	}

	for _, name := range names {
		path, err := g.jail.Path(c.Project.Path(name))
		if err == nil && g.policy.Runs(c, path) {
			return fmt.Errorf("%s is part of a command that was approved and still runs. Nothing was written: content from outside is in this conversation, and the command would run it. Write it when the command has ended", name)
		}
	}
	return nil
}

// keep keeps what a call is going to change.
func (g *Guard) keep(ctx context.Context, t tool.Tool, c tool.Call) {
	writable := g.confiner.writable(c)
	if t.Sink == tool.SinkCommand && c.Scope == "" {
		g.confiner.prepare(writable)
	}

	kept, done, err := g.guests.kept(ctx, c)
	if err == nil {
		defer done()
		err = kept.Before(ctx, inFull(t, c.Project), c, writable...)
	}
	if err != nil {
		g.log.WarnContext(ctx, "this change cannot be undone", "tool", t.Name, "turn", c.TurnID, "err", err)
	}
}

// End records what a call changed and which addresses a search named, and
// shows edits of files in the chat.
func (g *Guard) End(ctx context.Context, c tool.Call, r tool.Result) {
	if policy, done, err := g.guests.policy(ctx, c); err == nil {
		if c.Name == "web_search" && !r.IsError {
			policy.Saw(c, r.Content.String())
		}
		policy.Returned(c)
		done()
	}

	if err := g.tracker.wrote(c); err != nil {
		g.log.ErrorContext(ctx, "record where a file comes from", "tool", c.Name, "turn", c.TurnID, "err", err)
	}

	kept, done, err := g.guests.kept(ctx, c)
	if err != nil {
		g.log.WarnContext(ctx, "note what a call changed", "tool", c.Name, "turn", c.TurnID, "err", err)
		return
	}

	defer done()
	edits, err := kept.After(ctx, c)
	if err != nil {
		g.log.WarnContext(ctx, "note what a call changed", "tool", c.Name, "turn", c.TurnID, "err", err)
	}

	if len(edits) == 0 || c.Publish == nil {
		return
	}

	for i := range edits {
		edits[i].Diff = g.o.Secrets.Redact(edits[i].Diff)
	}
	_ = c.Publish(ctx, bus.Outbound{Kind: bus.FileEdit, Route: c.Route, Edits: edits}) // it only shows what happened
}

// Undo takes back a turn of a session, the last one that changed files if turn is
// empty: of the owner, or of a guest in their own workspace. force also replaces
// files that changed since. paths are the files it touched; the reply is Markdown
// for the person who wrote the message.
func (g *Guard) Undo(ctx context.Context, in bus.Inbound, session, turn string, force bool) (reply string, paths []string, err error) {
	chat, done, err := g.changesOf(ctx, in, session)
	if err != nil {
		return "", nil, err
	}
	defer done()
	return chat.Undo(ctx, session, turn, force)
}

// Diff shows what a turn changed; an empty turn is the last one.
func (g *Guard) Diff(ctx context.Context, in bus.Inbound, session, turn string) (string, error) {
	chat, done, err := g.changesOf(ctx, in, session)
	if err != nil {
		return "", err
	}
	defer done()
	return chat.Diff(ctx, session, turn)
}

// Turns lists the turns of a session that changed files, newest first.
func (g *Guard) Turns(ctx context.Context, in bus.Inbound, session string) (string, error) {
	chat, done, err := g.changesOf(ctx, in, session)
	if err != nil {
		return "", err
	}
	defer done()
	return chat.Turns(ctx, session)
}

// changesOf are the recorded changes that a conversation made.
func (g *Guard) changesOf(ctx context.Context, in bus.Inbound, session string) (undo.Chat, func(), error) {
	s, done, err := g.guests.kept(ctx, tool.Call{Route: in.Route, Scope: in.Scope, SessionKey: session})
	return undo.Chat{Store: s}, done, err
}
