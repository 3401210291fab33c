package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// ErrTooShort says that a text is too short to forget what contains it.
var ErrTooShort = errors.New("give at least two characters: every line that contains them is removed")

// Occurrences is a text and where it is remembered.
type Occurrences struct {
	Lines   []Occurrence // of the files
	Entries []Occurrence // of the summaries; File is the time of one
	Skills  []string     // files of skills that hold it; they stay

	text string // as it is compared
}

// Occurrence is a line that holds the text.
type Occurrence struct {
	File string `json:"file"`
	Line string `json:"line"`
}

// fold returns a text as it is compared: case and spacing do not matter.
func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// has reports whether a line holds the text.
func (f *Occurrences) has(line string) bool { return strings.Contains(fold(line), f.text) }

// without returns a text without the lines that hold it, and how many went.
func (f *Occurrences) without(text string) (string, int) {
	var out strings.Builder
	n := 0
	for l := range strings.Lines(text) {
		if f.has(l) {
			n++
			continue
		}
		out.WriteString(l)
	}

	return out.String(), n
}

// Find looks for the lines that contain a text, in whatever case, without
// changing anything.
func (m *Memory) Find(ctx context.Context, text string) (*Occurrences, error) {
	f := &Occurrences{text: fold(text)}
	if utf8.RuneCountInString(f.text) < 2 {
		return nil, ErrTooShort
	}

	names, err := m.Repo.Names(ctx)
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		data, err := m.Repo.ReadWork(name)
		if err != nil {
			continue // no ordinary file: nothing is remembered there
		}

		for l := range strings.Lines(string(data)) {
			if !f.has(l) {
				continue
			}
			if strings.HasPrefix(name, "skills/") {
				f.Skills = append(f.Skills, name)
				break
			}
			f.Lines = append(f.Lines, Occurrence{name, strings.TrimSpace(l)})
		}
	}

	all, err := m.History.since(ctx, 0)
	for _, e := range all {
		for l := range strings.Lines(e.Content) {
			if f.has(l) {
				f.Entries = append(f.Entries, Occurrence{e.Time, l})
			}
		}
	}

	return f, err
}

// Forgotten says what Forget did, in words.
type Forgotten struct {
	Removed []string // such as "2 lines from USER.md"
	Left    []string // what still holds the text, and why
}

// Forget removes the lines that Find found from the memory files and all their
// earlier versions, from the summaries of conversations, from the notes on
// where facts come from and from the search index. It cannot be undone. The
// conversations themselves stay. The result says what was done, also with an
// error.
func (m *Memory) Forget(ctx context.Context, f *Occurrences) (out Forgotten, err error) {
	leave, err := m.Dream.enter(ctx) // a run would stop this half-way, and remember the text again
	if err != nil {
		return out, err
	}

	defer leave()
	if _, err := m.Dream.recover(ctx); err != nil { // else a change that died half-way comes back later
		return out, err
	}
	if out.Removed, err = m.forgetFiles(ctx, f); err != nil {
		return out, err
	}

	entries, lines := 0, 0
	_, err = m.History.forget(ctx, func(e Entry) (Entry, bool) {
		left, n := f.without(e.Content)
		if n == 0 {
			return e, true
		}
		entries++
		lines += n
		e.Content = strings.TrimSpace(left)
		return e, e.Content != ""
	})
	if err != nil {
		return out, err
	}

	if entries > 0 {
		summaries := "1 summary"
		if entries > 1 {
			summaries = fmt.Sprintf("%d summaries", entries)
		}
		out.Removed = append(out.Removed, fmt.Sprintf("%s from %s, and from their copy in the workspace",
			counted(lines, "line"), summaries))
	}

	for _, part := range m.forgetters() {
		n, err := part.forget(ctx, f)
		if err != nil {
			return out, fmt.Errorf("%s: %w", part.what, err)
		}
		if n > 0 {
			out.Removed = append(out.Removed, counted(n, "line")+" from "+part.what)
		}
	}

	out.Left, err = m.left(f)
	return out, err
}

// forgetter removes a text from something that was made of the memory.
type forgetter struct {
	what   string
	forget func(context.Context, *Occurrences) (int, error)
}

// forgetters returns the parts besides the files and the history.
func (m *Memory) forgetters() []forgetter {
	out := []forgetter{
		{"copies of files of older versions", m.forgetCopies},
		{"the record of sources, and from findings that waited for your decision", func(_ context.Context, f *Occurrences) (int, error) {
			return m.Dream.forget(f.has)
		}},
	}
	if m.Index != nil {
		out = append(out, forgetter{"the search index", func(ctx context.Context, f *Occurrences) (int, error) { return m.Index(ctx, f.text) }})
	}
	return out
}

