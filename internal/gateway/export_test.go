package gateway

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel/websocket"
	"github.com/nanobot-go/nanobot/internal/webui"
)

// Fork gives tests what the WebSocket channel is lent.
func Fork(ctx context.Context, g *Gateway, from, to bus.Route, beforeUser int, title string) error {
	return g.fork(ctx, from, to, beforeUser, title)
}

// ChooseScope is setScope of the WebSocket channel.
func ChooseScope(ctx context.Context, g *Gateway, chat bus.Route, path, mode string, remote bool) (gotPath, gotMode string, err error) {
	s, err := g.setScope(ctx, chat, websocket.Scope{Path: path, Mode: mode}, remote)
	return s.Path, s.Mode, err
}

// Desk is what web interfaces look at.
func Desk(g *Gateway) *webui.API { return g.desk() }

// PretendFree makes a gateway believe that a disk has so much room.
func PretendFree(g *Gateway, bytes uint64) {
	g.free = func(string) (uint64, bool) { return bytes, true }
}

// Alive reports whether a gateway with this status counts as alive.
func Alive(s *Status) bool { return s.alive() }
