package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

func TestEdit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, before string
		in                 args
		after, says        string
	}{
		{"exact", "f", "a\nb\nc\n", args{"old_text": "b", "new_text": "B"}, "a\nB\nc\n", "Edited f (line 2)"},
		{"exact keeps trailing spaces", "f", "a\n", args{"old_text": "a", "new_text": "x  "}, "x  \n", "line 1"},
		{"aliases", "f", "a\n", args{"old_string": "a", "new_string": "b"}, "b\n", ""},
		{"inside a line", "f", "foo bar baz\n", args{"old_text": " bar", "new_text": ""}, "foo baz\n", ""},
		{"end of a line keeps the line", "f", "foo bar\nnext\n", args{"old_text": " bar", "new_text": ""}, "foo\nnext\n", ""},
		{"whole line goes with its end", "f", "a\nb\nc\n", args{"old_text": "b", "new_text": ""}, "a\nc\n", ""},
		{"whole line with its end", "f", "a\nb\nc\n", args{"old_text": "b\n", "new_text": ""}, "a\nc\n", ""},
		{"last line without end", "f", "a\nb", args{"old_text": "b", "new_text": ""}, "a\n", ""},
		{"replace all", "f", "x x\nx\n", args{"old_text": "x", "new_text": "yy", "replace_all": true}, "yy yy\nyy\n", "3 places, first at line 1"},
		{"matches do not overlap", "f", "aaaa\n", args{"old_text": "aa", "new_text": "b", "replace_all": true}, "bb\n", "2 places"},
		{"occurrence", "f", "x\nx\nx\n", args{"old_text": "x", "new_text": "y", "occurrence": 2}, "x\ny\nx\n", "line 2"},
		{"line hint", "f", "x\nx\nx\n", args{"old_text": "x", "new_text": "y", "line_hint": 3}, "x\nx\ny\n", "line 3"},
		{"line hint inside a long match", "f", "a\nb\nc\n-\na\nb\nc\n", args{"old_text": "a\nb\nc\n", "new_text": "z\n", "line_hint": 6}, "a\nb\nc\n-\nz\n", "line 5"},
		{"expected", "f", "x\nx\n", args{"old_text": "x", "new_text": "y", "replace_all": true, "expected_replacements": 2}, "y\ny\n", ""},
		{"null selectors", "f", "x\n", args{"old_text": "x", "new_text": "y", "occurrence": nil, "line_hint": nil}, "y\n", ""},

		{"indentation ignored and restored", "f", "if x {\n\t\tfoo()\n\t\tbar()\n}\n", args{"old_text": "foo()\nbar()", "new_text": "foo()\nbaz()"}, "if x {\n\t\tfoo()\n\t\tbaz()\n}\n", "ignoring indentation"},
		{"surplus indentation removed", "f", "  a\n  b\n", args{"old_text": "    a\n    b", "new_text": "    c\n      d"}, "  c\n    d\n", ""},
		{"uneven indentation left alone", "f", "\ta\n  b\n", args{"old_text": "a\nb", "new_text": "c\nd"}, "c\nd\n", ""},
		{"trailing space in the file", "f", "a  \nb\n", args{"old_text": "a\nb", "new_text": "c  \nd"}, "c\nd\n", ""},
		{"trailing space kept in markdown", "f.md", "a \nb\n", args{"old_text": "a\nb", "new_text": "c  \nd"}, "c  \nd\n", ""},
		{"trimmed with line end", "f", "  a\nb\n", args{"old_text": "\ta\n", "new_text": "\tx\n"}, "\tx\nb\n", ""},
		{"curly quotes kept", "f", "say “hello” and don’t\n", args{"old_text": "say \"hello\" and don't", "new_text": "say \"bye\" and won't"}, "say “bye” and won’t\n", "ignoring quote style"},
		{"curly quotes inside a line", "f", "x = “a” + 1\n", args{"old_text": "\"a\" +", "new_text": "\"b\" -"}, "x = “b” - 1\n", ""},
		{"model curls, file does not", "f", "say 'x'\n", args{"old_text": "say ‘x’", "new_text": "say ‘y’"}, "say ‘y’\n", ""},
		{"quotes before the match shift offsets", "f", "“1” “2”\nkey “v”\n", args{"old_text": "key \"v\"", "new_text": "key \"w\""}, "“1” “2”\nkey “w”\n", "line 2"},
		{"exact beats loose", "f", " a\na\n", args{"old_text": "a\n", "new_text": "b\n", "occurrence": 2}, " a\nb\n", ""},

		{"crlf kept", "f", "a\r\nb\r\nc\r\n", args{"old_text": "a\nb\n", "new_text": "x\ny\nz\n"}, "x\r\ny\r\nz\r\nc\r\n", ""},
		{"mixed line ends kept", "f", "a\r\nb\nc\r\nd\n", args{"old_text": "c", "new_text": "C"}, "a\r\nb\nC\r\nd\n", ""},
		{"mixed line ends in the match", "f", "a\r\nb\nc\r\n", args{"old_text": "a\nb\nc", "new_text": "A\nB\nC"}, "A\r\nB\nC\r\n", ""},
		{"crlf in the arguments", "f", "a\nb\n", args{"old_text": "a\r\nb", "new_text": "x\r\ny"}, "x\ny\n", ""},
		{"crlf line deleted", "f", "a\r\nb\r\nc\r\n", args{"old_text": "b", "new_text": ""}, "a\r\nc\r\n", ""},
		{"bom kept", "f", "\ufeffa\n", args{"old_text": "a", "new_text": "b"}, "\ufeffb\n", ""},
		{"escapes of read_file", "f", "a\u200bb\n", args{"old_text": "a<U+200B>b", "new_text": "a<U+200B>c"}, "a\u200bc\n", ""},
		{"escapes written in the file", "f", "a<U+200B>b\n", args{"old_text": "a<U+200B>b", "new_text": "x"}, "x\n", ""},
		{"blank file filled", "f", "\n \n", args{"old_text": "", "new_text": "new\n"}, "new\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put(c.file, c.before)
			c.in["path"] = c.file
			contains(t, b.text("edit_file", c.in), c.says)
			if got := b.get(c.file); got != c.after {
				t.Errorf("content = %q, want %q", got, c.after)
			}
		})
	}
}

