package session

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// story writes two turns, the second with three iterations, parallel calls, an
// injected message and metadata, and returns the log.
func story(t *testing.T) (data []byte, name string) {
	t.Helper()
	st := openStore(t, storetest.Disk, t.TempDir())
	s := acquire(t, st, "k")
	must(t, s.BeginTurn("t1", user("hi")))
	must(t, s.EndTurn(answer("hello")))
	must(t, s.Release())
	s = acquire(t, st, "k")
	must(t, s.BeginTurn("t2", user("go")))
	must(t, s.Append(calls("a", "b", "c")))
	must(t, s.Append(result("b", "B")))
	must(t, s.Append(result("a", "A"), result("c", "C")))
	must(t, s.Append(answer("so far"), user("more")))
	must(t, s.SetMeta("n", 1))
	must(t, s.Append(calls("d")))
	must(t, s.Append(result("d", "D")))
	must(t, s.Append(calls("e", "f")))
	must(t, s.Append(result("e", "E")))
	must(t, s.Append(result("f", "F")))
	must(t, s.EndTurn(answer("done")))
	must(t, s.Release())
	data, err := os.ReadFile(s.logPath())
	must(t, err)
	return data, filepath.Base(s.logPath())
}

func (s *Session) logPath() string { return s.store.state.Where(s.slot.j.name) }

// whole gives the messages in data that are complete lines.
func whole(t *testing.T, data []byte) []string {
	t.Helper()
	var recs []Record
	for line := range bytes.Lines(data) {
		var r Record
		if line[len(line)-1] == '\n' && !mayBeMetadata(line) {
			must(t, r.UnmarshalJSON(line))
			recs = append(recs, r)
		}
	}
	return gist(recs)
}

// A process killed while it writes leaves any prefix of the log behind. From
// each of them, recovery must keep every whole record in order, produce a
// legal log, change nothing when run again, and let the next turn go on.
func TestCrashAtEveryByte(t *testing.T) {
	t.Parallel()
	data, name := story(t)
	const shards = 6
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			st := openStore(t, storetest.Disk, t.TempDir())
			for n := shard; n <= len(data); n += shards {
				if !worthCutting(data, n) {
					continue
				}
				crashAt(t, st, filepath.Join(st.Dir(), name), data[:n])
				if t.Failed() {
					return
				}
			}
		})
	}
}

// worthCutting keeps the test short: all places next to a line's end, every
// seventh inside a line, where one is like the other.
func worthCutting(data []byte, n int) bool {
	return n%7 == 0 || bytes.IndexByte(data[max(0, n-3):min(len(data), n+3)], '\n') >= 0
}

func crashAt(t *testing.T, st *Store, path string, data []byte) {
	t.Helper()
	must(t, os.RemoveAll(path+".torn"))
	plant(t, path, data)
	s := acquire(t, st.fresh(t, storetest.Disk), "k")
	_, err := s.Recover(nil)
	must(t, err)
	first := gist(s.Messages())
	kept := whole(t, data)
	if len(first) < len(kept) || !cmp.Equal(kept, first[:len(kept)], cmpEmpty()) {
		t.Fatalf("cut at %d: kept (-want +got):\n%s", len(data), cmp.Diff(kept, first))
	}
	for _, g := range first[len(kept):] {
		if !strings.HasSuffix(g, "(interrupted)") {
			t.Errorf("cut at %d: %q came out of nowhere", len(data), g)
		}
	}
	if err := CheckLegal(s.Messages()); err != nil {
		t.Errorf("cut at %d: after recovery: %v", len(data), err)
	}
	if s.OpenTurn() != nil {
		t.Errorf("cut at %d: the turn is still open", len(data))
	}
	must(t, s.Release())
	once, err := os.ReadFile(path)
	if err != nil && len(data) > 0 && bytes.IndexByte(data, '\n') >= 0 {
		t.Fatal(err)
	}

	s = acquire(t, st.fresh(t, storetest.Disk), "k")
	if rec, err := s.Recover(nil); err != nil || rec != (Recovery{}) {
		t.Errorf("cut at %d: second recovery did %+v, %v", len(data), rec, err)
	}
	must(t, s.BeginTurn("t3", user("again")))
	must(t, s.EndTurn(answer("yes")))
	if err := CheckLegal(s.Messages()); err != nil {
		t.Errorf("cut at %d: after the next turn: %v", len(data), err)
	}
	if want := append(first, "user:again", "assistant:yes"); !cmp.Equal(want, gist(s.Messages())) {
		t.Errorf("cut at %d: after the next turn (-want +got):\n%s", len(data), cmp.Diff(want, gist(s.Messages())))
	}
	must(t, s.Release())
	twice, err := os.ReadFile(path)
	must(t, err)
	if !bytes.HasPrefix(twice, once) {
		t.Errorf("cut at %d: recovery twice is not recovery once", len(data))
	}
	// Nothing is ever thrown away: the torn bytes are aside.
	aside, _ := os.ReadFile(path + ".torn")
	if end := bytes.LastIndexByte(data, '\n') + 1; end < len(data) && string(aside) != string(data[end:])+"\n" {
		t.Errorf("cut at %d: aside = %q, want %q", len(data), aside, data[end:])
	}
}

