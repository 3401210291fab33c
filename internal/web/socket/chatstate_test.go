package socket

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	ws "github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// Who comes to a chat is told how it stands.
func TestChatState(t *testing.T) {
	t.Parallel()
	goal := &bus.Goal{Status: "active", Objective: "build a ship", StartedAt: time.Unix(1, 0).UTC(), Rounds: 2}
	r := start(t, "", func(_ *chat.Deps, o *Options) {
		o.Model = func() string { return "m1" }
		o.ChatState = func(_ context.Context, to bus.Route) ChatState {
			if to != (bus.Route{Channel: "websocket", ChatID: "known"}) {
				return ChatState{}
			}
			return ChatState{Goal: goal, Preset: "fast", Scope: &guard.Scope{Path: "/p", Mode: "restricted"}, Kept: "unified:default"}
		}
	})
	c := r.login()
	c.say(`{"type":"attach","chat_id":"known"}`)
	want := map[string]any{
		"event": "attached", "chat_id": "known", "model_name": "m1", "model_preset": "fast", "session": "unified:default",
		"workspace_scope": map[string]any{"project_path": "/p", "access_mode": "restricted"},
	}
	if diff := cmp.Diff(want, strip(c.next(), "seq")); diff != "" {
		t.Error(diff)
	}
	shown := map[string]any{"active": true, "status": "active", "objective": "build a ship", "started_at": "1970-01-01T00:00:01Z", "rounds": 2.0}
	if diff := cmp.Diff(map[string]any{"event": "goal_state", "chat_id": "known", "goal_state": shown}, c.next()); diff != "" {
		t.Error(diff)
	}
	c.say(`{"type":"attach","chat_id":"new"}`)
	if diff := cmp.Diff(map[string]any{"event": "attached", "chat_id": "new", "model_name": "m1"}, strip(c.next(), "seq")); diff != "" {
		t.Error(diff)
	}
}

// What a turn does besides talking: its goal, files, and a model that stands in.
func TestGoalsAndEdits(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c, old := r.login(), r.login()
	chatID := c.modern()
	rt := route(chatID, "t1")
	goal := &bus.Goal{Status: "completed", Objective: "x", Recap: "all", StartedAt: time.Unix(0, 0).UTC()}
	r.send(bus.Outbound{Kind: bus.GoalState, Route: rt, Goal: goal})
	r.send(bus.Outbound{Kind: bus.ToolDelta, Route: rt, Tool: &bus.Tool{CallID: "c1", Name: "write_file", Phase: "arguments", Arguments: `{"path":"a`, Index: 1}})
	r.send(bus.Outbound{Kind: bus.ToolEvent, Route: rt, Tool: &bus.Tool{CallID: "h1", Name: "web_search", Phase: "end", Arguments: "weather", Detail: "[]", Hosted: true}})
	r.send(bus.Outbound{Kind: bus.FileEdit, Route: rt, Edits: []bus.Edit{
		{CallID: "c1", Path: "a.txt", What: "created", Lines: true, Added: 2, Diff: "+x\n"}, {CallID: "c1", Path: "b.bin", What: "deleted"},
	}})
	f := final("f1", chatID, "t1", "done")
	f.Turn.Model, f.Turn.Fallback, f.Turn.Preset, f.Turn.Window, f.Turn.Goal = "m1", "m2", "fast", 1000, goal
	r.send(f)
	shown := map[string]any{"active": false, "status": "completed", "objective": "x", "recap": "all", "started_at": "1970-01-01T00:00:00Z"}
	c.until("goal_status")
	for i, want := range []map[string]any{
		{"event": "goal_state", "goal_state": shown},
		{"event": "tool_delta", "call_id": "c1", "name": "write_file", "index": 1.0, "arguments": `{"path":"a`},
		{"event": "message", "kind": "progress", "text": "", "tool_events": []any{map[string]any{
			"version": 1.0, "phase": "end", "call_id": "h1", "name": "web_search", "arguments": "weather", "hosted": true, "result": "[]", "duration_ms": 0.0,
		}}},
		{"event": "file_edit", "turn_id": "t1", "edits": []any{
			map[string]any{"call_id": "c1", "path": "a.txt", "status": "done", "operation": "created", "added": 2.0, "deleted": 0.0, "diff": "+x\n"},
			map[string]any{"call_id": "c1", "path": "b.bin", "status": "done", "operation": "deleted"},
		}},
		{"event": "message", "id": "f1", "text": "done", "turn_id": "t1", "latency_ms": 7.0},
		{"event": "turn_model_updated", "turn_id": "t1", "model_name": "m2", "model_preset": "fast", "context_window_tokens": 1000.0, "fallback": true},
		{
			"event": "turn_end", "id": "f1", "turn_id": "t1", "latency_ms": 7.0, "stop_reason": "completed", "model": "m2",
			"undo_id": "t", "fallback": true, "context_window_tokens": 1000.0, "goal_state": shown, "usage": map[string]any{"prompt_tokens": 0.0, "completion_tokens": 0.0},
		},
	} {
		want["chat_id"] = chatID
		if diff := cmp.Diff(want, strip(c.next(), "seq")); diff != "" {
			t.Errorf("event %d (-want +got):\n%s", i, diff)
		}
	}
	r.send(bus.Outbound{Kind: bus.GoalState, Route: route(old.chat, "")})
	r.send(final("f2", old.chat, "", "plain"))
	if m := old.next(); m["event"] != "message" {
		t.Errorf("a client of the older generation got %v", m)
	}
}

