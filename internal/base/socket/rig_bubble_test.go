package socket_test

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/base/socket"
)

// pipes is a listener without a network.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// serve starts a server without a network, which ends with the test, and returns
// a client that reaches only it.
func serve(t *testing.T, h http.HandlerFunc) *http.Client {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(p) }()
	t.Cleanup(func() { _ = srv.Close() })
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		a, b := net.Pipe()
		select {
		case p.conns <- b:
			return a, nil
		case <-p.done:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}}
}

// at dials a fixed address.
func at(address string) func(context.Context) (socket.Target, error) {
	return func(context.Context) (socket.Target, error) { return socket.Target{URL: address}, nil }
}

// peers makes a handler of what a server does with its n-th connection, from 1.
func peers(t *testing.T, do func(ctx context.Context, n int, c *ws.Conn)) http.HandlerFunc {
	t.Helper()
	n := 0 // connections come one after the other
	return func(w http.ResponseWriter, r *http.Request) {
		n++
		c, err := ws.Accept(w, r, nil)
		if err != nil {
			return // the client left during the handshake
		}
		defer c.CloseNow()
		do(r.Context(), n, c)
	}
}

// raws is like peers for servers that break the rules: they write bytes. Nothing
// is read from the client unless they do.
func raws(t *testing.T, do func(n int, c net.Conn, r *bufio.Reader)) http.HandlerFunc {
	t.Helper()
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		n++
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, err = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " +
			base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"))
		if err == nil {
			do(n, c, rw.Reader)
		}
	}
}

// swallow reads what a client sends until it leaves.
func swallow(r *bufio.Reader) {
	buf := make([]byte, 4096)
	for {
		if _, err := r.Read(buf); err != nil {
			return
		}
	}
}

// running is a Run that goes on.
type running struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error
	lost chan error // why connections ended
}

// start runs a client.
func start(t *testing.T, o socket.Options) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, stop: cancel, done: make(chan error, 1), lost: make(chan error, 1000)}
	next := o.Lost
	o.Lost = func(err error) error {
		r.lost <- err
		if next != nil {
			return next(err)
		}
		return err
	}
	if o.Receive == nil {
		o.Receive = func(context.Context, *socket.Conn, socket.Frame) error { return nil }
	}
	if o.Dial == nil {
		o.Dial = at("ws://server.test/")
	}
	go func() { r.done <- socket.Run(ctx, o) }()
	return r
}

// end stops the client, which must take less than a second and be no error.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	began := time.Now()
	if err := <-r.done; err != nil {
		r.t.Errorf("Run after the end: %v", err)
	}
	if d := time.Since(began); d >= time.Second {
		r.t.Errorf("Run took %s to end", d)
	}
	synctest.Wait() // for the server
}

// pass lets time pass, and what happens then come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
