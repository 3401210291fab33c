package mochat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxFrame    = 8 << 20
	ackTime     = 10 * time.Second
	catchMost   = 20  // times that sessions with many missed messages are asked again
	atOnce      = 100 // ids in one subscription
	inboxMost   = 100 // messages of unknown sessions that wait
	chatsMost   = 500 // sessions, and panels
	beatLongest = 10 * time.Minute
)

var errBeats = errors.New("Mochat sends no pings any more") //nolint:staticcheck // a name

// line is the connection during one Run.
type line struct {
	bot    *bot
	in     *kit.Intake[event]
	marks  *marks
	panels *kit.Cursors
	began  time.Time
	inbox  chan inboxItem // of sessions that are not known yet
	listed chan struct{}  // closed when the server was asked once what there is

	talk talk

	subscribing sync.Mutex // one at a time

	mu       sync.Mutex
	targets  map[string]*target
	order    []*target // as they were found
	converse map[string]string
	conn     *socket.Conn  // nil: not connected
	live     bool          // the socket delivers everything
	failures int           // of the socket in a row
	ready    bool          // as the manager was told
	changed  chan struct{} // closed when live or targets change
}

// talk is how we speak on the socket. All but plain is of the socket's goroutine.
type talk struct {
	bot   *bot
	plain atomic.Bool   // JSON instead of msgpack
	other bool          // the other one is worth a try
	late  time.Duration // longest time between two pings
}

// target is a session or a panel that we take part in.
type target struct {
	id    string
	panel bool

	mu     sync.Mutex // one batch at a time
	seen   *recent.Map[string, bool]
	cold   bool // nothing of it was ever read: what is there is history
	caught bool // all that was missed is read
	many   bool // several people are in a session; guarded by line.mu

	subscribed *socket.Conn // on which connection; guarded by line.mu
}

func newLine(b *bot, in *kit.Intake[event], m *marks, panels *kit.Cursors) *line {
	l := &line{
		bot:      b,
		in:       in,
		marks:    m,
		panels:   panels,
		began:    b.deps.Now(),
		inbox:    make(chan inboxItem, inboxMost),
		targets:  map[string]*target{},
		converse: map[string]string{},
		listed:   make(chan struct{}),
		changed:  make(chan struct{}),
	}

	l.talk.bot = b
	l.talk.plain.Store(b.o.SocketDisableMsgpack)
	return l
}

// news tells that live or targets changed. The lock is held.
func (l *line) news() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// works and fails tell the manager how we are.
func (l *line) works() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		l.ready = true
		l.bot.deps.Ready(l.bot.o.AgentUserID, nil)
	}
}

func (l *line) fails(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.live {
		l.ready = false
		l.bot.deps.Ready(l.bot.o.AgentUserID, err)
	}
}

// wait waits until the server was asked what there is: that tells its clock, too.
func (l *line) wait(ctx context.Context) bool {
	select {
	case <-l.listed:
		return true
	case <-ctx.Done():
		return false
	}
}

// connect keeps the socket until ctx ends, or there is no use in it.
func (l *line) connect(ctx context.Context) error {
	if !l.wait(ctx) {
		return nil
	}

	err := socket.Run(ctx, l.options())
	l.gone(nil)
	if errors.Is(err, errGivenUp) {
		l.bot.deps.Log.WarnContext(ctx, "the socket is given up until the channel restarts (maxRetryAttempts); messages are polled for", "channel", l.bot.deps.Name)
		return nil
	}
	return err
}

const liveNote = "the socket delivers all messages"

// errGivenUp ends the socket, not the channel.
var errGivenUp = errors.New("too many failed connections")

func (l *line) options() socket.Options {
	b := l.bot
	address := "ws" + strings.TrimPrefix(b.o.SocketURL, "http") + b.o.SocketPath + "/?EIO=4&transport=websocket"
	return socket.Options{
		Client:   b.api.rest.Client,
		Dial:     func(context.Context) (socket.Target, error) { return socket.Target{URL: address}, nil },
		Open:     l.open,
		Receive:  l.receive,
		Lost:     l.lost,
		Match:    match,
		Ping:     b.silence / 3,
		Silence:  b.silence,
		MaxFrame: maxFrame,
		MaxPause: ms(b.o.SocketMaxReconnectDelayMS, time.Second, 10*time.Minute),
	}
}

// match finds answers to calls.
func match(f socket.Frame) (string, bool) {
	if !f.Binary && !bytes.HasPrefix(f.Data, []byte("43")) {
		return "", false
	}
	p, err := readPacket(f)
	if err != nil || p.Type != ioAck || p.ID == nil {
		return "", false
	}
	return strconv.FormatInt(*p.ID, 10), true
}

