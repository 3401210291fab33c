package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	ws "github.com/coder/websocket"
	"go.mau.fi/whatsmeow"
	waBinary "go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waAdv"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"
)

// library is the WhatsApp of a test.
type library struct {
	mu      sync.Mutex
	linked  bool
	sent    map[string]*waE2E.Message
	done    []string
	fail    error
	fails   int // how often a message fails so; 0: always
	codes   chan whatsmeow.QRChannelItem
	renewed int
}

func (l *library) note(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, s)
}

func (l *library) Linked() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.linked }
func (l *library) Self() self   { return me }

func (l *library) Connect(context.Context) error { l.note("connect"); return nil }
func (l *library) Disconnect()                   {}

func (l *library) QR(context.Context) (<-chan whatsmeow.QRChannelItem, error) { return l.codes, nil }

func (l *library) Pair(_ context.Context, phone string) (string, error) {
	return "CODE-" + phone[len(phone)-4:], nil
}

func (l *library) Send(_ context.Context, to types.JID, m *waE2E.Message, id string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, "send "+to.String()+" "+id)
	if l.fail != nil {
		err := l.fail
		if l.fails--; l.fails == 0 {
			l.fail = nil
		}
		return "", err
	}
	l.sent[to.String()+"/"+id] = m
	return id, nil
}

func (l *library) Refresh(_ context.Context, to types.JID) error {
	l.note("refresh " + to.String())
	return nil
}

func (l *library) Upload(_ context.Context, data []byte, kind whatsmeow.MediaType) (whatsmeow.UploadResponse, error) {
	l.note("upload " + string(kind))
	return whatsmeow.UploadResponse{URL: "https://mmg/x", FileLength: uint64(len(data))}, nil
}

func (l *library) Download(_ context.Context, m *waE2E.Message) ([]byte, error) {
	return []byte("content of " + m.GetDocumentMessage().GetDirectPath()), nil
}

func (l *library) Read(_ context.Context, id string, chat, sender types.JID) error {
	l.note("read " + id + " " + chat.String() + " " + sender.String())
	return nil
}

func (l *library) Typing(_ context.Context, chat types.JID, on bool) error {
	state := " off"
	if on {
		state = " on"
	}
	l.note("typing " + chat.String() + state)
	return nil
}

func (l *library) Renew(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed++
	return nil
}
func (l *library) Logout(context.Context) error { l.note("logout"); return nil }

// rig is a bridge and a way to connect to it.
type rig struct {
	*bridge
	t   *testing.T
	lib *library
	url string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	lib := &library{linked: true, sent: map[string]*waE2E.Message{}, codes: make(chan whatsmeow.QRChannelItem, 9)}
	b := newBridge(ctx, "secret", filepath.Join(t.TempDir(), "files"), false)
	b.wa = lib
	s := httptest.NewServer(b)
	t.Cleanup(func() {
		cancel()
		s.CloseClientConnections()
		s.Close()
		close(lib.codes)
		b.work.Wait()
	})
	return &rig{bridge: b, t: t, lib: lib, url: "ws" + strings.TrimPrefix(s.URL, "http")}
}

type peer struct {
	t *testing.T
	c *ws.Conn
}

