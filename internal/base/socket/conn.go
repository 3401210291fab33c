package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ws "github.com/coder/websocket"
)

// Conn is one connection. Its methods may be called concurrently; after it
// ended they return ErrLost.
type Conn struct {
	o    *Options
	ws   *ws.Conn
	wire io.Closer // below ws: closing it ends every read and write at once
	hide *strings.Replacer

	run  context.Context         //nolint:containedctx // of Run
	life context.Context         //nolint:containedctx // ends with the connection or with run
	cut  context.CancelCauseFunc // ends life
	jobs sync.WaitGroup

	watch *time.Timer // ends the connection when nothing arrives for too long
	busy  atomic.Bool // a frame has begun to arrive, or waits for room

	writes  chan write
	arrived chan struct{} // capacity 1: something is in the backlog
	room    chan struct{} // capacity 1: the backlog may take more
	drained chan struct{} // closed when nothing more arrives

	mu      sync.Mutex
	backlog []Frame
	bytes   int64              // of the backlog
	calls   map[string][]*call // by id; the first of each waits for its answer
	stop    context.CancelFunc // of the heartbeat
}

// write is a frame on its way out.
type write struct {
	ctx   context.Context //nolint:containedctx // of the sender, who may give up
	frame Frame
	done  chan error // capacity 1
}

// tap keeps the connection that a handshake was made on.
type tap struct {
	http.RoundTripper
	wire io.Closer
}

// RoundTrip implements http.RoundTripper.
func (t *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		t.wire = res.Body
	}
	return res, err
}

// connect makes a connection and starts what serves it. The caller calls leave.
func connect(ctx context.Context, o *Options) (*Conn, error) {
	c := &Conn{
		o:       o,
		run:     ctx,
		writes:  make(chan write, writeQueue),
		arrived: make(chan struct{}, 1),
		room:    make(chan struct{}, 1),
		drained: make(chan struct{}),
		calls:   map[string][]*call{},
		stop:    func() {},
	}
	if err := c.dial(ctx); err != nil {
		return nil, err
	}

	c.life, c.cut = context.WithCancelCause(ctx)
	c.watch = time.AfterFunc(o.Silence, func() { c.fail(errSilent) })
	c.jobs.Go(c.read)
	c.jobs.Go(c.write)
	if o.Ping > 0 {
		c.jobs.Go(func() { c.beat(c.life, o.Ping, o.Ping, c.ping) })
	}
	return c, nil
}

func (c *Conn) dial(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	t, err := c.o.Dial(asking)
	if err != nil {
		return err
	}

	ctx, cancel = context.WithTimeout(ctx, dialTime)
	defer cancel()
	below := &tap{RoundTripper: c.o.Client.Transport}
	if below.RoundTripper == nil {
		below.RoundTripper = http.DefaultTransport
	}

	h := *c.o.Client
	h.Timeout, h.Transport = 0, below
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	conn, res, err := ws.Dial(ctx, t.URL, &ws.DialOptions{ //nolint:bodyclose // the library closes it
		HTTPClient:      &h,
		HTTPHeader:      t.Header,
		Subprotocols:    t.Subprotocols,
		CompressionMode: ws.CompressionDisabled,
		OnPingReceived:  func(context.Context, []byte) bool { c.heard(); return true },
		OnPongReceived:  func(context.Context, []byte) { c.heard() },
	})
	if err != nil {
		return dialError(t, res, err)
	}

	conn.SetReadLimit(c.o.MaxFrame)
	c.ws = conn
	c.wire = below.wire
	c.hide = t.redactor()
	return nil
}

func (c *Conn) open(ctx context.Context) error {
	if c.o.Open == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	err := c.o.Open(ctx, c)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && c.life.Err() == nil {
		return fmt.Errorf("the server did not complete the login within %s: %w", openTime, err)
	}
	return err
}

// fail ends the connection. The first reason counts.
func (c *Conn) fail(err error) {
	c.cut(err)
	_ = c.wire.Close()
}

// lost returns the error of a connection that ended.
func (c *Conn) lost() error { return fmt.Errorf("%w: %w", ErrLost, context.Cause(c.life)) }

// leave ends the connection and waits for everything of it. At the end of Run
// it says goodbye; else the server may keep the session for the next connection.
func (c *Conn) leave() {
	c.mu.Lock() // no heartbeat begins from here on
	c.cut(ErrLost)
	c.mu.Unlock()

	if c.run.Err() != nil {
		late := time.AfterFunc(closeTime, func() { _ = c.wire.Close() })
		_ = c.ws.Close(ws.StatusNormalClosure, "")
		late.Stop()
	}

	_ = c.wire.Close()
	_ = c.ws.CloseNow()
	c.jobs.Wait()
	c.watch.Stop()
}

