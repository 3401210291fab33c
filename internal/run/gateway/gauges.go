package gateway

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/web/api"
)

// gauges are looked up when the metrics are read: the status, and what is counted for
// them alone because it is not cheap.
func (g *Gateway) gauges(r *api.Reading) {
	s := g.Status()
	s.Measure(r)
	gen := g.state.snapshot().agent
	if gen == nil {
		return
	}
	if n, err := gen.app.Sessions.Count(context.Background()); err == nil {
		r.Gauge("nanobot_sessions", "Stored conversations.", float64(n))
	}
}
