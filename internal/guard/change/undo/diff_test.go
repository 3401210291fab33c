package undo

import (
	"strings"
	"testing"
)

func TestWriteChange(t *testing.T) {
	t.Parallel()
	file := func(s string) side {
		return side{state{Kind: kindFile, Mode: 0o644, Hash: hashOf([]byte(s))}, []byte(s)}
	}
	exe := file("a\n")
	exe.Mode = 0o755
	none := side{state: state{Kind: kindGone}}
	for _, c := range []struct {
		name string
		a, b side
		want string
	}{
		{"changed", file("a\nb\n"), file("a\nc\n"), "--- a/p\n+++ b/p\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		{"created", none, file("a\n"), "--- /dev/null\n+++ b/p\n@@ -0,0 +1 @@\n+a\n"},
		{"deleted", file("a\n"), none, "--- a/p\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"},
		{"mode", file("a\n"), exe, "p: mode 644 -> 755\n"},
		{"binary", file("a\x00"), file("b\x00"), "p: 0 bytes -> 0 bytes\n"},
		{"folder", none, side{state: state{Kind: kindDir, Mode: 0o755}}, "p: nothing -> a folder\n"},
		{"link", side{state: state{Kind: kindLink, Link: "x\x1b[2J"}}, none, "p: a link to x‹U+001B›[2J -> nothing\n"},
		{"escapes", file("a\n"), file("\x1b[31m\u202e\r\n"), "--- a/p\n+++ b/p\n@@ -1 +1 @@\n-a\n+‹U+001B›[31m‹U+202E›‹U+000D›\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			writeChange(&out, "p", c.a, c.b)
			if out.String() != c.want {
				t.Errorf("got %q, want %q", out.String(), c.want)
			}
		})
	}
}

func TestChat(t *testing.T) {
	t.Parallel()
	b := open(t)
	chat := Chat{b.Store}
	ask := func(session, turn string, force bool) string {
		t.Helper()
		reply, _, err := chat.Undo(t.Context(), session, turn, force)
		must(t, err)
		return reply
	}
	if got := ask("cli:direct", "", false); !strings.Contains(got, "No turn of this conversation") {
		t.Errorf("empty: %q", got)
	}
	long := strings.Repeat("```\nline\n", 600)
	b.edit("abcdef0123456789", "a.md", func() { b.write("a.md", long) })
	if got := ask("telegram:1", "abcd", true); !strings.Contains(got, "no turn abcd in this conversation") {
		t.Errorf("another session: %q", got)
	}
	for session, want := range map[string]string{"cli:direct": "`abcdef01` ", "telegram:1": "No turn of this conversation"} {
		if list, err := chat.Turns(t.Context(), session); err != nil || !strings.Contains(list, want) || strings.Contains(list, "a.md") != (session == "cli:direct") {
			t.Errorf("turns of %s: %q, %v", session, list, err)
		}
	}
	diff, err := chat.Diff(t.Context(), "cli:direct", "")
	must(t, err)
	for _, s := range []string{"Turn abcdef01 of ", "1 path changed", "````diff\n", "nanobot undo --diff abcdef01", "To take it back: /undo abcdef01"} {
		if !strings.Contains(diff, s) {
			t.Errorf("diff lacks %q: %.300q", s, diff)
		}
	}
	if n := len(diff); n > chatDiff+500 {
		t.Errorf("the reply has %d bytes", n)
	}
	b.write("a.md", "mine")
	if got := ask("cli:direct", "", false); !strings.Contains(got, "a.md: it changed again after the turn") || !strings.Contains(got, "/undo abcdef01 force") {
		t.Errorf("conflict: %q", got)
	}
	got := ask("cli:direct", "abc", true)
	for _, s := range []string{"0 paths restored, 1 path deleted", "deleted a.md", "-mine", "To have the changes again: /undo u"} {
		if !strings.Contains(got, s) {
			t.Errorf("forced reply lacks %q: %q", s, got)
		}
	}
}
