// Package mattermost certifies our fake of a Mattermost server.
package mattermost

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

// machinery is what a test does to a server besides talking to it.
type machinery interface {
	Cut()     // drops the WebSockets
	Restart() // forgets them, too
}

// controls lets a script reach the machinery of a server, before the server.
func controls(server http.Handler, m machinery) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", server)
	mux.HandleFunc("/test/cut", func(http.ResponseWriter, *http.Request) { m.Cut() })
	mux.HandleFunc("/test/restart", func(http.ResponseWriter, *http.Request) { m.Restart() })
	return mux
}

// TestClientLibrary: Mattermost's own client library works with the fake that
// our driver is tested with.
func TestClientLibrary(t *testing.T) {
	t.Parallel()
	fake := mattermosttest.New()
	t.Cleanup(fake.Close)
	target, err := url.Parse(fake.URL())
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(controls(httputil.NewSingleHostReverseProxy(target), fake))
	t.Cleanup(front.Close)

	question := library(t, front.URL, mattermosttest.Token, mattermosttest.AnnToken, mattermosttest.TownID(), nil)
	if d := cmp.Diff([]string{"white_check_mark"}, fake.Reactions(question)); d != "" {
		t.Errorf("marks of the question (-want +got):\n%s", d)
	}
	if seen := fake.Typing(); len(seen) != 1 {
		t.Errorf("typing was seen %d times, want 1", len(seen))
	}
}

// library lets the client library work with a server, real or not, and compares
// what it understood, except for where an older server differs. It returns the
// post that it marked.
func library(t *testing.T, url, bot, ann, town string, differs map[string]any) (question string) {
	t.Helper()
	out := certify.Script(t, ".", "client.mjs", url, bot, ann, town)
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	question, _ = got["question"].(string)
	delete(got, "question")
	type list = []any
	want := map[string]any{
		"me":           "nb_bot",
		"config":       list{"16383", "104857600"},
		"teams":        list{"main"},
		"hello":        true,
		"direct":       "D",
		"posted":       list{"D", "@ann", "hello", ""},
		"once":         true,
		"props":        list{"v", "true"},
		"patched":      list{"hi Ann", true},
		"edited":       "hi Ann",
		"thread":       list{"hello", "hi Ann"},
		"list":         list{"hi Ann", "hello"},
		"square":       true,
		"byName":       "ann",
		"file":         list{"out.txt", 7.0, "txt", "content"},
		"typing":       "OK",
		"deleted":      true,
		"resumed":      "while away",
		"missed":       0.0,
		"restarted":    1.0,
		"tooLong":      "400 model.post.is_valid.message_length.app_error",
		"noRoot":       "400 api.post.create_post.root_id.app_error",
		"replyToReply": "400 api.post.create_post.root_id.app_error",
		"noChannel":    "403 api.context.permissions.app_error",
		"notMine":      "403 api.context.permissions.app_error",
		"gone":         "404 app.post.get.app_error",
		"noEmoji":      "404 app.emoji.get_by_name.no_result",
		"notMe":        "403 api.reaction.save_reaction.user_id.app_error",
		"badID":        "400 api.context.invalid_url_param.app_error",
		"noToken":      "401 api.context.session_expired.app_error",
	}
	maps.Copy(want, differs)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what the library understood (-want +got):\n%s", d)
	}
	return question
}
