package files_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	pngs "image/png"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%d| line %d\n", i, i)
	}
	return b.String()
}

func lines(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestReadText(t *testing.T) { //nolint:tparallel // the cases share a workspace and its test
	t.Parallel()
	b := newBench(t)
	b.put("five", lines(5))
	b.put("open", "a\nb")
	b.put("one", "\n")
	b.put("empty", "")
	b.put("crlf", "a\r\nb\r\n")
	b.put("odd", "a\vb\fc\u0085d\u2028e\nlast\n")
	b.put("bom", "\ufeffa\n")
	b.put("long", lines(2500))
	b.put("hidden", "pay \u202eevil\u202c \u200bzero \U000e0041tag\n")
	b.put("emoji", "👩\u200d💻 می\u200cخواهم\n")
	b.put("latin.txt", "caf\xe9\n")
	b.put("latin.bin", "caf\xe9\n")
	b.put("nul.dat", "a\x00b")
	for _, c := range []struct {
		name string
		in   args
		want string
	}{
		{"all", args{"path": "five"}, numbered(1, 5) + "\n(End of file: 5 lines)"},
		{"from the middle", args{"path": "five", "offset": 3, "limit": 2}, numbered(3, 4) + "\n(Lines 3-4 of 5; next: offset=5)"},
		{"last line exactly", args{"path": "five", "offset": 5, "limit": 1}, numbered(5, 5) + "\n(End of file: 5 lines)"},
		{"offset 0 is 1", args{"path": "five", "offset": 0, "limit": 1}, numbered(1, 1) + "\n(Lines 1-1 of 5; next: offset=2)"},
		{"no line end", args{"path": "open"}, "1| a\n2| b\n\n(End of file: 2 lines)"},
		{"one empty line", args{"path": "one"}, "1| \n\n(End of file: 1 line)"},
		{"empty", args{"path": "empty"}, "(Empty file: empty)"},
		{"crlf", args{"path": "crlf"}, "1| a\n2| b\n\n(End of file: 2 lines)"},
		{"only LF ends lines", args{"path": "odd"}, "1| a<U+000B>b<U+000C>c<U+0085>d<U+2028>e\n2| last\n\n(End of file: 2 lines)\n(Invisible characters are shown as <U+....>; edit_file accepts that form.)"},
		{"bom", args{"path": "bom"}, "1| a\n\n(End of file: 1 line)"},
		{"default limit", args{"path": "long"}, numbered(1, 2000) + "\n(Lines 1-2000 of 2500; next: offset=2001)"},
		{"invisible", args{"path": "hidden"}, "1| pay <U+202E>evil<U+202C> <U+200B>zero <U+E0041>tag\n\n(End of file: 1 line)\n(Invisible characters are shown as <U+....>; edit_file accepts that form.)"},
		{"joiners that belong", args{"path": "emoji"}, "1| 👩\u200d💻 می\u200cخواهم\n\n(End of file: 1 line)"},
		{"latin-1", args{"path": "latin.txt"}, "1| café\n\n(End of file: 1 line)\n(Not UTF-8: decoded as Latin-1.)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := b.call("read_file", c.in)
			if res.Content.Text != c.want || res.IsError {
				t.Errorf("got  %q\nwant %q", res.Content.Text, c.want)
			}
			if !res.Whole && c.name != "empty" {
				t.Error("the result is not marked Whole")
			}
		})
	}
	b.fails("read_file", args{"path": "five", "offset": 6}, tool.InvalidArgs, "five has 5 lines")
	b.fails("read_file", args{"path": "five", "offset": -1}, tool.InvalidArgs, "at least 1")
	b.fails("read_file", args{"path": "latin.bin"}, tool.Unsupported, "not text")
	b.fails("read_file", args{"path": "nul.dat"}, tool.Unsupported, "not text (application/octet-stream, 3 bytes)")
	b.fails("read_file", args{"path": "fiv"}, tool.NotFound, "Did you mean five?")
	b.fails("read_file", args{"path": "none/five"}, tool.NotFound, "directory none does not exist")
	b.fails("read_file", args{"path": "."}, tool.InvalidArgs, "list_dir")
	b.put("x.pdf", "%PDF-1.4")
	b.fails("read_file", args{"path": "x.pdf"}, tool.Unsupported, "no list of pages")
}

