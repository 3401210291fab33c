// Package wecom certifies our fake of WeCom's AI bots.
package wecom

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

// run runs a script against a fake and returns what it printed and what people
// see after it.
func run(t *testing.T, script string) (got map[string]any, seen [][]string) {
	t.Helper()
	fake := wecomtest.New()
	t.Cleanup(fake.Close)
	ann := wecomtest.Message{From: wecomtest.Ann, Text: "hello"}
	mux := http.NewServeMux()
	mux.HandleFunc("/say", func(http.ResponseWriter, *http.Request) { fake.Say(ann) })
	mux.HandleFunc("/enter", func(http.ResponseWriter, *http.Request) { fake.Event(ann, "enter_chat") })
	mux.HandleFunc("/press", func(w http.ResponseWriter, _ *http.Request) {
		if err := fake.Press(ann, "Yes", false); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/picture", func(http.ResponseWriter, *http.Request) {
		m := ann
		m.Body = map[string]any{"msgtype": "image", "image": fake.Store("图 1.png", []byte("nanobot"))}
		fake.Say(m)
	})
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)

	out := certify.Script(t, ".", script, fake.Socket(), front.URL, wecomtest.BotID, wecomtest.Secret)
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, m := range fake.Shown() {
		seen = append(seen, append([]string{m.Kind, m.Text}, m.Files...))
	}
	return got, seen
}

// TestNodeLibrary: WeCom's own library works with the fake that our driver is
// tested with.
func TestNodeLibrary(t *testing.T) {
	t.Parallel()
	got, seen := run(t, "client.mjs")
	type list = []any
	want := map[string]any{
		"text":       list{"ann", "single", "hello"},
		"finished":   846608.0,
		"tooLong":    45002.0,
		"badReqId":   846605.0,
		"press":      list{"yes", "task_1"},
		"notAStream": 846605.0,
		"noText":     40008.0,
		"noChat":     93006.0,
		"upload":     list{"file", true},
		"noMedia":    40007.0,
		"picture":    list{"图 1.png", "nanobot"},
		"takenOver":  "New connection established, server disconnected this connection",
		"refused":    "Authentication failed: invalid credential (code: 40001)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what the library understood (-want +got):\n%s", d)
	}
	if d := cmp.Diff([][]string{{"stream", "whole"}, {"template_card", "Chosen"}, {"text", "Hello!"}, {"markdown", "pushed"}, {"file", "", "out.txt"}}, seen); d != "" {
		t.Errorf("what people see (-want +got):\n%s", d)
	}
}

// TestPythonLibrary: so does the library that Python nanobot uses.
func TestPythonLibrary(t *testing.T) {
	t.Parallel()
	got, seen := run(t, "client.py")
	want := map[string]any{"text": []any{"ann", "single", "hello"}, "finished": true, "picture": []any{"图 1.png", "nanobot"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what the library understood (-want +got):\n%s", d)
	}
	if d := cmp.Diff([][]string{{"stream", "whole"}, {"text", "Hello!"}, {"markdown", "pushed"}, {"file", "", "out.txt"}}, seen); d != "" {
		t.Errorf("what people see (-want +got):\n%s", d)
	}
}
