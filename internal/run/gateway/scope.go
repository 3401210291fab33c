package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// setScope chooses the folder that a chat of web clients works in.
func (w *webClients) setScope(ctx context.Context, chat bus.Route, want guard.Scope, remote bool) (guard.Scope, error) {
	a, err := w.state.current(ctx)
	if err != nil {
		return guard.Scope{}, err
	}
	w.scoping.Lock() // between the look and the change
	defer w.scoping.Unlock()
	return a.SetScope(ctx, chat, want, remote)
}

// setModel chooses the model of a chat, as /model does.
func (w *webClients) setModel(ctx context.Context, chat bus.Route, model, preset string) (string, error) {
	a, err := w.state.current(ctx)
	if err != nil {
		return "", err
	}

	switch {
	case model != "":
		preset = turn.ModelChoice + model
	case preset == "default":
		preset = ""
	case preset != "" && !slices.Contains(a.Models().Presets(), preset):
		return "", fmt.Errorf("there is no preset %q", preset)
	}

	rt, err := a.Models().Runtime(ctx, preset)
	if err != nil {
		return "", err
	}

	value := any(preset)
	if preset == "" {
		value = nil
	}

	ctx, cancel := context.WithTimeout(ctx, modelWait)
	defer cancel()
	return rt.Display, a.Sessions.Annotate(ctx, a.Agent.KeyOf(bus.Inbound{Route: chat}), func(s *session.Session) error { return s.SetMeta(owntool.PresetKey, value) })
}

// modelWait is how long another program may keep a conversation from being changed.
const modelWait = 5 * time.Second
