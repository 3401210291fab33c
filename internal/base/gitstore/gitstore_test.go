package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bench is a work tree with a store on it.
type bench struct {
	*Store
	t       *testing.T
	work    string
	private string
	clock   *time.Time
}

func newBench(t *testing.T, change ...func(*Options)) *bench {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	must(t, os.MkdirAll(work, 0o700))
	return openBench(t, dir, change...)
}

func openBench(t *testing.T, dir string, change ...func(*Options)) *bench {
	t.Helper()
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.FixedZone("", 3600))
	b := &bench{t: t, work: filepath.Join(dir, "work"), private: filepath.Join(dir, "data", "memory.git"), clock: &now}
	o := Options{
		WorkTree: b.work, Writer: plainWriter(b.work), Dir: b.private,
		Files: []string{"SOUL.md", "USER.md", "memory/MEMORY.md", "memory/scopes/*/MEMORY.md", "skills/**/SKILL.md"},
		Name:  "nanobot", Email: "nanobot@dream", First: "init: nanobot memory store",
		Now: func() time.Time { now = now.Add(time.Minute); return now },
	}
	for _, f := range change {
		f(&o)
	}
	s, err := Open(o)
	must(t, err)
	b.Store = s
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	p := filepath.Join(b.work, filepath.FromSlash(name))
	must(b.t, os.MkdirAll(filepath.Dir(p), 0o700))
	must(b.t, os.WriteFile(p, []byte(text), 0o600))
}

// text is a file's content, or "-" if it is not there.
func (b *bench) text(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.work, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(b.t, err)
	return string(data)
}

func (b *bench) commit(subject string) string {
	b.t.Helper()
	id, changed, err := b.Commit(b.t.Context(), subject, "")
	must(b.t, err)
	if !changed {
		b.t.Fatalf("commit %q: nothing changed", subject)
	}
	return id
}

func (b *bench) subjects() (out []string) {
	b.t.Helper()
	log, err := b.Log(b.t.Context(), 0)
	must(b.t, err)
	for _, c := range log {
		out = append(out, c.Subject)
	}
	return out
}

// git runs the real program on the repository.
func (b *bench) git(args ...string) string {
	b.t.Helper()
	out, err := b.tryGit(args...)
	if err != nil {
		b.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (b *bench) tryGit(args ...string) (string, error) {
	b.t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		b.t.Skip("there is no git program to compare with")
	}
	cmd := exec.CommandContext(b.t.Context(), "git", append([]string{"--git-dir", b.Path()}, args...)...)
	cmd.Dir = b.work
	cmd.Env = cleanEnv()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// cleanEnv keeps the settings of this machine away from git.
func cleanEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	return append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false", // each commit would start it
		"GIT_AUTHOR_NAME=Pat", "GIT_AUTHOR_EMAIL=pat@example.com", "GIT_COMMITTER_NAME=Pat", "GIT_COMMITTER_EMAIL=pat@example.com")
}

// sound asks git whether the repository is whole and agrees with the files.
func (b *bench) sound() {
	b.t.Helper()
	if out := b.git("fsck", "--strict", "--full", "--no-dangling"); strings.TrimSpace(out) != "" {
		b.t.Errorf("git fsck: %s", out)
	}
	out := b.git("status", "--porcelain")
	if out = strings.ReplaceAll(out, "?? .gitignore\n", ""); out != "" { // versions before made one, which names itself
		b.t.Errorf("git status is not clean:\n%s", out)
	}
}

