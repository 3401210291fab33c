package files_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

func replace(path, old, repl string) args {
	return args{"path": path, "action": "replace", "old_text": old, "new_text": repl}
}

func add(path, text string) args { return args{"path": path, "action": "add", "new_text": text} }

func patch(edits ...args) args { return args{"edits": append([]args{}, edits...)} }

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		in    args
		want  map[string]string
		shows string
	}{
		{"two files", patch(replace("a.txt", "two", "2\n2b"), replace("b.txt", "alpha\n", "")), map[string]string{"a.txt": "one\n2\n2b\nthree\n", "b.txt": "beta"}, "Applied:\nreplace a.txt +2/-1\nreplace b.txt +0/-2"},
		{"a chain", patch(replace("a.txt", "one", "uno"), replace("a.txt", "uno\ntwo", "1-2"), add("a.txt", "four\n")), map[string]string{"a.txt": "1-2\nthree\nfour\n"}, "add a.txt +1/-0"},
		{"create", patch(add("new/deep/c.txt", "hello"), add("new/deep/c.txt", "again\n")), map[string]string{"new/deep/c.txt": "hello\nagain\n"}, "create new/deep/c.txt +1/-0"},
		{"append to a line without end", patch(add("b.txt", "gamma")), map[string]string{"b.txt": "alpha\nbeta\ngamma"}, "add b.txt"},
		{"no forced line end", patch(replace("b.txt", "beta", "BETA")), map[string]string{"b.txt": "alpha\nBETA"}, "+1/-1"},
		{"crlf", patch(replace("crlf.txt", "a\nb", "a\nx\nb"), add("crlf.txt", "c\nd")), map[string]string{"crlf.txt": "a\r\nx\r\nb\r\nc\r\nd"}, "replace crlf.txt +1/-0"},
		{"mixed ends stay", patch(replace("mixed.txt", "two", "2")), map[string]string{"mixed.txt": "one\r\n2\nthree\r\n"}, ""},
		{"mark at the start stays", patch(replace("bom.txt", "x", "y")), map[string]string{"bom.txt": "\ufeffy\n"}, ""},
		{"through a link", patch(replace("a.txt", "one", "1"), replace("link.txt", "two", "2")), map[string]string{"a.txt": "1\n2\nthree\n"}, ""},
		{"dry run", args{"edits": []args{replace("a.txt", "one", "1"), add("n.txt", "x")}, "dry_run": true}, map[string]string{"a.txt": "one\ntwo\nthree\n"}, "Would apply (dry_run, nothing was written):\nreplace a.txt +1/-1\ncreate n.txt +1/-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := patchBench(t)
			contains(t, b.text("apply_patch", c.in), c.shows)
			for name, want := range c.want {
				if got := b.get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			if _, err := os.Stat(filepath.Join(b.dir, "n.txt")); err == nil {
				t.Error("a dry run created a file")
			}
			noLitter(t, b.dir)
		})
	}
}

func patchBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, func(_ *files.Options, jo *diskio.JailOptions) { jo.ProtectedWrite = []string{"locked.txt"} })
	b.put("a.txt", "one\ntwo\nthree\n")
	b.put("b.txt", "alpha\nbeta")
	b.put("crlf.txt", "a\r\nb\r\n")
	b.put("mixed.txt", "one\r\ntwo\nthree\r\n")
	b.put("bom.txt", "\ufeffx\n")
	b.put("locked.txt", "keep\n")
	b.put("bin", "\x00\x01")
	if err := os.Symlink("a.txt", filepath.Join(b.dir, "link.txt")); err != nil {
		t.Skip(err)
	}
	return b
}

// noLitter checks that no temporary files are left.
func noLitter(t *testing.T, dir string) {
	t.Helper()
	for _, e := range mustReadDir(t, dir) {
		if strings.HasSuffix(e.Name(), ".tmp") {
			t.Errorf("left over: %s", e.Name())
		}
	}
}

