package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// A page reads along in the conversation of a platform, hears what changes, and
// knows how many answers it has not shown.
func TestPagesHear(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	b, s := h.page()
	s.say(`{"type":"subscribe","topics":["sessions","budget","devices","settings"]}`)
	s.until("subscribed")
	s.say(`{"type":"watch","key":"party:ann"}`)
	s.until("attached")
	h.must(h.party.write(t, "ann", "1", "say #one"))
	// A change may be told before the event that it belongs to.
	for seen := map[any]bool{}; !seen["user_message"] || !seen["turn_end"] || !seen["sessions"] || !seen["budget"]; {
		m := s.until("user_message", "turn_end", "changed")
		switch seen[m["event"]], seen[m["topic"]] = true, true; m["event"] {
		case "user_message":
			if m["text"] != "say #one" || m["chat_id"] != "@party:ann" {
				t.Errorf("heard %v", m)
			}
		case "turn_end":
			if m["chat_id"] != "@party:ann" {
				t.Errorf("ended: %v", m)
			}
		}
	}
	h.party.hear(t, "echo #one")
	unread := func() int {
		_, _, body := b.do(http.MethodGet, "api/sessions", "", nil)
		var list struct{ Sessions []struct{ Unread int } }
		h.must(json.Unmarshal([]byte(body), &list))
		return list.Sessions[0].Unread
	}
	if n := unread(); n != 1 {
		t.Errorf("%d unread", n)
	}
	s.say(`{"type":"webui_request","request_id":"1","action":"session.seen","payload":{"key":"party:ann"}}`)
	s.until("webui_response")
	if n := unread(); n != 0 {
		t.Errorf("%d unread after it was shown", n)
	}
	other := &browser{t: t, url: b.url, origin: b.origin}
	other.signIn(gateway.PageLink(h.g))
	for topic := any(nil); topic != "devices"; {
		topic = s.until("changed")["topic"]
	}
	h.must(h.g.Reload(t.Context()))
	for topic := any(nil); topic != "settings"; {
		topic = s.until("changed")["topic"]
	}
	h.must(h.end())
}

// A thread of a chat is watched by itself, and so is the chat of a guest where all
// conversations of the owner are one. The end of a turn is the last that is seen.
func TestPagesHearOneConversation(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(strings.Replace(partyConfig, `"defaults": {`, `"defaults": {"unifiedSession": true, `, 1))
	h.start()
	<-h.party.joined
	_, s := h.page()
	for _, key := range []string{"unified:default", "party:ann", "party:ann:thread:5"} {
		s.say(`{"type":"watch","key":"` + key + `"}`)
		s.until("attached")
	}
	thread := func(in *bus.Inbound) { in.Route.ThreadID, in.SessionKey = "5", "party:ann:thread:5" }
	guest := func(in *bus.Inbound) { in.Scope = "party:ann/eve" }
	owner := func(*bus.Inbound) {}
	got := map[string][]string{}
	for i, one := range []struct {
		says func(*bus.Inbound)
		chat string
	}{{thread, "@party:ann:thread:5"}, {guest, "@party:ann"}, {owner, "@unified:default"}, {owner, "@unified:default"}} {
		id := strconv.Itoa(i)
		h.must(h.party.write(t, "ann", id, "say #"+id, func(in *bus.Inbound) { in.Route.MessageID = id }, one.says))
		for event := any(nil); event != "turn_end"; {
			m := s.until("user_message", "turn_end", "goal_status")
			if event = m["event"]; m["turn_id"] != id || m["chat_id"] != one.chat {
				t.Errorf("message %d: %v", i, m)
			}
			got[one.chat] = append(got[one.chat], fmt.Sprint(event))
		}
	}
	turn := []string{"user_message", "turn_end"}
	want := map[string][]string{"@party:ann:thread:5": turn, "@party:ann": turn, "@unified:default": slices.Concat(turn, turn)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	h.must(h.end())
}

// A file that a page sends is for the messages of its device only.
func TestPagesUpload(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(pagesConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	file := http.Header{"Content-Type": {"application/octet-stream"}, "X-Nanobot-Type": {"text/plain"}, "X-Nanobot-Name": {"notes.txt"}}
	with := func(key string, value ...string) http.Header {
		out := file.Clone()
		out[key] = value
		return out
	}
	b := &browser{t: t, url: server.URL + "/a/b/", origin: server.URL}
	if code, _, _ := b.do(http.MethodPost, "webui/upload", "words", file); code != http.StatusUnauthorized {
		t.Errorf("without a session: %d", code)
	}
	b.signIn(gateway.PageLink(h.g))
	for name, header := range map[string]http.Header{
		"another origin": with("Origin", "http://evil.example"), "no origin": with("Origin"), "no page": with("X-Nanobot-Page"), "another site": with("Sec-Fetch-Site", "cross-site"),
	} {
		if code, _, _ := b.do(http.MethodPost, "webui/upload", "words", header); code != http.StatusForbidden {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _, _ := b.do(http.MethodGet, "webui/upload", "", file); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", code)
	}
	s, _, err := b.dial()
	h.must(err)
	s.until("ready")
	code, _, body := b.do(http.MethodPost, "webui/upload", "words", file)
	var up struct {
		ID string `json:"upload_id"`
	}
	if err := json.Unmarshal([]byte(body), &up); err != nil || code != http.StatusOK || up.ID == "" {
		t.Fatalf("upload = %d %s", code, body)
	}
	other := &browser{t: t, url: server.URL + "/", origin: server.URL}
	other.signIn(gateway.PageLink(h.g))
	foreign, _, err := other.dial()
	h.must(err)
	use := func(s socket, turn string) map[string]any {
		s.say(`{"type":"message","chat_id":"yard","content":"say #one","turn_id":"` + turn + `","media":[{"upload_id":"` + up.ID + `"}]}`)
		return s.until("message_accepted", "error")
	}
	if m := use(foreign, "f"); m["reason"] != "upload_gone" {
		t.Errorf("another device: %v", m)
	}
	if m := use(s, "1"); m["event"] != "message_accepted" {
		t.Fatalf("its own device: %v", m)
	}
	s.until("turn_end")
	if m := use(s, "2"); m["reason"] != "upload_gone" {
		t.Errorf("twice: %v", m)
	}
	_, _, body = b.do(http.MethodGet, "api/sessions/websocket%3Ayard/webui-thread", "", nil)
	if !strings.Contains(body, `"name":"notes.txt"`) {
		t.Errorf("thread = %s", body)
	}
	h.must(h.end())
	if left, err := os.ReadDir(h.dir + "/media/websocket/uploads"); err == nil && len(left) > 0 {
		t.Errorf("uploads are left: %v", left)
	}
}
