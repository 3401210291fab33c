package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"

	ws "github.com/coder/websocket"
	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"
)

const (
	authTime  = 5 * time.Second
	writeTime = 30 * time.Second
	workTime  = 5 * time.Minute // for one request
	maxFrame  = 16 << 20
	sentKept  = 1000 // ids of our own messages
)

// bridge connects one client with WhatsApp.
type bridge struct {
	wa    whatsApp
	token string
	files string // folder for fetched files
	m     *mapper
	life  context.Context //nolint:containedctx // of the program

	mu      sync.Mutex
	client  *client
	changed chan struct{} // closed and replaced when the client changes
	status  frame
	acks    map[string]chan struct{} // messages that wait for nanobot
	sent    map[string]bool
	order   []string // of sent
	renewed bool
	// refreshed is when the devices of a chat were asked for after a refusal.
	refreshed map[types.JID]time.Time
	pairing   context.CancelFunc // ends the login that goes on
	work      sync.WaitGroup
}

// client is a connection of nanobot.
type client struct {
	conn   *ws.Conn
	modern bool
}

func newBridge(life context.Context, token, files string, selfChat bool) *bridge {
	b := &bridge{
		token:     token,
		files:     files,
		life:      life,
		changed:   make(chan struct{}),
		acks:      map[string]chan struct{}{},
		sent:      map[string]bool{},
		refreshed: map[types.JID]time.Time{},
		status:    frame{Type: "status", Status: disconnected},
		pairing:   func() {},
	}

	b.m = &mapper{selfChat: selfChat, sent: b.isOurs}
	return b
}

// begin connects the account, if one is linked.
func (b *bridge) begin() {
	if !b.wa.Linked() {
		b.setStatus(frame{Status: unlinked})
		return
	}
	b.work.Go(func() {
		if err := b.wa.Connect(b.life); err != nil {
			b.setStatus(frame{Status: disconnected, Reason: err.Error()})
		}
	})
}

// ServeHTTP implements http.Handler.
func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" {
		http.Error(w, "browsers are not allowed", http.StatusForbidden)
		return
	}

	conn, err := ws.Accept(w, r, nil)
	if err != nil {
		return
	}

	defer conn.CloseNow() //nolint:errcheck // it ends anyway
	conn.SetReadLimit(maxFrame)
	c, ok := b.auth(r.Context(), conn)
	if !ok {
		return
	}
	b.serve(r.Context(), c)
}

// auth waits for the token.
func (b *bridge) auth(ctx context.Context, conn *ws.Conn) (*client, bool) {
	late := time.AfterFunc(authTime, func() { _ = conn.Close(4001, "Auth timeout") })
	_, data, err := conn.Read(ctx)
	if !late.Stop() || err != nil {
		return nil, false
	}

	var f frame
	if json.Unmarshal(data, &f) != nil || f.Type != "auth" || subtle.ConstantTimeCompare([]byte(f.Token), []byte(b.token)) != 1 {
		_ = conn.Close(4003, "Invalid token")
		return nil, false
	}
	return &client{conn: conn, modern: f.Protocol >= protocol}, true
}

// serve answers a client until it leaves. The one before is dropped.
func (b *bridge) serve(ctx context.Context, c *client) {
	b.mu.Lock()
	if c.modern {
		hello := b.status
		hello.Type, hello.Protocol = "hello", protocol
		b.write(c, hello) // the first frame, before others can write
	}

	old := b.client
	b.use(c)
	b.mu.Unlock()
	if old != nil {
		_ = old.conn.Close(ws.StatusGoingAway, "another client is there")
	}

	var work sync.WaitGroup
	for {
		_, data, err := c.conn.Read(ctx)
		if err != nil {
			break
		}

		var f frame
		if err := json.Unmarshal(data, &f); err != nil {
			b.write(c, frame{Type: "error", Error: "the frame cannot be read: " + err.Error(), Code: "permanent"})
			continue
		}
		if f.Type == "ack" {
			b.acked(f.ID)
			continue
		}
		work.Go(func() { b.answer(c, &f) })
	}

	b.mu.Lock()
	if b.client == c {
		b.use(nil)
	}

	b.mu.Unlock()
	work.Wait()
}

