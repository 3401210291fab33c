package socket

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	ws "github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

func (c *client) seq(m map[string]any) int64 {
	c.t.Helper()
	f, ok := m["seq"].(float64)
	if !ok {
		c.t.Fatalf("no number in %v", m)
	}
	return int64(f)
}

func (c *client) drop() { _ = c.conn.CloseNow() }

// A client that was away gets what it missed, text from the very byte.
func TestResume(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chatID := c.modern()
	delta := func(s string) {
		r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "m"), Text: s, StreamID: "s"})
	}
	delta("one ")
	last := c.seq(c.until("delta"))
	c.drop()
	delta("two ")
	delta("three")
	r.send(bus.Outbound{Kind: bus.DeltaEnd, Route: route(chatID, "m"), StreamID: "s"})
	f := final("f", chatID, "m", "one two three")
	f.Streamed = true
	r.send(f)
	r.send(bus.Outbound{ID: "x", Kind: bus.Message, Route: route(chatID, ""), Text: "more"})

	c = r.login()
	c.say(fmt.Sprintf(`{"type":"resume","chat_id":%q,"last_seq":%d}`, chatID, last))
	if m := c.until("attached"); m["resumed"] != true || m["complete"] != true {
		t.Errorf("attached %v", m)
	}
	var got []string
	for range 5 {
		m := c.next()
		got = append(got, fmt.Sprint(m["event"], " ", m["text"], m["status"]))
	}
	want := []string{"delta two three<nil>", "stream_end <nil> <nil>", "turn_end <nil> <nil>", "goal_status <nil>idle", "message more<nil>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after resume (-want +got):\n%s", diff)
	}
	// A number from before the program started, or from nowhere: all that is
	// kept, and the client is told that more may be missing.
	for _, seq := range []int64{0, last + 1<<40} {
		c.say(fmt.Sprintf(`{"type":"attach","chat_id":%q,"last_seq":%d}`, chatID, seq))
		if m := c.until("attached"); m["complete"] != false {
			t.Errorf("last_seq %d: attached %v, want incomplete", seq, m)
		}
	}
}

// A turn whose text begins before the turn before it has ended is shown once, and
// who joins gets its text from the first byte.
func TestStreamBeforeTheLastEnds(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chatID := c.modern()
	r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "a"), Text: "old", StreamID: "a"})
	r.send(bus.Outbound{Kind: bus.DeltaEnd, Route: route(chatID, "a"), StreamID: "a"})
	last := c.seq(c.until("stream_end"))
	r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "b"), Text: "new ", StreamID: "b"})
	c.until("delta")

	second := r.login()
	second.say(fmt.Sprintf(`{"type":"attach","chat_id":%q,"last_seq":%d}`, chatID, last))
	if m := second.until("delta"); m["text"] != "new " {
		t.Errorf("who joins gets %v", m)
	}
	r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "b"), Text: "words", StreamID: "b"})
	f := final("f", chatID, "b", "new words")
	f.Streamed = true
	r.send(f)
	for _, c := range []*client{c, second} {
		var text []string
		for m := c.next(); m["event"] != "turn_end"; m = c.next() {
			if m["event"] == "message" {
				t.Errorf("text that was streamed comes again: %v", m)
			}
			if m["event"] == "delta" {
				text = append(text, fmt.Sprint(m["text"]))
			}
		}
		if !slices.Equal(text, []string{"words"}) {
			t.Errorf("the rest of the text is %q", text)
		}
	}
}

// The answer to who joins a chat comes before what happened in it, however long
// it takes to find out how the chat stands.
func TestAttachedComesFirst(t *testing.T) {
	t.Parallel()
	look, looked := make(chan struct{}), make(chan struct{})
	r := start(t, "", func(_ *chat.Deps, o *Options) {
		o.ChatState = func(context.Context, bus.Route) ChatState {
			close(look)
			<-looked
			return ChatState{}
		}
	})
	a, c := r.login(), r.login()
	chatID := a.modern()
	r.send(bus.Outbound{ID: "1", Kind: bus.Message, Route: route(chatID, ""), Text: "one"})
	c.say(`{"type":"resume","chat_id":"` + chatID + `","last_seq":0}`)
	<-look
	r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "m"), Text: "two"})
	a.until("delta") // the other connection has had its chance by now
	close(looked)
	var got []string
	for len(got) < 4 {
		m := c.next()
		got = append(got, fmt.Sprint(m["event"], " ", m["text"]))
	}
	want := []string{"attached <nil>", "message one", "goal_status <nil>", "delta two"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after resume (-want +got):\n%s", diff)
	}
}

