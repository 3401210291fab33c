package memory

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

type place struct {
	dir, ws string
	at      storetest.Open
}

func newPlace(t *testing.T, open storetest.Open) place {
	t.Helper()
	p := place{dir: filepath.Join(t.TempDir(), "memory", "id"), ws: t.TempDir(), at: open}
	if err := os.MkdirAll(filepath.Join(p.ws, "memory"), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// store is the place as another process opens it.
func (p place) store(t *testing.T) store.Store {
	t.Helper()
	return p.at(t, p.dir)
}

// file is what a log or a document holds.
func (p place) file(t *testing.T, name string) string {
	t.Helper()
	return doc(t, p.store(t), name)
}

func doc(t *testing.T, s store.Store, name string) string {
	t.Helper()
	data, v, err := s.Doc(t.Context(), name)
	must(t, err)
	if v == store.Missing {
		t.Errorf("%s is missing", s.Where(name))
	}
	return string(data)
}

// put replaces a log or a document, as another program does.
func put(t *testing.T, s store.Store, name, body string) {
	t.Helper()
	_, err := s.Put(t.Context(), name, []byte(body), store.Any, false)
	must(t, err)
}

func (p place) open(t *testing.T) *History {
	t.Helper()
	h, err := OpenHistory(HistoryOptions{Store: p.store(t), Workspace: p.ws, Now: func() time.Time { return time.Date(2026, 5, 1, 9, 30, 0, 0, time.Local) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, h.Close()) })
	return h
}

// takeOver is open at the first start with a workspace.
func (p place) takeOver(t *testing.T) *History {
	t.Helper()
	n, err := TakeOver(t.Context(), HistoryOptions{Store: p.store(t), Workspace: p.ws})
	must(t, err)
	h := p.open(t)
	if got := len(all(t, h)); got != n {
		t.Errorf("%d entries were taken over, there are %d", n, got)
	}
	return h
}

func (p place) write(t *testing.T, name, body string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(p.ws, "memory", name), []byte(body), 0o600))
}

func (p place) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.ws, "memory", name))
	must(t, err)
	return string(b)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, h *History, content string) int64 {
	t.Helper()
	n, err := h.Append(t.Context(), Entry{Content: content, Session: "cli:direct"})
	must(t, err)
	return n
}

func all(t *testing.T, h *History) []Entry {
	t.Helper()
	es, err := h.since(t.Context(), 0)
	must(t, err)
	return es
}

func cursors(es []Entry) []int64 {
	var out []int64
	for _, e := range es {
		out = append(out, e.Cursor)
	}
	return out
}

func dream(t *testing.T, h *History) int64 {
	t.Helper()
	n, err := h.DreamCursor(t.Context())
	must(t, err)
	return n
}

func TestAppendAndRead(t *testing.T) { storetest.Each(t, testAppendAndRead) }

