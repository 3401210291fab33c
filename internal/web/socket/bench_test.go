package socket

import (
	"io"
	"testing"
	"time"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// BenchmarkTurn is the whole way of a short turn through this channel over
// loopback: a message in, 20 pieces of text and the answer out.
func BenchmarkTurn(b *testing.B) {
	r := startBench(b)
	conn := r.conn
	for b.Loop() {
		if err := conn.Write(b.Context(), ws.MessageText, []byte("hello")); err != nil {
			b.Fatal(err)
		}
		in := <-r.got
		for range 20 {
			_, _ = r.c.Send(b.Context(), bus.Outbound{Kind: bus.Delta, Route: in.Route, Text: "some words ", StreamID: "s"})
		}
		_, err := r.c.Send(b.Context(), bus.Outbound{ID: "final:" + in.ID, Kind: bus.Final, Route: in.Route, Text: "end", Turn: &bus.Turn{}})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDelta is the own work for one piece of text with a peer connected.
func BenchmarkDelta(b *testing.B) {
	r := startBench(b)
	out := bus.Outbound{Kind: bus.Delta, Route: bus.Route{Channel: "websocket", ChatID: r.chat}, Text: "some words ", StreamID: "s"}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = r.c.Send(b.Context(), out)
	}
}

type benchRig struct {
	c    *Channel
	conn *ws.Conn
	chat string
	got  chan bus.Inbound
}

func startBench(b *testing.B) *benchRig {
	b.Helper()
	rig := startChannel(b, build(b, deps(b, time.Now), Options{}, `{"token":"`+testToken+`"}`))
	conn, err := dial(b.Context(), rig.url+"/?token="+testToken, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := conn.Read(b.Context()); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, r, err := conn.Reader(b.Context())
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r)
		}
	}()
	b.Cleanup(func() { _ = conn.CloseNow(); <-done })
	out := &benchRig{c: rig.c, conn: conn, got: rig.got}
	rig.c.hub.mu.Lock()
	defer rig.c.hub.mu.Unlock()
	for s := range rig.c.hub.peers {
		out.chat = s.home
	}
	return out
}
