package feishu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	endpointPath = "/callback/ws/endpoint"
	pingLongest  = 2 * time.Minute
	pingShortest = 10 * time.Second
	silence      = 2*pingLongest + 10*time.Second
	maxFrame     = 16 << 20        // bytes
	joinWait     = 5 * time.Second // for all frames of one event
	joinMost     = 64              // events that wait for frames
	joinFrames   = 1000            // of one event
)

// line is the long connection during one Run. Its methods are called from one
// goroutine.
type line struct {
	bot     *bot
	service int32
	ping    time.Duration
	parts   map[string]*pieces // of events that come in several frames
}

// pieces are the frames of one event that came so far.
type pieces struct {
	data  [][]byte
	have  int
	bytes int
	began time.Time
}

// clientConfig is how Feishu wants the connection to be kept.
type clientConfig struct {
	PingInterval int // seconds
}

func (l *line) run(ctx context.Context) error {
	return socket.Run(ctx, socket.Options{
		Client:   l.bot.calls.app.Client,
		Dial:     l.dial,
		Open:     l.open,
		Receive:  l.receive,
		Lost:     l.lost,
		Ping:     -1, // Feishu has pings of its own
		Silence:  l.bot.silence,
		MaxFrame: maxFrame,
	})
}

// dial asks for the address of the next connection.
func (l *line) dial(ctx context.Context) (socket.Target, error) {
	got, err := l.bot.calls.endpoint(ctx)
	if err != nil {
		return socket.Target{}, err
	}

	u, err := url.Parse(got.URL)
	if err != nil {
		return socket.Target{}, errors.New("Feishu names an address for the connection that is not a URL") //nolint:staticcheck // a name begins the sentence
	}

	n, err := strconv.ParseInt(u.Query().Get("service_id"), 10, 32)
	if err != nil {
		return socket.Target{}, errors.New("Feishu names an address for the connection without a service_id") //nolint:staticcheck // a name begins the sentence
	}

	l.service, l.parts = int32(n), map[string]*pieces{}
	l.configure(got.Config)
	return socket.Target{URL: got.URL}, nil
}

// target is where to connect to.
type target struct {
	URL    string
	Config clientConfig `json:"ClientConfig"`
}

// endpoint asks where to connect to. A refusal is fatal, unless Feishu is busy.
func (c *client) endpoint(ctx context.Context) (got target, err error) {
	ask := c.public
	ask.Judge = judgeData
	err = ask.Do(ctx, kit.Call{
		Method: http.MethodPost,
		Path:   endpointPath,
		Header: http.Header{"Locale": {"zh"}},
		Body:   kit.PlainJSON(map[string]string{"AppID": c.o.AppID, "AppSecret": c.o.AppSecret.Reveal()}),
	}, &got)
	if e, ok := errors.AsType[*apiError](err); ok && e.Status == http.StatusOK && e.Code != codeBusy && e.Code != codeInternal {
		err = socket.Fatal(chat.Fatal(fmt.Errorf("Feishu refuses the long connection (%w); check appId and appSecret, and choose the long connection in the developer console under Events & Callbacks", err))) //nolint:staticcheck // a name begins the sentence
	}
	return got, err
}

// configure adopts how often Feishu wants a ping.
func (l *line) configure(c clientConfig) {
	l.ping = min(max(time.Duration(c.PingInterval)*time.Second, pingShortest), pingLongest)
	if c.PingInterval <= 0 {
		l.ping = pingLongest
	}
	l.ping = min(l.ping, l.bot.silence/2) // an answer to one of two is enough
}

func (l *line) open(ctx context.Context, c *socket.Conn) error {
	if err := l.sendPing(ctx, c); err != nil {
		return err
	}
	l.beat(ctx, c)
	l.bot.deps.Ready(l.bot.identity(), nil)
	return nil
}

func (l *line) beat(ctx context.Context, c *socket.Conn) {
	c.Heartbeat(ctx, l.ping, l.ping, func(ctx context.Context) error { return l.sendPing(ctx, c) })
}

