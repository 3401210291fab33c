package socket_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ws "github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/socket"
)

func text(s string) socket.Frame { return socket.Frame{Data: []byte(s)} }

// A platform logs in, receives in order, sends, and says goodbye.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got, gone []string
		var header http.Header
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			header = r.Header
			c, err := ws.Accept(w, r, &ws.AcceptOptions{Subprotocols: []string{"v2"}})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.CloseNow()
			_ = c.Write(r.Context(), ws.MessageText, []byte("hello"))
			for {
				kind, data, err := c.Read(r.Context())
				if err != nil {
					gone = append(gone, ws.CloseStatus(err).String())
					return
				}
				gone = append(gone, kind.String()+" "+string(data))
				_ = c.Write(r.Context(), kind, append([]byte("re: "), data...))
			}
		})
		r := start(t, socket.Options{
			Client: client,
			Dial: func(context.Context) (socket.Target, error) {
				return socket.Target{URL: "ws://server.test/x", Header: http.Header{"Authorization": {"Bearer t"}}, Subprotocols: []string{"v1", "v2"}}, nil
			},
			Open: func(ctx context.Context, c *socket.Conn) error {
				hello, err := c.Next(ctx)
				if err != nil || c.Subprotocol() != "v2" {
					return fmt.Errorf("%w, subprotocol %q", err, c.Subprotocol())
				}
				got = append(got, string(hello.Data))
				return errors.Join(c.Send(ctx, text("login")), c.Send(ctx, socket.Frame{Binary: true, Data: []byte{'b'}}))
			},
			Receive: func(_ context.Context, _ *socket.Conn, f socket.Frame) error {
				got = append(got, fmt.Sprint(f.Binary, " ", string(f.Data)))
				return nil
			},
		})
		time.Sleep(time.Hour)
		r.end()
		synctest.Wait()
		if want := []string{"hello", "false re: login", "true re: b"}; !cmp.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
		if want := []string{"MessageText login", "MessageBinary b", "StatusNormalClosure"}; !cmp.Equal(gone, want) {
			t.Errorf("the server got %q, want %q", gone, want)
		}
		if header.Get("Authorization") != "Bearer t" || header.Get("Sec-WebSocket-Extensions") != "" {
			t.Errorf("headers %v", header)
		}
	})
}

// The pauses between tries grow to a limit, are spread, and begin again after a
// connection that lasted.
func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			at = append(at, time.Now())
			if len(at) != 40 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			c, err := ws.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			c.CloseRead(r.Context())
			time.Sleep(2 * time.Minute)
			c.CloseNow()
		})
		r := start(t, socket.Options{Client: client, MaxPause: 30 * time.Second})
		time.Sleep(time.Hour)
		r.end()
		if len(at) < 50 {
			t.Fatalf("%d tries in an hour", len(at))
		}
		var sum time.Duration
		for i, limit := 1, time.Second; i < 40; i, limit = i+1, min(2*limit, 30*time.Second) {
			d := at[i].Sub(at[i-1])
			if sum += d; d > limit {
				t.Errorf("pause %d is %s, over %s", i, d, limit)
			}
		}
		if sum < 4*time.Minute || sum > 16*time.Minute {
			t.Errorf("40 tries within %s, want about half of 18 minutes", sum)
		}
		if d := at[40].Sub(at[39]); d > 2*time.Minute+time.Second {
			t.Errorf("the first pause after a good connection is %s", d-2*time.Minute)
		}
		var e *socket.StatusError
		if err := <-r.lost; !errors.As(err, &e) || e.Code != http.StatusBadGateway || !strings.Contains(err.Error(), "server.test") {
			t.Errorf("lost: %v", err)
		}
	})
}

// "At once" counts after a connection that lasted; a server cannot make us
// connect in a loop. A longer pause always counts.
func TestAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		client := serve(t, peers(t, func(ctx context.Context, n int, c *ws.Conn) {
			at = append(at, time.Now())
			if n <= 2 {
				c.CloseRead(ctx)
				time.Sleep(time.Hour)
			}
			_ = c.Close(4000, "come back")
		}))
		r := start(t, socket.Options{Client: client, Lost: func(err error) error {
			if len(at) == 20 {
				return socket.After(time.Hour, err)
			}
			return socket.After(0, err)
		}})
		time.Sleep(2*time.Hour + 50*time.Minute)
		r.end()
		if len(at) != 20 {
			t.Fatalf("%d connections, want 20", len(at))
		}
		if at[1].Sub(at[0]) != time.Hour || at[2].Sub(at[1]) != time.Hour {
			t.Errorf("not at once: %s, %s", at[1].Sub(at[0]), at[2].Sub(at[1]))
		}
		if d := at[19].Sub(at[3]); d < time.Minute {
			t.Errorf("16 connections within %s", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := 0
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			n++
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		r := start(t, socket.Options{Client: client})
		time.Sleep(35 * time.Minute)
		r.end()
		if n != 4 {
			t.Errorf("%d tries in 35 minutes of a server that asks for 10", n)
		}
	})
}