func TestEditRefusals(t *testing.T) {
	t.Parallel()
	const before = "one\ntwo\none\nthree\none\none\n"
	for _, c := range []struct {
		name string
		in   args
		code tool.Code
		says string
	}{
		{"same", args{"old_text": "two", "new_text": "two"}, tool.InvalidArgs, "are the same"},
		{"ambiguous", args{"old_text": "one", "new_text": "x"}, tool.Conflict, "matches 4 times in f (lines 1, 3, 5, ...)"},
		{"occurrence too high", args{"old_text": "one", "new_text": "x", "occurrence": 5}, tool.Conflict, "matches 4 times"},
		{"no match on the line", args{"old_text": "one", "new_text": "x", "line_hint": 2}, tool.Conflict, "0 of 4 matches in f include line 2"},
		{"two on the line", args{"old_text": "e", "new_text": "x", "line_hint": 4}, tool.Conflict, "2 of 6"},
		{"unexpected count", args{"old_text": "one", "new_text": "x", "replace_all": true, "expected_replacements": 2}, tool.Conflict, "nothing was changed"},
		{"all and occurrence", args{"old_text": "one", "new_text": "x", "replace_all": true, "occurrence": 1}, tool.InvalidArgs, "exclude"},
		{"all and line", args{"old_text": "one", "new_text": "x", "replace_all": true, "line_hint": 1}, tool.InvalidArgs, "exclude"},
		{"occurrence and line", args{"old_text": "one", "new_text": "x", "occurrence": 1, "line_hint": 1}, tool.InvalidArgs, "exclude"},
		{"negative", args{"old_text": "one", "new_text": "x", "occurrence": -1}, tool.InvalidArgs, "at least 1"},
		{"empty old", args{"old_text": "", "new_text": "x"}, tool.InvalidArgs, "is not"},
		{"white space only", args{"old_text": " \t ", "new_text": "x"}, tool.NotFound, "not found"},
		{"unknown key", args{"old_txt": "two", "new_text": "x"}, tool.InvalidArgs, "ignored unknown parameters: \"old_txt\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put("f", before)
			c.in["path"] = "f"
			b.fails("edit_file", c.in, c.code, c.says)
			if got := b.get("f"); got != before {
				t.Errorf("the file was changed to %q", got)
			}
		})
	}
	b := newBench(t)
	b.fails("edit_file", args{"path": "n.ipynb", "old_text": "a", "new_text": "b"}, tool.InvalidArgs, "notebook_edit")
	b.put("main.go", "x")
	b.fails("edit_file", args{"path": "mian.go", "old_text": "a", "new_text": "b"}, tool.NotFound, "Did you mean main.go?")
	b.put("bin", "a\x00b")
	b.fails("edit_file", args{"path": "bin", "old_text": "a", "new_text": "b"}, tool.Unsupported, "not UTF-8")
	b.fails("edit_file", args{"path": ".", "old_text": "a", "new_text": "b"}, tool.InvalidArgs, "directory")
	contains(t, b.text("edit_file", args{"path": "sub/new.txt", "old_text": "", "new_text": "fresh\n"}), "Created sub/new.txt")
	if got := b.get("sub/new.txt"); got != "fresh\n" {
		t.Errorf("created file = %q", got)
	}
}

