package matrix_test

import (
	"encoding/json"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

// TestFake lets matrix-nio work with our fake homeserver: what it understands
// and sends must be what the fake means.
func TestFake(t *testing.T) {
	python := certify.Python(t, ".")
	const ann, room, invitation = "@ann:" + matrixtest.Server, "!both:" + matrixtest.Server, "!inv:" + matrixtest.Server
	h := matrixtest.New()
	defer h.Close()
	h.Account(ann, "ann's")
	h.Room(room, nil, matrixtest.Bot, ann)
	h.Room(invitation, nil, matrixtest.Bot)
	p := newPeer(t, python, h.URL(), ann, "ann's", true)

	if got := p.do(object{"do": "refused"}); got["error"] != "M_FORBIDDEN" {
		t.Errorf("a wrong password: %v", got)
	}
	if got := p.login(); got["user"] != ann {
		t.Errorf("login: %v", got)
	}

	h.Say(matrixtest.Event{ID: "$1", Room: room, Sender: matrixtest.Bot}, matrixtest.Object{
		"msgtype": "m.text", "body": "**hi**", "format": "org.matrix.custom.html", "formatted_body": "<strong>hi</strong>",
	})
	if got := p.receive("**hi**"); got["formatted_body"] != "<strong>hi</strong>" || got["kind"] != "RoomMessageText" || got["sender"] != matrixtest.Bot {
		t.Errorf("a message: %v", got)
	}
	h.Say(matrixtest.Event{Room: room, Sender: matrixtest.Bot}, matrixtest.Object{
		"msgtype": "m.text", "body": "* changed", "m.new_content": matrixtest.Text("changed"),
		"m.relates_to": matrixtest.Object{"rel_type": "m.replace", "event_id": "$1"},
	})
	if got := p.receive("changed"); got["relates"] != "m.replace" || got["event"] != "$1" {
		t.Errorf("an edit: %v", got)
	}

	first := p.do(object{"do": "send", "room": room, "text": "once", "txn": "t1"})
	again := p.do(object{"do": "send", "room": room, "text": "once", "txn": "t1"})
	if first["id"] != again["id"] {
		t.Errorf("the same transaction made %v and %v", first, again)
	}
	p.do(object{"do": "upload", "room": room, "name": "plan.txt", "data": "dig here"})
	p.do(object{"do": "typing", "room": room, "on": true})
	if !h.Typing(room, ann) {
		t.Error("nobody types")
	}
	gone := p.do(object{"do": "send", "room": room, "text": "a mistake"})
	p.do(object{"do": "redact", "room": room, "id": gone["id"]})

	got := h.Messages(ann)
	if len(got) != 2 || got[0].Body != "once" || got[1].File != "plan.txt" {
		t.Fatalf("the fake has %+v", got)
	}
	var c struct{ URL string }
	if err := json.Unmarshal(got[1].Event.Content, &c); err != nil || string(h.File(c.URL)) != "dig here" {
		t.Errorf("the file at %q is %q, %v", c.URL, h.File(c.URL), err)
	}

	h.Say(matrixtest.Event{Room: room, Sender: matrixtest.Bot}, matrixtest.Object{
		"msgtype": "m.file", "body": "answer.txt", "url": h.Store("text/plain", []byte("42")), "info": matrixtest.Object{"size": 2},
	})
	if got := p.do(object{"do": "download", "name": "answer.txt"}); got["data"] != "42" {
		t.Errorf("a download: %v", got)
	}
	h.Member(invitation, matrixtest.Bot, ann, "invite")
	if got := p.do(object{"do": "invitation", "room": invitation}); len(got["members"].([]any)) != 2 {
		t.Errorf("an invitation: %v", got)
	}
	if len(h.Calls("/keys/upload")) == 0 {
		t.Error("the library uploaded no keys")
	}
}