// use changes the client. The caller holds the lock.
func (b *bridge) use(c *client) {
	b.client = c
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *bridge) write(c *client, f frame) {
	data, err := json.Marshal(f)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(b.life, writeTime)
	defer cancel()
	if err := c.conn.Write(ctx, ws.MessageText, data); err != nil {
		_ = c.conn.CloseNow()
	}
}

// notify writes to whoever is there.
func (b *bridge) notify(f frame) {
	b.mu.Lock()
	c := b.client
	b.mu.Unlock()
	if c != nil {
		b.write(c, f)
	}
}

func (b *bridge) setStatus(f frame) {
	f.Type = "status"
	if s := b.wa.Self(); f.Status == connected {
		f.JID = s.phone.String()
	}
	b.mu.Lock()
	b.status = f
	b.mu.Unlock()
	b.notify(f)
}

// answer does what a frame asks for.
func (b *bridge) answer(c *client, f *frame) {
	ctx, cancel := context.WithTimeout(b.life, workTime)
	defer cancel()
	out, err := b.do(ctx, f)
	if err != nil {
		*out = refusal(err)
	}

	if out.Type == "" {
		return
	}

	if out.ID = f.ID; !c.modern {
		*out = frame{Type: out.Type, To: out.To, Error: out.Error}
	}
	b.write(c, *out)
}

// do returns the answer; one without a type is not sent.
func (b *bridge) do(ctx context.Context, f *frame) (*frame, error) {
	out := &frame{}
	switch f.Type {
	case "send", "send_media":
		id, err := b.send(ctx, f)
		*out = frame{Type: "sent", To: f.To, MessageID: id}
		return out, err
	case "download":
		path, err := b.download(ctx, f.Ref)
		*out = frame{Type: "file", Path: path}
		return out, err
	case "read", "presence":
		return out, b.signal(ctx, f)
	case "login":
		return out, b.login(f.Phone)
	case "logout":
		err := b.wa.Logout(ctx)
		if err == nil {
			b.setStatus(frame{Status: loggedOut})
		}
		return out, err
	}

	return out, permanent("unknown type %q", f.Type)
}

func (b *bridge) signal(ctx context.Context, f *frame) error {
	chat, err := recipient(f.To)
	if err != nil {
		return err
	}

	if f.Type == "presence" {
		err = b.wa.Typing(ctx, chat, f.State == "composing")
	} else {
		sender := chat
		if f.Participant != "" {
			if sender, err = recipient(f.Participant); err != nil {
				return err
			}
		}
		err = b.wa.Read(ctx, f.MessageID, chat, sender)
	}

	if err != nil {
		log.Printf("%s: %v", f.Type, err) // cosmetic
	}
	return nil
}

// login shows codes until the account is linked. A new one ends the one before.
func (b *bridge) login(phone string) error {
	if b.wa.Linked() {
		b.mu.Lock()
		s := b.status
		b.mu.Unlock()
		b.notify(s)
		return nil
	}

	ctx, cancel := context.WithCancel(b.life)
	b.mu.Lock()
	b.pairing()
	b.pairing = cancel
	b.mu.Unlock()
	codes, err := b.wa.QR(ctx)
	if err != nil {
		cancel()
		return fmt.Errorf("ask WhatsApp for a code: %w", err)
	}

	b.work.Go(func() {
		defer cancel()
		b.show(ctx, codes, phone)
	})
	return nil
}