// open logs in and subscribes. Without a subscription the connection stays, and
// messages are polled for.
func (l *line) open(ctx context.Context, c *socket.Conn) error {
	if err := l.talk.greet(ctx, c); err != nil {
		return err
	}

	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	err := l.subscribe(ctx, c)
	if err == nil || errors.Is(err, socket.ErrLost) || ctx.Err() != nil {
		return err
	}

	l.bot.deps.Log.WarnContext(ctx, "messages are polled for, since there is no subscription", "channel", l.bot.deps.Name, "err", err)
	return nil
}

// greet is the handshake of Engine.IO and the login of Socket.IO.
func (k *talk) greet(ctx context.Context, c *socket.Conn) error {
	limit := ms(k.bot.o.SocketConnectTimeoutMS, time.Second, 25*time.Second)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	k.other = false
	f, err := c.Next(ctx)
	if err != nil {
		return err
	}
	if f.Binary || len(f.Data) == 0 || f.Data[0] != engineOpen {
		return errors.New("the server does not speak Engine.IO 4: check socketUrl and socketPath")
	}

	k.beat(ctx, c, f.Data[1:])

	hello, err := frame(k.plain.Load(), ioConnect, -1, map[string]any{"token": k.bot.o.ClawToken.Reveal()})
	if err != nil {
		return err
	}

	k.other = !k.bot.o.SocketDisableMsgpack // until it answers: it may not understand us
	if err := c.Send(ctx, hello); err != nil {
		return err
	}

	for {
		f, err := c.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("the server does not answer the login on the socket within %s", limit)
			}
			return err
		}

		if !f.Binary && len(f.Data) > 0 && f.Data[0] == enginePing {
			if err := k.pong(ctx, c); err != nil {
				return err
			}
			continue
		}

		p, err := readPacket(f)
		switch {
		case err != nil:
			return fmt.Errorf("the server's answer to the login is not understood: %w", err)
		case p.Type == ioConnect:
			k.other = false
			return nil
		case p.Type == ioRefused:
			k.other = false
			var why struct {
				Message str `json:"message"`
			}
			object(p.Data, &why)
			return fmt.Errorf("Mochat refuses the login on the socket: %s", text.Label(string(why.Message), 200)) //nolint:staticcheck // a name
		}
	}
}

// beat expects pings as often as the server promised.
func (k *talk) beat(ctx context.Context, c *socket.Conn, opened []byte) {
	var promise struct {
		Interval whole `json:"pingInterval"`
		Timeout  whole `json:"pingTimeout"`
	}
	if object(opened, &promise); promise.Interval <= 0 {
		return
	}

	late := min(time.Duration(min(promise.Interval, 1<<30)+min(max(promise.Timeout, 0), 1<<30))*time.Millisecond, beatLongest)
	k.late = late
	c.Heartbeat(ctx, late, late, func(context.Context) error { return errBeats })
}

// pong answers a ping and waits for the next.
func (k *talk) pong(ctx context.Context, c *socket.Conn) error {
	if k.late > 0 {
		c.Heartbeat(ctx, k.late, k.late, func(context.Context) error { return errBeats })
	}
	return c.Send(ctx, socket.Frame{Data: []byte(enginePong)})
}

// lost takes note of the end of a connection, or of one that was not made.
func (l *line) lost(err error) error {
	l.gone(err)
	l.bot.api.rest.Client.CloseIdleConnections() // they may be as dead as this one
	l.talk.swap()
	l.mu.Lock()
	l.failures++
	failures := l.failures
	l.mu.Unlock()
	if failures == 1 {
		l.bot.deps.Log.Warn("the socket is not connected; messages are polled for", "channel", l.bot.deps.Name, "err", err)
	}

	if most := l.bot.o.MaxRetryAttempts; most > 0 && failures >= most {
		return socket.Fatal(errGivenUp)
	}
	return socket.After(ms(l.bot.o.SocketReconnectDelayMS, 100*time.Millisecond, 10*time.Minute), err)
}

// swap takes the other encoding, if the server may not have understood this one.
func (k *talk) swap() (swapped bool) {
	if k.other {
		k.plain.Store(!k.plain.Load())
	}
	return k.other
}

// gone says that there is no connection.
func (l *line) gone(err error) {
	l.mu.Lock()
	l.conn = nil
	was := l.live
	l.live = false
	if was {
		l.news()
	}

	list := slices.Clone(l.order)
	l.mu.Unlock()
	if !was {
		return
	}

	for _, t := range list { // what comes next may have been missed
		t.mu.Lock()
		t.caught = false
		t.mu.Unlock()
	}

	if err != nil {
		l.fails(err)
	}
}

