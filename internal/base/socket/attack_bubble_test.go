package socket_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/base/socket"
)

// head is the beginning of a frame of a server.
func head(first byte, size int) []byte {
	return binary.BigEndian.AppendUint64([]byte{first, 127}, uint64(size))
}

const textFrame = 0x81

// Servers that are silent, slow or hostile lose the connection, for the right
// reason and in time.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z, _ := flate.NewWriter(&bomb, flate.BestCompression)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Flush()

	for name, c := range map[string]struct {
		do    func(t *testing.T, c net.Conn, r *bufio.Reader)
		want  string
		least time.Duration // until the connection is given up
		most  time.Duration
	}{
		"answers no ping": {
			do:    func(_ *testing.T, _ net.Conn, r *bufio.Reader) { swallow(r) },
			want:  socket.ErrSilent.Error(),
			least: time.Minute, most: time.Minute,
		},
		"reads nothing": {
			do:    func(_ *testing.T, _ net.Conn, _ *bufio.Reader) { time.Sleep(time.Hour) },
			want:  socket.ErrSilent.Error(),
			least: 20 * time.Second, most: time.Minute,
		},
		"one byte a minute": {
			do: func(_ *testing.T, c net.Conn, r *bufio.Reader) {
				go swallow(r)
				if _, err := c.Write(head(textFrame, 1000)); err != nil {
					return
				}
				for range 60 {
					if _, err := c.Write([]byte{'x'}); err != nil {
						return
					}
					time.Sleep(time.Minute)
				}
			},
			want:  socket.ErrSilent.Error(),
			least: 2 * time.Minute, most: 2 * time.Minute,
		},
		"parts of a frame without end, and pongs": {
			do: func(_ *testing.T, c net.Conn, r *bufio.Reader) {
				go swallow(r)
				_, err := c.Write([]byte{0x01, 1, 'x'})
				for err == nil {
					time.Sleep(time.Second)
					_, err = c.Write([]byte{0x00, 0, 0x8a, 0}) // a part of nothing, and a pong
				}
			},
			want:  socket.ErrSilent.Error(),
			least: 2 * time.Minute, most: 2 * time.Minute,
		},
		"1 GB in one frame": {
			do: func(t *testing.T, c net.Conn, r *bufio.Reader) {
				t.Helper()
				go swallow(r)
				_, err := c.Write(head(textFrame, 1<<30))
				n, block := 0, make([]byte, 1<<16)
				for err == nil {
					_, err = c.Write(block)
					n += len(block)
				}
				if n > 2<<20 {
					t.Errorf("%d bytes of the frame were read", n)
				}
			},
			want: socket.ErrTooLarge.Error(),
		},
		"a negative length": {
			do: func(_ *testing.T, c net.Conn, r *bufio.Reader) {
				go swallow(r)
				_, _ = c.Write(append(head(textFrame, -1), make([]byte, 100)...))
			},
			want: "read from the server",
		},
		"compressed": {
			do: func(_ *testing.T, c net.Conn, r *bufio.Reader) {
				go swallow(r)
				_, _ = c.Write(append(head(0xc1, bomb.Len()), bomb.Bytes()...))
			},
			want: "unexpected rsv bits",
		},
		"a code": {
			do: func(_ *testing.T, c net.Conn, r *bufio.Reader) {
				go swallow(r)
				_, _ = c.Write([]byte{0x88, 5, 0x0f, 0xa4, 'b', 'y', 'e'})
				time.Sleep(time.Second)
			},
			want: `with code 4004: "bye"`,
		},
		"gone": {
			do:   func(*testing.T, net.Conn, *bufio.Reader) {},
			want: "EOF",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := start(t, socket.Options{
					Client:   serve(t, raws(t, func(_ int, conn net.Conn, r *bufio.Reader) { c.do(t, conn, r) })),
					MaxFrame: 1 << 20,
					Receive: func(_ context.Context, _ *socket.Conn, f socket.Frame) error {
						return fmt.Errorf("a frame of %d bytes was received", len(f.Data))
					},
				})
				began := time.Now()
				err := <-r.lost
				if d := time.Since(began); d < c.least || d > max(c.most, time.Second) {
					t.Errorf("given up after %s, want %s to %s", d, c.least, max(c.most, time.Second))
				}
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("lost: %v, want %q", err, c.want)
				}
				r.end()
				time.Sleep(2 * time.Hour) // the servers end, too
			})
		})
	}
}

