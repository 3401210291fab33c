package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// FileChange is how much of a file changed, in lines.
type FileChange struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Created bool   `json:"created,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// Change says what differs between two states of the files. Diff is a patch in
// git's form; it may hold control characters that came from the files.
type Change struct {
	Files []FileChange `json:"files"`
	Diff  string       `json:"diff"`
}

// Show returns a commit and what it changed.
func (s *Store) Show(ctx context.Context, prefix string) (c Commit, change Change, err error) {
	err = s.read(ctx, func(r *repo, t *tip) error {
		if c, err = r.find(ctx, t, prefix); err != nil {
			return err
		}
		before, after, err := s.around(r, c)
		change = compare(before, after)
		return err
	})
	return c, change, noRepo(err)
}

// around returns the tracked files before and after a commit.
func (s *Store) around(r *repo, c Commit) (before, after filesOf, err error) {
	before = filesOf{}
	if len(c.parents) > 0 {
		parent, err := r.commit(c.parents[0])
		if err != nil {
			return nil, nil, err
		}
		if before, err = r.contents(parent.tree, s.patterns()); err != nil {
			return nil, nil, err
		}
	}

	after, err = r.contents(c.tree, s.patterns())
	return before, after, err
}

// Diff compares two commits. An empty from is the newest commit, an empty to
// the files as they are now.
func (s *Store) Diff(ctx context.Context, from, to string) (change Change, err error) {
	err = s.read(ctx, func(r *repo, t *tip) error {
		c, err := r.find(ctx, t, from)
		if err != nil {
			return err
		}

		before, err := r.contents(c.tree, s.patterns())
		if err != nil {
			return err
		}

		after, err := s.state(ctx, r, t, to, before)
		change = compare(before, after)
		return err
	})
	if errors.Is(err, errNoRepo) && from == "" && to == "" {
		return Change{}, nil
	}
	return change, noRepo(err)
}

// state reads the files of a commit, or of the work tree if none is named; then
// what cannot be tracked counts as it is in base.
func (s *Store) state(ctx context.Context, r *repo, t *tip, commit string, base filesOf) (filesOf, error) {
	if commit != "" {
		c, err := r.find(ctx, t, commit)
		if err != nil {
			return nil, err
		}
		return r.contents(c.tree, s.patterns())
	}

	w, err := s.openWork()
	if err != nil {
		return nil, err
	}

	defer w.close()
	files, odd, err := w.snapshot(ctx, s.patterns())
	for name := range odd {
		if data, ok := base[name]; ok {
			files[name] = data
		}
	}
	return files, err
}

// compare makes a patch of two states.
func compare(before, after filesOf) (out Change) {
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		old, was := before[name]
		now, is := after[name]
		if was == is && bytes.Equal(old, now) {
			continue
		}

		f := FileChange{Path: name, Created: !was, Deleted: !is}
		from, to := "a/"+name, "b/"+name
		fmt.Fprintf(&b, "diff --git %s %s\n", from, to)

		if !was {
			from = "/dev/null"
			b.WriteString("new file mode " + modeFile + "\n")
		}
		if !is {
			to = "/dev/null"
			b.WriteString("deleted file mode " + modeFile + "\n")
		}

		switch {
		case !isText(old) || !isText(now):
			fmt.Fprintf(&b, "Binary files %s and %s differ\n", from, to)
		case len(old)+len(now) > 0:
			patch, added, removed := text.UnifiedDiff(from, to, string(old), string(now))
			b.WriteString(patch)
			f.Added, f.Removed = added, removed
		}

		out.Files = append(out.Files, f)
	}

	out.Diff = b.String()
	return out
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }
