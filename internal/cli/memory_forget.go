package cli

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

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/session/search"
)

func (c *command) memoryForget() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "forget TEXT", Short: "Remove every remembered line that contains a text",
		Long: `forget removes all lines that contain TEXT, ignoring case, from the memory files
and all their earlier versions, from the summaries of conversations, from the
record of sources and from the search index. It shows what it found and asks
first. You cannot undo it. The conversations themselves stay.`,
		Example: "  nanobot memory forget \"old address\"\n  nanobot memory forget 555-0100 --yes",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := forgotten{text: fold(args[0])}
			if utf8.RuneCountInString(f.text) < 2 {
				return usageError{errors.New("give at least two characters: every line that contains them is removed")}
			}
			err := c.withMemory(cmd.Context(), func(m *memoryOf) error {
				if err := m.findText(cmd.Context(), &f); err != nil {
					return err
				}
				f.tellFound(cmd)
				if !yes {
					if err := c.agree(cmd); err != nil {
						return err
					}
				}
				return m.forget(cmd, &f)
			})
			return orNothing(cmd, err, false, nil, "Nothing is remembered yet, so there is nothing to forget.")
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// agree asks whether to go on.
func (c *command) agree(cmd *cobra.Command) error {
	ask := newPrompter(c.In, cmd.OutOrStdout())
	if !ask.terminal() {
		return usageError{errors.New("cannot ask for confirmation here; use --yes to continue")}
	}
	answer, err := ask.line("Remove all of this permanently? yes or no", "no")
	if err != nil && !errors.Is(err, errSkipped) {
		return err
	}
	if a := strings.ToLower(answer); a != "y" && a != "yes" {
		cmd.Println("Nothing was changed.")
		return failure{exitFailure}
	}
	return nil
}

// fold is a text as it is compared: case and spacing do not matter.
func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// forgotten is a text to forget and where it was found.
type forgotten struct {
	text    string
	lines   []foundLine // of the files
	skills  []string    // files of skills that hold it; they stay
	entries []memory.Entry
}

// foundLine is a line of a memory file.
type foundLine struct{ file, line string }

// has reports whether a line holds the text.
func (f *forgotten) has(line string) bool { return strings.Contains(fold(line), f.text) }

// without returns a text without the lines that hold it, and how many went.
func (f *forgotten) without(text string) (string, int) {
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

// findText looks for the text without changing anything.
func (m *memoryOf) findText(ctx context.Context, f *forgotten) error {
	names, err := m.repo.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := m.repo.ReadWork(name)
		if err != nil {
			continue // no ordinary file: nothing is remembered there
		}
		for l := range strings.Lines(string(data)) {
			if !f.has(l) {
				continue
			}
			if strings.HasPrefix(name, "skills/") {
				f.skills = append(f.skills, name)
				break
			}
			f.lines = append(f.lines, foundLine{name, strings.TrimSpace(l)})
		}
	}
	all, err := m.history.Since(ctx, 0)
	for _, e := range all {
		if _, n := f.without(e.Content); n > 0 {
			f.entries = append(f.entries, e)
		}
	}
	return err
}

func (f *forgotten) tellFound(cmd *cobra.Command) {
	if len(f.lines)+len(f.entries) == 0 {
		cmd.Println("No memory file and no summary contains it now. Earlier versions, the record of sources and the index are cleaned anyway.")
	}
	for _, l := range f.lines {
		cmd.Printf("%s: %s\n", printable(l.file), oneLine(printable(l.line), 160))
	}
	for _, e := range f.entries {
		for l := range strings.Lines(e.Content) {
			if f.has(l) {
				cmd.Printf("summary of %s: %s\n", e.Time, oneLine(printable(l), 160))
			}
		}
	}
}

