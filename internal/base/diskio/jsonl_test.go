package diskio_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

type line struct {
	Offset int64
	Text   string
	Whole  bool
}

func forward(t *testing.T, data []byte) []line {
	t.Helper()
	var got []line
	for l, err := range diskio.Lines(bytes.NewReader(data), 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line{l.Offset, string(l.Bytes), l.Whole})
	}
	return got
}

func backward(t *testing.T, data []byte) []line {
	t.Helper()
	var got []line
	for l, err := range diskio.LinesBackward(bytes.NewReader(data), int64(len(data))) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line{l.Offset, string(l.Bytes), l.Whole})
	}
	slices.Reverse(got)
	return got
}

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 200_000)
	for _, c := range []struct {
		name, data string
		want       []line
	}{
		{"empty", "", nil},
		{"one", "a\n", []line{{0, "a", true}}},
		{"torn", "a\nbc", []line{{0, "a", true}, {2, "bc", false}}},
		{"only torn", "abc", []line{{0, "abc", false}}},
		{"blank lines", "\n\na\n\n", []line{{0, "", true}, {1, "", true}, {2, "a", true}, {4, "", true}}},
		{"longer than any buffer", long + "\nb\n" + long, []line{{0, long, true}, {200_001, "b", true}, {200_003, long, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, forward(t, []byte(c.data))); diff != "" {
				t.Errorf("forward (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, backward(t, []byte(c.data))); diff != "" {
				t.Errorf("backward (-want +got):\n%s", diff)
			}
		})
	}
}

type failing struct{ after int }

func (f *failing) Read(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, io.ErrClosedPipe
	}
	return copy(p, "line\n"), nil
}

func TestLinesReportsReadErrors(t *testing.T) {
	t.Parallel()
	n := 0
	var last error
	for _, err := range diskio.Lines(&failing{after: 3}, 0) {
		if last = err; err == nil {
			n++
		}
	}
	if n != 3 || !errors.Is(last, io.ErrClosedPipe) {
		t.Errorf("got %d lines and %v, want 3 and the read error", n, last)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"))
	f.Add([]byte("\n"))
	f.Add(bytes.Repeat([]byte("0123456789\n"), 2000))
	f.Fuzz(func(t *testing.T, data []byte) {
		fwd := forward(t, data)
		if diff := cmp.Diff(fwd, backward(t, data)); diff != "" {
			t.Errorf("the two directions differ (-forward +backward):\n%s", diff)
		}
		var joined []byte
		for _, l := range fwd {
			if l.Offset != int64(len(joined)) {
				t.Errorf("offset %d, want %d", l.Offset, len(joined))
			}
			joined = append(joined, l.Text...)
			if l.Whole {
				joined = append(joined, '\n')
			}
		}
		if !bytes.Equal(joined, data) {
			t.Errorf("joined lines = %q, want %q", joined, data)
		}
	})
}

func TestRepairTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, data, kept, aside string }{
		{"whole", "a\nb\n", "a\nb\n", ""},
		{"torn", "a\nbc", "a\n", "bc\n"},
		{"nothing but torn", "abc", "", "abc\n"},
		{"empty", "", "", ""},
		{"long", "a\n" + strings.Repeat("z", 70_000), "a\n", strings.Repeat("z", 70_000) + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			size, torn, err := diskio.RepairTail(f, path+".torn", true)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if size != int64(len(c.kept)) || torn != int64(len(c.data)-len(c.kept)) {
				t.Errorf("size, torn = %d, %d; want %d, %d", size, torn, len(c.kept), len(c.data)-len(c.kept))
			}
			got, _ := os.ReadFile(path)
			aside, _ := os.ReadFile(path + ".torn")
			if string(got) != c.kept || string(aside) != c.aside {
				t.Errorf("kept %d bytes, aside %d; want %d, %d", len(got), len(aside), len(c.kept), len(c.aside))
			}
		})
	}
}

func TestRepairTailKeepsLogWhenAsideFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	if err := os.WriteFile(path, []byte("a\nbc"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := diskio.RepairTail(f, dir, false); err == nil {
		t.Error("the tail was kept in a directory")
	}
	if got, _ := os.ReadFile(path); string(got) != "a\nbc" {
		t.Errorf("log = %q, want it untouched", got)
	}
}

func TestAppendLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := diskio.AppendLines(f, 0, []byte("a\nb\n")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := diskio.AppendLines(f, 4, []byte("c\n")); !errors.Is(err, diskio.ErrLogBroken) || !errors.Is(err, os.ErrClosed) {
		t.Errorf("append to a closed file: %v, want ErrLogBroken and the cause", err)
	}
	ro, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	for _, c := range []struct {
		end  int64
		tail string
		want bool
	}{{4, "b\n", true}, {2, "a\n", true}, {2, "b\n", false}, {1, "a\n", false}, {9, "b\n", false}} {
		if got, err := diskio.SameTail(ro, c.end, []byte(c.tail)); err != nil || got != c.want {
			t.Errorf("SameTail(%d, %q) = %v, %v; want %v", c.end, c.tail, got, err, c.want)
		}
	}
}