func TestCommitIsReadByGit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	if log, err := b.Log(ctx, 5); log != nil || err != nil {
		t.Fatalf("log before the first commit = %v, %v", log, err)
	}
	b.write("SOUL.md", "be kind\n")
	b.write("USER.md", "")
	b.write("memory/MEMORY.md", "- likes tea\n")
	b.write("memory/history.jsonl", "{}\n")
	b.write("memory/scopes/tg-1/MEMORY.md", "- plays go\n")
	b.write("memory/scopes/tg-1/other", "x")
	b.write("skills/brew/SKILL.md", "---\nname: brew\n---\n")
	b.write("skills/brew/run.sh", "x")
	b.write("skills/set/deep/SKILL.md", "deep\n")
	b.write("notes/private.md", "not tracked\n")
	b.commit("first")
	b.sound()
	b.write("memory/MEMORY.md", "- likes tea\n- lives in Graz\n")
	id, changed, err := b.Commit(ctx, "dream: 2026-03-01,\n 1 change", "memory/MEMORY.md +1\n\x00\x1b[31m")
	must(t, err)
	if !changed || len(id) != 40 {
		t.Fatalf("commit = %q, %v", id, changed)
	}
	if again, changed, err := b.Commit(ctx, "nothing", ""); again != id || changed || err != nil {
		t.Fatalf("second commit = %q, %v, %v; want %q unchanged", again, changed, err, id)
	}
	b.sound()
	if got, want := b.git("log", "--format=%H|%an <%ae>|%cn|%ad|%s|%b", "--date=iso", "-1"), id+"|nanobot <nanobot@dream>|nanobot|2026-03-01 10:02:00 +0100|dream: 2026-03-01, 1 change|memory/MEMORY.md +1\n[31m\n"; strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("git log = %q, want %q", got, want)
	}
	if got, want := b.git("ls-tree", "-r", "--name-only", "HEAD"), "SOUL.md\nUSER.md\nmemory/MEMORY.md\nmemory/scopes/tg-1/MEMORY.md\nskills/brew/SKILL.md\nskills/set/deep/SKILL.md\n"; got != want {
		t.Errorf("tree:\n%s\nwant:\n%s", got, want)
	}
	_, change, err := b.Show(ctx, id[:7])
	must(t, err)
	if diff := cmp.Diff(Change{
		Files: []FileChange{{Path: "memory/MEMORY.md", Added: 1}},
		Diff:  "diff --git a/memory/MEMORY.md b/memory/MEMORY.md\n--- a/memory/MEMORY.md\n+++ b/memory/MEMORY.md\n@@ -1 +1,2 @@\n - likes tea\n+- lives in Graz\n",
	}, change); diff != "" {
		t.Errorf("show (-want +got):\n%s", diff)
	}
	if got := b.git("diff", "--no-ext-diff", "--no-prefix", "HEAD~1", "HEAD"); !strings.Contains(got, "+- lives in Graz") {
		t.Errorf("git diff = %s", got)
	}
	if data, err := b.File(ctx, id[:8], "memory/MEMORY.md"); string(data) != "- likes tea\n- lives in Graz\n" || err != nil {
		t.Errorf("File = %q, %v", data, err)
	}
	if _, err := b.File(ctx, id, "notes/private.md"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("File of an untracked name: %v", err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	if _, err := b.Find(ctx, "abcd"); !errors.Is(err, ErrNoCommit) {
		t.Errorf("find without a repository: %v", err)
	}
	b.write("SOUL.md", "1")
	b.commit("first")
	first, err := b.Find(ctx, "")
	must(t, err)
	for _, c := range []struct {
		name, prefix string
		want         error
	}{
		{"whole id", first.ID, nil},
		{"capital letters", strings.ToUpper(first.ID[:8]), nil},
		{"HEAD", "HEAD", nil},
		{"too short", first.ID[:3], ErrNoCommit},
		{"unknown", "0000000", ErrNoCommit},
		{"not hexadecimal", "../../x", ErrNoCommit},
	} {
		got, err := b.Find(ctx, c.prefix)
		if !errors.Is(err, c.want) || c.want == nil && got.ID != first.ID {
			t.Errorf("%s: %q, %v; want %v", c.name, got.ID, err, c.want)
		}
	}
}

func TestForeignRepositoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		setup func(t *testing.T, b *bench, git func(dir string, args ...string))
	}{
		{"with commits", func(_ *testing.T, b *bench, git func(string, ...string)) {
			git(b.work, "init", "-q")
			b.write("SOUL.md", "mine\n")
			git(b.work, "add", "-A")
			git(b.work, "commit", "-qm", "mine")
		}},
		{"just made", func(_ *testing.T, b *bench, git func(string, ...string)) { git(b.work, "init", "-q") }},
		{"above", func(_ *testing.T, b *bench, git func(string, ...string)) { git(filepath.Dir(b.work), "init", "-q") }},
		{"a file", func(_ *testing.T, b *bench, _ func(string, ...string)) { b.write(".git", "gitdir: ../elsewhere\n") }},
		{"a link", func(t *testing.T, b *bench, _ func(string, ...string)) {
			elsewhere := filepath.Join(filepath.Dir(b.work), "elsewhere")
			must(t, os.Mkdir(elsewhere, 0o700))
			must(t, os.Symlink(elsewhere, filepath.Join(b.work, ".git")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c.setup(t, b, func(dir string, args ...string) { runGit(t, dir, args...) })
			before := snapshotDir(t, filepath.Dir(b.work))
			b.write("SOUL.md", "two\n")
			before[filepath.Join("work", "SOUL.md")] = "two\n"
			b.commit("one")
			for name, text := range snapshotDir(t, filepath.Dir(b.work)) {
				if strings.HasPrefix(name, "data") {
					continue
				}
				if before[name] != text {
					t.Errorf("%s was changed", name)
				}
				delete(before, name)
			}
			if len(before) > 0 {
				t.Errorf("gone: %v", before)
			}
			if b.Path() != b.private {
				t.Errorf("repository at %s", b.Path())
			}
			b.sound()
		})
	}
}

func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git program")
	}
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, cleanEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func snapshotDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[rel] = string(data)
		return err
	}))
	return out
}

