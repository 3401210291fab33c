package security_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

// People of the house's Telegram. Those beyond stranger are not known.
const (
	ada      = 42 // the owner
	bert     = 43 // may write
	carl     = 44 // may write
	stranger = 90
	group    = -700
)

// gateway is the real program as it serves chats.
type gateway struct {
	a    *trial
	tg   *telegramtest.Server
	cmd  *exec.Cmd
	out  *output
	base string
}

// output is what a process wrote so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

const wsToken = "token-of-the-owner-0123456789"

// chats switches Telegram and WebSocket on.
func (a *trial) chats() *telegramtest.Server {
	a.t.Helper()
	tg := telegramtest.New()
	a.t.Cleanup(tg.Close)
	a.config["gateway"] = map[string]any{"port": 0}
	a.config["channels"] = map[string]any{
		"telegram": map[string]any{
			"enabled": true, "token": telegramtest.Token, "apiBase": tg.URL(), "allowFrom": []string{"42", "43", "44"}, "owners": []string{"42"},
			"groupPolicy": "open", "sendProgress": false, "sendToolHints": false, "streaming": false, "restartBackoffMaxS": 1, "reactEmoji": "",
		},
		"websocket": map[string]any{"enabled": true, "token": wsToken},
	}
	a.gate = &gateway{a: a, tg: tg}
	return tg
}

func (a *trial) telegram() map[string]any {
	channels, _ := a.config["channels"].(map[string]any)
	section, _ := channels["telegram"].(map[string]any)
	return section
}

// start runs the gateway, again if it ran before.
func (g *gateway) start() {
	g.a.t.Helper()
	g.stop()
	g.out = &output{}
	g.cmd = g.a.command(context.WithoutCancel(g.a.t.Context()), "gateway", "--logs", "-v")
	g.cmd.Stdout, g.cmd.Stderr = g.out, g.out
	if err := g.cmd.Start(); err != nil {
		g.a.t.Fatal(err)
	}
	cmd := g.cmd
	g.a.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // the test ended early
			_ = cmd.Wait()
		}
	})
	g.until("it listens", func() bool {
		o := g.a.wait(g.a.command(g.a.t.Context(), "gateway", "status", "--json"))
		var status struct {
			Running bool   `json:"running"`
			Address string `json:"address"`
		}
		if json.Unmarshal([]byte(o.stdout), &status) != nil || !status.Running || status.Address == "" {
			return false
		}
		g.base = "http://" + status.Address
		return true
	})
}

// stop lets it end in order.
func (g *gateway) stop() {
	g.a.t.Helper()
	if g.cmd == nil || g.cmd.ProcessState != nil {
		return
	}
	_ = g.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.cmd.Wait() // how it ended is not the point
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		_ = g.cmd.Process.Kill()
		<-done
		g.a.broke("the gateway did not end")
	}
	g.a.all.stderr += g.out.String()
}

// until waits for something that has to happen.
func (g *gateway) until(what string, ok func() bool) bool {
	g.a.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(timeout); time.Now().Before(end); <-tick.C {
		if ok() {
			return true
		}
	}
	g.a.shows(false, "%s: waited for %s\n%s", what, timeout, tail(g.out.String()))
	return false
}

// say lets a person write to the bot alone and waits for the end of the turn.
func (g *gateway) say(who int64, text string, calls ...call) string {
	g.a.t.Helper()
	return g.post(who, map[string]any{"text": text, "chat": map[string]any{"id": who, "type": "private", "first_name": "Ann"}}, calls...)
}

// inGroup lets a person write in the group.
func (g *gateway) inGroup(who int64, text string, calls ...call) {
	g.a.t.Helper()
	g.post(group, map[string]any{
		"text": text, "chat": map[string]any{"id": group, "type": "group", "title": "Friends"},
		"from": map[string]any{"id": who, "is_bot": false, "first_name": "Ann", "username": fmt.Sprint("u", who)},
	}, calls...)
}

// post sends any message and waits until the model has ended the turn and the
// chat was told.
func (g *gateway) post(chat int64, m map[string]any, calls ...call) string {
	g.a.t.Helper()
	mark := g.a.model.beginMarked(calls)
	g.tg.Post(m)
	return g.answer(chat, mark)
}