// plant puts a new file at path; overwriting in place is slow on some file systems.
func plant(tb testing.TB, path string, data []byte) {
	tb.Helper()
	must(tb, os.RemoveAll(path))
	must(tb, os.WriteFile(path, data, 0o600))
}

func cmpEmpty() cmp.Option {
	return cmp.Transformer("nil", func(s []string) string { return strings.Join(s, "\x00") })
}

// A crash in the middle of recovery itself must not matter either.
func TestCrashDuringRecovery(t *testing.T) {
	t.Parallel()
	data, name := story(t)
	cut := bytes.Index(data, []byte(`"tool_call_id":"e"`)) // after calls e and f
	cut = bytes.LastIndexByte(data[:cut], '\n') + 1
	st := openStore(t, storetest.Disk, t.TempDir())
	path := filepath.Join(st.Dir(), name)
	plant(t, path, data[:cut])
	s := acquire(t, st.fresh(t, storetest.Disk), "k")
	_, err := s.Recover(nil)
	must(t, err)
	want := gist(s.Messages())
	must(t, s.Release())
	recovered, err := os.ReadFile(path)
	must(t, err)
	for n := cut; n <= len(recovered); n++ {
		if !worthCutting(recovered, n) {
			continue
		}
		plant(t, path, recovered[:n])
		s := acquire(t, st.fresh(t, storetest.Disk), "k")
		_, err := s.Recover(nil)
		must(t, err)
		if diff := cmp.Diff(want, gist(s.Messages())); diff != "" {
			t.Fatalf("recovery cut at %d (-want +got):\n%s", n, diff)
		}
		must(t, s.Release())
	}
}

// The crash matrix, step by step.
func TestRecoverMatrix(t *testing.T) { storetest.Each(t, testRecoverMatrix) }

func testRecoverMatrix(t *testing.T, open storetest.Open) {
	t.Parallel()
	readOnly := func(tool string) bool { return tool == "tool_a" }
	cut := func(id string) string { return "result " + id + ":" + textEffectCut + " (interrupted)" }
	note := "user:" + TurnCut + " (interrupted)"
	command := answer("/status is fine")
	command.Command = true
	for _, c := range []struct {
		name string
		recs []Record
		want []string
		rec  Recovery
	}{
		{"only the mark", nil, nil, Recovery{}},
		{"user", []Record{user("q")}, []string{"user:q", note}, Recovery{Note: true}},
		{"calls", []Record{user("q"), calls("a", "b")}, []string{
			"user:q", "assistant: call a call b", "result a:" + textReadCut + " (interrupted)", cut("b"), note,
		}, Recovery{Results: 2, Note: true}},
		{"some results", []Record{user("q"), calls("x", "y", "z"), result("y", "Y")}, []string{
			"user:q", "assistant: call x call y call z", "result y:Y", cut("x"), cut("z"), note,
		}, Recovery{Results: 2, Note: true}},
		{"all results", []Record{user("q"), calls("x"), result("x", "X")}, []string{
			"user:q", "assistant: call x", "result x:X", note,
		}, Recovery{Note: true}},
		{"injected", []Record{user("q"), calls("x"), result("x", "X"), user("more")}, []string{
			"user:q", "assistant: call x", "result x:X", "user:more", note,
		}, Recovery{Note: true}},
		{"final", []Record{user("q"), answer("a")}, []string{"user:q", "assistant:a"}, Recovery{}},
		{"command behind", []Record{user("q"), command}, []string{"user:q", "assistant:/status is fine", note}, Recovery{Note: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := acquire(t, openStore(t, open, dir), "k")
			must(t, s.BeginTurn("t", c.recs...))
			must(t, s.Release())
			s = acquire(t, openStore(t, open, dir), "k")
			rec, err := s.Recover(readOnly)
			must(t, err)
			if rec.Turn == nil || rec.Turn.ID != "t" || rec.Turn.PID != os.Getpid() {
				t.Errorf("turn = %+v", rec.Turn)
			}
			if rec.Turn = nil; rec != c.rec {
				t.Errorf("recovery = %+v, want %+v", rec, c.rec)
			}
			if diff := cmp.Diff(c.want, gist(s.Messages())); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			for _, r := range s.Messages() {
				if r.Interrupted && r.TurnID != "t" {
					t.Errorf("%q belongs to turn %q", r.Content, r.TurnID)
				}
			}
			must(t, s.Release())
		})
	}
}