// What a platform marks ends Run, wherever it comes from; what it learnt in one
// connection it uses for the next.
func TestFatalAndResume(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong token")
	for name, o := range map[string]socket.Options{
		"dial": {Dial: func(context.Context) (socket.Target, error) { return socket.Target{}, socket.Fatal(wrong) }},
		"open": {Open: func(context.Context, *socket.Conn) error { return socket.Fatal(wrong) }},
		"frame": {Receive: func(_ context.Context, _ *socket.Conn, f socket.Frame) error {
			if string(f.Data) == "bad" {
				return socket.Fatal(wrong)
			}
			return nil
		}},
		"code": {Lost: func(err error) error {
			if e, ok := errors.AsType[*socket.CloseError](err); ok && e.Code == 4004 && e.Reason == "bye" {
				return socket.Fatal(wrong)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o.Client = serve(t, peers(t, func(ctx context.Context, n int, c *ws.Conn) {
					if n > 1 { // only the code ends it later
						_ = c.Write(ctx, ws.MessageText, []byte("bad"))
						_ = c.Close(4004, "bye")
					}
				}))
				if err := <-start(t, o).done; !errors.Is(err, wrong) {
					t.Errorf("Run: %v", err)
				}
			})
		})
	}
	t.Run("resume", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			session, asked := "", []string{}
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Query().Get("session"))
				peers(t, func(ctx context.Context, _ int, c *ws.Conn) { _ = c.Write(ctx, ws.MessageText, []byte("s1")) })(w, r)
			})
			r := start(t, socket.Options{
				Client: client,
				Dial: func(ctx context.Context) (socket.Target, error) {
					return at("ws://server.test/?session=" + session)(ctx)
				},
				Receive: func(_ context.Context, _ *socket.Conn, f socket.Frame) error {
					session = string(f.Data)
					return nil
				},
			})
			for range 3 {
				<-r.lost
			}
			r.end()
			if !cmp.Equal(asked[:3], []string{"", "s1", "s1"}) {
				t.Errorf("sessions %q", asked)
			}
		})
	})
}

// Frames that a connection brought before it broke are handled.
func TestNothingReadIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got, begin := 0, make(chan struct{})
		r := start(t, socket.Options{
			Client: serve(t, peers(t, func(ctx context.Context, n int, c *ws.Conn) {
				for range 100 {
					_ = c.Write(ctx, ws.MessageText, []byte("m"))
				}
				if n > 1 {
					<-ctx.Done()
				}
			})),
			Receive: func(context.Context, *socket.Conn, socket.Frame) error {
				<-begin
				got++
				return nil
			},
		})
		synctest.Wait()
		close(begin)
		if err := <-r.lost; !errors.Is(err, socket.ErrLost) || got != 100 {
			t.Errorf("%d of 100 frames when the loss is reported: %v", got, err)
		}
		r.end()
	})
}

// The same holds when the connection ends because of us, while the reader waits
// for room.
func TestNothingHeldIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		written, got := 0, 0
		begin := make(chan struct{})
		r := start(t, socket.Options{
			Backlog: 1000,
			Client: serve(t, peers(t, func(ctx context.Context, n int, c *ws.Conn) {
				for n == 1 && c.Write(ctx, ws.MessageText, make([]byte, 5000)) == nil {
					written++
				}
			})),
			Open: func(ctx context.Context, c *socket.Conn) error {
				c.Heartbeat(ctx, time.Minute, time.Minute, func(context.Context) error { return errors.New("too long without an answer") })
				return nil
			},
			Receive: func(context.Context, *socket.Conn, socket.Frame) error {
				<-begin
				got++
				return nil
			},
		})
		pass(2 * time.Minute)
		close(begin)
		<-r.lost
		if written < 2 || got < written {
			t.Errorf("%d of %d frames were handled", got, written)
		}
		r.end()
	})
}