// forget removes the text everywhere and tells what it touched.
func (m *memoryOf) forget(cmd *cobra.Command, f *forgotten) error {
	ctx := cmd.Context()
	if err := m.dream.Recover(ctx); err != nil { // else a change that died half-way comes back later
		return err
	}
	touched, err := m.forgetFiles(ctx, f)
	for _, s := range touched {
		cmd.Println("removed " + s)
	}
	if err != nil {
		return err
	}
	entries, lines := 0, 0
	_, err = m.history.Forget(ctx, func(e memory.Entry) (memory.Entry, bool) {
		left, n := f.without(e.Content)
		if n == 0 {
			return e, true
		}
		entries, lines, e.Content = entries+1, lines+n, strings.TrimSpace(left)
		return e, e.Content != ""
	})
	if err != nil {
		return err
	}
	if entries > 0 {
		cmd.Printf("removed %d %s from %d %s, and from their copy in the workspace\n", lines, plural(lines, "line"), entries, plural(entries, "summary"))
	}
	for _, p := range m.forgetters() {
		n, err := p.forget(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
		if n > 0 {
			cmd.Printf("removed %d %s from %s\n", n, plural(n, "line"), p.what)
		}
	}
	return m.tellLeft(cmd, f)
}

// forgetter removes a text from something that was made of the memory.
type forgetter struct {
	what   string
	forget func(context.Context, *forgotten) (int, error)
}

// forgetters are the parts besides the files and the history.
func (m *memoryOf) forgetters() []forgetter {
	return []forgetter{
		{"copies of files of older versions", m.forgetCopies},
		{"the record of sources, and from findings that waited for your decision", func(ctx context.Context, f *forgotten) (int, error) {
			return m.dream.Forget(ctx, f.has)
		}},
		{"the search index", func(ctx context.Context, f *forgotten) (int, error) {
			hits, err := m.index.Forget(ctx, f.text)
			if errors.Is(err, search.ErrEmpty) {
				return 0, nil // no word of it is in the index
			}
			return len(hits), err
		}},
	}
}

// forgetCopies takes the lines out of what was set aside when the memory of an
// older version was taken over, and of what still waits to be.
func (m *memoryOf) forgetCopies(_ context.Context, f *forgotten) (lines int, err error) {
	for _, part := range []struct {
		base, dir string
		want      func(name string) bool
	}{
		{m.dir, "imported", func(string) bool { return true }},
		{m.dir, ".", func(name string) bool { return strings.HasPrefix(name, "foreign.jsonl") }},
		{m.workspace, "memory", func(name string) bool { return strings.HasPrefix(name, "HISTORY.md") }},
	} {
		tree, err := diskio.OpenTree(part.base)
		if diskio.IsMissing(err) {
			continue
		}
		if err != nil {
			return lines, err
		}
		n, err := forgetIn(tree, part.dir, part.want, f)
		lines += n
		if err = errors.Join(err, tree.Close()); err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// maxCopyRead bounds a file that was set aside, in bytes.
const maxCopyRead = 256 << 20

// forgetIn takes the lines out of files of a folder.
func forgetIn(tree *diskio.Tree, dir string, want func(name string) bool, f *forgotten) (lines int, err error) {
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
		info, err := tree.Lstat(name)
		if err == nil {
			err = tree.WriteFile(name, []byte(left), info.Mode().Perm())
		}
		if err != nil {
			return lines, err
		}
	}
	return lines, err
}

// forgetFiles takes the lines out of the files and out of all versions of them.
func (m *memoryOf) forgetFiles(ctx context.Context, f *forgotten) (touched []string, err error) {
	if _, _, err := m.repo.Commit(ctx, "snapshot: before forgetting", ""); err != nil {
		return nil, err
	}
	files := map[string]int{}
	for _, l := range f.lines {
		files[l.file]++
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		data, err := m.repo.ReadWork(name)
		if err != nil {
			return touched, err
		}
		left, n := f.without(string(data))
		if n == 0 {
			continue
		}
		if err := m.repo.WriteWork(name, []byte(left)); err != nil {
			return touched, err
		}
		touched = append(touched, fmt.Sprintf("%d %s from %s", n, plural(n, "line"), name))
	}
	if _, _, err := m.repo.Commit(ctx, "forget: by hand", ""); err != nil {
		return touched, err
	}
	old, err := m.repo.Rewrite(ctx, func(name string, data []byte) []byte {
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
	if err := m.dream.Renamed(ctx, old.IDs); err != nil {
		return touched, err
	}
	if n := len(old.IDs); n > 0 {
		touched = append(touched, fmt.Sprintf("it from earlier versions; %d %s a new id", n, plural(n, "change")+" got"))
	}
	if len(old.Elsewhere) > 0 {
		touched = append(touched, "nothing from branches and tags you made: "+strings.Join(old.Elsewhere, ", "))
	}
	return touched, nil
}

// maxScan bounds the files that are searched for what is left, in bytes.
const maxScan = 16 << 20

// tellLeft names the files of the memory that still hold the text.
func (m *memoryOf) tellLeft(cmd *cobra.Command, f *forgotten) error {
	for _, s := range f.skills {
		cmd.Printf("not changed: the skill %s contains it; edit it by hand\n", printable(s))
	}
	repo, err := m.repo.Path()
	if err != nil {
		return err
	}
	for _, part := range [][2]string{{m.dir, "."}, {m.workspace, "memory"}} {
		if err := tellLeftIn(cmd, part[0], part[1], repo, f); err != nil {
			return err
		}
	}
	cmd.Println("The conversations still contain it: nanobot sessions list")
	return nil
}

// tellLeftIn is tellLeft for a folder. The repository was rewritten already.
func tellLeftIn(cmd *cobra.Command, base, dir, repo string, f *forgotten) error {
	tree, err := diskio.OpenTree(base)
	if diskio.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer tree.Close() //nolint:errcheck // only read

	return fs.WalkDir(tree.FS(), dir, func(name string, d fs.DirEntry, err error) error {
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
			cmd.Printf("not changed: %s still contains it\n", printable(full))
		}
		return nil
	})
}
