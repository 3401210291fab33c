package app

import (
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/api"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/keyring"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// Log is the log without credentials.
func (a *App) Log() *slog.Logger { return a.log }

// Secrets are the credentials in use.
func (a *App) Secrets() *httpsafe.Registry { return a.safety.secrets }

// Jail opens files of the workspace.
func (a *App) Jail() *diskio.Jail { return a.safety.jail }

// Ledger has the calls of models and what they cost.
func (a *App) Ledger() *ledger.Ledger { return a.models.ledger }

// Servers are the MCP servers; nil if there are none.
func (a *App) Servers() *mcp.Pool { return a.servers }

// NewFigures counts for m. Embedded says that the model is not one of ours.
func NewFigures(m *api.Metrics, embedded bool) *Figures {
	f := &Figures{embedded: embedded}
	f.metrics.Store(m)
	return f
}

// CleanKeys returns a message without the keys that were typed in it, and what
// to tell the sender about them.
func CleanKeys(ring func() *keyring.Ring, secrets *httpsafe.Registry, log *slog.Logger, in bus.Inbound) (bus.Inbound, string) {
	v := &vault{ring: ring, secrets: secrets, log: log}
	return v.clean(in)
}
