package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// walk reads a view in both directions from a place.
func walk(t *testing.T, v *View, at int) (before, after []string) {
	t.Helper()
	for e, err := range v.Backward(t.Context(), at) {
		must(t, err)
		before = append(before, shownItem(e))
	}
	for e, err := range v.Forward(t.Context(), at) {
		must(t, err)
		after = append(after, shownItem(e))
	}
	return before, after
}

func shownItem(e Item) string {
	if e.Note != nil {
		var n TurnNote
		_ = json.Unmarshal(e.Note, &n)
		return fmt.Sprintf("note %s before %d", n.ID, e.Index)
	}
	return fmt.Sprintf("%d %s", e.Index, e.Record.Content.String())
}

// A view finds every message of a log, also in one that another program wrote,
// and in one that was compacted.
func TestView(t *testing.T) { storetest.Each(t, testView) }

func testView(t *testing.T, open storetest.Open) {
	for _, long := range []int{10, 40 << 10} { // bytes of a message
		st := openStore(t, open, t.TempDir())
		s := acquire(t, st, "cli:a")
		pad := strings.Repeat("x", long)
		var want []string
		n := 0
		for turn := range 40 {
			id := fmt.Sprintf("t%d", turn)
			must(t, s.BeginTurn(id, user(fmt.Sprint(n, pad))))
			want = append(want, fmt.Sprintf("%d %d%s", n, n, pad))
			n++
			for range 1 + turn%3 {
				must(t, s.Append(answer(fmt.Sprint(n, `"_type"`))))
				want = append(want, fmt.Sprintf(`%d %d"_type"`, n, n))
				n++
			}
			must(t, s.Note(TurnNote{Turn: bus.Turn{ID: id}}))
			must(t, s.EndTurn())
			want = append(want, fmt.Sprintf("note %s before %d", id, n))
		}
		must(t, s.Release())
		checkView(t, st, "cli:a", n, want)

		// Another program wrote it again: what it says about places is void.
		other := openStore(t, open, t.TempDir())
		name, err := fileName("cli:a")
		must(t, err)
		raw, err := st.text(t, name+suffixLog)
		must(t, err)
		other.plant(t, name+suffixLog, append([]byte(`{"role":"user","content":"first"}`+"\n"), raw...))
		v, err := OpenView(t.Context(), other, "cli:a")
		must(t, err)
		if v.Len() != n+1 {
			t.Errorf("%d messages, want %d", v.Len(), n+1)
		}
		if before, _ := walk(t, v, 1); len(before) != 1 || before[0] != "0 first" {
			t.Errorf("before 1: %.200v", before)
		}
		must(t, v.Close())
	}
}

func checkView(t *testing.T, st *Store, key string, n int, want []string) {
	t.Helper()
	v, err := OpenView(t.Context(), st, key)
	must(t, err)
	defer v.Close()
	if v.Len() != n {
		t.Fatalf("%d messages, want %d", v.Len(), n)
	}
	for _, at := range []int{0, 1, 7, n / 2, n - 1, n, n + 5} {
		before, after := walk(t, v, at)
		got := make([]string, 0, len(want))
		for _, s := range slices.Backward(before) {
			got = append(got, s)
		}
		got = append(got, after...)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("around %d: %d entries, want %d", at, len(got), len(want))
		}
		if at < n && (len(after) == 0 || !strings.HasPrefix(after[0], fmt.Sprint(at, " ")) && !strings.HasPrefix(after[0], "note")) {
			t.Errorf("from %d: %.40q", at, after)
		}
	}
}

// What was noted about a turn outlives a compaction, and is not in later lines.
func TestTurnNote(t *testing.T) { storetest.Each(t, testTurnNote) }