// subscribe asks for the messages of all targets that have no subscription on
// this connection. After that the socket delivers everything.
func (l *line) subscribe(ctx context.Context, c *socket.Conn) error {
	l.subscribing.Lock()
	defer l.subscribing.Unlock()

	sessions, panels := l.unsubscribed(c)
	for len(sessions) > 0 {
		n := min(len(sessions), atOnce)
		if err := l.subscribeSessions(ctx, c, sessions[:n]); err != nil {
			return err
		}
		sessions = sessions[n:]
	}

	l.mu.Lock()
	first := !l.live
	l.mu.Unlock()

	for all := first && wantsAll(l.bot.o.Panels); len(panels) > 0 || all; all = false {
		n := min(len(panels), atOnce)
		if err := l.subscribePanels(ctx, c, panels[:n]); err != nil {
			return err
		}
		panels = panels[n:]
	}

	l.mu.Lock()
	if l.conn != c {
		l.mu.Unlock()
		return socket.ErrLost
	}

	l.failures = 0
	l.live = true
	l.news()
	l.mu.Unlock()
	if first {
		l.bot.deps.Log.DebugContext(ctx, liveNote, "channel", l.bot.deps.Name)
	}

	l.works()
	return nil
}

func (l *line) unsubscribed(c *socket.Conn) (sessions, panels []*target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.order {
		switch {
		case t.subscribed == c:
		case t.panel:
			panels = append(panels, t)
		default:
			sessions = append(sessions, t)
		}
	}

	return sessions, panels
}

func (l *line) mark(c *socket.Conn, list []*target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range list {
		t.subscribed = c
	}
}

// subscribeSessions gets what was missed with the subscription. Where that may
// not be all of it, it is asked for again.
func (l *line) subscribeSessions(ctx context.Context, c *socket.Conn, list []*target) error {
	all := list
	for tries := 0; len(list) > 0 && tries < catchMost; tries++ {
		ids, cursors := []string{}, map[string]int64{}
		for _, t := range list {
			ids = append(ids, t.id)
			if n, known := l.marks.get(t.id); known {
				cursors[t.id] = n
			}
		}

		p, err := l.talk.call(ctx, c, "com.claw.im.subscribeSessions", map[string]any{"sessionIds": ids, "cursors": cursors, "limit": l.bot.o.limit()})
		if err != nil {
			return err
		}

		batches, err := p.batches()
		if err != nil {
			return err
		}

		var more []*target
		for _, raw := range batches {
			t, rest, err := l.batch(ctx, raw, false, missed)
			if err != nil {
				return err
			}
			if rest && t != nil {
				more = append(more, t)
			}
		}

		list = more
	}

	l.mark(c, all)
	return nil
}

func (l *line) subscribePanels(ctx context.Context, c *socket.Conn, list []*target) error {
	ids := []string{}
	for _, t := range list {
		ids = append(ids, t.id)
	}

	p, err := l.talk.call(ctx, c, "com.claw.im.subscribePanels", map[string]any{"panelIds": ids})
	if err == nil {
		_, err = p.batches()
	}

	if err != nil {
		return err
	}

	l.mark(c, list)
	return nil
}

// call makes a call and waits for its answer.
func (k *talk) call(ctx context.Context, c *socket.Conn, name string, body map[string]any) (packet, error) {
	id := k.bot.calls.Add(1)
	f, err := frame(k.plain.Load(), ioEvent, id, []any{name, body})
	if err != nil {
		return packet{}, err
	}

	limited, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	answer, err := c.Call(limited, strconv.FormatInt(id, 10), f)
	if err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			err = fmt.Errorf("Mochat does not answer %s within %s", name, ackTime) //nolint:staticcheck // a name
		}
		return packet{}, err
	}
	return readPacket(answer)
}

// receive handles a frame.
func (l *line) receive(ctx context.Context, c *socket.Conn, f socket.Frame) error {
	b := l.bot
	if !f.Binary && len(f.Data) > 0 {
		switch f.Data[0] {
		case enginePing:
			return l.talk.pong(ctx, c)
		case engineClose:
			return errors.New("the server closed the connection")
		case engineNoop:
			return nil
		}
	}

	p, err := readPacket(f)
	if err != nil {
		b.once(ctx, "a packet cannot be read", "err", err)
		return nil
	}

	switch p.Type {
	case ioDisconnect:
		return errors.New("the server ended the login on the socket")
	case ioEvent:
		name, body, err := p.named()
		if err != nil {
			b.once(ctx, "an event without a name")
			return nil //nolint:nilerr // it is ignored
		}
		return l.event(ctx, name, body)

	case ioAck: // too late
	default:
		b.once(ctx, "a packet of an unknown kind", "type", p.Type)
	}

	return nil
}

// event handles what the server tells. An error means that it is not durable,
// and ends the connection: the next one gets it again.
func (l *line) event(ctx context.Context, name string, body json.RawMessage) error {
	switch name {
	case "claw.session.events":
		_, _, err := l.batch(ctx, body, false, pushed)
		return err
	case "claw.panel.events":
		_, _, err := l.batch(ctx, body, true, pushed)
		return err
	case "notify:chat.message.add":
		return l.panelMessage(ctx, body)
	case "notify:chat.inbox.append":
		return l.inboxMessage(ctx, body)
	case "notify:chat.message.update", "notify:chat.message.recall", "notify:chat.message.delete": // nothing new was said
		return nil
	}

	l.bot.once(ctx, "an unknown event", "name", text.Label(name, 100))
	return nil
}
