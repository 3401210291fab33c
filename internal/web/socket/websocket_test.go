package socket

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ws "github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a running channel on a listener of the test.
type rig struct {
	t    testing.TB
	c    *Channel
	url  string // http://...
	stop func()

	mu   sync.Mutex
	got  chan bus.Inbound
	fail error
}

const testToken = "s3cret-token"

func deps(tb testing.TB, now func() time.Time) chat.Deps {
	tb.Helper()
	dir := tb.TempDir()
	return chat.Deps{
		Name: "websocket", Gate: access.NewGate(access.GateOptions{Name: "websocket", Now: now}),
		Media: &media.Store{Dir: filepath.Join(dir, "media"), Max: 20 << 20},
		State: chat.OpenState(disk.Open(dir, nil), "state.json", nil),
		Ready: func(string, error) {}, Log: slog.New(slog.DiscardHandler), Now: now,
	}
}

func build(tb testing.TB, d chat.Deps, o Options, section string) *Channel {
	tb.Helper()
	ch, err := Driver(o).New(d, json.RawMessage(section))
	if err != nil {
		tb.Fatal(err)
	}
	c, ok := ch.(*Channel)
	if !ok {
		tb.Fatalf("factory made a %T", ch)
	}
	return c
}

// start runs a channel whose section asks for the test's token.
func start(t *testing.T, section string, change ...func(*chat.Deps, *Options)) *rig {
	t.Helper()
	d, o := deps(t, time.Now), Options{}
	for _, f := range change {
		f(&d, &o)
	}
	if section == "" {
		section = `{"token":"` + testToken + `"}`
	}
	return startChannel(t, build(t, d, o, section))
}

func startChannel(tb testing.TB, c *Channel) *rig {
	tb.Helper()
	r := &rig{t: tb, c: c, got: make(chan bus.Inbound, 1024)}
	ready := make(chan struct{}, 1)
	c.d.Ready = func(string, error) { ready <- struct{}{} }
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, r.submit) }()
	<-ready
	mux := http.NewServeMux()
	for p, h := range c.Routes() {
		mux.Handle(p, h)
	}
	srv := httptest.NewServer(mux)
	r.url = srv.URL
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				tb.Errorf("Run: %v", err)
			}
			srv.Close()
		})
	}
	tb.Cleanup(r.stop)
	return r
}

func (r *rig) submit(_ context.Context, in bus.Inbound) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.got <- in
	return nil
}

func (r *rig) failWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// inbound is the next message the agent got.
func (r *rig) inbound() bus.Inbound {
	r.t.Helper()
	select {
	case in := <-r.got:
		return in
	case <-time.After(10 * time.Minute):
		r.t.Fatal("no message reached the agent")
		return bus.Inbound{}
	}
}

func (r *rig) send(out bus.Outbound) {
	r.t.Helper()
	out.Route.Channel = "websocket"
	if _, err := r.c.Send(r.t.Context(), out); err != nil && !errors.Is(err, chat.ErrAway) {
		r.t.Errorf("Send: %v", err)
	}
}

// client is the other side of a connection.
type client struct {
	t    testing.TB
	conn *ws.Conn
	chat string // of ready
}

// dial connects to an address.
func dial(ctx context.Context, url string, o *ws.DialOptions) (*ws.Conn, error) {
	conn, _, err := ws.Dial(ctx, url, o) //nolint:bodyclose // the package says that it needs no closing
	return conn, err
}

// dial connects; query is what follows the question mark.
func (r *rig) dial(query string) *client {
	r.t.Helper()
	conn, err := dial(r.t.Context(), r.url+"/?"+query, nil)
	if err != nil {
		r.t.Fatalf("dial: %v", err)
	}
	conn.SetReadLimit(-1)
	c := &client{t: r.t, conn: conn}
	r.t.Cleanup(func() { _ = conn.CloseNow() })
	ready := c.next()
	if ready["event"] != "ready" {
		r.t.Fatalf("first event %v, want ready", ready)
	}
	c.chat, _ = ready["chat_id"].(string)
	return c
}

func (r *rig) login() *client { r.t.Helper(); return r.dial("client_id=tester&token=" + testToken) }

// next is the next event.
func (c *client) next() map[string]any {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Minute)
	defer cancel()
	_, data, err := c.conn.Read(ctx)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		c.t.Fatalf("frame %s: %v", data, err)
	}
	return m
}

// until reads up to an event and returns it.
func (c *client) until(event string) map[string]any {
	c.t.Helper()
	for {
		if m := c.next(); m["event"] == event {
			return m
		}
	}
}

func (c *client) say(frame string) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), ws.MessageText, []byte(frame)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// modern makes the connection one of the newer protocol and returns its chat.
func (c *client) modern() string {
	c.t.Helper()
	c.say(`{"type":"new_chat"}`)
	id, _ := c.until("attached")["chat_id"].(string)
	c.until("session_updated")
	return id
}

func route(chatID, message string) bus.Route { return bus.Route{ChatID: chatID, MessageID: message} }

func final(id, chatID, message, text string) bus.Outbound {
	return bus.Outbound{ID: id, Kind: bus.Final, Route: route(chatID, message), Text: text, Turn: &bus.Turn{ID: "t", StopReason: "completed", DurationMS: 7}}
}

// strip removes what changes from run to run.
func strip(m map[string]any, keys ...string) map[string]any {
	for _, k := range keys {
		delete(m, k)
	}
	return m
}

func TestNotRunning(t *testing.T) {
	t.Parallel()
	c := build(t, deps(t, time.Now), Options{}, `{"token":"x","tokenIssuePath":"/issue"}`)
	for pattern, h := range c.Routes() {
		w := httptest.NewRecorder()
		path := strings.NewReplacer("GET ", "", "{$}", "", "{sig}", "a", "{payload}", "YQ").Replace(pattern)
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code < 400 {
			t.Errorf("%s answers %d before Run, want a refusal", pattern, w.Code)
		}
	}
}

func TestSubmitFails(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	r.failWith(errors.New("disk full"))
	c.say("hello")
	if m := c.next(); m["event"] != "error" || m["detail"] != "message_rejected" {
		t.Errorf("got %v, want message_rejected", m)
	}
	r.failWith(bus.ErrTooLarge)
	c.say("hello")
	if m := c.next(); m["reason"] != "text_too_large" {
		t.Errorf("got %v, want text_too_large", m)
	}
	r.failWith(nil)
	chatID := c.modern()
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"again","turn_id":"t9"}`)
	if m := c.until("message_accepted"); m["starts_turn"] != true {
		t.Errorf("a refused message left a turn behind: %v", m)
	}
}

// A frame that breaks the program is given up; its connection and its chat go on.
func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	gate := r.c.d.Gate
	r.c.d.Gate = nil
	c.say("boom")
	if m := c.until("error"); m["detail"] != "internal error" {
		t.Errorf("got %v", m)
	}
	r.c.d.Gate = gate
	c.say("still there?")
	if got := r.inbound().Text; got != "still there?" {
		t.Errorf("the agent got %q", got)
	}
}
