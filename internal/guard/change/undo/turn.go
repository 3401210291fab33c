package undo

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Turn says what one turn, or one undo, did to files.
type Turn struct {
	ID       string    `json:"id"`
	Session  string    `json:"session"`
	At       time.Time `json:"at"`
	Undoes   string    `json:"undoes,omitempty"`    // the turn that this one took back
	UndoneBy string    `json:"undone_by,omitempty"` // the one that took this one back
	Changes  []Change  `json:"changes,omitempty"`
	Gaps     []string  `json:"gaps,omitempty"`    // what is not covered and why
	Skipped  []string  `json:"skipped,omitempty"` // folders that commands may have changed unseen
	// Interrupted means that the end of a command was missed, so that later
	// changes may be counted as its own.
	Interrupted bool `json:"interrupted,omitempty"`
	Running     bool `json:"running,omitempty"` // a command has not ended yet
}

// Change says what a turn did to one path, relative to the workspace or
// absolute.
type Change struct {
	Path string `json:"path"`
	What string `json:"what"` // created, changed, deleted
}

// Summary returns the turn in one line.
func (t Turn) Summary() string {
	var parts []string
	if t.Undoes != "" {
		parts = append(parts, "(undo of "+Short(t.Undoes)+")")
	}
	if t.UndoneBy != "" {
		parts = append(parts, "(taken back)")
	}
	if t.Running {
		parts = append(parts, "(running)")
	}
	if len(t.Gaps) > 0 {
		parts = append(parts, "(not all covered)")
	}

	dir := t.folder()
	var names []string
	for _, c := range t.Changes {
		names = append(names, c.What+" "+strings.TrimPrefix(c.Path, dir+"/"))
	}

	if dir != "" {
		names[len(names)-1] += " (in " + dir + ")"
	}
	return text.Label(strings.Join(append(parts, strings.Join(names, ", ")), " "), 100)
}

// folder returns the folder that all changes of a turn lie in; "" if some are in the
// workspace, where names are short.
func (t Turn) folder() string {
	dir := ""
	for i, c := range t.Changes {
		if !filepath.IsAbs(filepath.FromSlash(c.Path)) {
			return ""
		}

		if i == 0 {
			dir = path.Dir(c.Path)
		}

		for dir != path.Dir(dir) && !strings.HasPrefix(c.Path, dir+"/") {
			dir = path.Dir(dir)
		}
	}

	return strings.TrimSuffix(dir, "/")
}

// Turns lists the turns of a session that changed files or are not covered,
// newest first. An empty session means all.
func (s *Store) Turns(ctx context.Context, session string) ([]Turn, error) {
	leave, err := s.enter(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("enter the undo store: %w", err)
	}

	defer leave()
	var out []Turn
	for _, t := range slices.Backward(s.log.model.ordered()) {
		d := s.describe(t)
		if session != "" && !d.of(session) {
			continue
		}
		if len(d.Changes) > 0 || len(d.Gaps) > 0 || d.Running {
			out = append(out, d)
		}
	}

	return out, nil
}

// Last returns the newest turn of a session that changed files and is not taken
// back; undos do not count. An empty session means all.
func (s *Store) Last(ctx context.Context, session string) (Turn, error) {
	turns, err := s.Turns(ctx, session)
	if err != nil {
		return Turn{}, err
	}
	return LastOf(turns)
}

// LastOf returns the first of a list of turns, the newest first, that changed files
// and is not taken back.
func LastOf(turns []Turn) (Turn, error) {
	i := slices.IndexFunc(turns, func(t Turn) bool {
		return t.Undoes == "" && t.UndoneBy == "" && (len(t.Changes) > 0 || len(t.Gaps) > 0 || t.Running)
	})
	if i < 0 {
		return Turn{}, ErrNoTurn
	}
	return turns[i], nil
}

// Find returns the turn with an id, or with an id that begins like this.
func (s *Store) Find(ctx context.Context, id string) (Turn, error) {
	leave, err := s.enter(ctx, false)
	if err != nil {
		return Turn{}, fmt.Errorf("enter the undo store: %w", err)
	}

	defer leave()
	t, err := s.log.model.find(id)
	if err != nil {
		return Turn{}, err
	}
	return s.describe(t), nil
}

func (m *model) find(id string) (*turnState, error) {
	if t := m.turns[id]; t != nil {
		return t, nil
	}

	var found *turnState
	for _, t := range m.turns {
		if len(id) >= 2 && strings.HasPrefix(t.id, id) {
			if found != nil {
				return nil, fmt.Errorf("%q: %w", id, ErrAmbiguous)
			}
			found = t
		}
	}

	if found == nil {
		return nil, fmt.Errorf("%q: %w", id, ErrNoTurn)
	}
	return found, nil
}

// of reports whether a turn is one of a session. It may be if the entry that
// said so is damaged.
func (t Turn) of(session string) bool {
	return t.Session == session || t.Session == "" && t.damaged()
}

func (s *Store) describe(t *turnState) Turn {
	d := Turn{
		ID: t.id, Session: t.session, At: t.at, Undoes: t.undoes, UndoneBy: t.undoneBy, Gaps: slices.Clone(t.gaps),
		Skipped: s.named(t.skipped), Interrupted: t.late, Running: s.log.model.isRunning(t),
	}
	for _, p := range t.changed() {
		f := t.files[p]
		c := Change{Path: s.shown(p), What: "changed"}
		switch {
		case f.before.Kind == kindGone:
			c.What = "created"
		case f.after != nil && f.after.Kind == kindGone:
			c.What = "deleted"
		}

		d.Changes = append(d.Changes, c)
	}

	return d
}

func (m *model) isRunning(t *turnState) bool {
	for _, o := range m.open {
		if o.turn == t.id {
			return true
		}
	}
	return false
}
