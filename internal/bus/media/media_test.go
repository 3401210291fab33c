package media_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
)

func TestSweepAndNames(t *testing.T) {
	t.Parallel()
	m := &media.Store{Dir: filepath.Join(t.TempDir(), "in"), Max: 10}
	old, err := m.Save(t.Context(), "../../etc/passwd\x00.png", strings.NewReader("\x89PNG\r\n\x1a\n"))
	if err != nil || filepath.Dir(old.Path) != m.Dir || old.MIME != "image/png" {
		t.Fatalf("saved %+v, %v", old, err)
	}
	if _, err := m.Save(t.Context(), "big", strings.NewReader("12345678901")); !errors.Is(err, media.ErrTooLarge) {
		t.Errorf("a file over the limit: %v", err)
	}
	fresh, err := m.Save(t.Context(), "NUL.txt", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour * 24 * 40)
	if err := os.Chtimes(old.Path, long, long); err != nil {
		t.Fatal(err)
	}
	if n, err := m.Sweep(t.Context(), time.Now().Add(-time.Hour*24*30)); n != 1 || err != nil {
		t.Errorf("swept %d, %v, want 1", n, err)
	}
	if _, err := os.Stat(fresh.Path); err != nil {
		t.Errorf("a new file is gone: %v", err)
	}
	for in, want := range map[string]string{"": "file", "a/b\\c": "a_b_c", "con.txt": "_con.txt", ".hidden.": "hidden", "COM1": "_COM1", "common": "common", "u\u0308.txt": "\u00fc.txt", "x\u202egpj.exe": "x_gpj.exe", "a] [image: b": "a) (image_ b", "a\u2028b": "a_b"} {
		if got := media.FileName(in); got != want {
			t.Errorf("FileName(%q) = %q, want %q", in, got, want)
		}
	}
}

// A sender knows more about most files than their first bytes say, but not what a
// picture is.
func TestDeclared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, found, declared string
		want                  string
		ok                    bool
	}{
		{"a table that looks like text", "text/plain; charset=utf-8", "text/csv", "text/csv", true},
		{"a picture", "image/png", "image/png", "image/png", true},
		{"a picture of another kind", "image/gif", "image/png", "image/gif", false},
		{"a page that claims to be a picture", "text/html; charset=utf-8", "image/png", "text/html; charset=utf-8", false},
	} {
		got, ok := media.Declared(bus.Media{Path: "/p", MIME: c.found}, c.declared)
		if got.MIME != c.want || got.Path != "/p" || ok != c.ok {
			t.Errorf("%s: %+v, %v, want %s, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
