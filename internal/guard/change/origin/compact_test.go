package origin_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// busy is a store that another process writes to whenever a log is replaced.
type busy struct {
	store.Store
	meddle func()
}

func (b busy) Log(ctx context.Context, name string) (store.Log, error) {
	l, err := b.Store.Log(ctx, name)
	return busyLog{l, b.meddle}, err
}

type busyLog struct {
	store.Log
	meddle func()
}

func (l busyLog) Replace(ctx context.Context, at int64, lines []byte) error {
	l.meddle()
	return l.Log.Replace(ctx, at, lines)
}

// A long record is written again, and what others add meanwhile stays.
func TestLongRecord(t *testing.T) { storetest.Each(t, testLongRecord) }

func testLongRecord(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, quiet := range []bool{true, false} {
		t.Run(fmt.Sprint(quiet), func(t *testing.T) {
			t.Parallel()
			dir, root := t.TempDir(), t.TempDir()
			at := func(s store.Store) *origin.Store {
				o, err := origin.Open(origin.Options{Store: s, Name: "ws", Root: root})
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			long := bytes.Repeat([]byte(`{"op":"mark","path":"page.md"}`+"\n"), 5<<20/31)
			for _, name := range []string{"ws.jsonl", "ws.copy.jsonl"} {
				if _, err := open(t, dir).Put(t.Context(), name, long, store.Missing, false); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]bool{"page.md": true}
			other := at(open(t, dir))
			s := at(busy{open(t, dir), func() {
				name := fmt.Sprint("more", len(want))
				if quiet {
					return
				}
				if err := other.Mark(filepath.Join(root, name)); err != nil {
					t.Error(err)
				}
				want[name] = true
			}})
			if !s.Foreign(filepath.Join(root, "page.md")) {
				t.Error("the page is not marked")
			}
			for name := range want {
				if !at(open(t, dir)).Foreign(filepath.Join(root, name)) {
					t.Errorf("the mark of %s is lost", name)
				}
			}
			for _, name := range []string{"ws.jsonl", "ws.copy.jsonl"} {
				if info, err := open(t, dir).Stat(t.Context(), name); err != nil || quiet && info.Size > 1000 {
					t.Errorf("%s has %d bytes, %v", name, info.Size, err)
				}
			}
		})
	}
}

// A command that changes nothing adds the same few lines to the record, however
// many files are marked already.
func TestRecordGrowsWithWhatChanges(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	command := func(does func()) (lines int) {
		w, err := r.store.Begin(origin.Running{})
		r.must(err)
		does()
		r.must(w.Foreign(t.Context()))
		b, err := os.ReadFile(filepath.Join(r.dir, "ws.jsonl"))
		r.must(err)
		return bytes.Count(b, []byte("\n"))
	}
	r.old("mine.txt", text)
	first := command(func() {
		for i := range 50 {
			r.write(fmt.Sprintf("page%d.txt", i), fmt.Sprint(i, text))
			r.write(fmt.Sprintf("repo/sub%d/page.txt", i), fmt.Sprint(i, text))
		}
	})
	for i := range 50 {
		settleClock(t, r.path(fmt.Sprintf("page%d.txt", i)))
		settleClock(t, r.path(fmt.Sprintf("repo/sub%d/page.txt", i)))
	}
	if n := command(func() {}) - first; n > 3 {
		t.Errorf("a command that changed nothing added %d lines, want its beginning, end and settlement", n)
	}
	r.write("page7.txt", "changed "+text)
	settleClock(t, r.path("page7.txt"))
	r.reopen()
	for _, name := range []string{"page3.txt", "page7.txt", "repo/sub3/page.txt"} {
		r.want(name, true)
	}
	r.want("mine.txt", false)
}