// An answer that no client received is sent to the next client that attaches.
func TestUnseenAnswerWaits(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	r.send(bus.Outbound{Kind: bus.Delta, Route: route("c1", ""), Text: "lost"})
	r.send(final("f", "c1", "", "while you were away"))
	for i, want := range []bool{true, false} {
		c := r.login()
		c.say(`{"type":"attach","chat_id":"c1"}`)
		c.until("attached")
		r.send(final(fmt.Sprint("end", i), "c1", "", "end"))
		got := false
		for m := c.until("message"); m["text"] != "end"; m = c.until("message") {
			got = got || m["text"] == "while you were away"
		}
		if got != want {
			t.Errorf("visitor %d got the answer: %v, want %v", i, got, want)
		}
		c.drop()
	}
}

func TestSentTwice(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chatID := c.modern()
	r.send(final("same", chatID, "", "once"))
	r.send(final("same", chatID, "", "once"))
	r.send(final("other", chatID, "", "end"))
	if m := c.until("message"); m["text"] != "once" {
		t.Errorf("got %v", m)
	}
	if m := c.until("message"); m["text"] != "end" {
		t.Errorf("got %v, want the second one dropped", m)
	}
}

func TestRingKeepsAnswers(t *testing.T) {
	t.Parallel()
	h := newHub(time.Now, chat.Filters{})
	h.send(final("answer", "c", "", "keep me"), nil)
	for i := range 1000 {
		h.send(bus.Outbound{Kind: bus.Progress, Route: route("c", ""), Text: fmt.Sprint(i)}, nil)
	}
	r := &h.chats["c"].ring
	if len(r.events) > keepEvents || r.find("answer") == nil {
		t.Errorf("%d events, answer kept: %v", len(r.events), r.find("answer") != nil)
	}
	for i := range 1000 {
		h.send(final(fmt.Sprint("f", i), "c", "", strings.Repeat("x", 10_000)), nil)
	}
	if r.bytes > keepBytes || len(r.events) > keepEvents || r.find("f999") == nil {
		t.Errorf("%d events of %d bytes", len(r.events), r.bytes)
	}
	size := 0
	for _, e := range r.events {
		size += e.size()
	}
	if size != r.bytes {
		t.Errorf("counted %d bytes, there are %d", r.bytes, size)
	}
}

func TestHubForgets(t *testing.T) {
	t.Parallel()
	h := newHub(time.Now, chat.Filters{})
	for i := range 5000 {
		h.send(final(fmt.Sprint("f", i), fmt.Sprint("c", i), "", "hello"), nil)
	}
	if n := len(h.chats); n > maxChats || h.idle.Len() != n {
		t.Errorf("%d chats are kept, %d in the list", n, h.idle.Len())
	}
	if h.chats["c4999"] == nil || h.chats["c0"] != nil {
		t.Error("the oldest chats go first")
	}
	for i := range 12 {
		h.send(final(fmt.Sprint("g", i), fmt.Sprint("d", i), "", strings.Repeat("x", 1<<19)), nil)
	}
	if h.bytes > maxBytes {
		t.Errorf("%d bytes are kept", h.bytes)
	}
	sum := 0
	for _, c := range h.chats {
		sum += c.weight
	}
	if sum != h.bytes {
		t.Errorf("counted %d bytes, there are %d", h.bytes, sum)
	}
}

// Many chats on one connection, many connections on one chat.
func TestFanOut(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	a, b := r.login(), r.login()
	for _, c := range []*client{a, b} {
		for i := range 20 {
			c.say(fmt.Sprintf(`{"type":"attach","chat_id":"c%d"}`, i))
			c.until("attached")
		}
	}
	for i := range 400 {
		r.send(bus.Outbound{ID: fmt.Sprint(i), Kind: bus.Message, Route: route(fmt.Sprintf("c%d", i%20), ""), Text: fmt.Sprint(i)})
	}
	for _, c := range []*client{a, b} {
		got := map[string][]string{}
		for range 400 {
			m := c.next()
			chatID, _ := m["chat_id"].(string)
			got[chatID] = append(got[chatID], fmt.Sprint(m["text"]))
		}
		for i := range 20 {
			var want []string
			for j := i; j < 400; j += 20 {
				want = append(want, fmt.Sprint(j))
			}
			if diff := cmp.Diff(want, got[fmt.Sprintf("c%d", i)]); diff != "" {
				t.Errorf("chat %d (-want +got):\n%s", i, diff)
			}
		}
	}
}