func TestWorkspaceScope(t *testing.T) {
	t.Parallel()
	type asked struct {
		Chat   string
		Want   guard.Scope
		Remote bool
	}
	var got []asked
	r := start(t, "", func(_ *chat.Deps, o *Options) {
		o.Scope = func(_ context.Context, to bus.Route, want guard.Scope, remote bool) (guard.Scope, error) {
			got = append(got, asked{to.ChatID, want, remote})
			if want.Path == "/etc" {
				return guard.Scope{}, errors.New("not there")
			}
			return guard.Scope{Path: "/full/" + want.Path, Mode: "restricted"}, nil
		}
	})
	a, b := r.login(), r.login()
	a.modern()
	const inForce = "/full/p"
	scoped := map[string]any{"project_path": inForce, "access_mode": "restricted"}
	a.say(`{"type":"new_chat","workspace_scope":{"project_path":"p"}}`)
	chatID, _ := a.until("attached")["chat_id"].(string)
	if diff := cmp.Diff(map[string]any{"event": "session_updated", "chat_id": chatID, "scope": "workspace", "workspace_scope": scoped}, a.next()); diff != "" {
		t.Error(diff)
	}
	b.say(`{"type":"attach","chat_id":"` + chatID + `"}`)
	b.until("attached")
	a.say(`{"type":"set_workspace_scope","chat_id":"` + chatID + `","workspace_scope":{"project_path":"p","access_mode":"full"}}`)
	for _, c := range []*client{a, b} {
		if m := c.until("session_updated"); cmp.Diff(scoped, m["workspace_scope"]) != "" || m["scope"] != "workspace" {
			t.Errorf("got %v", m)
		}
	}
	a.say(`{"type":"message","chat_id":"` + chatID + `","content":"go","workspace_scope":{"project_path":"p"}}`)
	if in := r.inbound(); in.Text != "go" {
		t.Errorf("inbound %+v", in)
	}
	for _, bad := range []string{
		`{"type":"message","chat_id":"` + chatID + `","content":"no","workspace_scope":{"project_path":"/etc"}}`,
		`{"type":"new_chat","workspace_scope":"p"}`,
		`{"type":"set_workspace_scope","chat_id":"` + chatID + `"}`,
		`{"type":"set_workspace_scope","chat_id":"temp-x","workspace_scope":{"project_path":"p"}}`,
	} {
		a.say(bad)
		if m := a.until("error"); m["detail"] != "workspace_scope_rejected" || m["reason"] == "" {
			t.Errorf("%s: %v", bad, m)
		}
	}
	want := []asked{{chatID, guard.Scope{Path: "p"}, false}, {chatID, guard.Scope{Path: "p", Mode: "full"}, false}, {chatID, guard.Scope{Path: "p"}, false}, {chatID, guard.Scope{Path: "/etc"}, false}}
	// What is refused for another reason changes no folder.
	for detail, bad := range map[string]string{
		"missing content":     `"content":" "`,
		"attachment_rejected": `"content":"x","media":["y"]`,
	} {
		a.say(`{"type":"message","chat_id":"` + chatID + `","workspace_scope":{"project_path":"q"},` + bad + `}`)
		if m := a.until("error"); m["detail"] != detail {
			t.Errorf("%s: %v", bad, m)
		}
	}
	// Who does not listen to the chat gets an answer as well.
	a.say(`{"type":"set_workspace_scope","chat_id":"elsewhere","workspace_scope":{"project_path":"p"}}`)
	if m := a.until("session_updated"); m["chat_id"] != "elsewhere" || cmp.Diff(scoped, m["workspace_scope"]) != "" {
		t.Errorf("set_workspace_scope of a chat nobody listens to: %v", m)
	}
	want = append(want, asked{"elsewhere", guard.Scope{Path: "p"}, false})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	select {
	case in := <-r.got:
		t.Errorf("a message whose scope was refused reached the agent: %+v", in)
	default:
	}
}

