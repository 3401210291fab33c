package app

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/webui"
)

// Fork gives tests what the WebSocket channel is lent.
func Fork(ctx context.Context, g *Gateway, from, to bus.Route, beforeUser int, title string) error {
	return g.fork(ctx, from, to, beforeUser, title)
}

// SettingsDesk is a desk with the settings of a gateway only.
func SettingsDesk(g *Gateway) *webui.Desk {
	return webui.New(webui.Options{Reads: g.settingsReads(), Actions: g.settingsActions(), Log: g.log})
}