// forgetCopies takes the lines out of what was set aside when the memory of an
// older version was taken over, and of what still waits to be.
func (m *Memory) forgetCopies(_ context.Context, f *Occurrences) (lines int, err error) {
	for _, part := range []struct {
		base, dir string
		want      func(name string) bool
		write     func(name string, data []byte) error // nil: the files are the program's own
	}{
		{m.History.Dir(), "imported", func(string) bool { return true }, nil},
		{m.History.Dir(), ".", func(name string) bool { return strings.HasPrefix(name, "foreign.jsonl") }, nil},
		{m.Workspace, "memory", func(name string) bool { return strings.HasPrefix(name, "HISTORY.md") }, m.rewrite},
	} {
		tree, err := diskio.OpenTree(part.base)
		if diskio.IsMissing(err) {
			continue
		}
		if err != nil {
			return lines, err
		}

		write := part.write
		if write == nil {
			write = plainly(tree)
		}

		n, err := forgetIn(tree, part.dir, part.want, write, f)
		lines += n
		if err = errors.Join(err, tree.Close()); err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// maxCopyRead bounds a file that was set aside, in bytes.
const maxCopyRead = 256 << 20

// rewrite replaces a file of the workspace.
func (m *Memory) rewrite(name string, data []byte) error { return m.Dream.o.Files.Write(name, data) }

// plainly replaces files of a folder of the program and keeps their permissions.
func plainly(tree *diskio.Tree) func(name string, data []byte) error {
	return func(name string, data []byte) error {
		info, err := tree.Lstat(name)
		if err != nil {
			return err
		}
		return tree.WriteFile(name, data, info.Mode().Perm())
	}
}

// forgetIn takes the lines out of files of a folder.
func forgetIn(tree *diskio.Tree, dir string, want func(name string) bool, write func(string, []byte) error, f *Occurrences) (lines int, err error) {
	entries, err := tree.ReadDir(dir)
	if diskio.IsMissing(err) {
		return 0, nil
	}

	for _, e := range entries {
		if !e.Type().IsRegular() || !want(e.Name()) {
			continue // a link may lead anywhere
		}

		name := path.Join(dir, e.Name())
		data, err := tree.ReadFile(name, maxCopyRead)
		if err != nil {
			return lines, err
		}

		left, n := f.without(string(data))
		if n == 0 {
			continue
		}

		lines += n
		if err := write(name, []byte(left)); err != nil {
			return lines, err
		}
	}

	return lines, err
}

// forgetFiles takes the lines out of the files and out of all versions of them.
func (m *Memory) forgetFiles(ctx context.Context, f *Occurrences) (touched []string, err error) {
	if _, _, err := m.Repo.Commit(ctx, "snapshot: before forgetting", ""); err != nil {
		return nil, err
	}

	files := map[string]int{}
	for _, l := range f.Lines {
		files[l.File]++
	}

	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		data, err := m.Repo.ReadWork(name)
		if err != nil {
			return touched, err
		}

		left, n := f.without(string(data))
		if n == 0 {
			continue
		}
		if err := m.Repo.WriteWork(name, []byte(left)); err != nil {
			return touched, err
		}
		touched = append(touched, counted(n, "line")+" from "+name)
	}

	if _, _, err := m.Repo.Commit(ctx, "forget: by hand", ""); err != nil {
		return touched, err
	}

	old, err := m.Repo.Rewrite(ctx, func(name string, data []byte) []byte {
		if strings.HasPrefix(name, "skills/") {
			return data
		}
		left, n := f.without(string(data))
		if n == 0 {
			return data
		}
		return []byte(left)
	}, func(message string) string {
		left, n := f.without(message)
		if n > 0 && strings.TrimSpace(left) == "" {
			return "update\n"
		}
		return left
	})
	if err != nil {
		return touched, fmt.Errorf("clean earlier versions: %w", err)
	}
	if err := m.Dream.renamed(ctx, old.IDs); err != nil {
		return touched, err
	}

	if n := len(old.IDs); n > 0 {
		touched = append(touched, "it from earlier versions; "+counted(n, "change")+" got a new id")
	}
	if len(old.Elsewhere) > 0 {
		touched = append(touched, "nothing from branches and tags you made: "+strings.Join(old.Elsewhere, ", "))
	}
	return touched, nil
}

// maxScan bounds the files that are searched for what is left, in bytes.
const maxScan = 16 << 20

// left names the files of the memory that still hold the text.
func (m *Memory) left(f *Occurrences) (out []string, err error) {
	for _, s := range f.Skills {
		out = append(out, "the skill "+s+" contains it; edit it by hand")
	}

	for _, part := range [][2]string{{m.History.Dir(), "."}, {m.Workspace, "memory"}} {
		found, err := leftIn(part[0], part[1], m.Repo.Path(), f)
		out = append(out, found...)
		if err != nil {
			return out, err
		}
	}

	tree, err := diskio.OpenTree(m.Workspace)
	if err != nil {
		return out, err
	}

	defer tree.Close() //nolint:errcheck // only looked at
	if _, err := tree.Lstat(".git"); err == nil {
		out = append(out, filepath.Join(m.Workspace, ".git")+" was not searched: a git repository can contain earlier versions of the memory files. nanobot does not use it; delete it if an older version or Python nanobot made it")
	}
	return out, nil
}

// leftIn is left for a folder. The repository was rewritten already.
func leftIn(base, dir, repo string, f *Occurrences) (out []string, err error) {
	tree, err := diskio.OpenTree(base)
	if diskio.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	defer tree.Close() //nolint:errcheck // only read

	err = fs.WalkDir(tree.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		full := filepath.Join(base, filepath.FromSlash(name))
		switch {
		case diskio.IsMissing(err):
			return nil
		case err != nil:
			return err
		case d.IsDir() && full == repo:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}

		if data, err := tree.ReadFile(name, maxScan); err == nil && f.has(string(data)) {
			out = append(out, full+" still contains it")
		}
		return nil
	})
	return out, err
}
