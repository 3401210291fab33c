package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// age sets how long ago a file was changed.
func (b *bench) age(name string, minutes int) {
	b.t.Helper()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(-time.Duration(minutes) * time.Minute)
	if err := os.Chtimes(filepath.Join(b.dir, name), at, at); err != nil {
		b.t.Fatal(err)
	}
}

// tree puts files, the first the newest.
func (b *bench) tree(names ...string) {
	for i, n := range names {
		b.put(n, "needle in "+n+"\n")
		b.age(n, i)
	}
}

func rows(s string) []string { return strings.Split(s, "\n") }

func TestListDir(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tree("b.txt", "a/x.txt", "a/deep/y.txt", "a.txt", "node_modules/p/i.js", ".git/config", ".hidden", "sub/dist/out")
	if err := os.Mkdir(filepath.Join(b.dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.txt", filepath.Join(b.dir, "ln")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("..", filepath.Join(b.dir, "a", "up")); err != nil {
		t.Skip(err)
	}
	want := []string{"📄 .hidden", "📁 a", "📄 a.txt", "📄 b.txt", "📁 empty", "🔗 ln -> a.txt", "📁 sub"}
	if d := cmp.Diff(want, rows(b.text("list_dir", args{"path": "."}))); d != "" {
		t.Errorf("flat (-want +got):\n%s", d)
	}
	want = []string{".hidden", "a/", "a/deep/", "a/deep/y.txt", "a/up -> ..", "a/x.txt", "a.txt", "b.txt", "empty/", "ln -> a.txt", "sub/"}
	if d := cmp.Diff(want, rows(b.text("list_dir", args{"path": ".", "recursive": true}))); d != "" {
		t.Errorf("recursive (-want +got):\n%s", d)
	}
	got := b.text("list_dir", args{"path": ".", "recursive": true, "max_entries": 2})
	if want := ".hidden\na/\n\n(2 of 11 entries; raise max_entries or list a subdirectory)"; got != want {
		t.Errorf("cut = %q, want %q", got, want)
	}
	contains(t, b.text("list_dir", args{"path": "empty"}), "is empty")
	contains(t, b.text("list_dir", args{"path": "node_modules"}), "📁 p")
	b.fails("list_dir", args{"path": "a.txt"}, tool.InvalidArgs, "read_file")
	b.fails("list_dir", args{"path": "nope"}, tool.NotFound, "does not exist")
	b.fails("list_dir", args{"path": ".", "max_entries": 0}, tool.InvalidArgs, ">= 1")
}

func TestGlob(t *testing.T) { //nolint:tparallel // the cases share a workspace and its test
	t.Parallel()
	b := newBench(t)
	b.tree("src/new.go", "main.go", "src/a/b/deep.go", "src/a/x.ts", "src/a/x.tsx", "docs/readme.md", "node_modules/m/i.go", ".ci/run.yml", "skip.log", "keep.log")
	b.put(".gitignore", "*.log\n!keep.log\n")
	b.age(".gitignore", 90)
	for _, c := range []struct {
		name string
		in   args
		want []string
	}{
		{"name", args{"pattern": "*.go"}, []string{"src/new.go", "main.go", "src/a/b/deep.go"}},
		{"any depth", args{"pattern": "**/*.go"}, []string{"src/new.go", "main.go", "src/a/b/deep.go"}},
		{"any depth below", args{"pattern": "src/**/*.go"}, []string{"src/new.go", "src/a/b/deep.go"}},
		{"everything below", args{"pattern": "src/a/**"}, []string{"src/a/b/deep.go", "src/a/x.ts", "src/a/x.tsx"}},
		{"path from the right", args{"pattern": "a/*.ts"}, []string{"src/a/x.ts"}},
		{"braces", args{"pattern": "*.{ts,tsx}"}, []string{"src/a/x.ts", "src/a/x.tsx"}},
		{"nested braces", args{"pattern": "x.{t{s,sx},js}"}, []string{"src/a/x.ts", "src/a/x.tsx"}},
		{"backslashes", args{"pattern": `src\a\*.ts`}, []string{"src/a/x.ts"}},
		{"class", args{"pattern": "[!a-m]*.go"}, []string{"src/new.go"}},
		{"in a directory", args{"pattern": "*.go", "path": "src"}, []string{"src/new.go", "src/a/b/deep.go"}},
		{"hidden files count", args{"pattern": "*.yml"}, []string{".ci/run.yml"}},
		{"ignore files count", args{"pattern": "*.log"}, []string{"keep.log"}},
		{"ignored when asked for", args{"pattern": "*.go", "path": "node_modules"}, []string{"node_modules/m/i.go"}},
		{"dirs", args{"pattern": "a", "entry_type": "dirs"}, []string{"src/a/"}},
		{"both", args{"pattern": "**/{a,main.go}", "entry_type": "both"}, []string{"src/a/", "main.go"}},
		{"absolute", args{"pattern": filepath.Join(b.dir, "src/**/*.tsx")}, []string{"src/a/x.tsx"}},
		{"limit", args{"pattern": "*.go", "head_limit": 2}, []string{"src/new.go", "main.go", "", "(entries 1-2 of 3; next: offset=2)"}},
		{"legacy limit", args{"pattern": "*.go", "max_results": 2}, []string{"src/new.go", "main.go", "", "(entries 1-2 of 3; next: offset=2)"}},
		{"offset", args{"pattern": "*.go", "offset": 2}, []string{"src/a/b/deep.go", "", "(entries 3-3 of 3)"}},
		{"all", args{"pattern": "*.go", "head_limit": 0}, []string{"src/new.go", "main.go", "src/a/b/deep.go"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, rows(b.text("glob", c.in))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	contains(t, b.text("glob", args{"pattern": "*.rs"}), "No match for *.rs under .", "Ignored names")
	b.fails("glob", args{"pattern": "[a"}, tool.InvalidArgs, "malformed")
	b.fails("glob", args{"pattern": "{a"}, tool.InvalidArgs, "unclosed")
	b.fails("glob", args{"pattern": strings.Repeat("{a,b}", 12)}, tool.InvalidArgs, "alternatives")
	b.fails("glob", args{"pattern": ""}, tool.InvalidArgs, "at least 1")
	b.fails("glob", args{"pattern": "*", "path": "main.go"}, tool.InvalidArgs, "not a directory")
}

func TestGrep(t *testing.T) { //nolint:tparallel // the cases share a workspace and its test
	t.Parallel()
	b := newBench(t)
	b.put("a.go", "package a\n\nfunc Alpha() {}\n// TODO alpha\nfunc Beta() {}\n")
	b.put("d/b.py", "def alpha():\n    return 'TODO'\n# TODO\n")
	b.put("win.txt", "one\r\nTODO win\r\nthree\r\n")
	b.put("bin", "TODO\x00")
	b.put("ctl", "TODO "+strings.Repeat("\x01", 50)+"\n")
	b.put("latin", "TODO caf\xe9\n")
	b.put("big.txt", "TODO\n"+strings.Repeat("x", 2_000_001))
	for i, n := range []string{"a.go", "d/b.py", "win.txt"} {
		b.age(n, i)
	}
	const skipped = "(Skipped: 3 binary, 1 over 2 MB (give such a file as path).)"
	for _, c := range []struct {
		name string
		in   args
		want string
	}{
		{"files", args{"pattern": "TODO"}, "a.go\nd/b.py\nwin.txt\n" + skipped},
		{"count", args{"pattern": "TODO", "output_mode": "count"}, "a.go: 1\nd/b.py: 2\nwin.txt: 1\n\n(4 matching lines in 3 files)\n" + skipped},
		{"content", args{"pattern": "TODO", "output_mode": "content", "path": "d"}, "d/b.py:2\n> 2|     return 'TODO'\n\nd/b.py:3\n> 3| # TODO"},
		{"context", args{"pattern": "TODO", "output_mode": "content", "glob": "*.go", "context_before": 2, "context_after": 9}, "a.go:4\n  2| \n  3| func Alpha() {}\n> 4| // TODO alpha\n  5| func Beta() {}"},
		{"context at the start", args{"pattern": "package", "output_mode": "content", "context_before": 3, "context_after": 1}, "a.go:1\n> 1| package a\n  2| "},
		{"crlf", args{"pattern": "win$", "output_mode": "content", "context_after": 1}, "win.txt:2\n> 2| TODO win\n  3| three"},
		{"regexp", args{"pattern": `func \w+\(\)`, "output_mode": "count"}, "a.go: 2\n\n(2 matching lines in 1 file)"},
		{"anchors", args{"pattern": "^func|^def", "output_mode": "count"}, "a.go: 2\nd/b.py: 1\n\n(3 matching lines in 2 files)"},
		{"no case", args{"pattern": "ALPHA", "case_insensitive": true}, "a.go\nd/b.py"},
		{"fixed", args{"pattern": "Alpha()", "fixed_strings": true}, "a.go"},
		{"type", args{"pattern": "alpha", "type": "py"}, "d/b.py"},
		{"type by name", args{"pattern": "alpha", "type": "Python"}, "d/b.py"},
		{"unknown type is an extension", args{"pattern": "one", "type": "txt"}, "win.txt\n(Skipped: 1 over 2 MB (give such a file as path).)"},
		{"glob with path", args{"pattern": "alpha", "glob": "d/*.{py,go}"}, "d/b.py"},
		{"file", args{"pattern": "TODO", "path": "d/b.py", "output_mode": "count"}, "d/b.py: 2\n\n(2 matching lines in 1 file)"},
		{"large file when named", args{"pattern": "TODO", "path": "big.txt"}, "big.txt"},
		{"limit", args{"pattern": "TODO", "head_limit": 1}, "a.go\n\n(files 1-1 of 3; next: offset=1)\n" + skipped},
		{"offset", args{"pattern": "TODO", "offset": 2}, "win.txt\n\n(files 3-3 of 3)\n" + skipped},
		{"content limit", args{"pattern": "TODO", "output_mode": "content", "max_matches": 2}, "a.go:4\n> 4| // TODO alpha\n\nd/b.py:2\n> 2|     return 'TODO'\n\n(Matches 1-2, more follow; next: offset=2)"},
		{"content offset", args{"pattern": "TODO", "output_mode": "content", "offset": 3}, "win.txt:2\n> 2| TODO win\n\n(Matches 4-4, the last)\n" + skipped},
		{"empty lines", args{"pattern": "^$", "output_mode": "count"}, "a.go: 1\n\n(1 matching line in 1 file)"},
		{"none", args{"pattern": "nowhere", "path": "d"}, "No match for nowhere in d."},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Without a match in them only one file is known to be binary.
			got := strings.TrimSuffix(b.text("grep", c.in), "\n(Skipped: 1 binary, 1 over 2 MB (give such a file as path).)")
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	b.fails("grep", args{"pattern": "a(?=b)"}, tool.InvalidArgs, "RE2")
	b.fails("grep", args{"pattern": `(a)\1`}, tool.InvalidArgs, "backreferences")
	b.fails("grep", args{"pattern": "a("}, tool.InvalidArgs, "fixed_strings")
	b.fails("grep", args{"pattern": "a\nb"}, tool.InvalidArgs, "line by line")
	b.fails("grep", args{"pattern": "x", "path": "nope"}, tool.NotFound, "does not exist")
	b.fails("grep", args{"pattern": "x", "output_mode": "lines"}, tool.InvalidArgs, "must be one of")
	b.fails("grep", args{"pattern": "x", "context_before": 21}, tool.InvalidArgs, "<= 20")
	b.fails("grep", args{"pattern": "x", "path": "bin"}, tool.Unsupported, "binary")
}

func TestGrepIgnoreRules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	files := []string{
		"a.txt", "a.log", "keep.log", "tmp/x.txt", "sub/tmp/x.txt", "root.txt", "sub/root.txt", "sub/a.gen", "sub/b.gen", "sub/deep/b.gen",
		"docs/api/x.txt", "docs/x.txt", "logs/2026/x.txt", "sp ace.txt", "#hash", "!bang", "vendor/repo/a.log", "vendor/repo/b.txt", "excluded.txt",
		"secret.ign", "sub/secret.ign", ".hidden/h.txt", "node_modules/x.txt", "build/x.txt", "odir/x.txt", "odir2",
	}
	for _, f := range files {
		b.put(f, "needle\n")
	}
	b.put(".gitignore", "# comment\n*.log\n!keep.log\n/tmp\n/root.txt\ndocs/*\n!docs/x.txt\nlogs/**/x.txt\n\\#hash\n\\!bang\n[\nodir*/\n")
	b.put("sub/.gitignore", "*.gen\n!/b.gen\n")
	b.put(".ignore", "*.ign\n!a.log\n")
	b.put(".git/info/exclude", "excluded.txt\n")
	b.put("vendor/repo/.git/HEAD", "needle\n")
	want := []string{
		".hidden/h.txt", "a.log", "a.txt", "docs/x.txt", "keep.log", "odir2", "sp ace.txt", "sub/b.gen",
		"sub/root.txt", "sub/tmp/x.txt", "vendor/repo/a.log", "vendor/repo/b.txt",
	}
	found := rows(b.text("grep", args{"pattern": "needle", "head_limit": 0}))
	slices.Sort(found)
	if d := cmp.Diff(want, found); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Starting further down, the rules above still hold.
	found = rows(b.text("grep", args{"pattern": "needle", "path": "sub"}))
	slices.Sort(found)
	if d := cmp.Diff([]string{"sub/b.gen", "sub/root.txt", "sub/tmp/x.txt"}, found); d != "" {
		t.Errorf("below sub (-want +got):\n%s", d)
	}
	contains(t, b.text("grep", args{"pattern": "needle", "path": "tmp"}), "tmp/x.txt")
	contains(t, b.text("grep", args{"pattern": "needle", "path": "a.log"}), "a.log")
}

// The memory store's own .gitignore excludes everything but its files; that
// must not blind the search.
func TestGrepBlanketIgnore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(".gitignore", "/*\n!memory/\n!SOUL.md\n!.gitignore\n")
	b.put("notes/todo.txt", "needle\n")
	contains(t, b.text("grep", args{"pattern": "needle"}), "notes/todo.txt")
	b.put("sub/.gitignore", "*\n")
	b.put("sub/x.txt", "needle\n")
	lacks(t, b.text("grep", args{"pattern": "needle"}), "sub/x.txt")
}

func TestGrepSurvivesTrouble(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("ok.txt", "needle\n")
	b.put("locked.txt", "needle\n")
	b.put("lockeddir/x.txt", "needle\n")
	if err := os.Symlink("nowhere", filepath.Join(b.dir, "dangling")); err != nil {
		t.Skip(err)
	}
	if err := os.Chmod(filepath.Join(b.dir, "locked.txt"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(b.dir, "lockeddir"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(b.dir, "lockeddir"), 0o755) })
	got := b.text("grep", args{"pattern": "needle"})
	contains(t, got, "ok.txt")
	if os.Geteuid() != 0 && runtime.GOOS != "windows" {
		contains(t, got, "2 unreadable")
	}
}

func TestGrepLongLines(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("min.js", strings.Repeat("ab", 10_000)+"NEEDLE"+strings.Repeat("é", 10_000)+"\n"+"short NEEDLE\n")
	got := b.text("grep", args{"pattern": "NEEDLE", "output_mode": "content"})
	contains(t, got, "abNEEDLEé", "…", "line of 40006 bytes cut", "> 2| short NEEDLE")
	if len(got) > 6000 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestGrepTotalSize(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("f", strings.Repeat("needle "+strings.Repeat("x", 990)+"\n", 500))
	got := b.text("grep", args{"pattern": "needle", "output_mode": "content", "head_limit": 0})
	if len(got) > 129_000 {
		t.Errorf("%d bytes", len(got))
	}
	contains(t, got, "cut at 128000 characters; next: offset=")
}

// The first matches in path order are shown, however the work was shared out.
func TestGrepOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for d := range 20 {
		for f := range 20 {
			b.put(fmt.Sprintf("d%02d/f%02d.txt", d, f), "needle\nneedle\n")
		}
	}
	for _, offset := range []int{0, 10, 395} {
		var want []string
		for i := offset; i < offset+7; i++ {
			want = append(want, fmt.Sprintf("d%02d/f%02d.txt:%d", i/40, i/2%20, i%2+1))
		}
		for range 3 {
			var got []string
			for _, r := range rows(b.text("grep", args{"pattern": "needle", "output_mode": "content", "head_limit": 7, "offset": offset})) {
				if strings.HasPrefix(r, "d") {
					got = append(got, r)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("offset %d (-want +got):\n%s", offset, d)
			}
		}
	}
}

func TestSearchCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tree("a.txt", "b.txt")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, in := range map[string]string{
		"grep": `{"pattern":"x"}`, "glob": `{"pattern":"*"}`, "list_dir": `{"path":".","recursive":true}`, "read_file": `{"path":"a.txt"}`,
	} {
		tl, _ := b.set.Get(name)
		if _, err := tl.Run(ctx, tool.Call{Input: json.RawMessage(in)}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s after cancel = %v, want context.Canceled", name, err)
		}
	}
}
