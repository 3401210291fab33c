package socket

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
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

// bubble runs a channel on pipes and hands a connected client to a test.
func bubble(t *testing.T, test func(ctx context.Context, c *Channel, conn *ws.Conn)) {
	t.Helper()
	c := build(t, deps(t, time.Now), Options{}, `{"token":"t"}`)
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		mux := http.NewServeMux()
		for pattern, h := range c.Routes() {
			mux.Handle(pattern, h)
		}
		srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
		go func() { _ = srv.Serve(p) }()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx, func(context.Context, bus.Inbound) error { return nil }) }()
		synctest.Wait()
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			p.conns <- b
			return a, nil
		}}
		conn, err := dial(ctx, "ws://localhost/?token=t", &ws.DialOptions{HTTPClient: &http.Client{Transport: tr}})
		if err != nil {
			t.Fatal(err)
		}
		test(ctx, c, conn)
		_ = conn.CloseNow()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = srv.Close()
	})
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.peers)
}

// A peer that does not answer pings is gone after interval and timeout; one
// that does stays.
func TestPing(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, c *Channel, conn *ws.Conn) {
		reading, stop := context.WithCancel(ctx)
		go func() {
			for {
				if _, _, err := conn.Read(reading); err != nil {
					return
				}
			}
		}()
		time.Sleep(10 * time.Minute)
		if c.hub.count() != 1 {
			t.Error("a peer that answers was dropped")
		}
		stop() // closes the connection on our side
		synctest.Wait()
		if c.hub.count() != 0 {
			t.Error("a peer that left is still there")
		}
	})
	bubble(t, func(ctx context.Context, c *Channel, conn *ws.Conn) {
		_, _, _ = conn.Read(ctx) // ready; nothing is read after it
		time.Sleep(19 * time.Second)
		if c.hub.count() != 1 {
			t.Error("dropped too early")
		}
		time.Sleep(22 * time.Second)
		if c.hub.count() != 0 {
			t.Error("a dead peer is still there")
		}
	})
}

// An answer counts as delivered when a peer has it; a peer that takes nothing
// is dropped after the write timeout, and the answer is kept for its return.
func TestSendWaitsForPeer(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, c *Channel, conn *ws.Conn) {
		_, _, _ = conn.Read(ctx)
		c.hub.mu.Lock()
		var home string
		for s := range c.hub.peers {
			home = s.home
		}
		c.hub.mu.Unlock()
		start := time.Now()
		sent := make(chan error, 1)
		out := bus.Outbound{ID: "f", Kind: bus.Final, Route: bus.Route{ChatID: home}, Text: "hello"}
		go func() {
			_, err := c.Send(ctx, out)
			sent <- err
		}()
		time.Sleep(9 * time.Second)
		select {
		case <-sent:
			t.Error("delivered although nobody reads")
		default:
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		if _, err := c.Send(short, out); err == nil {
			t.Error("the same again is delivered although nobody reads")
		}
		cancel()
		if err := <-sent; !errors.Is(err, chat.ErrAway) || time.Since(start) > 11*time.Second {
			t.Errorf("Send: %v after %v", err, time.Since(start))
		}
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		e := c.hub.chats[home].ring.find("f")
		if len(c.hub.peers) != 0 || e == nil || e.seen {
			t.Errorf("%d peers, event %+v", len(c.hub.peers), e)
		}
	})
}

// A peer that falls too far behind is told to come back. What it gets is for
// every client: its writer must be stuck with the first of it.
func TestSlowPeer(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, c *Channel, conn *ws.Conn) {
		_, _, _ = conn.Read(ctx)
		c.hub.mu.Lock()
		var home string
		for s := range c.hub.peers {
			home = s.home
		}
		c.hub.mu.Unlock()
		for range 10 * burstEvents {
			if _, err := c.Send(ctx, bus.Outbound{Kind: bus.Notice, Route: bus.Route{ChatID: home}, Text: "x"}); err != nil {
				t.Error(err)
			}
		}
		c.hub.mu.Lock()
		if n := len(c.hub.chats[home].ring.events); n > burstEvents {
			t.Errorf("%d events are kept for it", n)
		}
		c.hub.mu.Unlock()
		var err error
		n := 0
		for ; err == nil; n++ {
			_, _, err = conn.Read(ctx)
		}
		if got := ws.CloseStatus(err); got != ws.StatusTryAgainLater || n > burstEvents {
			t.Errorf("closed with %v after %d frames (%v), want 1013", got, n, err)
		}
	})
}

// Text that a slow peer has not got yet comes in one frame.
func TestDeltasJoin(t *testing.T) {
	t.Parallel()
	bubble(t, func(ctx context.Context, c *Channel, conn *ws.Conn) {
		_, _, _ = conn.Read(ctx)
		c.hub.mu.Lock()
		var home string
		for s := range c.hub.peers {
			home = s.home
		}
		c.hub.mu.Unlock()
		send := func(kind bus.Kind, text string) {
			if _, err := c.Send(ctx, bus.Outbound{Kind: kind, Route: bus.Route{ChatID: home}, Text: text, StreamID: "s"}); err != nil {
				t.Error(err)
			}
		}
		send(bus.Delta, "0")
		synctest.Wait() // the writer is stuck with it
		for range 5000 {
			send(bus.Delta, "x")
		}
		send(bus.DeltaEnd, "")
		var sizes []int
		for range 3 {
			_, data, err := conn.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var m struct{ Text string }
			if err := json.Unmarshal(data, &m); err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(m.Text))
		}
		if sizes[0] != 1 || sizes[1] != 5000 || sizes[2] != 0 {
			t.Errorf("texts of %v bytes, want 1, 5000 and the end", sizes)
		}
	})
}