// Run ends at once wherever it is.
func TestEnd(t *testing.T) {
	t.Parallel()
	deaf := raws(t, func(_ int, _ net.Conn, r *bufio.Reader) { swallow(r) })
	mute := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	await := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		h http.HandlerFunc
		o socket.Options
	}{
		"dial":      {deaf, socket.Options{Dial: func(ctx context.Context) (socket.Target, error) { return socket.Target{}, await(ctx) }}},
		"handshake": {mute, socket.Options{}},
		"open":      {deaf, socket.Options{Open: func(ctx context.Context, _ *socket.Conn) error { return await(ctx) }}},
		"next":      {deaf, socket.Options{Open: func(ctx context.Context, c *socket.Conn) error { _, err := c.Next(ctx); return err }}},
		"call": {deaf, socket.Options{Open: func(ctx context.Context, c *socket.Conn) error {
			_, err := c.Call(ctx, "1", text("x"))
			return err
		}}},
		"deaf": {deaf, socket.Options{}},
		"receive": {
			peers(t, func(ctx context.Context, _ int, c *ws.Conn) {
				for range 1000 {
					if c.Write(ctx, ws.MessageText, make([]byte, 1000)) != nil {
						return
					}
				}
				<-c.CloseRead(ctx).Done()
			}),
			socket.Options{Backlog: 5000, Receive: func(ctx context.Context, _ *socket.Conn, _ socket.Frame) error { return await(ctx) }},
		},
		"write": {
			raws(t, func(_ int, _ net.Conn, _ *bufio.Reader) { time.Sleep(10 * time.Second) }),
			socket.Options{Open: func(ctx context.Context, c *socket.Conn) error { return c.Send(ctx, text("x")) }},
		},
		"pause": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "100"); w.WriteHeader(503) }, socket.Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c.o.Client = serve(t, c.h)
				r := start(t, c.o)
				time.Sleep(5 * time.Second)
				r.end()
				time.Sleep(time.Minute) // the servers end, too
			})
		})
	}
}

// Heartbeats are sent as the platform says, never faster than once a second; an
// error of one ends the connection.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var beats []time.Duration
		began := time.Now()
		beat := func(c *socket.Conn) func(context.Context) error {
			return func(ctx context.Context) error {
				beats = append(beats, time.Since(began))
				if len(beats) == 6 {
					return errors.New("two answers are missing")
				}
				return c.Send(ctx, text("beat"))
			}
		}
		r := start(t, socket.Options{
			Client: serve(t, peers(t, func(ctx context.Context, _ int, c *ws.Conn) {
				for {
					if _, _, err := c.Read(ctx); err != nil {
						return
					}
				}
			})),
			Open: func(ctx context.Context, c *socket.Conn) error {
				c.Heartbeat(ctx, time.Hour, time.Hour, func(context.Context) error { t.Error("the old heartbeat goes on"); return nil })
				c.Heartbeat(ctx, 10*time.Second, 45*time.Second, beat(c))
				return nil
			},
		})
		if err := <-r.lost; !strings.Contains(err.Error(), "two answers are missing") {
			t.Errorf("lost: %v", err)
		}
		r.end()
		want := []time.Duration{10 * time.Second, 55 * time.Second, 100 * time.Second, 145 * time.Second, 190 * time.Second, 235 * time.Second}
		if !cmp.Equal(beats, want) {
			t.Errorf("beats at %v", beats)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := start(t, socket.Options{
			Client: serve(t, peers(t, func(ctx context.Context, _ int, c *ws.Conn) { <-c.CloseRead(ctx).Done() })),
			Open: func(ctx context.Context, c *socket.Conn) error {
				c.Heartbeat(ctx, 0, 0, func(context.Context) error { n++; return nil })
				return nil
			},
		})
		time.Sleep(time.Minute)
		r.end()
		if n > 62 {
			t.Errorf("%d heartbeats in a minute", n)
		}
	})
}

// hushed is a connection that can become half open: nothing arrives any more.
type hushed struct {
	net.Conn
	silent *atomic.Bool
}

func (h hushed) Write(p []byte) (int, error) {
	if h.silent.Load() {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// With a connection its client's others may have died. The request for the next
// address does not wait for one of them.
func TestDeadConnectionsAreLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/address" {
				_, _ = io.WriteString(w, "ws://server.test/")
				return
			}
			c, err := ws.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer c.CloseNow()
			_, _, _ = c.Read(r.Context())
		})
		transport, ok := client.Transport.(*http.Transport)
		if !ok {
			t.Fatal("the client has another transport")
		}
		var silent atomic.Pointer[atomic.Bool] // of the connections that are made now
		silent.Store(new(atomic.Bool))
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			return hushed{c, silent.Load()}, err
		}
		defer client.CloseIdleConnections()

		opened := 0
		r := start(t, socket.Options{
			Client: client,
			Dial: func(ctx context.Context) (socket.Target, error) {
				ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server.test/address", nil)
				if err != nil {
					return socket.Target{}, err
				}
				res, err := client.Do(req)
				if err != nil {
					return socket.Target{}, err
				}
				defer res.Body.Close()
				address, err := io.ReadAll(res.Body)
				return socket.Target{URL: string(address)}, err
			},
			Open:    func(context.Context, *socket.Conn) error { opened++; return nil },
			Ping:    time.Second,
			Silence: 3 * time.Second,
		})
		pass(time.Minute)
		if opened != 1 {
			t.Fatalf("%d connections", opened)
		}
		silent.Swap(new(atomic.Bool)).Store(true)
		pass(6 * time.Second) // the silence, and a pause of up to a second
		if opened != 2 {
			t.Errorf("%d connections, want another one", opened)
		}
		r.end()
	})
}