// show hands codes over as they come.
func (b *bridge) show(ctx context.Context, codes <-chan whatsmeow.QRChannelItem, phone string) {
	asked := false
	for item := range codes {
		switch {
		case item.Event == whatsmeow.QRChannelEventCode && phone == "":
			b.notify(frame{Type: "qr", QR: item.Code, Expires: int(item.Timeout.Seconds())})
		case item.Event == whatsmeow.QRChannelEventCode && !asked:
			asked = true
			code, err := b.wa.Pair(ctx, phone)
			if err != nil {
				b.notify(frame{Type: "error", Error: "link with a phone number: " + err.Error()})
				return
			}
			b.notify(frame{Type: "code", Code: code, Expires: 160})

		case item.Event == whatsmeow.QRChannelEventCode, item == whatsmeow.QRChannelSuccess:
		case item == whatsmeow.QRChannelTimeout:
			b.notify(frame{Type: "error", Error: "no code was used in time: try again"})
		case item == whatsmeow.QRChannelClientOutdated:
			b.event(&events.ClientOutdated{})
		case item == whatsmeow.QRChannelScannedWithoutMultidevice:
			b.notify(frame{Type: "error", Error: "the phone's WhatsApp is too old for linked devices: update it"})
		case item.Error != nil:
			b.notify(frame{Type: "error", Error: item.Error.Error()})
		default:
			b.notify(frame{Type: "error", Error: "linking failed: " + item.Event})
		}
	}
}

// event takes what the library tells. True: WhatsApp may be told that it arrived.
func (b *bridge) event(raw any) bool {
	switch e := raw.(type) {
	case *events.Message:
		f := b.m.frame(e, b.wa.Self())
		return f == nil || b.deliver(*f)
	case *events.Connected:
		b.setStatus(frame{Status: connected})
	case *events.Disconnected:
		b.mu.Lock()
		up := b.status.Status == connected
		b.mu.Unlock()
		if up { // else there is a better reason already
			b.setStatus(frame{Status: disconnected})
		}

	case *events.LoggedOut:
		b.setStatus(frame{Status: loggedOut, Reason: e.Reason.String()})
	case *events.StreamReplaced:
		b.setStatus(frame{Status: replaced})
	case *events.TemporaryBan:
		b.setStatus(frame{Status: banned, Reason: e.String()})
	case *events.ClientOutdated:
		b.renew()
	}
	return true
}

// renew tries once with the version that WhatsApp asks for.
func (b *bridge) renew() {
	b.mu.Lock()
	again := b.renewed
	b.renewed = true
	b.mu.Unlock()

	if again {
		b.setStatus(frame{Status: outdated})
		return
	}

	b.work.Go(func() {
		ctx, cancel := context.WithTimeout(b.life, time.Minute)
		defer cancel()
		if err := b.wa.Renew(ctx); err != nil {
			b.setStatus(frame{Status: outdated, Reason: err.Error()})
		}
	})
}

// deliver hands a message to nanobot and waits until that has it. False: the
// program ends before, and WhatsApp sends the message again.
func (b *bridge) deliver(f frame) bool {
	done := make(chan struct{})
	b.mu.Lock()
	b.acks[f.ID] = done
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.acks, f.ID)
		b.mu.Unlock()
	}()

	for {
		b.mu.Lock()
		c, changed := b.client, b.changed
		b.mu.Unlock()

		if c != nil {
			b.write(c, f)
			if !c.modern {
				return true
			}
		}

		select {
		case <-done:
			return true
		case <-changed: // to the next one again
		case <-b.life.Done():
			return false
		}
	}
}

func (b *bridge) acked(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if done := b.acks[id]; done != nil {
		close(done)
		delete(b.acks, id)
	}
}

func (b *bridge) recordSent(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.sent[id] {
		b.sent[id], b.order = true, append(b.order, id)
	}
	if len(b.order) > sentKept {
		delete(b.sent, b.order[0])
		b.order = b.order[1:]
	}
}

func (b *bridge) isOurs(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent[id]
}

var errNoToken = errors.New("no token: nanobot gives one as the first line of the input, others set BRIDGE_TOKEN")
