package undo

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Diff shows what a turn changed as a unified diff. Control characters are made
// visible, so the text is safe to show and not meant to be applied.
func (s *Store) Diff(ctx context.Context, turn string) (string, error) {
	leave, err := s.enter(ctx, false)
	if err != nil {
		return "", fmt.Errorf("enter the undo store: %w", err)
	}

	defer leave()
	t, err := s.log.model.find(turn)
	if err != nil {
		return "", err
	}

	var out strings.Builder
	for _, p := range t.changed() {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if t.isDamaged() {
			fmt.Fprintf(&out, "%s: the record of this turn is damaged\n", s.shown(p))
			continue
		}

		f := t.files[p]
		after, data := s.afterOf(p, f)
		var old []byte
		if f.before.Kind == kindFile {
			if old, err = s.log.content(f.before.Hash); err != nil {
				fmt.Fprintf(&out, "%s: %v\n", s.shown(p), err)
				continue
			}
		}

		writeChange(&out, s.shown(p), side{f.before, old}, side{after, data})
	}

	return out.String(), nil
}

// afterOf returns what a turn left at a path, or what is there now if its end
// was missed.
func (s *Store) afterOf(p string, f *fileState) (state, []byte) {
	if f.after != nil {
		if f.after.Kind != kindFile {
			return *f.after, nil
		}
		if data, err := s.log.content(f.after.Hash); err == nil {
			return *f.after, data
		}
	}

	sp, err := s.area.spot(p)
	if err != nil || s.area.allowed(p) != nil {
		return state{Kind: kindGone}, nil
	}

	defer sp.close()
	st, data, _, err := s.area.inspect(sp)
	if err != nil {
		return state{Kind: kindShut}, nil
	}
	return st, data
}

// side is one of the two states a diff compares.
type side struct {
	state
	data []byte
}

// text reports whether a side can be shown line by line.
func (s side) text() bool {
	switch s.Kind {
	case kindGone:
		return true
	case kindFile:
		return len(s.data) <= maxDiffBytes && utf8.Valid(s.data) && bytes.IndexByte(s.data, 0) < 0
	}
	return false
}

func (s side) label() string {
	switch s.Kind {
	case kindGone:
		return "nothing"
	case kindDir:
		return "a folder"
	case kindLink:
		return "a link to " + shown(s.Link)
	}
	return fmt.Sprintf("%d bytes", s.Size)
}

const maxDiffBytes = 1 << 20

// writeChange shows what became of a path and counts the lines if it shows them.
func writeChange(out *strings.Builder, path string, a, b side) (added, removed int) {
	if a.Kind == kindFile && b.Kind == kindFile && a.Mode != b.Mode {
		fmt.Fprintf(out, "%s: mode %o -> %o\n", path, a.Mode, b.Mode)
	}

	if a.state == b.state || a.Kind == kindFile && b.Kind == kindFile && a.Hash == b.Hash {
		return 0, 0
	}

	if !a.text() || !b.text() {
		if a.Kind == b.Kind && a.Kind == kindDir {
			fmt.Fprintf(out, "%s: mode %o -> %o\n", path, a.Mode, b.Mode)
			return 0, 0
		}
		fmt.Fprintf(out, "%s: %s -> %s\n", path, a.label(), b.label())
		return 0, 0
	}

	from, to := "a/"+strings.TrimPrefix(path, "/"), "b/"+strings.TrimPrefix(path, "/")
	if a.Kind == kindGone {
		from = "/dev/null"
	}
	if b.Kind == kindGone {
		to = "/dev/null"
	}

	patch, added, removed := text.UnifiedDiff(from, to, string(a.data), string(b.data))
	for line := range strings.Lines(patch) {
		out.WriteString(shown(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return added, removed
}