// Handshakes that fail, each in its own way. No error repeats a secret.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	raw := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Write([]byte(answer))
		}
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		url  string
		want string
		took time.Duration
	}{
		"closes":       {h: raw(""), want: "connect to server.test: "},
		"no answer":    {h: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: "deadline exceeded", took: 15 * time.Second},
		"not HTTP":     {h: raw("ticket-123456 Bearer tok-abcdef\r\n"), want: "malformed HTTP"},
		"wrong accept": {h: raw("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ticket-123456\r\n\r\n"), want: "Sec-WebSocket-Accept"},
		"compression": {h: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Sec-WebSocket-Extensions", "permessage-deflate")
			r.Header.Set("Sec-WebSocket-Extensions", "permessage-deflate")
			c, err := ws.Accept(w, r, nil)
			if err == nil {
				_ = c.CloseNow()
			}
		}, want: "unsupported extensions"},
		"subprotocol": {h: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Sec-WebSocket-Protocol", "tok-abcdef")
			if c, err := ws.Accept(w, r, nil); err == nil {
				_ = c.CloseNow()
			}
		}, want: "unexpected Sec-WebSocket-Protocol"},
		"refused": {h: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("ticket-123456"))
		}, want: "server.test refuses the connection: HTTP status 401"},
		"redirect": {h: func(w http.ResponseWriter, r *http.Request) {
			if r.Host != "server.test" {
				t.Errorf("a request for %s%s", r.Host, r.URL)
			}
			http.Redirect(w, r, "http://169.254.169.254/?ticket-123456", http.StatusFound)
		}, want: "HTTP status 302"},
		"scheme":  {url: "ftp://server.test/?ticket=ticket-123456", want: "scheme"},
		"no URL":  {url: "wss://server.test/%zz?ticket=ticket-123456", want: "is not a URL"},
		"no host": {url: "wss:///?ticket=ticket-123456", want: "no Host in request URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				target := socket.Target{
					URL:          "ws://user:pass-123456@server.test/key-123456/?ticket=ticket-123456",
					Header:       http.Header{"Authorization": {"Bearer tok-abcdef"}, "X-Key": {"tok-abcdef"}},
					Subprotocols: []string{"token.123456"},
				}
				if c.url != "" {
					target.URL = c.url
				}
				r := start(t, socket.Options{
					Client: serve(t, func(w http.ResponseWriter, r *http.Request) { c.h(w, r) }),
					Dial:   func(context.Context) (socket.Target, error) { return target, nil },
					Lost:   socket.Fatal,
				})
				began := time.Now()
				err := <-r.done
				if time.Since(began) != c.took {
					t.Errorf("took %s, want %s", time.Since(began), c.took)
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Run: %v, want %q", err, c.want)
				}
				for _, secret := range []string{"123456", "tok-abcdef"} {
					if err != nil && strings.Contains(err.Error(), secret) {
						t.Errorf("the error repeats %q: %v", secret, err)
					}
				}
			})
		})
	}
}

