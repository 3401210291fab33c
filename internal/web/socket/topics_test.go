package socket

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// told are the events that a feed gives, without its wait for a pause.
func told(t *testing.T, s *socket) (out []map[string]any) {
	t.Helper()
	s.c.hub.mu.Lock()
	defer s.c.hub.mu.Unlock()
	for _, o := range s.feed.collect(nil, s.c.hub.pausing) {
		var m map[string]any
		if err := json.Unmarshal(o.data, &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func TestTopicsOnTheSocket(t *testing.T) {
	r := start(t, "", withAPI(&clerk{}))
	c := r.login()
	c.modern()
	c.say(`{"type":"subscribe","topics":["sessions","budget","nonsense","sessions"]}`)
	if got := c.until("subscribed")["topics"]; !cmp.Equal(got, []any{"budget", "sessions"}) {
		t.Fatalf("subscribed to %v", got)
	}
	r.c.Publish("settings", nil) // not asked for
	r.c.Publish("sessions", map[string]int{"x": 7})
	want := map[string]any{"event": "changed", "topic": "sessions", "n": 1.0, "data": map[string]any{"x": 7.0}}
	if diff := cmp.Diff(want, c.until("changed")); diff != "" {
		t.Error(diff)
	}
	r.c.Publish("budget", nil)
	want = map[string]any{"event": "changed", "topic": "budget", "n": 2.0}
	if diff := cmp.Diff(want, c.until("changed")); diff != "" {
		t.Error(diff)
	}
	c.say(ask("1", "session.rename", `{"key":"websocket:a"}`)) // an action tells by itself
	if got := c.until("changed")["topic"]; got != "sessions" {
		t.Errorf("an action told about %v", got)
	}
}

func TestTopicsNeedProof(t *testing.T) {
	r := start(t, `{"websocketRequiresToken":false}`)
	c := r.dial("client_id=stranger")
	c.modern()
	c.say(`{"type":"subscribe","topics":["sessions"]}`)
	if got := c.until("error")["code"]; got != "access_denied" {
		t.Errorf("a stranger got %v", got)
	}
}

func TestTopicsAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Channel{hub: newHub(time.Now, chat.Filters{})}
		s := &socket{c: c, wake: make(chan struct{}, 1), places: map[*conversation]*place{}}
		s.feed.topics = []string{"sessions", "log"}
		c.hub.join(s)
		for range 100 {
			c.Publish("sessions", nil)
		}
		if got := told(t, s); got != nil {
			t.Errorf("told before the pause was over: %v", got)
		}
		<-s.wake
		if got := told(t, s); len(got) != 1 || got[0]["topic"] != "sessions" || got[0]["n"] != 1.0 {
			t.Errorf("a hundred changes are told as %v", got)
		}
	})
}

func TestTopicsThatAreDropped(t *testing.T) {
	c := &Channel{hub: newHub(time.Now, chat.Filters{})}
	s := &socket{c: c, wake: make(chan struct{}, 1), places: map[*conversation]*place{}}
	s.feed.topics = []string{"log"}
	c.hub.join(s)
	for n := range topicRoom {
		c.Publish("log", n)
	}
	got := told(t, s)
	if len(got) != topicRoom || got[topicRoom-1]["data"] != float64(topicRoom-1) {
		t.Fatalf("%d events, the last %v", len(got), got[len(got)-1])
	}
	for n := range topicRoom + 1 {
		c.Publish("log", n)
	}
	if got := told(t, s); len(got) != 1 || got[0]["event"] != "resync" {
		t.Errorf("a client that is behind got %v", got)
	}
	c.Publish("log", "on")
	if got := told(t, s); len(got) != 1 || got[0]["n"] != float64(topicRoom+1) {
		t.Errorf("it goes on with %v", got)
	}
}
