package gateway_test

import (
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// stopWithin is how long a stop may take on a machine that has time for it.
const stopWithin = 200 * time.Millisecond

// stopTries is how often a busy machine may be slower than that.
const stopTries = 10

// What waits for something that nobody can bring about does not hold up the end:
// it is in the journal, and the next start delivers it.
func TestStopDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *host, string){
		"for a client that is away":                clientAway,
		"for a client that does not close its end": clientStays,
		"for a client that does not read":          clientDeaf,
		"for a platform that fails":                platformFails,
		"for a connection that has not asked yet":  connectionOpened,
		"for a client and a platform at the same time": func(t *testing.T, h *host, url string) {
			clientAway(t, h, url)
			platformFails(t, h, url)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for try := 1; ; try++ {
				took := stopTime(t, prepare)
				if took <= stopWithin {
					return
				}
				if try == stopTries {
					t.Fatalf("a stop took %s, want less than %s", took, stopWithin)
				}
			}
		})
	}
}

// stopTime is how long a gateway takes to stop.
func stopTime(t *testing.T, prepare func(*testing.T, *host, string)) time.Duration {
	t.Helper()
	model := llmtest.NewScript(t)
	model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("my last words") }
	h := newHost(t, model)
	h.configure(strings.Replace(socketConfig, `"channels": {`, `"channels": {"party": {"enabled": true, "allowFrom": ["ann"]}, `, 1))
	h.listen = "127.0.0.1:0"
	h.start()
	<-h.party.joined
	url := "http://" + h.g.Addr().String()
	awaitSocket(t, url)
	prepare(t, h, url)
	start := time.Now()
	h.must(h.end())
	return time.Since(start)
}

// untilQueued waits until answers are in the queue of a channel.
func (h *host) untilQueued(channel string) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); h.g.Status().Queue.Outbound[channel] == 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("the queue holds %v", h.g.Status().Queue.Outbound)
		}
	}
}

func clientAway(t *testing.T, h *host, url string) {
	t.Helper()
	s := connect(t, url)
	s.say(`{"type":"message","chat_id":"yard","content":"hello","turn_id":"1"}`)
	s.until("message_accepted")
	_ = s.conn.CloseNow()
	h.must(h.g.Say(t.Context(), bus.Outbound{Kind: bus.Message, Route: bus.Route{Channel: "websocket", ChatID: "nobody"}, Text: "are you there?"}))
	h.untilQueued("websocket")
}

// clientStays reads nothing any more, so it never answers the end of the connection.
func clientStays(t *testing.T, _ *host, url string) {
	t.Helper()
	connect(t, url)
}

func clientDeaf(t *testing.T, h *host, url string) {
	t.Helper()
	s := connect(t, url)
	s.say(`{"type":"attach","chat_id":"yard"}`)
	s.until("attached")
	much := strings.Repeat("many words. ", 1<<20/12)
	for h.g.Status().Queue.Outbound["websocket"] == 0 { // until there is more than the system keeps for a reader
		h.must(h.g.Say(t.Context(), bus.Outbound{Kind: bus.Message, Route: bus.Route{Channel: "websocket", ChatID: "yard"}, Text: much}))
		for range 20 {
			if <-time.After(10 * time.Millisecond); h.g.Status().Queue.Outbound["websocket"] == 0 {
				break
			}
		}
	}
}

func platformFails(t *testing.T, h *host, _ string) {
	t.Helper()
	h.party.refuse.Store(true)
	h.must(h.party.write(t, "ann", "1", "hello"))
	for h.party.refused.Load() == 0 {
		<-time.After(time.Millisecond)
	}
}

func connectionOpened(t *testing.T, _ *host, url string) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	<-time.After(5 * time.Millisecond) // so that it was accepted; if not, the test shows less
}

// An answer that was left waiting by a stop is delivered by the next start.
func TestStopKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(socketConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	awaitSocket(t, server.URL)
	clientAway(t, h, server.URL)
	h.must(h.end())

	h.start()
	again := httptest.NewServer(h.g.Handler())
	defer again.Close()
	awaitSocket(t, again.URL)
	s := connect(t, again.URL)
	s.say(`{"type":"attach","chat_id":"nobody"}`)
	for {
		if m := s.until("message"); m["text"] == "are you there?" {
			break
		}
	}
	if err := s.conn.Close(websocket.StatusNormalClosure, ""); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Log(err)
	}
	h.must(h.end())
}
