// Package napcat certifies our fake of NapCat.
package napcat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/napcat/napcattest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

// TestAdapter: NoneBot's adapter for OneBot 11 works with the fake that our
// driver is tested with.
func TestAdapter(t *testing.T) {
	t.Parallel()
	fake := napcattest.New()
	t.Cleanup(fake.Close)
	say := func(group int64, list ...napcattest.Segment) {
		fake.Say(napcattest.Message{From: napcattest.Ann, Group: group, Segments: list})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/say", func(http.ResponseWriter, *http.Request) { say(0, napcattest.Text("hello")) })
	mux.HandleFunc("/mention", func(http.ResponseWriter, *http.Request) {
		say(napcattest.Group, napcattest.Segment{Type: "at", Data: map[string]any{"qq": fmt.Sprint(napcattest.Self)}}, napcattest.Text(" look"))
	})
	mux.HandleFunc("/forward", func(http.ResponseWriter, *http.Request) {
		id := fake.StoreForward(napcattest.Message{From: 1, Segments: []napcattest.Segment{napcattest.Text("a")}})
		say(0, napcattest.Segment{Type: "forward", Data: map[string]any{"id": id}})
	})
	mux.HandleFunc("/join", func(http.ResponseWriter, *http.Request) { fake.Join(555, napcattest.Group) })
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)

	out := certify.Script(t, ".", "client.py", fake.Socket(), front.URL, napcattest.Token)
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	type list = []any
	want := map[string]any{
		"me":        list{"10001", "nano"},
		"private":   list{"message.private.friend", "20001", "hello"},
		"message":   "hello **Ann**",
		"group":     list{"message.group.normal", true, "look", "card of user20001"},
		"forward":   list{"user1"},
		"join":      list{"notice.group_increase.approve", 555.0},
		"member":    "user555",
		"noChat":    1200.0,
		"noMessage": 1400.0,
		"noAction":  1404.0,
		"gone":      1200.0,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what the adapter understood (-want +got):\n%s", d)
	}
	var seen [][]string
	for _, m := range fake.Sent() {
		var kinds []string
		for _, s := range m.Segments {
			kinds = append(kinds, s.Type)
		}
		seen = append(seen, append(kinds, m.Words()))
	}
	if d := cmp.Diff([][]string{{"text", "hello **Ann**"}, {"reply", "image", "text", "seen"}, {""}}, seen); d != "" {
		t.Errorf("what people see (-want +got):\n%s", d)
	}
}
