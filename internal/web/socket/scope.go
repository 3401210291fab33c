package socket

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// scoped reports whether a frame asks for a folder to work in.
func (e *envelope) scoped() bool { return len(e.Scope) > 0 && string(e.Scope) != "null" }

// setScope gives a chat the folder that a frame asks for, and tells who listens
// to it and who asked. It reports whether it may go on.
func (r *receiver) setScope(ctx context.Context, id string, e *envelope) bool {
	got, ok := r.scope(ctx, id, e)
	if !ok {
		return false
	}
	r.c.hub.announce(r.socket, id, func() frame {
		return newFrame(evUpdated, id, 128).text("scope", "workspace").raw("workspace_scope", mustJSON(got))
	})
	return true
}

// announce sends an event to those who listen to a chat, and to one connection.
func (h *hub) announce(s *socket, id string, told func() frame) {
	listens := false
	h.update(id, func(c *conversation) {
		c.ring.add(&event{to: modern}, told())
		listens = c.sockets[s] != nil
	})
	if !listens {
		s.reply(told())
	}
}

// scope returns what is in force after a frame asked for a folder. What cannot be
// done is answered: to ignore it would give more than was asked for. Who proved
// nothing may be a command of the agent that wants out, and counts as far away.
func (r *receiver) scope(ctx context.Context, id string, e *envelope) (got guard.Scope, ok bool) {
	var want guard.Scope
	var why string
	switch err := json.Unmarshal(e.Scope, &want); {
	case r.c.o.Scope == nil:
		why = "not supported"
	case strings.HasPrefix(id, privatePrefix):
		why = "a temporary chat works in the workspace"
	case err != nil:
		why = "workspace_scope must be an object with project_path and access_mode"
	default:
		if got, err = r.c.o.Scope(ctx, bus.Route{Channel: r.c.d.Name, ChatID: id}, want, !r.local || !r.proven); err == nil {
			return got, true
		}
		why = err.Error()
	}

	r.problem("workspace_scope_rejected", why, e)
	return guard.Scope{}, false
}
