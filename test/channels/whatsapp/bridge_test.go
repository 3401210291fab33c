// Package whatsapp tries the channel WhatsApp with the bridge of Python nanobot
// 0.1.5, which its users have: the published source with the library that it
// uses, without WhatsApp.
package whatsapp

import (
	"archive/zip"
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

const (
	token = "token-of-the-bridge"
	ann   = "4917600000042"
	limit = 10 * time.Minute
)

type object = map[string]any

// bridge is the other end.
type bridge struct {
	t    *testing.T
	port int
	in   io.Writer
	done chan struct{} // closed when it has ended

	mu      sync.Mutex
	said    []object
	changed chan struct{}
}

// source unpacks the bridge.
func source(t *testing.T) string {
	t.Helper()
	z, err := zip.OpenReader(certify.Wheel(t, "."))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir := t.TempDir()
	for _, name := range []string{"index.ts", "server.ts", "whatsapp.ts"} {
		data, err := readAll(z, "nanobot/bridge/src/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func readAll(z *zip.ReadCloser, name string) ([]byte, error) {
	f, err := z.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// start starts the bridge.
func start(t *testing.T) *bridge {
	t.Helper()
	modules := certify.Node(t, ".")
	src := source(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	script, err := os.ReadFile("bridge.mjs")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(modules, "bridge.mjs") // beside its libraries
	if err := os.WriteFile(copied, script, 0o600); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command("node", copied, src, filepath.Join(modules, "built-"+strconv.Itoa(port))) //nolint:noctx // ends with its input
	cmd.Env = append(os.Environ(), "BRIDGE_TOKEN="+token, "BRIDGE_PORT="+strconv.Itoa(port), "AUTH_DIR="+filepath.Join(t.TempDir(), "auth"))
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &bridge{t: t, port: port, in: in, done: make(chan struct{}), changed: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.listen(out)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		<-b.done
		_ = cmd.Wait()
		_ = os.RemoveAll(filepath.Join(modules, "built-"+strconv.Itoa(port)))
	})
	b.await("the bridge", func(o object) bool { return o["begun"] == true })
	return b
}

func (b *bridge) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text, ours := strings.CutPrefix(lines.Text(), "@")
		var o object
		if !ours || json.Unmarshal([]byte(text), &o) != nil {
			continue
		}
		b.mu.Lock()
		b.said = append(b.said, o)
		close(b.changed)
		b.changed = make(chan struct{})
		b.mu.Unlock()
	}
}

// await waits for something that the bridge said.
func (b *bridge) await(what string, fits func(object) bool) object {
	b.t.Helper()
	late := time.After(limit)
	for {
		b.mu.Lock()
		i, changed := slices.IndexFunc(b.said, fits), b.changed
		var got object
		if i >= 0 {
			got = b.said[i]
		}
		b.mu.Unlock()
		if got != nil {
			return got
		}
		select {
		case <-changed:
		case <-b.done:
			b.t.Fatalf("the bridge ended before %s", what)
		case <-late:
			b.t.Fatalf("waited in vain for %s; it said %v", what, b.said)
		}
	}
}

// tell lets WhatsApp say something.
func (b *bridge) tell(event string, data any) {
	b.t.Helper()
	line, err := json.Marshal(object{"event": event, "data": data})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bridge) message(key object, content object) {
	b.t.Helper()
	b.tell("messages.upsert", object{"type": "notify", "messages": []object{{"key": key, "message": content, "messageTimestamp": 1700000000}}})
}

// house is our channel at the bridge.
type house struct {
	*chattest.Rig
	t       *testing.T
	deps    chat.Deps
	section json.RawMessage
	ch      chat.Channel
}

func newHouse(t *testing.T, port int, secret string) *house {
	t.Helper()
	h := &house{Rig: chattest.NewRig(t), t: t}
	h.deps = h.Deps("whatsapp")
	h.deps.Client = func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
	var err error
	h.section, err = json.Marshal(object{ // the section of 0.1.5
		"enabled": true, "bridgeUrl": "ws://localhost:" + strconv.Itoa(port), "bridgeToken": secret, "allowFrom": []string{ann}, "groupPolicy": "mention",
	})
	if err != nil {
		t.Fatal(err)
	}
	h.deps.Gate = h.Gate("whatsapp", h.section, nil)
	if h.ch, err = whatsapp.Driver().New(h.deps, h.section); err != nil {
		t.Fatal(err)
	}
	return h
}

// state waits until the channel says so.
func (h *house) state(part string) {
	h.t.Helper()
	h.Await("the state "+part, func() bool {
		return slices.ContainsFunc(h.States(), func(s string) bool { return strings.Contains(s, part) })
	})
}

func (h *house) receive(text string) (got bus.Inbound) {
	h.t.Helper()
	h.Await("the message "+text, func() bool {
		i := slices.IndexFunc(h.Inbound(), func(in bus.Inbound) bool { return strings.Contains(in.Text, text) })
		if i >= 0 {
			got = h.Inbound()[i]
		}
		return i >= 0
	})
	return got
}

// TestBridge: our driver works with the bridge of Python nanobot 0.1.5.
func TestBridge(t *testing.T) {
	b := start(t)
	b.await("the way to WhatsApp", func(o object) bool { return o["refused"] == "web.whatsapp.com" })
	t.Run("who is let in", func(t *testing.T) { admission(t, b) })
	t.Run("login", func(t *testing.T) { login(t, b) })

	h := newHouse(t, b.port, token)
	end := h.Start(h.ch.Run)
	h.Await("the connection", func() bool { return len(h.States()) > 0 })
	b.tell("connection.update", object{"connection": "close", "lastDisconnect": object{"error": object{"output": object{"statusCode": 428}}}})
	h.state("WhatsApp is not connected")
	b.tell("connection.update", object{"qr": "2@code"})
	h.state("no WhatsApp account is linked")
	n := len(h.States())
	b.tell("connection.update", object{"connection": "open"})
	h.Await("the account", func() bool { return len(h.States()) > n })

	messages(t, h, b)

	// The connection is lost; messages go on.
	n = len(h.States())
	b.tell("cut", nil)
	h.state("the bridge at")
	h.Await("the bridge again", func() bool { return len(h.States()) > n && h.States()[len(h.States())-1] == "" })
	b.message(object{"remoteJid": ann + "@s.whatsapp.net", "id": "A9"}, object{"conversation": "after the loss"})
	h.receive("after the loss")
	if err := end(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// messages go both ways.
func messages(t *testing.T, h *house, b *bridge) {
	t.Helper()
	b.message(object{"remoteJid": "123456789012345@lid", "remoteJidAlt": ann + "@s.whatsapp.net", "id": "A1"}, object{"conversation": "hello bridge"})
	in := h.receive("hello bridge")
	if in.SenderID != ann || in.Untrusted || in.Scope != "" || in.Route.MessageID != "A1" {
		t.Errorf("the message is %+v", in)
	}
	b.message(object{"remoteJid": ann + "@s.whatsapp.net", "id": "A2"}, object{"ephemeralMessage": object{"message": object{"extendedTextMessage": object{"text": "wrapped"}}}})
	h.receive("wrapped")

	if _, err := h.ch.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: in.Route, Text: "**answer**"}); err != nil {
		t.Error(err)
	}
	sent := b.await("the answer", func(o object) bool { c, _ := o["content"].(object); return c["text"] == "*answer*" })
	if sent["to"] != in.Route.ChatID {
		t.Errorf("sent %v", sent)
	}
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("a,b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ch.Send(t.Context(), bus.Outbound{Kind: bus.Message, Route: in.Route, Media: []bus.Media{{Path: path}}}); err != nil {
		t.Error(err)
	}
	sent = b.await("the file", func(o object) bool { c, _ := o["content"].(object); return c["document"] != nil })
	if c := sent["content"].(object); c["document"] != "a,b" || c["fileName"] != "a.csv" {
		t.Errorf("sent %v", sent)
	}
}

// admission: what the bridge does with those who do not show the token.
func admission(t *testing.T, b *bridge) {
	t.Helper()
	url := "ws://127.0.0.1:" + strconv.Itoa(b.port)
	for first, want := range map[string]ws.StatusCode{
		`{"type":"auth","token":"wrong"}`: 4003, `{`: 4003, `{"type":"send"}`: 4003, "": 4001,
	} {
		t.Run(strconv.Itoa(int(want))+first, func(t *testing.T) {
			t.Parallel()
			c, res, err := ws.Dial(t.Context(), url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.Body != nil {
				_ = res.Body.Close()
			}
			defer c.CloseNow()
			if first != "" {
				if err := c.Write(t.Context(), ws.MessageText, []byte(first)); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if _, _, err := c.Read(ctx); ws.CloseStatus(err) != want {
				t.Errorf("closed with %v, want %d", err, want)
			}
		})
	}
	_, res, err := ws.Dial(t.Context(), url, &ws.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.example"}}}) //nolint:bodyclose // the library has read it
	if err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a browser gets %v, %v", res, err)
	}
	h := newHouse(t, b.port, "wrong")
	if err := h.ch.Run(t.Context(), h.Submit); !chat.IsFatal(err) || !strings.Contains(err.Error(), "the bridge refuses the token") {
		t.Errorf("with a wrong token: %v", err)
	}
}

// dialog is a person who types nothing and scans the code.
type dialog struct{ steps chan chat.Step }

func (d *dialog) Tell(s chat.Step) { d.steps <- s }

func (d *dialog) Ask(context.Context, chat.Question) (string, error) { return "", nil }

// login shows the codes that the bridge hands over, until it is connected.
func login(t *testing.T, b *bridge) {
	t.Helper()
	h := newHouse(t, b.port, token)
	d := &dialog{steps: make(chan chat.Step, 9)}
	done := make(chan error, 1)
	go func() {
		_, err := whatsapp.Driver().Login(t.Context(), h.deps, h.section, d, false)
		done <- err
	}()
	// The bridge tells codes only to those who are there; WhatsApp sends one
	// after the other.
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for code := ""; code == ""; {
		select {
		case <-tick.C:
			b.tell("connection.update", object{"qr": "2@scan"})
		case s := <-d.steps:
			code = s.QR
			if s.QR != "2@scan" || s.Note == "" {
				t.Errorf("the step is %+v", s)
			}
		case err := <-done:
			t.Fatalf("the login ended: %v", err)
		}
	}
	b.tell("connection.update", object{"connection": "open"})
	if err := <-done; err != nil {
		t.Errorf("the login: %v", err)
	}
}