// An answer that was streamed while its client was away, or while it missed the
// beginning, comes as a whole.
func TestStreamOfAnAbsentClient(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	stream := func(chatID string, texts ...string) {
		for _, s := range texts {
			r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "m"), Text: s, StreamID: "s"})
		}
	}
	finish := func(chatID, text string) {
		r.send(bus.Outbound{Kind: bus.DeltaEnd, Route: route(chatID, "m"), StreamID: "s"})
		f := final("f-"+chatID, chatID, "m", text)
		f.Streamed = true
		r.send(f)
	}
	shown := func(c *client) (got []string) {
		for {
			m := c.next()
			switch m["event"] {
			case "delta", "message":
				got = append(got, fmt.Sprint(m["event"], " ", m["text"]))
			case "turn_end":
				return got
			}
		}
	}

	stream("away", "one ", "two")
	finish("away", "one two")
	c := r.login()
	c.say(`{"type":"attach","chat_id":"away"}`)
	if diff := cmp.Diff([]string{"message one two"}, shown(c)); diff != "" {
		t.Errorf("all of it was missed (-want +got):\n%s", diff)
	}

	// The stream is longer than what is kept, so that a client that joins misses its beginning.
	part := strings.Repeat("x", burstBytes/8)
	for range 10 {
		stream("late", part)
	}
	stream("late", "two ")
	c.say(`{"type":"attach","chat_id":"late"}`)
	for text := any(nil); text != "two "; {
		text = c.until("delta")["text"]
	}
	stream("late", "three")
	c.until("delta")
	finish("late", "all of it")
	if got := shown(c); !slices.Equal(got, []string{"message all of it"}) {
		t.Errorf("its beginning was missed: %d events", len(got))
	}

	// One that is not sends all of it.
	long := strings.Repeat("x", pieceBytes)
	stream("joined", long, "two ")
	c.say(`{"type":"attach","chat_id":"joined"}`)
	c.until("delta")
	stream("joined", "three")
	finish("joined", long+"two three")
	if got := strings.Join(shown(c), "|"); got != "delta two |delta three" && got != "delta two three" {
		t.Errorf("after the first piece came %.100s", got)
	}

	c.say(`{"type":"attach","chat_id":"whole"}`)
	c.until("attached")
	stream("whole", "one ")
	c.until("delta")
	stream("whole", "two")
	finish("whole", "one two")
	if diff := cmp.Diff([]string{"delta two"}, shown(c)); diff != "" {
		t.Errorf("nothing was missed (-want +got):\n%s", diff)
	}
}

// What follows attached has higher numbers than it names.
func TestAttachedNumber(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	r.send(final("1", "c", "a", "one"))
	r.send(final("2", "c", "b", "two"))
	c := r.login()
	c.say(`{"type":"attach","chat_id":"c"}`)
	seq := c.seq(c.until("attached"))
	if got := c.seq(c.next()); got <= seq {
		t.Errorf("the event after attached has number %d, attached names %d", got, seq)
	}
}

// One connection too many is refused before it is a socket.
func TestTooManySockets(t *testing.T) {
	t.Parallel()
	const most = 50
	r := start(t, fmt.Sprintf(`{"token":%q,"maxConnections":%d}`, testToken, most))
	for range most - 1 {
		if !r.c.hub.seat(most) {
			t.Fatal("refused too early")
		}
	}
	last := r.login()
	_, resp, err := ws.Dial(t.Context(), r.url+"/?client_id=x&token="+testToken, nil) //nolint:bodyclose // the package says that it needs no closing
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("one too many: %v, %v", resp, err)
	}
	last.drop()
	for end := time.Now().Add(10 * time.Minute); err != nil && time.Now().Before(end); {
		_, err = dial(t.Context(), r.url+"/?client_id=x&token="+testToken, nil)
	}
	if err != nil {
		t.Errorf("after one has left: %v", err)
	}
}