// Somebody who commits other files into our repository keeps them, and what
// they staged stays staged.
func TestOthersWorkInOurRepository(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("SOUL.md", "1\n")
	b.commit("one")
	b.write("extra/a.txt", "a\n")
	b.write("extra/b.txt", "b\n")
	b.git("add", "-f", "extra/a.txt")
	b.git("commit", "-qm", "mine")
	b.git("add", "-f", "extra/b.txt")
	b.write("SOUL.md", "2\n")
	b.commit("two")
	if got, want := b.git("status", "--porcelain"), "A  extra/b.txt\n"; got != want {
		t.Errorf("status = %q, want %q", got, want)
	}
	if got, want := b.git("ls-tree", "-r", "--name-only", "HEAD"), "SOUL.md\nextra/a.txt\n"; got != want {
		t.Errorf("tree = %q, want %q", got, want)
	}
	b.git("update-index", "--index-version", "4")
	b.write("SOUL.md", "3\n")
	b.commit("three")
	if got, want := b.git("status", "--porcelain"), "A  extra/b.txt\n"; got != want {
		t.Errorf("status after version 4 = %q, want %q", got, want)
	}
}

func TestOddFilesAreNotVersioned(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := filepath.Join(filepath.Dir(b.work), "secret")
	must(t, os.WriteFile(outside, []byte("secret"), 0o600))
	b.write("SOUL.md", "soul\n")
	b.write("USER.md", "user\n")
	b.commit("one")
	must(t, os.Remove(filepath.Join(b.work, "USER.md")))
	must(t, os.Symlink(outside, filepath.Join(b.work, "USER.md")))
	b.write("SOUL.md", strings.Repeat("x", maxFile+1))
	b.write("skills/a/SKILL.md", "a\n")
	must(t, os.Symlink(filepath.Dir(b.work), filepath.Join(b.work, "skills", "loop")))
	id := b.commit("two")
	for name, want := range map[string]string{"SOUL.md": "soul\n", "USER.md": "user\n", "skills/a/SKILL.md": "a\n"} {
		if got, err := b.File(t.Context(), id, name); string(got) != want || err != nil {
			t.Errorf("%s = %.20q, %v; want %q", name, got, err, want)
		}
	}
	// Writing replaces the link and leaves alone what it led to.
	must(t, b.WriteWork("USER.md", []byte("user\n")))
	if got, _ := os.ReadFile(outside); string(got) != "secret" {
		t.Errorf("the file outside holds %q", got)
	}
	if got := b.text("USER.md"); got != "user\n" {
		t.Errorf("USER.md = %q", got)
	}
}

