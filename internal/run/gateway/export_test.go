package gateway

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/settings"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Fork gives tests what the WebSocket channel is lent.
func Fork(ctx context.Context, g *Gateway, from, to bus.Route, beforeUser int, title string) error {
	return g.web.fork(ctx, from, to, beforeUser, -1, title)
}

// ChooseScope is setScope of the WebSocket channel.
func ChooseScope(ctx context.Context, g *Gateway, chat bus.Route, path, mode string, remote bool) (gotPath, gotMode string, err error) {
	s, err := g.web.setScope(ctx, chat, guard.Scope{Path: path, Mode: mode}, remote)
	return s.Path, s.Mode, err
}

// WebAPI is what web clients look at.
func WebAPI(g *Gateway) *web.Desk { return g.desk }

// WebRoutes returns the names of the reads and actions that web clients have.
func WebRoutes(g *Gateway) (reads, actions []string) {
	for _, s := range g.subjects() {
		routes := s.Routes()
		reads = slices.AppendSeq(reads, maps.Keys(routes.Reads))
		actions = slices.AppendSeq(actions, maps.Keys(routes.Actions))
	}
	return reads, actions
}

// SettingsAPI has the settings of a gateway only. During, which may be nil, is
// called while a change is being made.
func SettingsAPI(tb testing.TB, g *Gateway, during func()) *web.Desk {
	tb.Helper()
	o := g.settings()
	o.Try = func(ctx context.Context, next *config.Loaded) error {
		if during != nil {
			during()
		}
		return g.try(ctx, next)
	}
	desk, err := web.NewDesk(g.log, settings.New(o)...)
	if err != nil {
		tb.Fatal(err)
	}
	return desk
}

// PretendFree makes a gateway believe that a disk has so much room.
func PretendFree(g *Gateway, bytes uint64) {
	g.free = func(string) (uint64, bool) { return bytes, true }
}

// Alive reports whether a gateway with this status counts as alive.
func Alive(s *control.Status) bool { return alive(s) }

// PageLink is the secret of a link to the pages.
func PageLink(g *Gateway) string { return g.pages.auth.Link() }

// RevokePages signs all devices out.
func RevokePages(ctx context.Context, g *Gateway) error {
	list, err := g.pages.auth.Devices(ctx)
	for _, d := range list {
		err = errors.Join(err, g.pages.auth.Revoke(ctx, d.ID))
	}
	return err
}

// PushTo sends notifications with another client.
func PushTo(g *Gateway, c *http.Client) { g.pages.push.Client = c }

// LetChannelsIn is what a gateway does that has run for a while after many crashes.
func LetChannelsIn(ctx context.Context, g *Gateway) { g.letChannelsIn(ctx) }
