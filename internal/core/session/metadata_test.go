package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// title is the title that Metadata tells.
func title(t *testing.T, st *Store) string {
	t.Helper()
	m, err := st.Metadata(t.Context(), "test:k")
	if err != nil {
		t.Fatal(err)
	}
	if m[keyInbound] != nil || m[keyReplay] != nil || m[keyOpenTurn] != nil {
		t.Errorf("what belongs to the log is told: %v", m)
	}
	var s string
	_ = json.Unmarshal(m["title"], &s)
	return s
}

// Metadata is told while somebody else owns the conversation.
func TestMetadata(t *testing.T) { storetest.Each(t, testMetadata) }

func testMetadata(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	if _, err := st.Metadata(t.Context(), "test:k"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of nothing: %v, want ErrNotFound", err)
	}
	s := acquire(t, st, "test:k")
	must(t, s.SetMeta("title", "one"))
	must(t, s.BeginTurn("t", user("hi")))
	if got := title(t, st); got != "one" {
		t.Errorf("in a turn: %q, want one", got)
	}
	must(t, s.SetMeta("title", "two"))
	must(t, s.EndTurn(answer("done")))
	known := user("more")
	known.InboundID = "telegram:1"
	must(t, s.Append(known, answer("yes")))
	must(t, s.SetReplay(s.Len()))
	if got := title(t, st); got != "two" {
		t.Errorf("after the turn: %q, want two", got)
	}
	// A message longer than what is looked at from the end.
	must(t, s.Append(user(strings.Repeat("x", 2*metadataReach))))
	if got := title(t, st); got != "two" {
		t.Errorf("before a very long message: %q, want two", got)
	}
	must(t, s.Release())
	must(t, st.Delete(t.Context(), "test:k"))
	if _, err := st.Metadata(t.Context(), "test:k"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a deleted one: %v, want ErrNotFound", err)
	}
}

// Peek shows what is live, to who has no right to it.
func TestPeek(t *testing.T) { storetest.Each(t, testPeek) }

func testPeek(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir)
	if _, err := st.Peek("test:k"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of nothing: %v, want ErrNotFound", err)
	}
	s := acquire(t, st, "test:k")
	must(t, s.Append(user("old"), answer("old answer"), user("new"), answer("new answer")))
	must(t, s.SetReplay(2))
	must(t, s.SetMeta("title", "x"))
	must(t, s.BeginTurn("t", user("newer")))
	before, err := st.text(t, s.slot.j.name)
	must(t, err)
	p, err := st.Peek("test:k")
	must(t, err)
	var got string
	if diff := cmp.Diff(gist(s.Messages()), gist(p.Messages())); diff != "" || p.Len() != 5 || !p.Meta("title", &got) || got != "x" || p.OpenTurn() == nil {
		t.Errorf("peeked: %v, %d messages, title %q, open %v\n%s", gist(p.Messages()), p.Len(), got, p.OpenTurn(), diff)
	}
	must(t, p.Append(user("in memory only")))
	must(t, p.Release())
	if after, err := st.text(t, s.slot.j.name); err != nil || !bytes.Equal(before, after) {
		t.Errorf("looking changed the log: %v", err)
	}
	must(t, s.EndTurn(answer("done")))
	must(t, s.Release())
}
