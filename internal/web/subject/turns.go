package subject

import (
	"cmp"
	"context"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
)

// turned is what a page says about a turn beside its messages.
type turned struct {
	TurnID     string        `json:"turn_id"`           // as on messages and events
	UndoID     string        `json:"undo_id,omitempty"` // by which its file changes can be undone
	UndoneBy   string        `json:"undone_by,omitempty"`
	Files      []undo.Change `json:"files,omitempty"` // that it changed
	StartedAt  string        `json:"started_at,omitempty"`
	DurationMS int64         `json:"duration_ms,omitempty"`
	Model      string        `json:"model,omitempty"`
	Preset     string        `json:"model_preset,omitempty"`
	Fallback   bool          `json:"fallback,omitempty"` // another model than the chosen one answered
	StopReason string        `json:"stop_reason,omitempty"`
	Error      string        `json:"error,omitempty"`
	ErrorKind  string        `json:"error_kind,omitempty"`
	Refused    string        `json:"refused,omitempty"`
	Truncated  bool          `json:"truncated,omitempty"`
	Usage      *bus.Usage    `json:"usage,omitempty"`
	Edits      []edited      `json:"edits,omitempty"`
	Notices    []notice      `json:"notices,omitempty"`
	Receipts   []bus.Receipt `json:"receipts,omitempty"`
	note       *session.TurnNote
}

// edited is a file change in the words of the event file_edit.
type edited struct {
	CallID    string `json:"call_id"`
	Path      string `json:"path"`
	Status    string `json:"status"` // done
	Operation string `json:"operation"`
	Added     *int   `json:"added,omitempty"`
	Deleted   *int   `json:"deleted,omitempty"`
	Diff      string `json:"diff,omitempty"`
}

type notice struct {
	At   string `json:"at"`
	Text string `json:"text"`
}

// turns returns those of the messages on the page, in order. An error comes with
// what could be found out.
func (p *page) turns(ctx context.Context, now *Program) (out []*turned, err error) {
	out = []*turned{}
	known := map[string]*turned{}
	for _, m := range p.messages {
		if m.turn == "" || known[m.turn] != nil {
			continue
		}
		t := &turned{TurnID: m.TurnID, note: p.notes[m.turn]}
		known[m.turn] = t
		out = append(out, t)
	}

	if now.Changes != nil && len(out) > 0 {
		var changed []undo.Turn
		changed, err = now.Changes.Turns(ctx, p.key)
		for i := range changed {
			if t := known[changed[i].ID]; t != nil {
				t.UndoID = changed[i].ID
				t.UndoneBy = changed[i].UndoneBy
				t.Files = changed[i].Changes
			}
		}
	}

	kept := out[:0]
	for _, t := range out {
		if t.note != nil {
			t.fill(now.Secrets)
		}
		if t.note != nil || t.UndoID != "" {
			kept = append(kept, t)
		}
	}

	return kept, err
}

// fill takes over what was noted, credentials taken out.
func (t *turned) fill(secrets *httpsafe.Registry) {
	n := t.note
	t.StartedAt, t.DurationMS = stamp(n.Started), n.DurationMS
	t.Model = cmp.Or(n.Fallback, n.Model)
	t.Preset = n.Preset
	t.Fallback = n.Fallback != ""
	t.StopReason, t.Truncated = n.StopReason, n.Truncated
	t.Error = secrets.Redact(n.Error)
	t.ErrorKind = n.ErrorKind
	t.Refused = secrets.Redact(n.Refused)
	t.Usage, t.Receipts = &n.Usage, n.Receipts

	for _, e := range n.Edits {
		shown := edited{
			CallID:    e.CallID,
			Path:      secrets.Redact(e.Path),
			Status:    "done",
			Operation: e.What,
			Diff:      secrets.Redact(e.Diff),
		}
		if e.Lines {
			shown.Added, shown.Deleted = &e.Added, &e.Deleted
		}
		t.Edits = append(t.Edits, shown)
	}

	for _, s := range n.Notices {
		t.Notices = append(t.Notices, notice{At: stamp(s.At), Text: secrets.Redact(s.Text)})
	}
}
