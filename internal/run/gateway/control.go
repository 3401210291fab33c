package gateway

import (
	"cmp"
	"context"
	"net/http"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
)

// InstanceFile describes the gateway that runs with a configuration.
func InstanceFile(l *config.Loaded) string { return datadir.GatewayFile.In(l.DataDir) }

// LastGood is the configuration of the last start, if it says that it may be
// used instead of one that is broken; else nil.
func LastGood(o config.Options) *config.Loaded {
	path, err := config.Locate(o)
	if err != nil {
		return nil
	}

	o.Path = datadir.LastGood.In(filepath.Dir(path))
	l, err := config.Load(o)
	if err != nil || l.Config.Gateway.BootFallback != "last-good" {
		return nil
	}
	return l
}

// LogFile is where the gateway writes what it does.
func LogFile(l *config.Loaded) string {
	return cmp.Or(l.Config.Gateway.Log.File, datadir.Logs.In(l.DataDir, "gateway.log"))
}

// commands answer those of the same user.
func (g *Gateway) commands() http.Handler {
	return control.Server{Gateway: calls{g}, Channels: g.accounts, Pages: g.pages, Redact: g.secrets.Redact}.Handler()
}

// calls are about the gateway as a whole.
type calls struct{ g *Gateway }

// Status implements control.Gateway.
func (c calls) Status(ctx context.Context) control.Status {
	s := c.g.Status()
	s.Jobs = c.g.Jobs(ctx)
	return s
}

// Reload implements control.Gateway.
func (c calls) Reload(ctx context.Context) error { return c.g.Reload(ctx) }

// Restart implements control.Gateway.
func (c calls) Restart() { c.g.o.Restart(bus.Route{}) }
