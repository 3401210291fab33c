//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ws "github.com/coder/websocket"
)

const socketSettings = `{
  "agents": {"defaults": {"model": "custom/m", "provider": "custom", "providerRetryMode": "persistent"}},
  "providers": {"custom": {"apiBase": %q, "apiKey": "test-key"}},
  "tools": {"restrictToWorkspace": true},
  "gateway": {"port": 0},
  "channels": {"websocket": {"enabled": true, "token": "chaos-token-0123456789", "unixSocketPath": %q}}
}`

// newSocketGateway is a gateway that only clients of its socket talk to.
func newSocketGateway(t *testing.T, m *model) *gateway {
	t.Helper()
	dir := t.ArtifactDir()
	g := &gateway{
		t: t, bin: filepath.Join(dir, "nanobot"), home: filepath.Join(dir, "home"), config: filepath.Join(dir, "home", "config.json"),
		killed: map[int]time.Time{},
	}
	short, err := os.MkdirTemp("", "nbchaos") //nolint:usetesting // the path of a socket is at most 100 bytes, and that of TempDir holds the name of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	g.socket = filepath.Join(short, "s")
	g.build()
	if err := os.MkdirAll(g.workspace(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.config, fmt.Appendf(nil, socketSettings, m.http.URL+"/v1", g.socket), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.cmd != nil && g.cmd.ProcessState == nil {
			_ = g.cmd.Process.Kill() // the test failed before its end
			_ = g.cmd.Wait()
		}
		m.http.CloseClientConnections()
		m.http.Close()
	})
	return g
}

// wire is an event as clients get it.
type wire struct {
	Event    string `json:"event"`
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Turn     string `json:"turn_id"`
	Text     string `json:"text"`
	StreamID string `json:"stream_id"`
	Void     bool   `json:"void"`
	Seq      int64  `json:"seq"`
	Complete *bool  `json:"complete"`
	Detail   string `json:"detail"`
}

// reader is a client of one chat, over any number of connections.
type reader struct {
	g    *gateway
	chat string
	conn *ws.Conn
	last int64 // number of the last event

	streams map[string]string // text by stream
	shown   []string          // streams since the end of a turn
	texts   map[string]string // complete messages by turn
	ended   []string          // turns, in the order of their ends
	answers map[string]string // by turn
	ids     map[string]int    // how often a complete answer came, by id
	names   []string          // of messages, in the order of the answers that mention them first
}

func newReader(g *gateway, chat string) *reader {
	return &reader{g: g, chat: chat, streams: map[string]string{}, texts: map[string]string{}, answers: map[string]string{}, ids: map[string]int{}}
}

// connect tries until the gateway listens, and takes up the chat.
func (r *reader) connect(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.g.socket)
	}}}
	for ctx.Err() == nil {
		conn, _, err := ws.Dial(ctx, "ws://gateway/?client_id=c&token=chaos-token-0123456789", &ws.DialOptions{HTTPClient: client}) //nolint:bodyclose // the package says that it needs no closing
		if err == nil {
			conn.SetReadLimit(-1)
			r.conn = conn
			hello := map[string]any{"type": "attach", "chat_id": r.chat}
			if r.last > 0 {
				hello = map[string]any{"type": "resume", "chat_id": r.chat, "last_seq": r.last}
			}
			if r.say(ctx, hello) == nil {
				return nil
			}
			r.leave() // it was killed meanwhile
		}
		hold(ctx, 20*time.Millisecond)
	}
	return ctx.Err()
}

func (r *reader) say(ctx context.Context, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return r.conn.Write(ctx, ws.MessageText, data)
}

func (r *reader) ask(ctx context.Context, turn, text string) error {
	return r.say(ctx, map[string]any{"type": "message", "chat_id": r.chat, "content": text, "turn_id": turn})
}

// next reads an event and keeps its part of the answer.
func (r *reader) next(ctx context.Context) (wire, error) {
	_, data, err := r.conn.Read(ctx)
	if err != nil {
		return wire{}, err
	}
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return w, err
	}
	if w.Event != "attached" {
		r.last = max(r.last, w.Seq)
	}
	switch {
	case w.Event == "delta":
		if r.streams[w.StreamID] == "" {
			r.shown = append(r.shown, w.StreamID)
		}
		r.streams[w.StreamID] += w.Text
	case w.Event == "stream_end" && w.Void:
		r.streams[w.StreamID] = ""
	case w.Event == "message" && w.Kind == "" && w.Turn != "":
		r.texts[w.Turn] = w.Text
		r.ids[w.ID]++
	case w.Event == "turn_end":
		text, whole := r.texts[w.Turn]
		if !whole {
			for _, s := range r.shown {
				text += r.streams[s]
			}
			r.shown = nil // a recalled answer ends no stream
		}
		r.ended = append(r.ended, w.Turn)
		if r.answers[w.Turn] == "" {
			r.answers[w.Turn] = text
		}
		for _, n := range word.FindAllString(text, -1) {
			if !slices.Contains(r.names, n) {
				r.names = append(r.names, n)
			}
		}
	}
	return w, nil
}

// until reads up to an event.
func (r *reader) until(ctx context.Context, event string) error {
	for {
		if w, err := r.next(ctx); err != nil || w.Event == event {
			return err
		}
	}
}

func (r *reader) leave() { _ = r.conn.CloseNow() }