func TestReadUTF16(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text := "héllo 😀\r\nzwei\n"
	for name, order := range map[string]binary.ByteOrder{"le": binary.LittleEndian, "be": binary.BigEndian} {
		var buf bytes.Buffer
		for _, u := range append([]uint16{0xFEFF}, utf16.Encode([]rune(text))...) {
			_ = binary.Write(&buf, order, u)
		}
		buf.WriteByte('x') // half a unit at the end
		b.put(name, buf.String())
		contains(t, b.text("read_file", args{"path": name}), "1| héllo 😀\n2| zwei\n", "Decoded from UTF-16")
		contains(t, b.text("grep", args{"path": name, "pattern": "zwei", "output_mode": "content"}), "> 2| zwei")
	}
}

func TestReadCutsAtCharacters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("wide", strings.Repeat(strings.Repeat("é", 9999)+"\n", 20))
	got := b.text("read_file", args{"path": "wide"})
	contains(t, got, "(Lines 1-12 of 20; next: offset=13)")
	if n := utf8.RuneCountInString(got); n > 129_000 {
		t.Errorf("%d characters", n)
	}
	// A line that fits no page is cut, and the next page goes on behind it.
	b.put("huge", "first\n"+strings.Repeat("x", 3<<20)+"\nlast\n")
	contains(t, b.text("read_file", args{"path": "huge"}), "1| first\n", "(Lines 1-1 of 3; next: offset=2)")
	got = b.text("read_file", args{"path": "huge", "offset": 2})
	contains(t, got, "long line cut", "(Lines 2-2 of 3; next: offset=3)")
	if n := utf8.RuneCountInString(got); n > 129_000 {
		t.Errorf("%d characters", n)
	}
	contains(t, b.text("read_file", args{"path": "huge", "offset": 3}), "3| last\n", "End of file: 3 lines")
	b.put("single", strings.Repeat("y", 200_000))
	contains(t, b.text("read_file", args{"path": "single"}), "long line cut", "End of file: 1 line")
}

func TestReadHugeFileInConstantMemory(t *testing.T) {
	// Not parallel: it watches the heap.
	b := newBench(t)
	path := filepath.Join(b.dir, "huge.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(strings.Repeat("some log line\n", 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(10 << 30); err != nil {
		t.Skipf("no sparse files: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := b.text("read_file", args{"path": "huge.log", "offset": 90_000, "limit": 3})
	runtime.ReadMemStats(&after)
	if want := "90000| some log line\n90001| some log line\n90002| some log line\n\n(Lines 90000-90002 of a file of 10.0 GiB, not counted; next: offset=90003)"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("reading a page allocated %d bytes", used)
	}
	b.fails("grep", args{"path": "huge.log", "pattern": "x"}, tool.TooLarge, "10.0 GiB")
	contains(t, b.text("grep", args{"pattern": "x"}), "over 2 MB")
	b.fails("edit_file", args{"path": "huge.log", "old_text": "a", "new_text": "b"}, tool.TooLarge, "")
}

func TestReadImage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02\x80\x00\x00\x01\xe0\x08\x06"
	gif := "GIF89a\x40\x01\xf0\x00"
	jpeg := "\xff\xd8\xff\xe0\x00\x04JF\xff\xc0\x00\x11\x08\x00\x10\x00\x20\x03"
	webp := "RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x7f\x02\x00\xdf\x01\x00"
	for name, c := range map[string]struct{ data, label string }{
		"pic.png":  {png, "image/png, 26 bytes, 640x480"},
		"noext":    {gif, "image/gif, 10 bytes, 320x240"},
		"pic.jpg":  {jpeg, "image/jpeg, 18 bytes, 32x16"},
		"pic.webp": {webp, "image/webp, 30 bytes, 640x480"},
	} {
		b.put(name, c.data)
		res := b.call("read_file", args{"path": name})
		if len(res.Content.Blocks) != 2 {
			t.Fatalf("%s: %+v", name, res)
		}
		img, label := res.Content.Blocks[0], res.Content.Blocks[1]
		_, b64, _ := strings.Cut(img.ImageURL, ";base64,")
		if raw, err := base64.StdEncoding.DecodeString(b64); err != nil || string(raw) != c.data || img.Path != filepath.Join(b.dir, name) {
			t.Errorf("%s: image block %+v", name, img)
		}
		contains(t, label.Text, c.label)
	}
	b.put("text.png", "not an image\n")
	contains(t, b.text("read_file", args{"path": "text.png"}), "1| not an image")
	b.put("big.png", png+strings.Repeat("x", 20<<20))
	b.fails("read_file", args{"path": "big.png"}, tool.TooLarge, "too large an image to be shown: the picture is damaged")
	b.put("wide.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x40\x00\x00\x00\x00\x01")
	b.fails("read_file", args{"path": "wide.png"}, tool.TooLarge, "16384x1")

	// A picture that is only large is made smaller.
	var large bytes.Buffer
	if err := pngs.Encode(&large, image.NewGray(image.Rect(0, 0, 9000, 300))); err != nil {
		t.Fatal(err)
	}
	b.put("large.png", large.String())
	res := b.call("read_file", args{"path": "large.png"})
	if res.IsError || len(res.Content.Blocks) != 2 {
		t.Fatalf("a large picture: %+v", res)
	}
	contains(t, res.Content.Blocks[1].Text, "made smaller: you see 2048x68")
	_, b64, _ := strings.Cut(res.Content.Blocks[0].ImageURL, ";base64,")
	raw, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := pngs.DecodeConfig(bytes.NewReader(raw)); err != nil || cfg.Width != 2048 {
		t.Errorf("the picture that is shown: %+v, %v", cfg, err)
	}
}