// Programs of this machine that proved nothing get no more than those far away.
func TestScopeWithoutToken(t *testing.T) {
	t.Parallel()
	asked := make(chan bool, 1)
	r := start(t, `{"websocketRequiresToken":false}`, func(_ *chat.Deps, o *Options) {
		o.Scope = func(_ context.Context, _ bus.Route, want guard.Scope, remote bool) (guard.Scope, error) {
			asked <- remote
			return want, nil
		}
	})
	r.dial("").say(`{"type":"new_chat","workspace_scope":{"project_path":"/"}}`)
	if !<-asked {
		t.Error("a client without a token may widen the folder of a chat")
	}
}

// A command line comes only from somebody at this machine who has the token.
func TestUserShell(t *testing.T) {
	t.Parallel()
	const say = `{"type":"message","chat_id":"a","content":" ls ","user_shell":true,"quoted_context":"x"}`
	r := start(t, "")
	c := r.login()
	c.say(say)
	if in := r.inbound(); !in.Shell || in.Text != "ls" {
		t.Errorf("inbound %+v", in)
	}
	c.say(`{"type":"message","chat_id":"a","content":"ls"}`)
	if in := r.inbound(); in.Shell {
		t.Errorf("inbound %+v", in)
	}
	conn, err := dial(t.Context(), r.url+"/?token="+testToken, &ws.DialOptions{HTTPHeader: http.Header{"X-Forwarded-For": {"192.0.2.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	front := start(t, `{"trustedProxyAuth":{"trustedPeerCidrs":["127.0.0.0/8","::1/128"],"assertionHeader":"X-User"}}`)
	guest, err := dial(t.Context(), front.url, &ws.DialOptions{HTTPHeader: http.Header{"X-User": {"ann"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guest.CloseNow() })
	open := start(t, `{"websocketRequiresToken":false}`)
	for name, c := range map[string]*client{"passed on": {t: t, conn: conn}, "vouched for": {t: t, conn: guest}, "without a token": open.dial("")} {
		c.say(say)
		if m := c.until("error"); m["detail"] != "message_rejected" || m["reason"] == "" {
			t.Errorf("%s: %v", name, m)
		}
	}
}
