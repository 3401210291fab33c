package gitstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRestoreGoesBackBeforeACommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	b.write("SOUL.md", "soul\n")
	b.write("memory/MEMORY.md", "a\n")
	b.commit("first")
	b.write("memory/MEMORY.md", "a\nb\n")
	b.write("skills/new/SKILL.md", "skill\n")
	two := b.commit("two")
	b.write("memory/MEMORY.md", "a\nb\nc\n")
	b.commit("three")
	b.write("SOUL.md", "not committed\n")
	must(t, os.Chmod(filepath.Join(b.work, "memory", "MEMORY.md"), 0o640))

	u, err := b.Restore(ctx, two[:8])
	must(t, err)
	if want := []string{"SOUL.md", "memory/MEMORY.md", "skills/new/SKILL.md"}; !slices.Equal(u.Files, want) || u.Snapshot == "" {
		t.Errorf("undone = %+v, want files %v and a snapshot", u, want)
	}
	for name, want := range map[string]string{"SOUL.md": "soul\n", "memory/MEMORY.md": "a\n", "skills/new/SKILL.md": "-"} {
		if got := b.text(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if fi, err := os.Stat(filepath.Join(b.work, "memory", "MEMORY.md")); err != nil || fi.Mode().Perm() != 0o640 {
		t.Errorf("mode = %v, %v", fi.Mode(), err)
	}
	if got, err := b.File(ctx, u.Snapshot, "SOUL.md"); string(got) != "not committed\n" || err != nil {
		t.Errorf("the snapshot holds %q, %v", got, err)
	}
	if got := b.subjects()[:2]; got[0] != "revert: undo "+two[:8] || got[1] != "snapshot: before the undo of "+two[:8] {
		t.Errorf("log = %v", got)
	}
	b.sound()
	// An undo is undone by its own id.
	_, err = b.Restore(ctx, u.Commit)
	must(t, err)
	if got := b.text("memory/MEMORY.md") + b.text("SOUL.md") + b.text("skills/new/SKILL.md"); got != "a\nb\nc\nnot committed\nskill\n" {
		t.Errorf("after the second undo: %q", got)
	}
	b.sound()
	log, err := b.Log(ctx, 0)
	must(t, err)
	if _, err := b.Restore(ctx, log[len(log)-1].ID); !errors.Is(err, ErrFirst) {
		t.Errorf("undo of the first commit: %v", err)
	}
}

func TestUndoOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                 string
		start, commit, later string // "-" is no file
		want                 string // "!" is a conflict
	}{
		{"later lines stay", "a\nb\nc\n", "a\nb\nc\nd\n", "a\nb\nc\nd\ne\n", "a\nb\nc\ne\n"},
		{"change above stays", "a\nb\nc\n", "a\nb\nX\n", "A\nb\nX\n", "A\nb\nc\n"},
		{"removal comes back", "a\nb\nc\n", "a\nc\n", "a\nc\nd\n", "a\nb\nc\nd\n"},
		{"untouched since", "a\n", "b\n", "b\n", "a\n"},
		{"same lines changed again", "a\nb\n", "a\nB\n", "a\nBB\n", "!"},
		{"undone already by hand", "a\nb\n", "a\nB\n", "a\nb\n", "a\nb\n"},
		{"neighbouring bullets", "# t\n- a\n", "# t\n- a\n- b\n", "# t\n- A\n- b\n- c\n", "# t\n- A\n- c\n"},
		{"no newline at the end", "a\nb", "a\nb\nc", "a\nb\nc\nd", "a\nb\nd"},
		{"new file", "-", "a\n", "a\n", "-"},
		{"new file changed", "-", "a\n", "b\n", "!"},
		{"new file gone since", "-", "a\n", "-", "-"},
		{"deleted file", "a\n", "-", "-", "a\n"},
		{"deleted file made again", "a\n", "-", "b\n", "!"},
		{"changed file gone since", "a\n", "b\n", "-", "!"},
		{"binary untouched", "\x00a", "\x00b", "\x00b", "\x00a"},
		{"binary changed", "\x00a", "\x00b", "\x00c", "!"},
		{"emptied", "a\nb\n", "", "", "a\nb\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ctx := t.Context()
			put := func(text, subject string) string {
				if text == "-" {
					_ = os.Remove(filepath.Join(b.work, "USER.md"))
				} else {
					b.write("USER.md", text)
				}
				b.write("SOUL.md", subject)
				return b.commit(subject)
			}
			put(c.start, "start")
			id := put(c.commit, "commit")
			put(c.later, "later")
			b.write("SOUL.md", "commit") // so that only USER.md matters
			b.commit("level")
			u, err := b.UndoOnly(ctx, id)
			conflict, ok := errors.AsType[*ConflictError](err)
			if c.want == "!" {
				if !ok || !slices.Equal(conflict.Files, []string{"USER.md"}) || b.text("USER.md") != c.later || b.text("SOUL.md") != "commit" {
					t.Errorf("undo = %v, %v; files %q %q", u, err, b.text("USER.md"), b.text("SOUL.md"))
				}
				return
			}
			must(t, err)
			if got := b.text("USER.md"); got != c.want {
				t.Errorf("USER.md = %q, want %q", got, c.want)
			}
			if got := b.text("SOUL.md"); got != "start" {
				t.Errorf("SOUL.md = %q", got)
			}
			b.sound()
		})
	}
}