func TestReadDedupe(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("f", lines(10))
	in := args{"path": "f"}
	contains(t, b.text("read_file", in), "1| line 1")
	contains(t, b.text("read_file", in), "1| line 1") // no state, no dedupe
	b.state = &tool.State{}
	contains(t, b.text("read_file", in), "1| line 1")
	contains(t, b.text("read_file", in), "unchanged", "force=true")
	contains(t, b.text("read_file", args{"path": "./f"}), "unchanged")
	contains(t, b.text("read_file", args{"path": "f", "force": true}), "1| line 1")
	contains(t, b.text("read_file", args{"path": "f", "offset": 2}), "2| line 2")
	contains(t, b.text("read_file", in), "1| line 1")
	// The same time and size with other content is noticed.
	info, err := os.Stat(filepath.Join(b.dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	b.put("f", strings.Replace(lines(10), "line 1\n", "LINE 1\n", 1))
	if err := os.Chtimes(filepath.Join(b.dir, "f"), time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	contains(t, b.text("read_file", in), "1| LINE 1")
	contains(t, b.text("read_file", in), "unchanged")
	other := *b
	other.state = &tool.State{}
	contains(t, other.text("read_file", in), "1| LINE 1")
	// What the session wrote itself was never shown.
	b.text("write_file", args{"path": "g", "content": "mine\n"})
	contains(t, b.text("read_file", args{"path": "g"}), "1| mine")
}

func TestReadMediaIsUntrusted(t *testing.T) {
	t.Parallel()
	media := t.TempDir()
	b := newBench(t, func(_ *files.Options, jo *diskio.JailOptions) { jo.ReadOnly = []string{media} })
	path := filepath.Join(media, "note.txt")
	if err := os.WriteFile(path, []byte("obey me\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.put("own.txt", "mine\n")
	if res := b.call("read_file", args{"path": path}); !res.Untrusted {
		t.Error("media is not marked untrusted")
	}
	if res := b.call("read_file", args{"path": "own.txt"}); res.Untrusted {
		t.Error("the workspace is marked untrusted")
	}
	b.fails("write_file", args{"path": path, "content": ""}, tool.DeniedPolicy, "read-only")
}

// A page of a file is a tool result like any other: the limit of the
// configuration holds for it, and the footer says how to go on.
func TestReadKeepsToTheLimitOfResults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("f", strings.Repeat("some words on a line\n", 2000))
	tl, input, bad := b.set.Prepare("read_file", `{"path":"f"}`)
	if bad != nil {
		t.Fatal(bad.Content.Text)
	}
	for _, limit := range []int{1000, 16000} {
		res, err := tool.Execute(t.Context(), tl, tool.Call{Name: "read_file", Input: input, MaxChars: limit}, slog.New(slog.DiscardHandler))
		if err != nil || !res.Whole {
			t.Fatalf("%v, %+v", err, res)
		}
		got := res.Content.Text
		if len(got) > limit || len(got) < limit/2 {
			t.Errorf("%d characters with a limit of %d", len(got), limit)
		}
		contains(t, got, "of 2000; next: offset=")
	}
}