func TestEditNearMiss(t *testing.T) { //nolint:tparallel // the cases share a workspace and its test
	t.Parallel()
	b := newBench(t)
	b.put("f", "package main\n\nfunc Alpha(a int) int {\n\treturn a + 1\n}\n\nfunc Beta() {}\n")
	for _, c := range []struct {
		name, old string
		says      []string
	}{
		{"changed line", "func Alpha(a int) int {\n\treturn a + 2\n}\n", []string{"line 3", "-\treturn a + 2", "+\treturn a + 1", " func Alpha(a int) int {"}},
		{"case", "FUNC BETA() {}", []string{"letter case"}},
		{"spacing inside", "func  Beta()  {}", []string{"white space"}},
		{"trailing newline", "a + 1\n\n", []string{"trailing newline"}},
		{"nothing", "zzzzqqqq\nxxxxwwww\n", []string{"Nothing similar"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := b.call("edit_file", args{"path": "f", "old_text": c.old, "new_text": "x"})
			if res.Code != tool.NotFound {
				t.Errorf("code = %q", res.Code)
			}
			contains(t, res.Content.Text, c.says...)
		})
	}
	b.put("long", strings.Repeat("some line\n", 30_000))
	b.fails("edit_file", args{"path": "long", "old_text": "sonne line\n", "new_text": "x"}, tool.NotFound, "too long")
}

func TestEditMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("f", strings.Repeat("x\n", 200_000))
	contains(t, b.text("edit_file", args{"path": "f", "old_text": "x", "new_text": "yy", "replace_all": true}), "200000 places")
	if got := b.get("f"); got != strings.Repeat("yy\n", 200_000) {
		t.Error("wrong content")
	}
}

func TestEditWarnsOfUnreadContent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("f", "a\nb\n")
	edit := func(old, repl string) string {
		return b.text("edit_file", args{"path": "f", "old_text": old, "new_text": repl})
	}
	lacks(t, edit("a", "c"), "Warning") // no session state
	b.state = &tool.State{}
	contains(t, edit("c", "a"), "Warning: the file was not read")
	lacks(t, edit("a", "d"), "Warning") // it knows what it just wrote
	b.put("f", "x\nb\n")
	contains(t, edit("x", "y"), "Warning: the file changed")
	b.text("read_file", args{"path": "f"})
	lacks(t, edit("y", "z"), "Warning")

	strict := newBench(t, func(o *files.Options, _ *diskio.JailOptions) { o.StrictEdit = true })
	strict.state = &tool.State{}
	strict.put("f", "a\n")
	strict.text("read_file", args{"path": "f"})
	strict.put("f", "a\nchanged\n")
	strict.fails("edit_file", args{"path": "f", "old_text": "a", "new_text": "b"}, tool.Conflict, "read it again")
}

func TestEditsInParallel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 16
	var before, want strings.Builder
	for i := range n {
		fmt.Fprintf(&before, "<%02d>\n", i)
		fmt.Fprintf(&want, "[%02d]\n", i)
	}
	b.put("f", before.String())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			b.text("edit_file", args{"path": "f", "old_text": fmt.Sprintf("<%02d>", i), "new_text": fmt.Sprintf("[%02d]", i)})
		})
	}
	wg.Wait()
	if got := b.get("f"); got != want.String() {
		t.Errorf("an edit was lost:\n%s", got)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	contains(t, b.text("write_file", args{"path": "a/b/c.txt", "content": "héllo\n"}), "Created a/b/c.txt (7 bytes)")
	contains(t, b.text("write_file", args{"path": "a/b/c.txt", "content": ""}), "Overwrote a/b/c.txt (0 bytes)")
	contains(t, b.text("write_file", args{"path": filepath.Join(b.dir, "abs.txt"), "content": "x"}), "Created abs.txt")
	b.fails("write_file", args{"path": "a/b", "content": "x"}, tool.InvalidArgs, "directory")
	b.fails("write_file", args{"path": "abs.txt/x", "content": "x"}, tool.InvalidArgs, "is a file, not a directory")
	b.fails("write_file", args{"path": "abs.txt/x/y", "content": "x"}, tool.InvalidArgs, "is a file, not a directory")
	b.fails("write_file", args{"path": "x"}, tool.InvalidArgs, "missing required content")
	if err := os.Chmod(filepath.Join(b.dir, "abs.txt"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.text("write_file", args{"path": "abs.txt", "content": "#!/bin/sh\n"})
	if info, err := os.Stat(filepath.Join(b.dir, "abs.txt")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("the mode was not kept: %v %v", info.Mode(), err)
	}
}