func testTurnNote(t *testing.T, open storetest.Open) {
	st := openStore(t, open, t.TempDir())
	s := acquire(t, st, "cli:a")
	for i := range 6 {
		id := fmt.Sprintf("t%d", i)
		must(t, s.BeginTurn(id, user("ask "+id)))
		must(t, s.Append(answer("answer "+id)))
		must(t, s.Note(TurnNote{Turn: bus.Turn{ID: id, Model: "m"}, Edits: []bus.Edit{{Path: "a", Diff: "+" + strings.Repeat("d", 200<<10)}}}))
		must(t, s.EndTurn())
	}
	must(t, s.SetMeta("title", "Later"))
	must(t, s.SetReplay(6))
	must(t, s.Compact())
	must(t, s.BeginTurn("t6", user("ask t6")))
	must(t, s.Note(TurnNote{Turn: bus.Turn{ID: "t6", StopReason: "cancelled"}}))
	_, err := s.Recover(nil)
	must(t, err)
	must(t, s.Release())

	v, err := OpenView(t.Context(), st, "cli:a")
	must(t, err)
	defer v.Close()
	_, got := walk(t, v, 0)
	want := []string{
		"0 ask t3", "1 answer t3", "note t3 before 2", "2 ask t4", "3 answer t4", "note t4 before 4",
		"4 ask t5", "5 answer t5", "note t5 before 6", "6 ask t6", "7 " + TurnCut, "note t6 before 8",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("after a compaction:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	name, err := fileName("cli:a")
	must(t, err)
	log, err := st.text(t, name+suffixLog)
	must(t, err)
	if raw := string(log); strings.Count(raw, `"_turn"`) != 4 || strings.Contains(raw, "ddd") {
		t.Errorf("the notes are in %d lines, want 4; a long diff is cut: %v", strings.Count(raw, `"_turn"`), !strings.Contains(raw, "ddd"))
	}
	meta, err := st.Metadata(t.Context(), "cli:a")
	must(t, err)
	if meta["_turn"] != nil || string(meta["title"]) != `"Later"` {
		t.Errorf("metadata = %s", meta)
	}
}

// The offset of a message leads to its index.
func TestIndexAt(t *testing.T) { storetest.Each(t, testIndexAt) }

func testIndexAt(t *testing.T, open storetest.Open) {
	st := openStore(t, open, t.TempDir())
	s := acquire(t, st, "cli:a")
	pad := strings.Repeat("x", 3000)
	for i := range 200 {
		must(t, s.BeginTurn(fmt.Sprint("t", i), user(fmt.Sprint(i, pad))))
		must(t, s.EndTurn(answer(fmt.Sprint(i, pad))))
	}
	offsets := append([]int64{}, s.j.offsets...)
	must(t, s.Release())
	v, err := OpenView(t.Context(), st, "cli:a")
	must(t, err)
	defer v.Close()
	for i, at := range offsets {
		if got, ok, err := v.IndexAt(t.Context(), at); err != nil || !ok || got != i {
			t.Fatalf("the message at %d has index %d, %v, %v; want %d", at, got, ok, err, i)
		}
	}
	for _, bad := range []int64{-1, 0, offsets[3] + 1, 1 << 40} { // 0 is a metadata line
		if got, ok, err := v.IndexAt(t.Context(), bad); err != nil || ok {
			t.Errorf("nothing begins at %d: %d, %v", bad, got, err)
		}
	}
}

// A deleted conversation can come back, as it was.
func TestRestore(t *testing.T) { storetest.Each(t, testRestore) }

func testRestore(t *testing.T, open storetest.Open) {
	st := openStore(t, open, t.TempDir())
	s := acquire(t, st, "cli:a")
	must(t, s.BeginTurn("t", user("ask")))
	must(t, s.EndTurn(answer("answer")))
	must(t, s.Release())
	must(t, st.Delete(t.Context(), "cli:a"))
	all, err := ListArchive(t.Context(), st)
	must(t, err)
	if len(all) != 1 || all[0].Key != "cli:a" || all[0].Messages != 2 || all[0].Preview != "ask" {
		t.Fatalf("archive = %+v", all)
	}
	for _, id := range []string{"", "none", "../sessions", "../" + all[0].ID} {
		if _, err := Restore(t.Context(), st, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("restore %q: %v", id, err)
		}
	}
	s = acquire(t, st, "cli:a")
	must(t, s.Append(user("another")))
	must(t, s.Release())
	if _, err := Restore(t.Context(), st, all[0].ID); !errors.Is(err, ErrExists) {
		t.Errorf("over another conversation: %v", err)
	}
	must(t, st.Delete(t.Context(), "cli:a"))
	if key, err := Restore(t.Context(), st, all[0].ID); err != nil || key != "cli:a" {
		t.Fatalf("restore = %q, %v", key, err)
	}
	s = acquire(t, st, "cli:a")
	if got := gist(s.Messages()); len(got) != 2 || s.Len() != 2 {
		t.Errorf("messages = %v", got)
	}
	must(t, s.Append(user("and on")))
	must(t, s.Release())
	if all, err := ListArchive(t.Context(), st); err != nil || len(all) != 1 {
		t.Errorf("what came back is still in the archive: %+v, %v", all, err)
	}
}
