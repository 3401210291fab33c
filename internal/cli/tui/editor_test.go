package tui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shown writes text with the cursor as |.
func (e *editor) shown() string { return string(e.text[:e.pos]) + "|" + string(e.text[e.pos:]) }

func TestEditorKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, keys, want string }{
		{"type", "abc", "abc|"},
		{"left and insert", "ac\x1b[Db", "ab|c"},
		{"application cursor keys", "ac\x1bODb\x1bOC", "abc|"},
		{"home and end", "bc\x01a\x05d", "abcd|"},
		{"home key variants", "b\x1b[1~a\x1b[4~c\x1b[H0\x1b[F1", "0abc1|"},
		{"backspace", "abc\x7f\x08", "a|"},
		{"backspace at the start", "\x7fa", "a|"},
		{"delete", "abc\x01\x1b[3~\x04", "|c"},
		{"wide runes", "中文字\x1b[D\x7f", "中|字"},
		{"combining marks go together", "ae\u0301\x1b[D", "a|e\u0301"},
		{"combining marks are erased together", "ae\u0301\x7f", "a|"},
		{"word left", "one two.three\x1bb\x1b[1;5D", "one |two.three"},
		{"word right", "one two\x01\x1bf\x1b[1;3C", "one two|"},
		{"kill word left", "one two\x17", "one |"},
		{"kill word right", "one two\x01\x1bd", "| two"},
		{"alt backspace", "one two\x1b\x7f", "one |"},
		{"kill and yank", "one two\x17\x01\x19", "two|one "},
		{"kill to the start", "one two\x1b[D\x15", "|o"},
		{"kill to the end", "one two\x1bb\x0b", "one |"},
		{"kill joins lines", "a\nb\x1b[A\x05\x0b", "a|b"},
		{"up keeps the column", "abc\nde\x1b[A", "ab|c\nde"},
		{"up into a shorter line", "a\nbcd\x1b[A", "a|\nbcd"},
		{"down keeps the column", "ab\ncd\x01\x1b[A\x1b[C\x1b[B", "ab\nc|d"},
		{"home stays in the line", "ab\ncd\x01", "ab\n|cd"},
		{"unknown sequences vanish", "a\x1b[99~\x1b[5;5Xb\x1bxc", "abc|"},
		{"other controls vanish", "a\x00\x1c\x1fb", "ab|"},
		{"bidi override vanishes", "a\u202eb", "ab|"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 2, 3, len(c.keys)} { // however the bytes arrive
				e := newEditor(&history{}, nil, "")
				var d decoder
				for rest := c.keys; rest != ""; {
					n := min(size, len(rest))
					for _, k := range d.feed([]byte(rest[:n])) {
						e.key(k)
					}
					rest = rest[n:]
				}
				if got := e.shown(); got != c.want {
					t.Errorf("%d bytes at a time: got %q, want %q", size, got, c.want)
				}
			}
		})
	}
}

func TestDecoderEscape(t *testing.T) {
	t.Parallel()
	var d decoder
	if got := d.feed([]byte("\x1b")); got != nil || !d.waiting() {
		t.Errorf("feed(ESC) = %v, waiting %v; want nothing yet", got, d.waiting())
	}
	if got := d.flush(); len(got) != 1 || got[0].code != keyEscape {
		t.Errorf("flush = %v, want Esc", got)
	}
	if got := d.feed([]byte("b")); len(got) != 1 || got[0].r != 'b' {
		t.Errorf("after flush: %v, want b", got)
	}
	d.feed([]byte("\x1b[200~pasting"))
	if d.waiting() || d.flush() != nil {
		t.Error("a paste under way must not be given up")
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("a\x1b[200~x\x1b[201~\x1b[1;5D\xff\x1b"), 3)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		if size < 1 || len(p) > 1000 {
			return
		}
		run := func(size int) string {
			var d decoder
			e := newEditor(&history{}, []Command{{Name: "/help"}, {Name: "/history"}}, "")
			for rest := p; len(rest) > 0; {
				n := min(size, len(rest))
				for _, k := range d.feed(rest[:n]) {
					e.key(k)
				}
				rest = rest[n:]
			}
			rows, row, col := e.layout(styled("You: ", bold), 20)
			if row >= len(rows) || col > 20 {
				t.Fatalf("cursor at %d, %d outside of %d rows", row, col, len(rows))
			}
			e.menu()
			return e.shown()
		}
		if a, b := run(size), run(len(p)+1); a != b {
			t.Errorf("%q: %q in pieces of %d, %q at once", p, a, size, b)
		}
	})
}

func TestEditorLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		pos        int
		want       []string
	}{
		{"short", "ab", 2, []string{"> ab▮"}},
		{"full", "abcdef", 6, []string{"> abcdef▮"}},
		{"fold", "abcdefg", 7, []string{"> abcdef", "  g▮"}},
		{"cursor at the fold", "abcdefg", 6, []string{"> abcdef", "  ▮g"}},
		{"wide at the edge", "abcde中", 6, []string{"> abcde", "  中▮"}},
		{"lines", "a\n\nb", 2, []string{"> a", "  ▮", "  b"}},
		{"tab", "a\tb", 3, []string{"> a    b▮"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEditor(&history{}, nil, "")
			e.set(c.text)
			e.pos = c.pos
			rows, row, col := e.layout(styled("> ", 0), 8)
			var got []string
			for i, l := range rows {
				s := strings.TrimSuffix(encodeLines([]line{l}, false), "\n")
				if i == row {
					cut := 0
					for w, r := range s {
						if stringWidth(s[:w]) >= col {
							break
						}
						cut = w + len(string(r))
					}
					s = s[:cut] + "▮" + s[cut:]
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("layout (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHistoryFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history")
	h, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"one", "one", "a\nb", `back\slash \n`, "中文", strings.Repeat("x", maxHistoryEntry+1)} {
		if err := h.add(s); err != nil {
			t.Fatal(err)
		}
	}
	h, err = openHistory(path)
	if diff := cmp.Diff([]string{"one", "a\nb", `back\slash \n`, "中文"}, h.entries); err != nil || diff != "" {
		t.Errorf("read back: %v (-want +got):\n%s", err, diff)
	}
}

func TestHistoryIsCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history")
	var b strings.Builder
	b.WriteString("\xff\x1b[2J bad bytes\n\n")
	for i := range 2*maxHistory + 1 {
		fmt.Fprintf(&b, "entry %d\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(path)
	if err != nil || len(h.entries) != maxHistory || h.entries[maxHistory-1] != "entry 2000" {
		t.Errorf("%d entries, %v; want the newest %d", len(h.entries), err, maxHistory)
	}
	data, err := os.ReadFile(path)
	if n := strings.Count(string(data), "\n"); err != nil || n != maxHistory {
		t.Errorf("file has %d lines, %v; want %d", n, err, maxHistory)
	}
}

func TestHistorySurvivesTrouble(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, err := openHistory(dir) // a directory is no history
	if err == nil {
		t.Error("reading a directory: no error")
	}
	if err := h.add("x"); err == nil || len(h.entries) != 1 {
		t.Errorf("add = %v with %d entries, want an error and the entry kept", err, len(h.entries))
	}
}