func (l *line) sendPing(ctx context.Context, c *socket.Conn) error {
	f := frame{Service: l.service, Method: methodControl, Headers: []header{{"type", "ping"}}}
	return c.Send(ctx, socket.Frame{Binary: true, Data: f.encode()})
}

// lost tells why there is no connection. Feishu says in headers of its own why
// it refused one.
func (l *line) lost(err error) error {
	l.bot.deps.Ready(l.bot.identity(), err)
	e, ok := errors.AsType[*socket.StatusError](err)
	if !ok {
		return err
	}

	why := e.Header.Get("Handshake-Msg")
	auth, _ := strconv.Atoi(e.Header.Get("Handshake-Autherrcode"))
	switch status := e.Header.Get("Handshake-Status"); {
	case status == "403":
		return socket.Fatal(chat.Fatal(fmt.Errorf("Feishu refuses the long connection: %.100q; choose it in the developer console under Events & Callbacks, and publish a version", why))) //nolint:staticcheck // a name begins the sentence
	case status == "514" && auth == codeManyConns:
		return socket.Fatal(chat.Fatal(fmt.Errorf("the app has too many connections (%.100q); stop the other programs that use it", why)))
	}
	return err
}

// receive handles a frame.
func (l *line) receive(ctx context.Context, c *socket.Conn, raw socket.Frame) error {
	f, err := decodeFrame(raw.Data)
	if bad := err != nil || !raw.Binary; bad {
		l.bot.once(ctx, "a frame of Feishu cannot be read and is ignored")
		return nil
	}

	if f.Method == methodControl {
		var next clientConfig
		if f.get("type") == "pong" && len(f.Payload) > 0 && json.Unmarshal(f.Payload, &next) == nil {
			before := l.ping
			if l.configure(next); l.ping != before {
				l.beat(ctx, c)
			}
		}
		return nil
	}

	if f.Method != methodData {
		return nil
	}

	began := l.bot.deps.Now()
	payload, complete := l.join(&f)
	if !complete {
		return nil
	}

	code := http.StatusOK
	var answer []byte
	if f.get("type") == "event" {
		if answer, err = l.bot.accept(ctx, payload); err != nil {
			l.bot.once(ctx, "an event of Feishu could not be kept and is left for another try", "err", err)
			code = http.StatusInternalServerError
		}
	}

	f.Headers = append(f.Headers, header{"biz_rt", strconv.FormatInt(l.bot.deps.Now().Sub(began).Milliseconds(), 10)})
	if f.Payload, err = json.Marshal(acknowledgement{Code: code, Data: answer}); err != nil {
		return err
	}
	return c.Send(ctx, socket.Frame{Binary: true, Data: f.encode()})
}

// acknowledgement is the answer to an event. Feishu wants the data in base64.
type acknowledgement struct {
	Code    int               `json:"code"`
	Headers map[string]string `json:"headers"`
	Data    []byte            `json:"data"`
}

// join collects the frames of an event. Complete says that all are there.
func (l *line) join(f *frame) (payload []byte, complete bool) {
	sum, _ := strconv.Atoi(f.get("sum"))
	seq, err := strconv.Atoi(f.get("seq"))
	if sum <= 1 {
		return f.Payload, true
	}
	if err != nil || seq < 0 || seq >= sum || sum > joinFrames {
		return nil, false
	}

	now, id := l.bot.deps.Now(), f.get("message_id")
	for old, p := range l.parts {
		if now.Sub(p.began) > joinWait {
			delete(l.parts, old)
		}
	}

	p := l.parts[id]
	if p == nil || len(p.data) != sum {
		if len(l.parts) >= joinMost {
			return nil, false // it comes again
		}
		p = &pieces{data: make([][]byte, sum), began: now}
		l.parts[id] = p
	}

	if p.data[seq] == nil {
		p.have++
		p.bytes += len(f.Payload)
		p.data[seq] = append([]byte{}, f.Payload...)
	}

	if p.bytes > maxFrame {
		delete(l.parts, id)
		return nil, false
	}
	if p.have < sum {
		return nil, false
	}

	delete(l.parts, id)
	for _, part := range p.data {
		payload = append(payload, part...)
	}
	return payload, true
}
