package gateway

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel/websocket"
)

// setScope chooses the folder that a chat of web clients works in.
func (w *webClients) setScope(ctx context.Context, chat bus.Route, want websocket.Scope, remote bool) (websocket.Scope, error) {
	a, err := w.state.current(ctx)
	if err != nil {
		return websocket.Scope{}, err
	}
	w.scoping.Lock() // between the look and the change
	defer w.scoping.Unlock()
	now, err := a.SetScope(ctx, chat, agent.WorkspaceScope(want), remote)
	return websocket.Scope(now), err
}