// Whatever is wrong with one edit, no file changes.
func TestApplyPatchRefused(t *testing.T) {
	t.Parallel()
	good := replace("a.txt", "one", "1")
	for _, c := range []struct {
		name string
		bad  args
		code tool.Code
		part string
	}{
		{"no match", replace("b.txt", "delta", "x"), tool.NotFound, "edit 2:"},
		{"two matches", replace("b.txt", "a", "x"), tool.Conflict, "more than once"},
		{"overlapping matches", replace("over.txt", "aa", "x"), tool.Conflict, "more than once"},
		{"no file", replace("none.txt", "a", "x"), tool.NotFound, "does not exist"},
		{"loose match", replace("b.txt", "  alpha", "x"), tool.NotFound, ""},
		{"same text", replace("b.txt", "alpha", "alpha"), tool.InvalidArgs, "the same"},
		{"no old text", args{"path": "b.txt", "action": "replace", "new_text": "x"}, tool.InvalidArgs, "old_text"},
		{"no new text", args{"path": "b.txt", "action": "add"}, tool.InvalidArgs, "new_text"},
		{"old text for add", args{"path": "b.txt", "action": "add", "old_text": "a", "new_text": "x"}, tool.InvalidArgs, "no old_text"},
		{"protected", add("locked.txt", "x"), tool.DeniedPolicy, "protected"},
		{"outside", add("../x.txt", "x"), tool.DeniedPolicy, "outside"},
		{"binary", add("bin", "x"), tool.Unsupported, "UTF-8"},
		{"directory", add(".", "x"), tool.InvalidArgs, "directory"},
		{"file as directory", add("a.txt/x", "x"), tool.InvalidArgs, "not a directory"},
		{"built in", add("builtin://skills/x", "x"), tool.DeniedPolicy, "built in"},
		{"notebook", add("x.ipynb", "x"), tool.InvalidArgs, "notebook_edit"},
		{"unknown action", args{"path": "b.txt", "action": "delete"}, tool.InvalidArgs, "must be one of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := patchBench(t)
			b.put("over.txt", "aaa")
			before := snapshot(t, b.dir)
			b.fails("apply_patch", patch(good, c.bad), c.code, c.part)
			if d := cmp.Diff(before, snapshot(t, b.dir)); d != "" {
				t.Errorf("something changed (-before +after):\n%s", d)
			}
		})
	}
	b := patchBench(t)
	b.fails("apply_patch", patch(), tool.InvalidArgs, "at least 1")
	many := make([]args, 21)
	for i := range many {
		many[i] = good
	}
	b.fails("apply_patch", patch(many...), tool.InvalidArgs, "at most 20")
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, _ := os.ReadFile(path)
			all[path] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPatchPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tl, input, bad := b.set.Prepare("apply_patch", `{"edits":[{"file_path":"a","action":"add","new_text":"x"},{"path":"b/c","action":"add","content":"y"}]}`)
	if bad != nil {
		t.Fatal(bad.Content.Text)
	}
	if d := cmp.Diff([]string{"a", "b/c"}, tl.Paths(input)); d != "" || tl.Sink != tool.SinkWrite {
		t.Errorf("sink %q, paths (-want +got):\n%s", tl.Sink, d)
	}
	if got := tl.Paths(json.RawMessage(`{"edits":1}`)); got != nil {
		t.Errorf("paths of nonsense = %q", got)
	}
}

// FuzzPatch checks a patch of two edits against a plain model: all or nothing,
// and what comes out is what string replacement gives.
func FuzzPatch(f *testing.F) {
	f.Add("one\ntwo\n", "two", "2", "three")
	f.Add("a\r\nb", "a\nb", "x\ny", "")
	f.Add("aaa", "aa", "b", "\n")
	f.Add("\ufeffx", "x", "", "é")
	f.Add("<U+200B>", "<U+200B>", "\u200b", "x")
	f.Fuzz(func(t *testing.T, content, old, repl, more string) {
		if !utf8.ValidString(content) || !utf8.ValidString(old) || !utf8.ValidString(repl) || !utf8.ValidString(more) {
			t.Skip()
		}
		b := newBench(t)
		b.put("f", content)
		b.put("g", "g\n")
		res := b.call("apply_patch", patch(replace("f", old, repl), add("g", more)))
		got, other := b.get("f"), b.get("g")
		if res.IsError {
			if got != content || other != "g\n" {
				t.Fatalf("an error changed files: %q -> %q, %q", content, got, other)
			}
			return
		}
		if other != "g\n"+more {
			t.Fatalf("g = %q", other)
		}
		lf := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		if strings.Contains(old, "<U+") {
			return // may stand for a character
		}
		if n := strings.Count(lf(content), lf(old)); n != 1 {
			t.Fatalf("applied although old_text occurs %d times", n)
		}
		if want := strings.Replace(lf(content), lf(old), lf(repl), 1); lf(got) != want && !strings.Contains(content+repl, "\r") {
			t.Fatalf("%q -> %q, want %q", content, got, want)
		}
	})
}
