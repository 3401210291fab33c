package session

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// said makes messages of a user, one per word.
func said(words string) (out []Record) {
	for w := range strings.FieldsSeq(words) {
		out = append(out, Record{Message: llm.Message{Role: llm.User, Content: llm.Text(w)}})
	}
	return out
}

func TestGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, ours, theirs, more string
		apart                    bool
	}{
		{name: "grown", ours: "a b", theirs: "a b c d", more: "c d"},
		{name: "same", ours: "a b", theirs: "a b"},
		{name: "an older state", ours: "a b c", theirs: "a b"},
		{name: "ours was compacted", ours: "b c", theirs: "a b c d", more: "d"},
		{name: "theirs was compacted", ours: "a b c", theirs: "c d", more: "d"},
		{name: "nothing here", ours: "", theirs: "a", more: "a"},
		{name: "nothing there", ours: "a", theirs: ""},
		{name: "another past", ours: "a b", theirs: "x b c", apart: true},
		{name: "something else", ours: "a b", theirs: "x y", apart: true},
		{name: "forged end only", ours: "a b c", theirs: "a x", apart: true},
	} {
		more, fits := goesOn(said(c.ours), said(c.theirs))
		var got []string
		for _, r := range more {
			got = append(got, r.Content.String())
		}
		if fits == c.apart || strings.Join(got, " ") != c.more {
			t.Errorf("%s: %q, fits %v; want %q", c.name, got, fits, c.more)
		}
	}
}

// What is taken is what was shown.
func TestTakeWhatWasShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, storetest.Disk, dir)
	file := filepath.Join(dir, "workspace", "sessions", "k.jsonl")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	shown := pythonLog("k", "{}", "0", `{"role": "user", "content": "shown"}`, "")
	plant(t, file, []byte(shown))
	found, err := st.Unimported(t.Context())
	must(t, err)
	if len(found) != 1 || !found[0].New || found[0].Key != "k" || found[0].Messages != 1 || found[0].Last != "shown" {
		t.Fatalf("found %+v", found)
	}
	plant(t, file, []byte(strings.ReplaceAll(shown, "shown", "forged")))
	if err := st.Import(t.Context(), found[0]); err == nil {
		t.Error("something else was taken")
	}
	plant(t, file, []byte(shown))
	must(t, st.Import(t.Context(), found[0]))
	s := acquire(t, st, "k")
	if diff := cmp.Diff([]string{"user:shown"}, gist(s.Messages())); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	must(t, s.Append(answer("ours")))
	must(t, s.Release())
	if err := st.Import(t.Context(), found[0]); err == nil {
		t.Error("it was taken twice")
	}
	if found, err = st.Unimported(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("an older state is new: %+v %v", found, err)
	}
}

// python does a round of Python nanobot with a session file: it reads all of it,
// adds a turn and writes the file as a whole, in its own way.
func python(t *testing.T, file, question string) (messages int) {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	var lines []string
	for line := range strings.Lines(string(data)) {
		var m map[string]any
		must(t, json.Unmarshal([]byte(line), &m))
		if m["_type"] == nil {
			b, err := json.Marshal(m) // keys in another order
			must(t, err)
			lines = append(lines, string(b))
		}
	}
	lines = append(lines,
		fmt.Sprintf(`{"role": "user", "content": %q, "timestamp": "2026-05-02T10:00:00.000001"}`, question),
		fmt.Sprintf(`{"role": "assistant", "content": %q, "timestamp": "2026-05-02T10:00:01.000001"}`, "re "+question), "")
	plant(t, file, []byte(pythonLog("cli:direct", "{}", "0", lines...)))
	return len(lines) - 1
}

// A conversation that is used here and with Python nanobot by turns loses
// nothing: restore-workspace before the way there, migrate after the way back.
func TestAlternatingUse(t *testing.T) { storetest.Each(t, testAlternatingUse) }

func testAlternatingUse(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "workspace", "sessions", "cli_direct.jsonl")
	n := 0
	for round := range 20 {
		st := openStore(t, open, dir)
		s := acquire(t, st, "cli:direct")
		call := Record{Message: llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: fmt.Sprint("c", round), Name: "look", Arguments: "{}"}}}}
		result := Record{Message: llm.Message{Role: llm.ToolRole, ToolCallID: fmt.Sprint("c", round), Name: "look", Content: llm.Text("seen")}}
		must(t, s.Append(user(fmt.Sprint("go ", round)), call, result, answer("done")))
		must(t, s.Release())
		n += 4
		done, err := st.CopyBack(t.Context())
		if err != nil || len(done.Conflict) > 0 || len(done.Copied) != 1 {
			t.Fatalf("round %d: %+v, %v", round, done, err)
		}
		must(t, st.Close())

		if n += 2; python(t, file, fmt.Sprint("py ", round)) != n {
			t.Fatalf("round %d: Python does not see %d messages", round, n)
		}
		later := time.Now().Add(time.Duration(round+1) * time.Hour)
		must(t, os.Chtimes(file, later, later))

		st = openStore(t, open, dir)
		found, err := Grown(t.Context(), st)
		if err != nil || len(found) != 1 || found[0].Messages != 2 || found[0].Apart {
			t.Fatalf("round %d: grown %+v, %v", round, found, err)
		}
		if again, err := Grown(t.Context(), st); err != nil || len(again) != 0 {
			t.Errorf("round %d: told twice: %+v, %v", round, again, err)
		}
		must(t, st.Import(t.Context(), found[0]))
		all, err := st.all(t.Context(), "cli:direct")
		if err != nil || len(all) != n {
			t.Fatalf("round %d: %d messages, want %d (%v)", round, len(all), n, err)
		}
		must(t, st.Close())
	}
}

// A file with something that the conversation does not have is left alone.
func TestCopyBackLeavesWhatIsNotOurs(t *testing.T) {
	storetest.Each(t, testCopyBackLeavesWhatIsNotOurs)
}

func testCopyBackLeavesWhatIsNotOurs(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "workspace", "sessions", "k.jsonl")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	st := openStore(t, open, dir)
	s := acquire(t, st, "k")
	must(t, s.Append(user("a"), answer("b")))
	must(t, s.Release())
	theirs := pythonLog("k", "{}", "0", `{"role": "user", "content": "a"}`, `{"role": "assistant", "content": "x"}`, "")
	plant(t, file, []byte(theirs))
	done, err := st.CopyBack(t.Context())
	if err != nil || len(done.Conflict) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != theirs {
		t.Errorf("the file is now %q (%v)", got, err)
	}
}
