package subject_test

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/session/search"
)

// A hit leads to its message in the thread.
func TestSearch(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.refused(t, "search?q=x", 501, "search_missing")
	for i := range 60 {
		h.say(t, "websocket:a", user(fmt.Sprint("question ", i)), calls(fmt.Sprint("c", i)), result(fmt.Sprint("c", i), "fine"), answer("ok"))
	}
	h.say(t, "websocket:a", user("where is the passport? sk-hush"), answer("in the drawer"))
	h.say(t, "telegram:7", user("a passport photo"))
	dir := h.Sessions.Workspace().ID
	x, err := search.Open(search.Options{
		Path: filepath.Join(t.TempDir(), "index.db"), Store: h.Place.Ledger, Sessions: path.Join("sessions", dir), History: "history.jsonl", Workspace: h.Workspace,
	})
	must(t, err)
	t.Cleanup(func() { x.Close() })
	h.Search = x.Search
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
	p := read[shown](t, h, fmt.Sprintf("sessions/websocket:a/webui-thread?limit=4&around=%d", *got.Hits[0].Index))
	if !strings.Contains(fmt.Sprint(p.Messages), "where is the passport?") {
		t.Errorf("around the hit: %+v", p.Messages)
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
