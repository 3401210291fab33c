package subject

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Changes are what turns changed in files, and undo it.
type Changes struct {
	Now Source
	Log *slog.Logger
}

// Routes implements web.Subject.
func (c Changes) Routes() web.Routes {
	return web.Routes{
		Reads:   map[string]web.Read{"undo": c.list, "undo/{id}": c.one},
		Actions: map[string]web.Action{"undo.apply": web.Changing(c.apply, web.TopicSessions)},
	}
}

// Bounds of what is shown about changes.
const (
	undoTurns = 200
	diffBytes = 1 << 20
)

// program returns the one in use, if it keeps changes.
func (c Changes) program(ctx context.Context) (*Program, error) {
	now, err := c.Now(ctx)
	if err == nil && now.Changes == nil {
		err = web.Refuse(http.StatusNotImplemented, "changes to files are not kept here")
	}
	return now, err
}

// list lists the turns that changed files, the newest first.
func (c Changes) list(ctx context.Context, r *http.Request) (any, error) {
	now, err := c.program(ctx)
	if err != nil {
		return nil, err
	}

	limit, err := number(r, "limit", undoTurns)
	if err != nil {
		return nil, err
	}

	turns, err := now.Changes.Turns(ctx, r.URL.Query().Get("session"))
	if err != nil {
		return nil, err
	}

	total := len(turns)
	turns = turns[:min(total, limit, undoTurns)]
	return map[string]any{"turns": append([]undo.Turn{}, turns...), "total": total}, nil
}

// one shows a turn: what it changed, and what undoing it would do now.
func (c Changes) one(ctx context.Context, r *http.Request) (any, error) {
	now, err := c.program(ctx)
	if err != nil {
		return nil, err
	}

	t, err := now.Changes.Find(ctx, r.PathValue("id"))
	if err != nil {
		return nil, undoRefusal(err)
	}

	diff, err := now.Changes.Diff(ctx, t.ID)
	if err != nil {
		return nil, undoRefusal(err)
	}

	out := map[string]any{"turn": t, "diff": clip(now.Secrets.Redact(head(diff, diffBytes)), diffBytes)}
	if !t.Running { // until then it cannot be undone
		if out["preview"], err = now.Changes.Preview(ctx, t.ID, false); err != nil {
			return nil, undoRefusal(err)
		}
	}
	return out, nil
}

// apply brings the files of a turn back. A second client that asks for the
// same learns that it is done.
func (c Changes) apply(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		ID    string `json:"id"`
		Force bool   `json:"force"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.ID == "" {
		return nil, web.Refuse(http.StatusBadRequest, "id is missing: say which turn")
	}

	now, err := c.program(ctx)
	if err != nil {
		return nil, err
	}

	ctx, cancel := lasting(ctx)
	defer cancel()
	t, err := now.Changes.Find(ctx, in.ID)
	if err != nil {
		return nil, undoRefusal(err)
	}
	if t.UndoneBy != "" {
		return nil, web.Refuse(http.StatusConflict, "this turn was undone already by %s", t.UndoneBy)
	}
	if now.Agent.BusyWith(t.Session) {
		return nil, web.Refuse(http.StatusConflict, "something is still running in this conversation; stop it first")
	}

	report, err := now.Changes.Undo(ctx, t.ID, undo.Choice{Force: in.Force})
	if err != nil {
		return nil, undoRefusal(err)
	}

	paths := append(append([]string{}, report.Restored...), report.Deleted...)
	if len(paths) > 0 {
		if err := now.Agent.Undone(ctx, t.Session, paths); err != nil { // the files are as they should be
			c.Log.ErrorContext(ctx, "cannot tell the model about an undo", "session", t.Session, "err", err)
		}
	}
	return report, nil
}

// undoRefusal words what can go wrong with a turn.
func undoRefusal(err error) error {
	switch {
	case errors.Is(err, undo.ErrNoTurn):
		return web.Refuse(http.StatusNotFound, "there is no such turn, or it is no longer kept")
	case errors.Is(err, undo.ErrAmbiguous):
		return web.Refuse(http.StatusConflict, "several turns begin like this; send the whole id")
	case errors.Is(err, undo.ErrRunning):
		return web.Refuse(http.StatusConflict, "a command of this turn is still running; stop it first")
	}
	return err
}
