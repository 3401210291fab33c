package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// Secrets are the credentials in use.
func (a *App) Secrets() *httpsafe.Registry { return a.secrets }

// Jail opens files of the workspace.
func (a *App) Jail() *diskio.Jail { return a.guard.Jail() }

// Files writes files of the workspace for the program itself.
func (a *App) Files() *change.Writer { return a.guard.Files() }

// OpenFiles makes what writes files of a workspace for the program itself, where no
// agent is made. It does no I/O.
func OpenFiles(l *config.Loaded, workspace string, log *slog.Logger) *change.Writer {
	return change.NewWriter(workspace, sync.OnceValues(func() (*origin.Store, error) {
		w, err := session.Identify(State(l, log), l.DataDir, workspace)
		if err != nil {
			return nil, fmt.Errorf("look up the workspace: %w", err)
		}
		return guard.OpenOrigins(l.DataDir, w.Path, w.ID, "", log)
	}))
}

// Changes is what is kept of the files that the owner's turns changed.
func Changes(a *App) *change.Record { return a.guard.Changes() }

// Models makes the models of the agent.
func (a *App) Models() *provider.Models { return a.models }

// Ledger has the calls of models and what they cost.
func (a *App) Ledger() *ledger.Ledger { return a.models.Ledger() }

// turnCost is what a turn cost, and how it is paid for.
func turnCost(a *App) func(string) (float64, string) {
	return func(id string) (float64, string) {
		usd, billing := a.Ledger().TurnCost(id)
		if billing == ledger.Unknown {
			usd = 0 // it would be a part of it
		}
		return usd, string(billing)
	}
}

// Explain says what would happen to a call of the owner's model. The text is why
// there can be no such call.
func Explain(ctx context.Context, a *App, name, arguments string, tainted bool) (out approve.Explained, wrong string) {
	t, input, no := a.Agent.Prepare(name, arguments)
	if no != nil {
		return out, no.Content.String()
	}
	return a.guard.Explain(ctx, t, tool.Call{Name: name, Input: input, Tainted: tainted}), ""
}

// Servers are the MCP servers; nil if there are none.
func (a *App) Servers() *mcp.Pool { return a.servers }

// SetScope chooses the folder that a chat works in; see guard.Guard.SetScope.
func (a *App) SetScope(ctx context.Context, chat bus.Route, want guard.Scope, remote bool) (guard.Scope, error) {
	return a.guard.SetScope(ctx, a.Agent.KeyOf(bus.Inbound{Route: chat}), want, remote)
}

// OpenUndo opens the record of file changes that belongs to a workspace; see
// guard.OpenUndo. Done gives everything back.
func OpenUndo(ctx context.Context, loaded *config.Loaded, workspace string, log *slog.Logger) (r *change.Record, done func() error, err error) {
	sessions, err := OpenSessions(ctx, loaded, workspace, log)
	if err != nil {
		return nil, nil, err
	}

	opts := guardOptions(loaded, workspace, log)
	opts.WorkspaceID = sessions.Workspace().ID
	r, give, err := guard.OpenUndo(opts)
	if err != nil {
		return nil, nil, errors.Join(err, sessions.Close())
	}
	return r, func() error { return errors.Join(give(), sessions.Close()) }, nil
}

// OpenOrigins opens the record of the files of a workspace that came from
// outside, for the owner to look at and to change.
func OpenOrigins(ctx context.Context, l *config.Loaded, workspace, folder string, log *slog.Logger) (*origin.Store, error) {
	sessions, err := OpenSessions(ctx, l, workspace, log)
	if err != nil {
		return nil, err
	}
	defer sessions.Close() //nolint:errcheck // only its name is needed
	return guard.OpenOrigins(l.DataDir, workspace, sessions.Workspace().ID, folder, log)
}
