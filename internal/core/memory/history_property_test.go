package memory

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// spoil damages one file in one of many ways.
func spoil(t *testing.T, r *rand.Rand, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		return "absent"
	}
	write := func(b []byte) {
		must(t, os.WriteFile(path, b, 0o600))
	}
	switch r.IntN(7) {
	case 0:
		must(t, os.Remove(path))
		return "removed"
	case 1:
		write(nil)
		return "emptied"
	case 2:
		write(data[:r.IntN(len(data)+1)])
		return "cut"
	case 3:
		write(append(data, `{"cursor":"12x","timesta`...))
		return "torn"
	case 4:
		write([]byte("\x00\xff not what it was\n"))
		return "garbage"
	case 5:
		write([]byte("-7"))
		return "negative"
	}
	if len(data) > 0 {
		data[r.IntN(len(data))] ^= byte(1 + r.IntN(127))
		write(data)
	}
	return "flipped"
}

// Invariant 6: whatever happens to one file at a time, cursors only grow.
func TestCursorsNeverGoBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 7))
			p := newPlace(t, storetest.Disk)
			h := p.open(t)
			files := []string{
				filepath.Join(p.dir, fileHistory), filepath.Join(p.dir, fileState),
				filepath.Join(p.ws, "memory", fileHistory), filepath.Join(p.ws, "memory", fileCursor), filepath.Join(p.ws, "memory", fileDreamCursor),
			}
			var last, read int64
			var trail []string
			for i := range 60 {
				switch r.IntN(6) {
				case 0:
					path := files[r.IntN(len(files))]
					trail = append(trail, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path)+" "+spoil(t, r, path))
				case 1:
					h = p.open(t)
					trail = append(trail, "reopen")
				case 2:
					if err := h.SetDreamCursor(t.Context(), last-int64(r.IntN(3))); err != nil {
						t.Fatal(err)
					}
				case 3:
					must(t, h.compact(t.Context()))
				case 4:
					_, err := h.forget(t.Context(), func(e Entry) (Entry, bool) { return e, r.IntN(5) > 0 })
					must(t, err)
				}
				n := add(t, h, fmt.Sprintf("entry %d", i))
				if n <= last {
					t.Fatalf("cursor %d after %d: %q", n, last, trail)
				}
				last = n
				d := dream(t, h)
				if d < read || d > last {
					t.Fatalf("dream cursor %d, was %d, newest %d: %q", d, read, last, trail)
				}
				read = d
				es := all(t, h)
				for j := 1; j < len(es); j++ {
					if es[j].Cursor < es[j-1].Cursor {
						t.Fatalf("order: %v", cursors(es))
					}
				}
				if len(es) == 0 || es[len(es)-1].Cursor != n {
					t.Fatalf("the new entry is not there: %v, %q", cursors(es), trail)
				}
			}
		})
	}
}

func TestUnreadableLinesAreKeptAside(t *testing.T) {
	storetest.Each(t, testUnreadableLinesAreKeptAside)
}

func testUnreadableLinesAreKeptAside(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	h := p.open(t)
	add(t, h, "one")
	put(t, p.store(t), fileHistory, p.file(t, fileHistory)+"{broken\n"+`{"cursor":"x","timestamp":"2026-01-01 00:00","content":"no cursor"}`+"\n")
	add(t, h, "two")
	if got := len(all(t, h)); got != 2 {
		t.Errorf("%d entries, want 2", got)
	}
	_, err := h.forget(t.Context(), func(e Entry) (Entry, bool) { return e, e.Content != "one" })
	must(t, err)
	if got := p.file(t, fileRejected); got != "{broken\n"+`{"cursor":"x","timestamp":"2026-01-01 00:00","content":"no cursor"}`+"\n" {
		t.Errorf("kept aside: %q", got)
	}
}
