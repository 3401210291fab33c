package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// fork begins a conversation with what was said in another before one of the
// user's messages, counted from 0, or, if that is negative, before an index.
func (w *webClients) fork(ctx context.Context, from, to bus.Route, beforeUser, beforeIndex int, title string) (err error) {
	a, err := w.state.current(ctx)
	if err != nil {
		return err
	}

	var recs []session.Record
	users, index := 0, -1
	for r, err := range a.Sessions.Records(ctx, from.SessionKey()) {
		if err != nil {
			return err
		}
		if index++; beforeUser < 0 && index == beforeIndex {
			break
		}

		if r.Role == llm.User && !r.Internal && !r.Command && !r.Mark() {
			if users == beforeUser {
				break
			}
			users++
		}

		r.TurnID, r.InboundID = "", "" // those are the other conversation's
		recs = append(recs, r)
	}

	if users < beforeUser {
		return fmt.Errorf("the conversation has %d messages of yours, not %d", users, beforeUser)
	}

	s, err := a.Sessions.Acquire(ctx, to.SessionKey())
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, s.Release()) }()
	if s.Len() > 0 {
		return errors.New("the new conversation has begun already")
	}

	meta, err := a.Sessions.Metadata(ctx, from.SessionKey())
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return err
	}

	if scope := turn.ScopeOf(meta); scope != nil { // it goes on in the same folder
		if err := s.SetMeta(turn.WorkspaceScopeKey, scope); err != nil {
			return err
		}
	}

	if err := memory.Inherit(meta, s); err != nil {
		return err
	}

	if title != "" {
		if err := s.SetMeta("title", title); err != nil {
			return err
		}
	}
	return s.Append(recs...)
}