func testAppendAndRead(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	h := p.open(t)
	for i, c := range []string{"one", "<think>hm</think>two \n", "three"} {
		if got := add(t, h, c); got != int64(i+1) {
			t.Errorf("cursor of %q = %d, want %d", c, got, i+1)
		}
	}
	if _, err := h.Append(t.Context(), Entry{Content: " <think>x</think> "}); err == nil {
		t.Error("an empty entry was added")
	}
	n, err := h.Append(t.Context(), Entry{Content: "secret of a group", Session: "telegram:-1", Scope: "telegram:-1/7", Sender: "7", Tainted: true, Range: "r1"})
	must(t, err)
	again, err := h.Append(t.Context(), Entry{Content: "another text", Range: "r1"})
	must(t, err)
	if n != 4 || again != n {
		t.Errorf("the same range got cursors %d and %d", n, again)
	}
	want := []Entry{
		{Cursor: 1, Time: "2026-05-01 09:30", Content: "one", Session: "cli:direct"},
		{Cursor: 2, Time: "2026-05-01 09:30", Content: "two", Session: "cli:direct"},
		{Cursor: 3, Time: "2026-05-01 09:30", Content: "three", Session: "cli:direct"},
		{Cursor: 4, Time: "2026-05-01 09:30", Content: "secret of a group", Session: "telegram:-1", Scope: "telegram:-1/7", Sender: "7", Tainted: true, Range: "r1"},
	}
	for name, hist := range map[string]*History{"same": h, "reopened": p.open(t)} {
		if diff := cmp.Diff(want, all(t, hist)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got, err := hist.Recent(t.Context(), 2, func(e Entry) bool { return e.Scope == "" }); err != nil || len(got) != 2 || got[0].Content != "two" {
			t.Errorf("%s: recent = %v, %v", name, got, err)
		}
		if c, ok, err := hist.has(t.Context(), "r1"); c != 4 || !ok || err != nil {
			t.Errorf("%s: Has = %d, %v, %v", name, c, ok, err)
		}
	}
	mirror := p.read(t, "history.jsonl")
	if strings.Contains(mirror, "secret of a group") || strings.Count(mirror, "\n") != 3 {
		t.Errorf("mirror:\n%s", mirror)
	}
	if p.read(t, ".cursor") != "4" || p.read(t, ".dream_cursor") != "0" {
		t.Errorf("cursors in the workspace: %s, %s", p.read(t, ".cursor"), p.read(t, ".dream_cursor"))
	}
}

func TestDreamCursorIsBounded(t *testing.T) { storetest.Each(t, testDreamCursorIsBounded) }

func testDreamCursorIsBounded(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	h := p.open(t)
	add(t, h, "one")
	add(t, h, "two")
	for _, c := range []struct{ set, want int64 }{{1, 1}, {0, 1}, {99, 2}, {-5, 2}} {
		must(t, h.SetDreamCursor(t.Context(), c.set))
		if got := dream(t, h); got != c.want {
			t.Errorf("after SetDreamCursor(%d): %d, want %d", c.set, got, c.want)
		}
	}
	type ds struct{ Attempts int }
	must(t, h.setDreamState(t.Context(), ds{3}))
	var got ds
	if ok, err := p.open(t).dreamState(t.Context(), &got); !ok || err != nil || got.Attempts != 3 {
		t.Errorf("dream state = %+v, %v, %v", got, ok, err)
	}
}

func TestCompactKeepsUnread(t *testing.T) { storetest.Each(t, testCompactKeepsUnread) }

func testCompactKeepsUnread(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	h := p.open(t)
	var lines []Entry
	for i := range maxEntries + 50 {
		lines = append(lines, Entry{Cursor: int64(i + 1), Time: "2026-05-01 09:30", Content: "x"})
	}
	add(t, h, "first")
	put(t, p.store(t), fileHistory, string(render(lines)))
	must(t, h.SetDreamCursor(t.Context(), 20))
	must(t, h.compact(t.Context()))
	es := all(t, h)
	if len(es) != maxEntries+30 || es[0].Cursor != 21 {
		t.Fatalf("%d entries from cursor %d; unread ones must stay", len(es), es[0].Cursor)
	}
	must(t, h.SetDreamCursor(t.Context(), 1<<40))
	must(t, h.compact(t.Context()))
	if es = all(t, h); len(es) != maxEntries || es[0].Cursor != 51 {
		t.Errorf("%d entries from cursor %d", len(es), es[0].Cursor)
	}
	if got := add(t, h, "next"); got != maxEntries+51 {
		t.Errorf("next cursor = %d", got)
	}
}

func TestForget(t *testing.T) { storetest.Each(t, testForget) }

func testForget(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	h := p.open(t)
	for _, c := range []string{"likes tea", "likes coffee and tea", "works at X"} {
		add(t, h, c)
	}
	n, err := h.forget(t.Context(), func(e Entry) (Entry, bool) {
		e.Content = strings.ReplaceAll(e.Content, " and tea", "")
		return e, e.Content != "works at X"
	})
	if n != 2 || err != nil {
		t.Fatalf("changed %d, %v", n, err)
	}
	for name, body := range map[string]string{"mirror": p.read(t, "history.jsonl"), "truth": p.file(t, fileHistory)} {
		if strings.Contains(body, "works at") || strings.Contains(body, "and tea") || strings.Count(body, "\n") != 2 {
			t.Errorf("%s:\n%s", name, body)
		}
	}
	if got := add(t, h, "new"); got != 4 {
		t.Errorf("the cursor of what was forgotten is used again: %d", got)
	}
}

func file(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// mirrorAgain makes the copy what it should be and reports whether it was
// something else.
func mirrorAgain(t *testing.T, h *History) (changed bool, err error) {
	t.Helper()
	err = h.update(t.Context(), func() (err error) {
		changed, err = h.writeCopies(t.Context())
		return err
	})
	return changed, err
}

func TestMirrorIsRestored(t *testing.T) { storetest.Each(t, testMirrorIsRestored) }

func testMirrorIsRestored(t *testing.T, open storetest.Open) {
	t.Parallel()
	cases := map[string]func(t *testing.T, p place){
		"changed": func(t *testing.T, p place) { p.write(t, "history.jsonl", "I was here\n") },
		"emptied": func(t *testing.T, p place) { p.write(t, "history.jsonl", "") },
		"removed": func(t *testing.T, p place) { must(t, os.RemoveAll(filepath.Join(p.ws, "memory"))) },
		"cursors": func(t *testing.T, p place) { p.write(t, ".cursor", "1e9"); p.write(t, ".dream_cursor", "77") },
		"linked": func(t *testing.T, p place) {
			name := filepath.Join(p.ws, "memory", "history.jsonl")
			must(t, os.Remove(name))
			must(t, os.WriteFile(filepath.Join(p.ws, "victim"), []byte("precious"), 0o600))
			must(t, os.Symlink(filepath.Join(p.ws, "victim"), name))
		},
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, open)
			h := p.open(t)
			add(t, h, "one")
			want := p.read(t, "history.jsonl")
			spoil(t, p)
			if changed, err := mirrorAgain(t, h); !changed || err != nil {
				t.Errorf("mirror = %v, %v", changed, err)
			}
			if got := p.read(t, "history.jsonl"); got != want {
				t.Errorf("mirror = %q, want %q", got, want)
			}
			dreamt := "0"
			if name == "cursors" {
				dreamt = "1" // as far as there are entries: Python's Dream never goes back
			}
			if p.read(t, ".cursor") != "1" || p.read(t, ".dream_cursor") != dreamt {
				t.Error("cursors were not restored")
			}
			if name == "linked" && file(t, filepath.Join(p.ws, "victim")) != "precious" {
				t.Error("wrote through a link")
			}
			if changed, err := mirrorAgain(t, h); changed || err != nil {
				t.Errorf("second mirror = %v, %v", changed, err)
			}
		})
	}
}

