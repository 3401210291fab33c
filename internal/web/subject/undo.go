package subject

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Undo keeps what files held before turns changed them.
type Undo interface {
	Turns(ctx context.Context, session string) ([]undo.Turn, error)
	Find(ctx context.Context, id string) (undo.Turn, error)
	Diff(ctx context.Context, id string) (string, error)
	Preview(ctx context.Context, id string, force bool) (undo.Report, error)
	Undo(ctx context.Context, id string, how undo.Choice) (undo.Report, error)
}

// Bounds of what is shown about changes.
const (
	undoTurns = 200
	diffBytes = 1 << 20
)

// undoing is the reads and actions about file changes.
type undoing struct{ d *API }

func (u undoing) reads() map[string]web.Read {
	return map[string]web.Read{"undo": u.list, "undo/{id}": u.one}
}

func (u undoing) actions() map[string]web.Action { return map[string]web.Action{"undo.apply": u.apply} }

// backend is the one of the API, if it keeps changes.
func (u undoing) backend(ctx context.Context) (Backend, error) {
	h, err := u.d.Backend(ctx)
	if err == nil && h.Undo == nil {
		err = web.Refuse(http.StatusNotImplemented, "changes to files are not kept here")
	}
	return h, err
}

// list lists the turns that changed files, the newest first.
func (u undoing) list(ctx context.Context, r *http.Request) (any, error) {
	h, err := u.backend(ctx)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", undoTurns)
	if err != nil {
		return nil, err
	}
	turns, err := h.Undo.Turns(ctx, r.URL.Query().Get("session"))
	if err != nil {
		return nil, err
	}
	total := len(turns)
	turns = turns[:min(total, limit, undoTurns)]
	return map[string]any{"turns": append([]undo.Turn{}, turns...), "total": total}, nil
}

// one shows a turn: what it changed, and what undoing it would do now.
func (u undoing) one(ctx context.Context, r *http.Request) (any, error) {
	h, err := u.backend(ctx)
	if err != nil {
		return nil, err
	}
	t, err := h.Undo.Find(ctx, r.PathValue("id"))
	if err != nil {
		return nil, undoRefusal(err)
	}
	diff, err := h.Undo.Diff(ctx, t.ID)
	if err != nil {
		return nil, undoRefusal(err)
	}
	out := map[string]any{"turn": t, "diff": clip(h.redact(head(diff, diffBytes)), diffBytes)}
	if !t.Running { // until then it cannot be undone
		if out["preview"], err = h.Undo.Preview(ctx, t.ID, false); err != nil {
			return nil, undoRefusal(err)
		}
	}
	return out, nil
}

// apply brings the files of a turn back. A second client that asks for the
// same learns that it is done.
func (u undoing) apply(ctx context.Context, payload json.RawMessage) (any, error) {
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
	h, err := u.backend(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	t, err := h.Undo.Find(ctx, in.ID)
	if err != nil {
		return nil, undoRefusal(err)
	}
	switch {
	case t.UndoneBy != "":
		return nil, web.Refuse(http.StatusConflict, "this turn was undone already by %s", t.UndoneBy)
	case h.running(t.Session):
		return nil, web.Refuse(http.StatusConflict, "something is still running in this conversation; stop it first")
	}
	report, err := h.Undo.Undo(ctx, t.ID, undo.Choice{Force: in.Force})
	if err != nil {
		return nil, undoRefusal(err)
	}
	paths := append(append([]string{}, report.Restored...), report.Deleted...)
	if h.Undone != nil && len(paths) > 0 {
		if err := h.Undone(ctx, t.Session, paths); err != nil { // the files are as they should be
			u.d.Log.ErrorContext(ctx, "tell the model about an undo", "session", t.Session, "err", err)
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