// Frames that come faster than they are handled wait: a bounded number here,
// the others with the server. None is lost and the order holds.
func TestFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = 10_000
		written, got := 0, 0
		begin := make(chan struct{})
		r := start(t, socket.Options{
			Backlog: 64_000,
			Client: serve(t, peers(t, func(ctx context.Context, _ int, c *ws.Conn) {
				for i := range all {
					if c.Write(ctx, ws.MessageText, fmt.Appendf(nil, "%0100d", i)) != nil {
						return
					}
					written = i + 1
				}
				<-c.CloseRead(ctx).Done()
			})),
			Receive: func(_ context.Context, _ *socket.Conn, f socket.Frame) error {
				<-begin
				if want := fmt.Sprintf("%0100d", got); string(f.Data) != want {
					t.Errorf("frame %s, want %s", f.Data, want)
				}
				got++
				return nil
			},
		})
		pass(5 * time.Minute) // without reading nothing can be said about the server
		if written < 300 || written > 500 {
			t.Errorf("%d frames were taken while none was handled, want about 64,000 bytes", written)
		}
		close(begin)
		synctest.Wait()
		if got != all || len(r.lost) > 0 {
			t.Errorf("%d of %d frames, %d losses", got, all, len(r.lost))
		}
		r.end()
	})
}

// A peer that reads nothing stops the sender: Send waits and obeys its context,
// and the connection ends when a frame takes too long.
func TestSendBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan *socket.Conn, 9)
		r := start(t, socket.Options{
			Ping: -1, Silence: time.Hour,
			Client: serve(t, raws(t, func(_ int, _ net.Conn, _ *bufio.Reader) { time.Sleep(time.Hour) })),
			Open:   func(_ context.Context, c *socket.Conn) error { conns <- c; return nil },
		})
		c := <-conns
		impatient, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		errs := make(chan error, 200)
		for range 200 {
			go func() { errs <- c.Send(impatient, text("x")) }()
		}
		for range 200 {
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Send: %v, want its own deadline", err)
			}
		}
		began := time.Now()
		if err := c.Send(t.Context(), text("x")); !errors.Is(err, socket.ErrLost) || time.Since(began) != 25*time.Second {
			t.Errorf("Send: %v after %s", err, time.Since(began))
		}
		if err := c.Send(t.Context(), text("x")); !errors.Is(err, socket.ErrLost) {
			t.Errorf("Send after the end: %v", err)
		}
		r.end()
		time.Sleep(2 * time.Hour)
	})
}

// What a sender gave up is not sent later.
func TestSendGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conns, got := make(chan *socket.Conn, 9), []string{}
		r := start(t, socket.Options{
			Client: serve(t, peers(t, func(ctx context.Context, _ int, c *ws.Conn) {
				time.Sleep(10 * time.Second)
				for s := read(ctx, c); s != ""; s = read(ctx, c) {
					got = append(got, s)
				}
			})),
			Open: func(_ context.Context, c *socket.Conn) error { conns <- c; return nil },
		})
		c := <-conns
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i, ctx := range []context.Context{t.Context(), impatient, t.Context()} {
			go func() { _ = c.Send(ctx, text(fmt.Sprint(i))) }()
			synctest.Wait()
		}
		pass(15 * time.Second)
		r.end()
		if !slices.Equal(got, []string{"0", "2"}) {
			t.Errorf("the server got %q", got)
		}
	})
}

// Code of the platform that panics on what a server sends costs the connection,
// not the program.
func TestPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, socket.Options{
			Client: serve(t, peers(t, func(ctx context.Context, n int, c *ws.Conn) {
				if n == 1 {
					_ = c.Write(ctx, ws.MessageText, []byte("x"))
				}
				<-c.CloseRead(ctx).Done()
			})),
			Match: func(socket.Frame) (string, bool) { panic("in Match") },
			Open: func(ctx context.Context, c *socket.Conn) error {
				c.Heartbeat(ctx, time.Minute, time.Minute, func(context.Context) error { panic("in a heartbeat") })
				return nil
			},
		})
		for _, want := range []string{"panic: in Match", "panic: in a heartbeat"} {
			if err := <-r.lost; !strings.Contains(err.Error(), want) {
				t.Errorf("lost: %v, want %q", err, want)
			}
		}
		r.end()
	})
}
