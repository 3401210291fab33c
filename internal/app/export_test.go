package app

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Fork gives tests what the WebSocket channel is lent.
func Fork(ctx context.Context, g *Gateway, from, to bus.Route, beforeUser int, title string) error {
	return g.fork(ctx, from, to, beforeUser, title)
}
