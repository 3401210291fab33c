package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/store/storetest"
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
	found, err := st.Untaken(t.Context())
	must(t, err)
	if len(found) != 1 || !found[0].New || found[0].Key != "k" || found[0].Messages != 1 || found[0].Last != "shown" {
		t.Fatalf("found %+v", found)
	}
	plant(t, file, []byte(strings.ReplaceAll(shown, "shown", "forged")))
	if err := st.Take(t.Context(), found[0]); err == nil {
		t.Error("something else was taken")
	}
	plant(t, file, []byte(shown))
	must(t, st.Take(t.Context(), found[0]))
	s := acquire(t, st, "k")
	if diff := cmp.Diff([]string{"user:shown"}, gist(s.Messages())); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	must(t, s.Append(answer("ours")))
	must(t, s.Release())
	if err := st.Take(t.Context(), found[0]); err == nil {
		t.Error("it was taken twice")
	}
	if found, err = st.Untaken(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("an older state is new: %+v %v", found, err)
	}
}
