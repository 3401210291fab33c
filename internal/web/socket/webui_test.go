package socket

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// clerk is an API that counts.
type clerk struct {
	mu   sync.Mutex
	done []string
	hold chan struct{} // actions named slow wait for it
}

type refusedError int

func (e refusedError) Error() string   { return "refused" }
func (e refusedError) HTTPStatus() int { return int(e) }

func (e refusedError) Detail() (string, map[string]any) {
	return "no_such_thing", map[string]any{"status": int(e)}
}

func (c *clerk) Do(ctx context.Context, action string, payload json.RawMessage) (result json.RawMessage, changed []string, err error) {
	c.mu.Lock()
	c.done = append(c.done, action+string(payload))
	n := len(c.done)
	c.mu.Unlock()
	switch action {
	case "refuse":
		return nil, nil, refusedError(422)
	case "panic":
		panic("oh")
	case "slow":
		select {
		case <-c.hold:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	case "sidebar.update":
		var in struct{ State json.RawMessage }
		if json.Unmarshal(payload, &in) != nil || string(in.State) == "null" {
			return nil, nil, refusedError(400)
		}
		return in.State, nil, nil
	case "session.rename":
		changed = []string{"sessions"}
	}
	return json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), changed, nil
}

func (c *clerk) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.done)
}

func (c *clerk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "desk "+r.URL.Path)
}

func withAPI(c *clerk) func(*chat.Deps, *Options) {
	return func(_ *chat.Deps, o *Options) { o.API = c }
}

func ask(id, action, payload string) string {
	if payload != "" {
		payload = `,"payload":` + payload
	}
	return fmt.Sprintf(`{"type":"webui_request","request_id":%q,"action":%q%s}`, id, action, payload)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	api := &clerk{}
	r := start(t, "", withAPI(api))
	c := r.login()
	refusal := func(status float64, code, message string) map[string]any {
		e := map[string]any{"status": status, "code": code, "message": message}
		if code == "no_such_thing" {
			e["params"] = map[string]any{"status": status}
		}
		return map[string]any{"ok": false, "error": e}
	}
	for _, tt := range []struct {
		name, frame string
		want        map[string]any
		done        int // actions carried out so far
	}{
		{"one", ask("a", "x.y", `{"k":1}`), map[string]any{"ok": true, "result": map[string]any{"n": 1.0}}, 1},
		{"again", ask("a", "x.y", `{"k":1}`), map[string]any{"ok": true, "result": map[string]any{"n": 1.0}}, 1},
		{"other payload", ask("a", "x.y", `{"k":2}`), refusal(409, "request_id_reused", "this request_id was used for something else"), 1},
		{"other action", ask("a", "x.z", `{"k":1}`), refusal(409, "request_id_reused", "this request_id was used for something else"), 1},
		{"another", ask("b", "x.y", `{"k":1}`), map[string]any{"ok": true, "result": map[string]any{"n": 2.0}}, 2},
		{"refused", ask("c", "refuse", ""), refusal(422, "no_such_thing", "refused"), 3},
		{"refused again", ask("c", "refuse", ""), refusal(422, "no_such_thing", "refused"), 3},
		{"broken", ask("d", "panic", ""), refusal(500, "internal", "internal error"), 4},
		{"no action", ask("e", "", ""), refusal(400, "action_invalid", "invalid action"), 4},
		{"bad action", ask("e", "Session.delete", ""), refusal(400, "action_invalid", "invalid action"), 4},
	} {
		c.say(tt.frame)
		got := strip(c.until("webui_response"), "event", "request_id")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if n := api.count(); n != tt.done {
			t.Errorf("%s: %d actions, want %d", tt.name, n, tt.done)
		}
	}
}

// A request that goes on holds up nothing; asked again elsewhere it is not
// carried out twice; too many at once are refused.
func TestRequestsBesideOthers(t *testing.T) {
	t.Parallel()
	api := &clerk{hold: make(chan struct{})}
	r := start(t, "", withAPI(api))
	a, b := r.login(), r.login()
	a.modern()
	for i := range maxAtOnce {
		a.say(ask(fmt.Sprint("s", i), "slow", ""))
	}
	a.say(ask("one too many", "slow", "")) // the id is no good either
	if m := a.until("error"); m["detail"] != "invalid request_id" {
		t.Errorf("got %v", m)
	}
	a.say(ask("more", "slow", ""))
	if m := a.until("webui_response"); !strings.Contains(fmt.Sprint(m["error"]), "429") {
		t.Errorf("got %v", m)
	}
	b.say(ask("s0", "slow", ""))
	b.say(ask("quick", "x", ""))
	if m := b.until("webui_response"); m["request_id"] != "quick" {
		t.Errorf("got %v before it was let go", m)
	}
	close(api.hold)
	if m := b.until("webui_response"); m["request_id"] != "s0" || m["ok"] != true {
		t.Errorf("got %v", m)
	}
	for range maxAtOnce {
		if m := a.until("webui_response"); m["ok"] != true {
			t.Errorf("got %v", m)
		}
	}
	if n := api.count(); n != maxAtOnce+1 {
		t.Errorf("%d actions, want %d", n, maxAtOnce+1)
	}
}