func (r *rig) dial(auth string) *peer {
	r.t.Helper()
	c, res, err := ws.Dial(r.t.Context(), r.url, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	r.t.Cleanup(func() { _ = c.CloseNow() })
	p := &peer{r.t, c}
	p.write(auth)
	return p
}

func (r *rig) connect() *peer {
	r.t.Helper()
	p := r.dial(`{"type":"auth","token":"secret","protocol":2}`)
	if f := p.read(); f.Type != "hello" || f.Protocol != protocol {
		r.t.Fatalf("hello is %+v", f)
	}
	return p
}

func (p *peer) write(s string) {
	p.t.Helper()
	if err := p.c.Write(p.t.Context(), ws.MessageText, []byte(s)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) read() frame {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Minute)
	defer cancel()
	_, data, err := p.c.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	var f frame
	if err := json.Unmarshal(data, &f); err != nil {
		p.t.Fatal(err)
	}
	return f
}

func (p *peer) ask(s string) frame { p.t.Helper(); p.write(s); return p.read() }

func TestAuth(t *testing.T) {
	r := newRig(t)
	for _, auth := range []string{`{"type":"auth","token":"wrong"}`, `{"type":"send"}`, `{`} {
		p := r.dial(auth)
		_, _, err := p.c.Read(t.Context())
		if ws.CloseStatus(err) != 4003 {
			t.Errorf("%s: %v", auth, err)
		}
	}
	_, res, err := ws.Dial(t.Context(), r.url, &ws.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.example"}}})
	if err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a browser gets %v, %v", res, err)
	}
}

func TestRequests(t *testing.T) {
	r := newRig(t)
	p := r.connect()
	path := filepath.Join(t.TempDir(), "a.pdf")
	if err := os.WriteFile(path, []byte("%PDF"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := messageID("k/0")
	for _, c := range []struct{ ask, want string }{
		{`{"type":"send","id":"r1","to":"4917600000042@s.whatsapp.net","text":"hi","key":"k/0"}`, `{"type":"sent","id":"r1","to":"4917600000042@s.whatsapp.net","messageId":"` + id + `"}`},
		{`{"type":"send_media","id":"r2","to":"120363000000000001@g.us","filePath":"` + path + `","mimetype":"application/pdf","kind":"document","fileName":"a.pdf","key":"k/1"}`, `{"type":"sent","id":"r2","to":"120363000000000001@g.us","messageId":"` + messageID("k/1") + `"}`},
		{`{"type":"send","id":"r3","to":"ann","text":"hi"}`, `{"type":"error","id":"r3","code":"permanent","error":"\"ann\" is not an id of WhatsApp"}`},
		{`{"type":"send","id":"r4","to":"1@newsletter","text":"hi"}`, `{"type":"error","id":"r4","code":"permanent","error":"\"1@newsletter\" is neither a person nor a group"}`},
		{`{"type":"send","id":"r5","to":"123@lid","text":" "}`, `{"type":"error","id":"r5","code":"permanent","error":"the message is empty"}`},
		{`{"type":"send_media","id":"r6","to":"123@lid","filePath":"/"}`, `{"type":"error","id":"r6","code":"permanent","error":"the file to send is not a regular file"}`},
		{`{"type":"dance","id":"r7"}`, `{"type":"error","id":"r7","code":"permanent","error":"unknown type \"dance\""}`},
		{`{"type":"download","id":"r8","ref":"%"}`, `{"type":"error","id":"r8","code":"permanent","error":"the file cannot be found by \"%\""}`},
	} {
		var want frame
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if got := p.ask(c.ask); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", c.ask, got, want)
		}
	}
	if got := p.ask("{").Code; got != "permanent" {
		t.Errorf("a broken frame: %q", got)
	}
	if m := r.lib.sent["4917600000042@s.whatsapp.net/"+id]; m.GetConversation() != "hi" || !r.isOurs(id) {
		t.Errorf("sent %v", m)
	}
	for err, want := range map[error]string{
		whatsmeow.ErrNotConnected: "not_ready", whatsmeow.ErrServerReturnedError: "permanent", whatsmeow.ErrIQRateOverLimit: "rate", errors.New("timeout"): "other",
	} {
		r.lib.mu.Lock()
		r.lib.fail = err
		r.lib.mu.Unlock()
		if got := p.ask(`{"type":"send","id":"r9","to":"123@lid","text":"hi"}`); got.Code != want || got.ID != "r9" {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

// A message whose recipient's devices are not those that we know is sent once
// more with the devices that WhatsApp names, under the same id. More tries would
// get the account blocked.
func TestUnknownDevices(t *testing.T) {
	id := messageID("k")
	const ask = `{"type":"send","id":"r1","to":"123@lid","text":"hi","key":"k"}`
	send := "send 123@lid " + id
	for _, c := range []struct {
		name   string
		code   int
		fails  int
		asks   int
		answer string // to the last one
		done   []string
	}{
		{"hidden id", 463, 1, 1, "sent", []string{send, "refresh 123@lid", send}},
		{"invalid stanza", 479, 1, 1, "sent", []string{send, "refresh 123@lid", send}},
		{"for good", 463, 0, 1, "error", []string{send, "refresh 123@lid", send}},
		{"again soon", 479, 0, 2, "error", []string{send, "refresh 123@lid", send, send}},
		{"another code", 400, 1, 1, "error", []string{send}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			p := r.connect()
			r.lib.fail, r.lib.fails = fmt.Errorf("%w %d", whatsmeow.ErrServerReturnedError, c.code), c.fails
			var got frame
			for range c.asks {
				got = p.ask(ask)
			}
			if got.Type != c.answer || got.Type == "error" && got.Code != "permanent" {
				t.Errorf("the answer is %+v", got)
			}
			if !reflect.DeepEqual(r.lib.done, c.done) {
				t.Errorf("done %q, want %q", r.lib.done, c.done)
			}
		})
	}
}

// The list of a person's devices is not taken from the memory of the library
// after a refusal.
func TestForgetDevices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	link(t, path)
	a := open(t, path)
	inside := a.cli.DangerousInternals()
	person := types.NewJID("4917600000042", types.DefaultUserServer)
	inside.HandleFBDeviceNotification(t.Context(), &waBinary.Node{ // the shortest way into its memory
		Attrs: waBinary.Attrs{"from": person}, Content: []waBinary.Node{{Tag: "devices", Content: []waBinary.Node{{Tag: "device", Attrs: waBinary.Attrs{"id": "3"}}}}},
	})
	if got, err := a.cli.GetUserDevices(t.Context(), []types.JID{person}); err != nil || len(got) != 1 {
		t.Fatalf("known are %v, %v", got, err)
	}
	a.forgetDevices(t.Context(), person)
	if got, err := a.cli.GetUserDevices(t.Context(), []types.JID{person}); !errors.Is(err, whatsmeow.ErrNotConnected) {
		t.Errorf("still known are %v, %v", got, err)
	}
}

// A quoted answer, a voice message and the signals reach the library.
func TestForms(t *testing.T) {
	r := newRig(t)
	p := r.connect()
	p.ask(`{"type":"send","id":"r1","to":"120363000000000001@g.us","text":"hi","key":"k","replyTo":{"id":"Q","participant":"123@lid","text":"what?"}}`)
	m := r.lib.sent["120363000000000001@g.us/"+messageID("k")].GetExtendedTextMessage()
	if c := m.GetContextInfo(); m.GetText() != "hi" || c.GetStanzaID() != "Q" || c.GetParticipant() != "123@lid" || c.GetQuotedMessage().GetConversation() != "what?" {
		t.Errorf("sent %v", m)
	}
	path := filepath.Join(t.TempDir(), "v.ogg")
	if err := os.WriteFile(path, []byte("OggS"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.ask(`{"type":"send_media","id":"r2","to":"123@lid","filePath":"` + path + `","mimetype":"audio/ogg; codecs=opus","kind":"voice","key":"v"}`)
	if a := r.lib.sent["123@lid/"+messageID("v")].GetAudioMessage(); !a.GetPTT() || a.GetFileLength() != 4 {
		t.Errorf("sent %v", a)
	}
	p.write(`{"type":"presence","to":"123@lid","state":"composing"}`)
	p.write(`{"type":"read","to":"120363000000000001@g.us","messageId":"A","participant":"123@lid"}`)
	p.ask(`{"type":"logout","id":"x"}`) // its status shows that the others were read
	deadline := time.After(10 * time.Minute)
	for {
		r.lib.mu.Lock()
		all := strings.Join(r.lib.done, "; ")
		r.lib.mu.Unlock()
		if strings.Contains(all, "typing 123@lid on") && strings.Contains(all, "read A 120363000000000001@g.us 123@lid") {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("done: %s", all)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// WhatsApp is told that a message arrived when nanobot has it, and a client
// that comes later gets what the one before did not acknowledge.
func TestDeliver(t *testing.T) {
	r := newRig(t)
	result := make(chan bool, 1)
	go func() { result <- r.event(said(plain("hi"))) }() // no client is there
	p := r.connect()
	if f := p.read(); f.Type != "message" || f.Content != "hi" {
		t.Fatalf("got %+v", f)
	}
	_ = p.c.CloseNow() // before it could acknowledge
	p = r.connect()
	if f := p.read(); f.ID != "A1" {
		t.Fatalf("got %+v", f)
	}
	select {
	case <-result:
		t.Error("the message was confirmed too early")
	default:
	}
	p.write(`{"type":"ack","id":"A1"}`)
	if !<-result {
		t.Error("the message was not confirmed")
	}
	if !r.event(said(nil)) {
		t.Error("what is nothing is not confirmed")
	}
}

// A client of the older protocol works as before.
func TestOldClient(t *testing.T) {
	r := newRig(t)
	p := r.dial(`{"type":"auth","token":"secret"}`)
	if f := p.ask(`{"type":"send","to":"123@lid","text":"hi"}`); f.Type != "sent" || f.To != "123@lid" || f.MessageID != "" {
		t.Errorf("got %+v", f)
	}
	if f := p.ask(`{"type":"send","to":"ann","text":"hi"}`); f.Type != "error" || f.Error == "" || f.Code != "" {
		t.Errorf("got %+v", f)
	}
	if !r.event(said(plain("hi"))) {
		t.Error("a message waits for an acknowledgement that never comes")
	}
	if f := p.read(); f.Sender != "123456789012345@lid" || f.PN != "4917600000042@s.whatsapp.net" || f.Content != "hi" {
		t.Errorf("got %+v", f)
	}
	r.event(&events.Connected{})
	if f := p.read(); f.Type != "status" || f.Status != connected {
		t.Errorf("got %+v", f)
	}
}

func TestStates(t *testing.T) {
	r := newRig(t)
	p := r.connect()
	for _, c := range []struct {
		event  any
		status string
	}{
		{&events.Connected{}, connected},
		{&events.Disconnected{}, disconnected},
		{&events.LoggedOut{}, loggedOut},
		{&events.StreamReplaced{}, replaced},
		{&events.TemporaryBan{}, banned},
	} {
		r.event(c.event)
		f := p.read()
		if f.Status != c.status || (f.JID != "") != (c.status == connected) {
			t.Errorf("%T: %+v", c.event, f)
		}
	}
	r.event(&events.Disconnected{}) // says nothing new
	r.event(&events.ClientOutdated{})
	r.event(&events.ClientOutdated{}) // the new version is refused, too
	if f := p.read(); f.Status != outdated {
		t.Errorf("got %+v", f)
	}
	r.work.Wait()
	if r.lib.renewed != 1 {
		t.Errorf("renewed %d times", r.lib.renewed)
	}
}

func TestLogin(t *testing.T) {
	r := newRig(t)
	r.lib.linked = false
	r.begin()
	p := r.dial(`{"type":"auth","token":"secret","protocol":2}`)
	if f := p.read(); f.Status != unlinked {
		t.Fatalf("got %+v", f)
	}
	p.write(`{"type":"login"}`)
	r.lib.codes <- whatsmeow.QRChannelItem{Event: whatsmeow.QRChannelEventCode, Code: "2@qr", Timeout: 20 * time.Second}
	if f := p.read(); f.QR != "2@qr" || f.Expires != 20 {
		t.Errorf("got %+v", f)
	}
	r.lib.codes <- whatsmeow.QRChannelTimeout
	if f := p.read(); f.Type != "error" || !strings.Contains(f.Error, "try again") {
		t.Errorf("got %+v", f)
	}
}

func TestPairing(t *testing.T) {
	r := newRig(t)
	r.lib.linked = false
	p := r.connect()
	p.write(`{"type":"login","phone":"4915100000001"}`)
	r.lib.codes <- whatsmeow.QRChannelItem{Event: whatsmeow.QRChannelEventCode, Code: "2@qr"}
	r.lib.codes <- whatsmeow.QRChannelItem{Event: whatsmeow.QRChannelEventCode, Code: "2@qr2"}
	if f := p.read(); f.Type != "code" || f.Code != "CODE-0001" {
		t.Errorf("got %+v", f)
	}
}

func TestDownload(t *testing.T) {
	r := newRig(t)
	p := r.connect()
	path := "/d"
	var f frame
	f.add("document", "a.pdf", "application/pdf", 3, &waE2E.Message{DocumentMessage: &waE2E.DocumentMessage{DirectPath: &path}})
	got := p.ask(`{"type":"download","id":"r1","ref":"` + f.Files[0].Ref + `"}`)
	data, err := os.ReadFile(got.Path)
	if err != nil || string(data) != "content of /d" || got.ID != "r1" {
		t.Errorf("%+v, %q, %v", got, data, err)
	}
}

// link stores a linked device.
func link(t *testing.T, path string) {
	t.Helper()
	c, err := openStore(t.Context(), path, logger{"test"})
	if err != nil {
		t.Fatal(err)
	}
	d := c.NewDevice()
	id := types.NewADJID(bot.User, 0, 7)
	d.ID, d.LID = &id, botID
	d.Account = &waAdv.ADVSignedDeviceIdentity{Details: []byte("d"), AccountSignature: make([]byte, 64), AccountSignatureKey: make([]byte, 32), DeviceSignature: make([]byte, 64)}
	if err := c.PutDevice(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// open is the account of a file.
func open(t *testing.T, path string) *account {
	t.Helper()
	c, err := openStore(t.Context(), path, logger{"test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	a, err := newAccount(t.Context(), c, "", logger{"test"}, func(any) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A device that was linked is found again in the same file, which others cannot
// read.
func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "with space", "neonize.db")
	link(t, path)
	if a := open(t, path); !a.Linked() || a.Self() != me {
		t.Errorf("linked %v, %v", a.Linked(), a.Self())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// The program says where it listens, lets nanobot in by the token from its
// input, and ends with its input.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, stdinW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- run(context.Background(), []string{"--store", filepath.Join(dir, "x.db"), "--files", dir}, stdin, out, func(string) string { return "" })
	}()
	if _, err := stdinW.WriteString("a-token\n"); err != nil {
		t.Fatal(err)
	}
	var greeting struct{ Listen string }
	if err := json.NewDecoder(in).Decode(&greeting); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, url: "ws://" + greeting.Listen}
	p := r.dial(`{"type":"auth","token":"a-token","protocol":2}`)
	if f := p.read(); f.Status != unlinked {
		t.Errorf("got %+v", f)
	}
	_ = stdinW.Close()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	if err := run(context.Background(), nil, strings.NewReader(""), out, func(string) string { return "" }); !errors.Is(err, errNoToken) {
		t.Errorf("run without a token: %v", err)
	}
}

// The frames are those that internal/chat/platform/whatsapp knows.
func TestFrames(t *testing.T) {
	data, err := os.ReadFile("../../internal/chat/platform/whatsapp/whatsapptest/testdata/frames.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		var f frame
		if err := d.Decode(&f); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		again, err := json.Marshal(f)
		if err != nil || string(again) != strings.TrimSpace(line) {
			t.Errorf("%s became %s, %v", line, again, err)
		}
	}
}