func (g *gateway) answer(chat int64, mark string) (text string) {
	g.a.t.Helper()
	var said time.Time
	g.until("an answer in the chat", func() bool {
		for _, m := range g.tg.Messages(chat) {
			if strings.Contains(m.Plain, mark) {
				text = m.Plain
				return true
			}
		}
		if said.IsZero() && g.a.model.said(mark) {
			said = time.Now()
		}
		return !said.IsZero() && time.Since(said) > 5*time.Second // a turn that sent a message by itself may end without another one
	})
	return text
}

// heard are all texts the bot sent to a chat.
func (g *gateway) heard(chat int64) string {
	var b strings.Builder
	for _, m := range g.tg.Messages(chat) {
		b.WriteString(m.Plain + "\n")
	}
	return b.String()
}

// request sends a POST to the HTTP side and returns the status, 0 without an answer.
func (g *gateway) request(path, body string, header map[string]string) int {
	g.a.t.Helper()
	ctx, cancel := contextFor(g.a.t)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+path, strings.NewReader(body))
	if err != nil {
		g.a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
		if k == "Host" {
			req.Host = v
		}
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// socket is a client of the WebSocket channel.
type socket struct {
	g    *gateway
	conn *websocket.Conn
	mu   sync.Mutex
	got  []map[string]any
}

// connect opens a socket of the client "me"; token may be "".
func (g *gateway) connect(token string) (*socket, error) {
	g.a.t.Helper()
	address := strings.Replace(g.base, "http://", "ws://", 1) + "/?client_id=me"
	if token != "" {
		address += "&token=" + token
	}
	var conn *websocket.Conn
	var err error
	g.until("the socket", func() bool {
		var res *http.Response
		conn, res, err = websocket.Dial(g.a.t.Context(), address, nil)
		if res == nil {
			return true
		}
		if res.Body != nil {
			_ = res.Body.Close()
		}
		return res.StatusCode != http.StatusServiceUnavailable // the channel may still start
	})
	if err != nil {
		return nil, err
	}
	s := &socket{g: g, conn: conn}
	conn.SetReadLimit(8 << 20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			var m map[string]any
			if wsjson.Read(context.WithoutCancel(g.a.t.Context()), conn, &m) != nil {
				return
			}
			s.mu.Lock()
			s.got = append(s.got, m)
			s.mu.Unlock()
		}
	}()
	g.a.t.Cleanup(func() {
		_ = conn.CloseNow() // the program may be gone
		<-done
	})
	return s, nil
}

func (s *socket) send(v any) {
	s.g.a.t.Helper()
	if err := wsjson.Write(s.g.a.t.Context(), s.conn, v); err != nil {
		s.g.a.shows(false, "send: %v", err)
	}
}

// wait finds the first event that fits.
func (s *socket) wait(what string, fits func(m map[string]any) bool) (found map[string]any) {
	s.g.a.t.Helper()
	s.g.until(what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range s.got {
			if fits(m) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// attached waits until the socket has a chat and returns its id.
func (s *socket) attached() any {
	s.g.a.t.Helper()
	return s.wait("attached", func(m map[string]any) bool { return m["event"] == "attached" })["chat_id"]
}

// told waits for the end of a turn that the model marked.
func (s *socket) told(mark string) {
	s.g.a.t.Helper()
	s.wait("the end of the turn", func(m map[string]any) bool {
		b, _ := json.Marshal(m) // plain
		return strings.Contains(string(b), mark)
	})
}

// question waits for the n-th question of an approval, from 1.
func (s *socket) question(n int) map[string]any {
	s.g.a.t.Helper()
	var found map[string]any
	s.g.until("a question", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		k := 0
		for _, m := range s.got {
			if m["question"] != nil || m["buttons"] != nil {
				if k++; k == n {
					found = m
					return true
				}
			}
		}
		return false
	})
	return found
}

// theBot is the bot as the sender of a message.
func theBot() map[string]any {
	return map[string]any{"id": telegramtest.BotID, "is_bot": true, "first_name": "nb", "username": telegramtest.BotName}
}