// What the Python version dreamt of is not dreamt of again by it. Our own
// Dream goes by what the data folder says.
func TestDreamCursorOfPythonStays(t *testing.T) { storetest.Each(t, testDreamCursorOfPythonStays) }

func testDreamCursorOfPythonStays(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	h := p.open(t)
	for _, s := range []string{"one", "two", "three"} {
		add(t, h, s)
	}
	p.write(t, ".dream_cursor", "2\n")
	add(t, h, "four")
	if got := p.read(t, ".dream_cursor"); got != "2" {
		t.Errorf("the copy says %s, want 2", got)
	}
	if got := dream(t, h); got != 0 {
		t.Errorf("our cursor is %d, want 0", got)
	}
}

// What the Python version, or a command, wrote while we were away is not lost,
// but it is not used either before a person takes it.
func TestForeignEntriesWait(t *testing.T) { storetest.Each(t, testForeignEntriesWait) }

func testForeignEntriesWait(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	add(t, p.open(t), "ours")
	p.write(t, "history.jsonl", p.read(t, "history.jsonl")+`{"cursor":2,"timestamp":"2026-05-02 10:00","content":"theirs","session_key":"cli:direct"}`+"\n")
	p.write(t, ".cursor", "9000")
	p.write(t, ".dream_cursor", "9000")
	for range 2 {
		h := p.open(t)
		if es := all(t, h); len(es) != 1 {
			t.Fatalf("entries = %+v", es)
		}
	}
	h := p.open(t)
	if got := add(t, h, "next"); got != 2 {
		t.Errorf("next cursor = %d, want 2", got)
	}
	if n, err := TakeOver(t.Context(), HistoryOptions{Store: p.store(t), Workspace: p.ws}); n != 0 || err != nil {
		t.Errorf("taken over twice: %d, %v", n, err)
	}
}

func TestTakeForeignEntries(t *testing.T) { storetest.Each(t, testTakeForeignEntries) }

func testTakeForeignEntries(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	add(t, p.open(t), "ours")
	p.write(t, "history.jsonl", p.read(t, "history.jsonl")+`{"cursor":2,"timestamp":"2026-05-02 10:00","content":"theirs","session_key":"cli:direct","scope":"x"}`+"\n")
	h := p.open(t)
	add(t, h, "between")
	wait, err := h.Unimported(t.Context())
	must(t, err)
	if len(wait) != 1 || wait[0].Content != "theirs" {
		t.Fatalf("waiting: %+v", wait)
	}
	n, err := h.Import(t.Context(), wait)
	must(t, err)
	es := all(t, h)
	if n != 1 || len(es) != 3 || es[2].Content != "theirs" || !es[2].Tainted || es[2].Scope != "" || es[2].Cursor != 3 {
		t.Errorf("taken %d: %+v", n, es)
	}
	if wait, err = p.open(t).Unimported(t.Context()); err != nil || len(wait) > 0 {
		t.Errorf("it waits still: %+v %v", wait, err)
	}
}

// A log that is lost is not made again from what commands can write.
func TestLostLog(t *testing.T) { storetest.Each(t, testLostLog) }

func testLostLog(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	add(t, p.open(t), "ours")
	must(t, p.store(t).Remove(t.Context(), fileHistory))
	p.write(t, "history.jsonl", `{"cursor":1,"timestamp":"t","content":"forged"}`+"\n")
	h := p.open(t)
	if es := all(t, h); len(es) != 0 {
		t.Errorf("entries = %+v", es)
	}
	if got := add(t, h, "next"); got != 2 {
		t.Errorf("next cursor = %d, want 2", got)
	}
}

func TestContextEnds(t *testing.T) { storetest.Each(t, testContextEnds) }

func testContextEnds(t *testing.T, open storetest.Open) {
	t.Parallel()
	h := newPlace(t, open).open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Append(ctx, Entry{Content: "x"}); err == nil {
		t.Error("Append with a dead context did something")
	}
}