func TestBeginTurnRecoversFirst(t *testing.T) { storetest.Each(t, testBeginTurnRecoversFirst) }

func testBeginTurnRecoversFirst(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	s := acquire(t, st, "k")
	must(t, s.BeginTurn("t1", user("one")))
	must(t, s.Append(calls("a")))
	must(t, s.BeginTurn("t2", user("two")))
	if err := CheckLegal(s.Messages()); err != nil {
		t.Error(err)
	}
	if n := len(s.Messages()); n != 5 {
		t.Errorf("%d messages, want 5: %q", n, gist(s.Messages()))
	}
	must(t, s.Release())
}

// S1: a history that ends with an unanswered user message.
func TestUnansweredWithoutTurn(t *testing.T) { storetest.Each(t, testUnansweredWithoutTurn) }

func testUnansweredWithoutTurn(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := acquire(t, openStore(t, open, t.TempDir()), "k")
	must(t, s.Append(user("old")))
	must(t, s.BeginTurn("t", user("new")))
	must(t, s.Append(calls("a")))
	must(t, s.Append(result("a", "A")))
	must(t, s.EndTurn(answer("done")))
	want := []string{
		"user:old", "user:" + TurnCut + " (interrupted)", "user:new", "assistant: call a", "result a:A", "assistant:done",
	}
	if diff := cmp.Diff(want, gist(s.Messages())); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	must(t, s.Release())
}

func TestCheckpointOfPython(t *testing.T) {
	t.Parallel()
	assistant := `{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"y","arguments":"{}"}}]}`
	resultA := `{"role":"tool","tool_call_id":"a","name":"x","content":"A"}`
	meta := `{"_type": "metadata", "key": "k", "created_at": "2026-04-14T20:49:51", "updated_at": "2026-04-14T20:49:51", "metadata": {"pending_user_turn": true, "runtime_checkpoint": {"phase": "awaiting_tools", "assistant_message": ` + assistant + `, "completed_tool_results": [` + resultA + `], "pending_tool_calls": []}}, "last_consolidated": 0}` + "\n"
	q := `{"role":"user","content":"q","timestamp":"2026-04-14T20:49:51"}` + "\n"
	want := []string{
		"user:q", "assistant: call a call b", "result a:A",
		"result b:" + textEffectCut + " (interrupted)", "user:" + TurnCut + " (interrupted)",
	}
	for _, c := range []struct{ name, data string }{
		{"none stored", meta + q},
		{"assistant stored", meta + q + assistant + "\n"},
		{"both stored", meta + q + assistant + "\n" + resultA + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			st := openStore(t, storetest.Disk, dir)
			must(t, os.WriteFile(filepath.Join(st.Dir(), "aw.jsonl"), []byte(c.data), 0o600))
			for range 2 {
				s := acquire(t, openStore(t, storetest.Disk, dir), "k")
				_, err := s.Recover(nil)
				must(t, err)
				if diff := cmp.Diff(want, gist(s.Messages())); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
				var v any
				if s.Meta(keyCheckpoint, &v) || s.Meta(keyPendingUser, &v) {
					t.Error("the checkpoint is still there")
				}
				must(t, s.Release())
			}
		})
	}
}

func TestLegalHelpers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		recs  []Record
		legal bool
	}{
		{"empty", nil, true},
		{"plain", []Record{user("a"), answer("b")}, true},
		{"orphan result", []Record{user("a"), result("x", ""), user("b")}, false},
		{"missing result", []Record{user("a"), calls("x"), user("b")}, false},
		{"double result", []Record{user("a"), calls("x"), result("x", ""), result("x", "")}, false},
		{"two users", []Record{user("a"), user("b")}, false},
		{"begins with assistant", []Record{answer("a"), user("b")}, false},
		{"open end", []Record{user("a"), calls("x")}, false},
		{"out of order", []Record{user("a"), calls("x", "y"), result("y", ""), result("x", ""), answer("b")}, true},
	} {
		if got := CheckLegal(c.recs) == nil; got != c.legal {
			t.Errorf("%s: legal = %v, want %v", c.name, got, c.legal)
		}
	}
	recs := []Record{user("a"), answer("b"), user("c"), calls("x"), result("x", ""), answer("d")}
	for n, want := range map[int]int{0: 6, 1: 2, 3: 2, 4: 2, 5: 0, 99: 0} {
		if got := SuffixStart(recs, n); got != want {
			t.Errorf("SuffixStart(%d) = %d, want %d", n, got, want)
		}
	}
}