// Any two texts: merging a change into an unchanged text gives the changed one.
func TestMergeProperty(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func() []string {
		out := make([]string, rnd.IntN(12))
		for i := range out {
			out[i] = string(rune('a'+rnd.IntN(4))) + "\n"
		}
		return out
	}
	for range 3000 {
		a, b := text(), text()
		ja, jb := []byte(strings.Join(a, "")), []byte(strings.Join(b, ""))
		if m, ok := merge(ja, ja, jb); !ok || string(m) != string(jb) {
			t.Fatalf("merge of %q into an unchanged %q = %q, %v", jb, ja, m, ok)
		}
		if m, ok := merge(ja, jb, ja); !ok || string(m) != string(jb) {
			t.Fatalf("merge of nothing = %q, %v, want %q", m, ok, jb)
		}
		if m, ok := merge(ja, jb, jb); !ok || string(m) != string(jb) {
			t.Fatalf("merge of the same = %q, %v, want %q", m, ok, jb)
		}
	}
}

func TestPatchesApply(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git program")
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	long := func() string {
		var b strings.Builder
		for i := range 40 {
			if rnd.IntN(6) > 0 {
				fmt.Fprintf(&b, "line %d\n", i)
			}
			if rnd.IntN(8) == 0 {
				fmt.Fprintf(&b, "extra %d\n", rnd.IntN(100))
			}
		}
		return strings.TrimSuffix(b.String(), []string{"", "\n"}[rnd.IntN(2)])
	}
	for i := range 12 {
		before, after := filesOf{"a.md": []byte(long())}, filesOf{"a.md": []byte(long()), "n.md": []byte(long())}
		if i == 0 {
			before, after = after, before // a deleted file
		}
		dir := t.TempDir()
		for name, data := range before {
			must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		}
		must(t, os.WriteFile(filepath.Join(dir, "p"), []byte(compare(before, after).Diff), 0o600))
		runGit(t, dir, "apply", "p")
		must(t, os.Remove(filepath.Join(dir, "p")))
		got := snapshotDir(t, dir)
		for name, data := range after {
			if got[name] != string(data) {
				t.Fatalf("%s after the patch:\n%s\nwant:\n%s", name, got[name], data)
			}
		}
		if len(got) != len(after) {
			t.Errorf("%d files, want %d", len(got), len(after))
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	if c, err := b.Diff(ctx, "", ""); c.Diff != "" || err != nil {
		t.Errorf("diff without a repository = %+v, %v", c, err)
	}
	b.write("USER.md", "a\n")
	one := b.commit("one")
	b.write("USER.md", "b\n")
	two := b.commit("two")
	b.write("USER.md", "c\n")
	for _, c := range []struct{ from, to, want string }{
		{one, two, "-a\n+b\n"}, {two, one, "-b\n+a\n"}, {one, "", "-a\n+c\n"}, {"", "", "-b\n+c\n"}, {two, two, ""},
	} {
		got, err := b.Diff(ctx, c.from, c.to)
		must(t, err)
		if _, lines, _ := strings.Cut(got.Diff, "@@\n"); lines != c.want {
			t.Errorf("diff %s %s = %q, want %q", Short(c.from), Short(c.to), lines, c.want)
		}
	}
}

// sources is a writer that remembers what it is told.
type sources struct {
	plainWriter

	kept map[string]bool     // contents of which versions were kept
	from map[string][]string // by content, what it was made of
}

func (s *sources) Keeping(_ string, data []byte) error {
	s.kept[string(data)] = true
	return nil
}

func (s *sources) Write(name string, data []byte, from ...[]byte) error {
	for _, f := range from {
		s.from[string(data)] = append(s.from[string(data)], string(f))
	}
	return s.plainWriter.Write(name, data, from...)
}

// The writer is told of each content that is kept, and of what a content that comes
// back was put together, also if another process has to write it.
func TestWriterKnowsSources(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		t.Run(map[bool]string{false: "at once", true: "after a crash"}[dies], func(t *testing.T) {
			t.Parallel()
			told := &sources{kept: map[string]bool{}, from: map[string][]string{}}
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(dir, "work"), 0o700))
			writer := func(o *Options) {
				told.plainWriter = plainWriter(o.WorkTree)
				o.Writer = told
			}
			b := openBench(t, dir, writer)
			first, second, third := "a\nb\nc\nd\n", "a\nc\nd\n", "a\nc\nd\ne\n"
			b.write("USER.md", first)
			b.commit("first")
			b.write("USER.md", second)
			id := b.commit("second")
			b.write("USER.md", third)
			b.commit("third")
			for _, text := range []string{first, second, third} {
				if !told.kept[text] {
					t.Errorf("the writer was not told that %q is kept", text)
				}
			}

			if dies {
				killAt(t, dir, "undo-only@ref", 1)
				_, _, err := b.Commit(t.Context(), "another", "")
				must(t, err)
			} else {
				_, err := b.UndoOnly(t.Context(), id)
				must(t, err)
			}
			merged := "a\nb\nc\nd\ne\n"
			if got := b.text("USER.md"); got != merged {
				t.Fatalf("the file holds %q", got)
			}
			for _, part := range []string{first, second, third} {
				if !slices.Contains(told.from[merged], part) {
					t.Errorf("the writer was told that it is made of %q, not of %q", told.from[merged], part)
				}
			}

			told.from = map[string][]string{}
			_, err := b.Restore(t.Context(), id)
			must(t, err)
			if b.text("USER.md") != first || len(told.from) > 0 {
				t.Errorf("the first version, %q, was put together of %q", b.text("USER.md"), told.from)
			}
		})
	}
}