// TestAnswerWaitsForItsClient: the answer is finished while its client is away,
// and the gateway dies, several times, before the client is back. It gets the
// text, once, and again under the same id when it says the message again.
func TestAnswerWaitsForItsClient(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	l := newLuck(1)
	l.mend()
	m := newModel(t, l)
	m.gate = make(chan struct{})
	g := newSocketGateway(t, m)
	g.start()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, g.out)
		}
	}
	c := newReader(g, "chat")
	must(c.connect(ctx))
	must(c.ask(ctx, "t1", "please answer c0n1;"))
	must(c.until(ctx, "message_accepted"))
	c.leave()
	close(m.gate)
	noted := func(what string) { // a client may read an answer before its delivery is noted
		t.Helper()
		for {
			data, err := os.ReadFile(filepath.Join(g.home, "bus", "journal.jsonl"))
			must(errors.Join(err, ctx.Err()))
			if strings.Contains(string(data), what) {
				return
			}
			hold(ctx, 10*time.Millisecond)
		}
	}
	noted(`"done":"websocket:chat/t1"`)
	for range 3 {
		g.kill()
		g.start()
		probe := newReader(g, "other") // it listens now
		must(probe.connect(ctx))
		must(probe.until(ctx, "attached"))
		probe.leave()
	}

	c = newReader(g, "chat") // also what it knew is lost
	must(c.connect(ctx))
	must(c.until(ctx, "turn_end"))
	if got := c.answers["t1"]; !strings.Contains(got, "c0n1;") {
		t.Fatalf("the client got %q for its message", got)
	}
	noted(`"delivered":"final:websocket:chat/t1"`)
	c.leave()

	// Delivered is delivered: the next visitor of the chat gets only what is new.
	c = newReader(g, "chat")
	must(c.connect(ctx))
	must(c.ask(ctx, "t2", "please answer c0n2;"))
	must(c.until(ctx, "turn_end"))
	if !slices.Equal(c.ended, []string{"t2"}) || !strings.Contains(c.answers["t2"], "c0n2;") {
		t.Errorf("turns %v ended with %v, want only t2", c.ended, c.answers)
	}

	// Who says a message again gets its answer again, after any number of restarts.
	noted(`"delivered":"final:websocket:chat/t2"`)
	c.leave()
	g.kill()
	g.start()
	c = newReader(g, "chat")
	must(c.connect(ctx))
	must(c.ask(ctx, "t1", "please answer c0n1;"))
	must(c.until(ctx, "turn_end"))
	if got := c.answers["t1"]; !strings.Contains(got, "c0n1;") || c.ids["final:websocket:chat/t1"] != 1 {
		t.Errorf("the message said again got %q, ids %v", got, c.ids)
	}
	c.leave()
	g.stop()
}

// TestChaosOfSockets kills the gateway while clients ask, leave and return. Each
// of them gets the text of every answer once, in the order of its messages. Only
// an answer that was lost with a connection, after the system had taken it, and
// whose gateway died as well, comes when its message is said again: that may be
// after the next one.
func TestChaosOfSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	chats, messages, kills := 6, 12, 8
	if os.Getenv("NANOBOT_CHAOS") == "full" {
		chats, messages, kills = 24, 100, 120
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := newLuck(seed)
	l.mend() // the network is good: it is about clients and crashes
	g := newSocketGateway(t, newModel(t, l))
	g.start()
	var clients sync.WaitGroup
	over := make(chan struct{})
	for i := range chats {
		clients.Go(func() { visit(ctx, t, newReader(g, fmt.Sprintf("chat%d", i)), i, messages, newLuck(seed+uint64(i)+1)) })
	}
	go func() { clients.Wait(); close(over) }()
	luck := newLuck(seed + 1000)
	for n := 0; ; n++ {
		select {
		case <-over:
			g.stop()
			if bad, _ := g.complaints(); len(bad) > 0 {
				t.Errorf("log: %v", bad)
			}
			return
		default:
		}
		hold(ctx, luck.within(2*time.Second))
		if n < kills {
			g.kill()
			g.start()
		}
	}
}

// visit asks one or two messages at a time and goes away at random.
func visit(ctx context.Context, t *testing.T, r *reader, chat, messages int, l *luck) {
	t.Helper()
	name := func(n int) string { return fmt.Sprintf("c%dn%d;", chat, n) }
	asked := map[string]int{} // how often
	for first := 1; first <= messages; {
		last := min(first+l.index(2), messages)
		if err := r.connect(ctx); err != nil {
			t.Errorf("chat %d: %v, answers %v", chat, err, r.names)
			return
		}
		for err := error(nil); err == nil && first <= messages; {
			for n := first; n <= last && err == nil; n++ {
				asked[name(n)]++
				err = r.ask(ctx, fmt.Sprintf("t%d", n), "please answer "+name(n))
			}
			visit, leave := context.WithTimeout(ctx, 30*time.Second)
			if l.float() < 0.4 {
				leave()
				visit, leave = context.WithTimeout(ctx, l.within(600*time.Millisecond))
			}
			for !slices.Contains(r.names, name(last)) && err == nil {
				_, err = r.next(visit)
			}
			leave()
			if err == nil {
				first, last = last+1, min(last+1+l.index(2), messages)
			}
		}
		r.leave()
	}
	var want, once []string
	for n := range messages {
		if want = append(want, name(n+1)); asked[name(n+1)] == 1 {
			once = append(once, name(n+1))
		}
	}
	got := slices.DeleteFunc(slices.Clone(r.names), func(s string) bool { return asked[s] > 1 })
	if all := slices.Sorted(slices.Values(r.names)); !slices.Equal(all, slices.Sorted(slices.Values(want))) || !slices.Equal(got, once) {
		t.Errorf("chat %d: answers %v, asked %v, turns %v", chat, r.names, asked, r.ended)
	}
}
