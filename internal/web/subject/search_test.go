package subject_test

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// newIndex is an index of the conversations in a data folder.
func newIndex(t *testing.T, data string, sessions *session.Store) *search.Index {
	t.Helper()
	x, err := search.Open(search.Options{
		Path: filepath.Join(t.TempDir(), "index.db"), Store: disk.Open(data, nil), Sessions: path.Join("sessions", sessions.Workspace().ID),
	})
	must(t, err)
	t.Cleanup(func() { x.Close() })
	return x
}

// A hit leads to its message in the conversation.
func TestSearch(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	sessions, err := session.Open(session.Options{DataDir: data, Store: disk.Open(data, nil), Workspace: t.TempDir(), Fsync: session.FsyncNever, Now: noon})
	must(t, err)
	t.Cleanup(func() { must(t, sessions.Close()) })
	program := &subject.Program{Sessions: sessions, Secrets: newSecrets(t)}
	h := newSubject(t, subject.Search{Now: func(context.Context) (*subject.Program, error) { return program, nil }})
	h.refused(t, "search?q=x", 501, "search_missing")

	say := func(key string, recs ...session.Record) {
		s, err := sessions.Acquire(t.Context(), key)
		must(t, err)
		must(t, s.Append(recs...))
		must(t, s.Release())
	}
	for i := range 60 {
		say("websocket:a", user(fmt.Sprint("question ", i)), calls(fmt.Sprint("c", i)), result(fmt.Sprint("c", i), "fine"), answer("ok"))
	}
	say("websocket:a", user("where is the passport? sk-hush-0123456789"), answer("in the drawer"))
	say("telegram:7", user("a passport photo"))
	x := newIndex(t, data, sessions)
	program.Index = x
	res, err := x.Search(t.Context(), search.Query{Text: "passport", Wait: true, Everyone: true})
	must(t, err)
	if len(res.Hits) != 2 {
		t.Fatalf("the index found %+v", res)
	}

	type found struct {
		Hits []struct {
			Session, Source, Role, Snippet string
			Index                          *int
		}
		Total  int
		Cursor *string
	}
	got := read[found](t, h, "search?q=passport&session=websocket:a")
	if len(got.Hits) != 1 || got.Hits[0].Index == nil || *got.Hits[0].Index != 240 || !strings.Contains(got.Hits[0].Snippet, "\x02passport\x03") || strings.Contains(got.Hits[0].Snippet, "sk-hush") {
		t.Fatalf("hits = %+v", got)
	}
	view, err := session.OpenView(t.Context(), sessions, "websocket:a")
	must(t, err)
	defer view.Close()
	for item, err := range view.Forward(t.Context(), *got.Hits[0].Index) {
		must(t, err)
		if said := item.Record.Display(); said != "where is the passport? sk-hush-0123456789" {
			t.Errorf("at the index of the hit: %q", said)
		}
		break
	}
	pages, hits := 0, 0
	for next := ""; pages < 10; pages++ {
		got := read[found](t, h, "search?q=question&limit=25"+next)
		hits += len(got.Hits)
		if got.Cursor == nil {
			break
		}
		next = "&cursor=" + *got.Cursor
	}
	if hits != 60 || pages != 2 {
		t.Errorf("%d hits on %d pages", hits, pages+1)
	}
	if got := read[found](t, h, "search?q=passport&before=2020-01-01"); len(got.Hits) != 0 {
		t.Errorf("long before: %+v", got)
	}
	if got := read[found](t, h, "search?q=%3F%3F%3F"); len(got.Hits) != 0 { // no word in it
		t.Errorf("question marks: %+v", got)
	}
	for query, code := range map[string]string{
		"": "search_query", "q=%20": "search_query", "q=" + strings.Repeat("x", 2001): "search_query", "q=a&after=soon": "time_invalid", "q=a&cursor=x": "not_a_number",
	} {
		h.refused(t, "search?"+query, 400, code)
	}
}