// What was interrupted by the loss of a connection may be asked again.
func TestRequestInterrupted(t *testing.T) {
	t.Parallel()
	api := &clerk{hold: make(chan struct{})}
	r := start(t, "", withAPI(api))
	a := r.login()
	a.say(ask("s", "slow", ""))
	for api.count() == 0 {
		a.say(`{"type":"attach","chat_id":"x"}`)
		a.until("attached")
	}
	_ = a.conn.CloseNow()
	b := r.login()
	b.say(ask("s", "slow", ""))
	close(api.hold)
	if m := b.until("webui_response"); m["ok"] != true {
		t.Errorf("got %v", m)
	}
}

// Large answers are remembered only as far as there is room, the newest at any
// rate, and what goes on is never forgotten.
func TestAnswersHaveBounds(t *testing.T) {
	t.Parallel()
	var q requests
	now := time.Now()
	sum := [sha256.Size]byte{1}
	q.begin("slow", sum, now)
	for i := range 2 * maxAnswers {
		now = now.Add(time.Minute / 60)
		id := strconv.Itoa(i)
		a, mine, _ := q.begin(id, sum, now)
		if !mine {
			t.Fatalf("%s was known", id)
		}
		q.resolve(id, a, make([]byte, maxKept/8))
		if _, mine, fits := q.begin(id, sum, now); mine || !fits {
			t.Fatalf("the answer to %s was forgotten at once", id)
		}
		if q.bytes > maxKept || q.bytes != len(q.known[id].frame)*(len(q.known)-1) {
			t.Fatalf("%d bytes in %d answers, want at most %d", q.bytes, len(q.known)-1, maxKept)
		}
	}
	if _, mine, _ := q.begin("slow", sum, now.Add(time.Hour)); mine {
		t.Error("what goes on is begun again")
	}
}

// Who joins a conversation that was deleted gets nothing of it.
func TestDeletedIsForgotten(t *testing.T) {
	t.Parallel()
	r := start(t, "", withAPI(&clerk{}))
	a, b := r.login(), r.login()
	chatID := a.modern()
	r.send(bus.Outbound{ID: "1", Kind: bus.Message, Route: route(chatID, ""), Text: "old"})
	a.until("message")
	a.say(ask("1", "session.delete", `{"key":"websocket:`+chatID+`"}`))
	a.until("webui_response")
	b.say(`{"type":"resume","chat_id":"` + chatID + `","last_seq":0}`)
	b.until("attached")
	r.send(bus.Outbound{ID: "2", Kind: bus.Message, Route: route(chatID, ""), Text: "new"})
	for _, c := range []*client{a, b} {
		if m := c.until("message"); m["text"] != "new" {
			t.Errorf("got %v after the chat was deleted", m)
		}
	}
}

// Only who proved to be the owner changes things; a local program that was let
// in without a token, directly or by the bootstrap, has not.
func TestRequestsNeedProof(t *testing.T) {
	t.Parallel()
	api := &clerk{}
	r := start(t, `{"websocketRequiresToken":false}`, withAPI(api))
	var b bootstrap
	if err := json.Unmarshal([]byte(r.read("/webui/bootstrap", "", 200)), &b); err != nil {
		t.Fatal(err)
	}
	if b.APIToken != "" || b.Token == "" || b.Capabilities["desk"] {
		t.Errorf("bootstrap = %+v", b)
	}
	for _, query := range []string{"client_id=x", "client_id=x&token=" + b.Token} {
		c := r.dial(query)
		c.say(ask("a", "x", ""))
		if m := c.until("webui_response"); !strings.Contains(fmt.Sprint(m["error"]), "403") {
			t.Errorf("%s: %v", query, m)
		}
		c.say(`{"type":"set_sidebar_state","state":{}}`)
		if m := c.until("error"); m["detail"] != "access_denied" {
			t.Errorf("%s: %v", query, m)
		}
	}
	if n := api.count(); n != 0 {
		t.Errorf("%d actions were carried out", n)
	}
	r.read("/api/sessions", "", 401)
}