// heard notes that the server lives. In the middle of a frame that is not
// enough: the frame must end as well.
func (c *Conn) heard() {
	if !c.busy.Load() {
		c.watch.Reset(c.o.Silence)
	}
}

// read takes frames as they come.
func (c *Conn) read() {
	defer close(c.drained)
	defer c.contain()
	for ctx := context.WithoutCancel(c.run); ; {
		c.busy.Store(false)
		c.watch.Reset(c.o.Silence)
		f, err := c.readFrame(ctx)
		c.watch.Stop()

		if err != nil {
			c.fail(readError(err, c.hide))
			return
		}

		if c.run.Err() == nil { // else only the goodbye matters
			c.dispatch(f)
		}
	}
}

func (c *Conn) readFrame(ctx context.Context) (Frame, error) {
	kind, r, err := c.ws.Reader(ctx)
	if err != nil {
		return Frame{}, err
	}
	c.busy.Store(true)
	c.watch.Reset(frameTime)
	data, err := io.ReadAll(r)
	return Frame{Binary: kind == ws.MessageBinary, Data: data}, err
}

// dispatch gives a frame to the call that it answers, else to the backlog. While
// the backlog is full the server has to wait. A frame that was read is not lost
// with the connection.
func (c *Conn) dispatch(f Frame) {
	if c.o.Match != nil {
		if id, ok := c.o.Match(f); ok && c.answer(id, f) {
			return
		}
	}

	for ended := false; !c.push(f, ended); {
		select {
		case <-c.room:
		case <-c.life.Done():
			ended = true
		}
	}

	signal(c.arrived)
}

// push adds a frame to the backlog and reports whether there was room for it.
// Calls get more room: their answers may be behind the frames that fill it, and
// who empties it may be waiting for one.
func (c *Conn) push(f Frame, force bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	most := c.o.Backlog
	if len(c.calls) > 0 {
		most += c.o.MaxFrame
	}

	cost := int64(len(f.Data)) + frameCost
	if !force && len(c.backlog) > 0 && c.bytes+cost > most {
		return false
	}

	c.backlog = append(c.backlog, f)
	c.bytes += cost
	return true
}

func (c *Conn) pop() (f Frame, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if len(c.backlog) == 0 {
		return Frame{}, false
	}

	f, c.backlog[0] = c.backlog[0], Frame{}
	c.backlog = c.backlog[1:]
	c.bytes -= int64(len(f.Data)) + frameCost
	signal(c.room)
	return f, true
}

// Next waits for a frame. It is for Open: Run reads the frames after that.
func (c *Conn) Next(ctx context.Context) (Frame, error) {
	for {
		if f, ok := c.pop(); ok {
			return f, nil
		}
		select {
		case <-c.arrived:
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		case <-c.drained:
			if f, ok := c.pop(); ok {
				return f, nil
			}
			return Frame{}, c.lost()
		}
	}
}

// Send writes a frame and waits until the system has taken it. One that failed
// may have been delivered all the same.
func (c *Conn) Send(ctx context.Context, f Frame) error {
	w := write{ctx: ctx, frame: f, done: make(chan error, 1)}
	select {
	case c.writes <- w:
	case <-c.life.Done():
		return c.lost()
	case <-ctx.Done():
		return ctx.Err()
	}

	select {
	case err := <-w.done:
		return err
	case <-c.life.Done():
		return c.lost()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write is the only writer of frames.
func (c *Conn) write() {
	for {
		select {
		case <-c.life.Done():
			return
		case w := <-c.writes:
			if w.ctx.Err() == nil {
				w.done <- c.writeFrame(w.frame)
			}
		}
	}
}

func (c *Conn) writeFrame(f Frame) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.run), writeTime)
	defer cancel()
	kind := ws.MessageText
	if f.Binary {
		kind = ws.MessageBinary
	}

	if err := c.ws.Write(ctx, kind, f.Data); err != nil {
		c.fail(fmt.Errorf("write to the server: %w", err))
		return c.lost()
	}
	return nil
}

// ping asks the server for a sign of life. The watch judges the answers, which
// cannot arrive before a frame that is being read. The end of ctx must not break
// off a write: that would close the connection without a goodbye.
func (c *Conn) ping(ctx context.Context) error {
	if !c.busy.Load() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Silence)
		defer cancel()
		_ = c.ws.Ping(ctx)
	}
	return nil
}

// contain makes a panic of the platform's code the end of the connection.
func (c *Conn) contain() {
	if p := recover(); p != nil {
		c.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // it was signalled already
	}
}