func TestManyCommitsAreShortened(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) { o.MaxCommits = 10 })
	ids := map[string]bool{}
	for i := range 23 {
		b.write("SOUL.md", fmt.Sprintf("version %d\n", i))
		b.write("USER.md", "same\n")
		ids[b.commit(fmt.Sprint("c", i))] = true
	}
	log, err := b.Log(t.Context(), 0)
	must(t, err)
	if len(log) > 10 || len(log) < 8 {
		t.Errorf("%d commits are kept", len(log))
	}
	for _, c := range log {
		if !ids[c.ID] {
			t.Errorf("commit %s has a new id", c.ID)
		}
	}
	b.sound()
	oldest := log[len(log)-1]
	if _, err := b.Restore(t.Context(), oldest.ID); !errors.Is(err, ErrFirst) {
		t.Errorf("undo of the oldest: %v", err)
	}
	if out, err := b.tryGit("cat-file", "--batch-all-objects", "--batch-check"); err != nil || strings.Count(out, "\n") > 10*3+4 {
		t.Errorf("%d objects are left (%v)", strings.Count(out, "\n"), err)
	}
}

func TestRewriteForgets(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprint("packed ", packed), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ctx := t.Context()
			b.write("SOUL.md", "soul\n")
			first := b.commit("one")
			b.write("memory/MEMORY.md", "- tea\n- zebra-secret\n")
			b.commit("two")
			b.write("memory/MEMORY.md", "- tea\n")
			_, _, err := b.Commit(ctx, "three", "removed zebra-secret")
			must(t, err)
			if packed {
				b.git("gc", "-q")
				b.write("memory/MEMORY.md", "- tea\n- x\n")
				b.commit("four")
			}
			drop := func(text string) string {
				var out strings.Builder
				for l := range strings.Lines(text) {
					if !strings.Contains(l, "zebra-secret") {
						out.WriteString(l)
					}
				}
				return out.String()
			}
			got, err := b.Rewrite(ctx, func(_ string, data []byte) []byte { return []byte(drop(string(data))) }, drop)
			must(t, err)
			if !slices.Equal(got.Files, []string{"memory/MEMORY.md"}) || len(got.Elsewhere) > 0 || got.IDs[first] != "" || len(got.IDs) < 2 {
				t.Errorf("rewritten = %+v", got)
			}
			b.sound()
			for id := range strings.FieldsSeq(b.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")) {
				if strings.Contains(b.git("cat-file", "-p", id), "zebra-secret") {
					t.Errorf("object %s still holds it", id)
				}
			}
			log, err := b.Log(ctx, 0)
			must(t, err)
			if last := log[len(log)-1]; last.ID != first || len(log) < 3 {
				t.Errorf("log = %+v", log)
			}
		})
	}
}

func TestConcurrentCommits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other, err := Open(b.o)
	must(t, err)
	done := make(chan error)
	const each = 8
	for i, s := range []*Store{b.Store, b.Store, other} {
		name := []string{"SOUL.md", "USER.md", "skills/x/SKILL.md"}[i]
		go func() {
			for n := range each {
				p := filepath.Join(b.work, filepath.FromSlash(name))
				err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, fmt.Appendf(nil, "%d\n", n), 0o600))
				if err == nil {
					_, _, err = s.Commit(t.Context(), fmt.Sprint(name, n), "")
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 3 {
		must(t, <-done)
	}
	_, _, err = b.Commit(t.Context(), "rest", "")
	must(t, err)
	b.sound()
	if got := b.text("SOUL.md") + b.text("USER.md") + b.text("skills/x/SKILL.md"); got != strings.Repeat(fmt.Sprintf("%d\n", each-1), 3) {
		t.Errorf("files = %q", got)
	}
}

func TestCancelledCommitWaitsForNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("SOUL.md", "x")
	ctx, cancel := context.WithCancel(t.Context())
	err := b.Store.write(t.Context(), func(*repo, *tip) error {
		cancel()
		other, err := Open(b.o)
		must(t, err)
		_, _, err = other.Commit(ctx, "x", "")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("commit while locked: %v", err)
		}
		return nil
	})
	must(t, err)
}

// File returns a file as it was at a commit. The error is fs.ErrNotExist when
// it was not there.
func (s *Store) File(ctx context.Context, commit, name string) (data []byte, err error) {
	err = s.read(ctx, func(r *repo, t *tip) error {
		c, err := r.find(ctx, t, commit)
		if err != nil {
			return err
		}
		files, err := r.tracked(c.tree, s.patterns())
		if err != nil {
			return err
		}
		data, err = r.content(files, name)
		return err
	})
	return data, noRepo(err)
}