// read gets a path with a token, none if it is "".
func (r *rig) read(path, token string, want int) string {
	r.t.Helper()
	code, body, _ := r.get(path, "Authorization", "Bearer "+token)
	if code != want {
		r.t.Errorf("GET %s = %d %s, want %d", path, code, body, want)
	}
	return body
}

func TestAPIAccess(t *testing.T) {
	t.Parallel()
	r := start(t, `{"tokenIssueSecret":"issue-secret-0123456789","tokenIssuePath":"/issue"}`, withAPI(&clerk{}))
	var b bootstrap
	if err := json.Unmarshal([]byte(r.read("/webui/bootstrap", "issue-secret-0123456789", 200)), &b); err != nil {
		t.Fatal(err)
	}
	for range 2 { // good for as long as it lasts
		if got := r.read("/api/sessions/a%2Fb/context", b.APIToken, 200); got != "desk /api/sessions/a/b/context" {
			t.Errorf("got %q", got)
		}
	}
	r.read("/api/x?token="+b.APIToken, "", 200)
	var no struct {
		Error struct {
			Status  int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(r.read("/api/x", "", 401)), &no); err != nil || no.Error.Status != 401 || no.Error.Message == "" {
		t.Errorf("a refusal looks different from those of the API: %+v %v", no, err)
	}
	r.read("/api/x", "nbat_wrong", 401)
	r.read("/api/x", b.Token, 401) // that one is for the socket
	c := r.dial("client_id=x&token=" + b.Token)
	c.say(ask("a", "x", ""))
	if m := c.until("webui_response"); m["ok"] != true {
		t.Errorf("with a token of the bootstrap: %v", m)
	}
	if _, err := dial(t.Context(), r.url+"/?token="+b.APIToken, nil); err == nil {
		t.Error("the token for /api/ opens the socket")
	}
	if code, _, _ := r.get("/api/x", "Authorization", "Bearer "+b.APIToken, "Origin", "https://evil.example"); code != http.StatusForbidden {
		t.Errorf("a page of somebody else: %d", code)
	}
}

// A look at the headers alone makes no token.
func TestHeadMakesNoToken(t *testing.T) {
	t.Parallel()
	r := start(t, `{"tokenIssueSecret":"issue-secret-0123456789","tokenIssuePath":"/issue"}`)
	for _, path := range []string{"/webui/bootstrap", "/issue"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer issue-secret-0123456789")
		tr := &http.Transport{}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		tr.CloseIdleConnections()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("HEAD %s: %d", path, resp.StatusCode)
		}
	}
	now := time.Now()
	if got, want := roomFor(r.c.issued, now), roomFor(auth.NewTokens("x"), now); got != want {
		t.Errorf("HEAD made %d tokens", want-got)
	}
}

func TestSidebarState(t *testing.T) {
	t.Parallel()
	r := start(t, "", withAPI(&clerk{}))
	a, b, old := r.login(), r.login(), r.login()
	a.modern()
	b.modern()
	a.say(`{"type":"set_sidebar_state","state":{"pinned":["x"]}}`)
	want := map[string]any{"event": "sidebar_state_updated", "state": map[string]any{"pinned": []any{"x"}}}
	for _, c := range []*client{a, b} {
		if diff := cmp.Diff(want, c.next()); diff != "" {
			t.Error(diff)
		}
	}
	a.say(`{"type":"set_sidebar_state"}`)
	if m := a.next(); m["detail"] != "sidebar_state_rejected" {
		t.Errorf("without a state: %v", m)
	}
	a.say(ask("1", "session.rename", `{"key":"websocket:abc","title":"T"}`))
	if m := b.next(); m["event"] != "session_updated" || m["chat_id"] != "abc" || m["scope"] != "session.rename" {
		t.Errorf("got %v", m)
	}
	r.c.UsualModel("m2", "fast")
	if diff := cmp.Diff(map[string]any{"event": "runtime_model_updated", "model_name": "m2", "model_preset": "fast"}, b.next()); diff != "" {
		t.Error(diff)
	}
	old.say("hello") // it heard none of this
	r.send(bus.Outbound{ID: "1", Kind: bus.Message, Route: route(old.chat, ""), Text: "hi"})
	if m := old.next(); m["event"] != "message" {
		t.Errorf("a client of the older generation got %v", m)
	}
}
