package socket_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ws "github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/socket"
)

// match takes "id=..." as the answer to a call.
func match(f socket.Frame) (string, bool) {
	id, _, ok := strings.Cut(string(f.Data), "=")
	return id, ok
}

// caller runs a client on a server that a test plays.
func caller(t *testing.T, o socket.Options, do func(ctx context.Context, c *ws.Conn)) (*running, *socket.Conn) {
	t.Helper()
	conns := make(chan *socket.Conn, 9)
	o.Client, o.Match = serve(t, peers(t, func(ctx context.Context, _ int, c *ws.Conn) { do(ctx, c) })), match
	o.Open = func(_ context.Context, c *socket.Conn) error { conns <- c; return nil }
	r := start(t, o)
	return r, <-conns
}

func read(ctx context.Context, c *ws.Conn) string {
	_, data, err := c.Read(ctx)
	if err != nil {
		return ""
	}
	return string(data)
}

// Answers find their calls in any order; calls with one id follow each other;
// late answers and those to nothing are frames like others.
func TestCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked, got []string
		r, c := caller(t, socket.Options{Receive: func(_ context.Context, _ *socket.Conn, f socket.Frame) error {
			got = append(got, string(f.Data))
			return nil
		}}, func(ctx context.Context, c *ws.Conn) {
			say := func(s string) { _ = c.Write(ctx, ws.MessageText, []byte(s)) }
			for {
				s := read(ctx, c)
				mu.Lock()
				asked = append(asked, s)
				mu.Unlock()
				id, rest, _ := strings.Cut(s, "?")
				switch rest {
				case "":
					return
				case "slow":
					go func() {
						time.Sleep(10 * time.Second)
						say(id + "=slow")
					}()
				case "twice":
					say(id + "=1")
					say(id + "=2")
				default:
					say(id + "=" + rest)
				}
			}
		})

		var wg sync.WaitGroup
		call := func(id, what, want string) {
			wg.Go(func() {
				a, err := c.Call(t.Context(), id, text(id+"?"+what))
				if err != nil || string(a.Data) != want {
					t.Errorf("Call(%s, %s) = %q, %v, want %q", id, what, a.Data, err, want)
				}
			})
			synctest.Wait()
		}
		call("a", "slow", "a=slow")
		call("b", "fast", "b=fast")
		for i := range 5 { // behind the slow one
			call("a", fmt.Sprint(i), fmt.Sprint("a=", i))
		}
		mu.Lock()
		if !cmp.Equal(asked, []string{"a?slow", "b?fast"}) {
			t.Errorf("asked %q while the first call with the id waits", asked)
		}
		mu.Unlock()
		wg.Wait()
		if want := []string{"a?slow", "b?fast", "a?0", "a?1", "a?2", "a?3", "a?4"}; !cmp.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}

		call("c", "twice", "c=1")
		wg.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Call(short, "d", text("d?slow")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Call: %v, want its deadline", err)
		}
		pass(time.Minute)
		if want := []string{"c=2", "d=slow"}; !cmp.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
		r.end()
		if _, err := c.Call(t.Context(), "e", text("e?x")); !errors.Is(err, socket.ErrLost) {
			t.Errorf("Call after the end: %v", err)
		}
	})
}

// Receive may call, even when frames that fill the backlog come before the answer.
func TestCallBehindBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers, n := 0, 0
		r, _ := caller(t, socket.Options{
			Backlog: 1000,
			Receive: func(ctx context.Context, c *socket.Conn, _ socket.Frame) error {
				n++
				if n > 1 {
					return nil
				}
				time.Sleep(time.Second) // the backlog is full
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				a, err := c.Call(ctx, "x", text("x"))
				if err == nil && string(a.Data) == "x=1" {
					answers++
				}
				return err
			},
		}, func(ctx context.Context, c *ws.Conn) {
			for range 1000 {
				if c.Write(ctx, ws.MessageText, make([]byte, 100)) != nil {
					return
				}
			}
			read(ctx, c)
			_ = c.Write(ctx, ws.MessageText, []byte("x=1"))
			<-c.CloseRead(ctx).Done()
		})
		pass(10 * time.Second)
		if answers != 1 || n != 1000 || len(r.lost) > 0 {
			t.Errorf("%d answers, %d frames, %d losses", answers, n, len(r.lost))
		}
		r.end()
	})
}

// A call whose connection ends says so, with the reason.
func TestCallLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := caller(t, socket.Options{}, func(ctx context.Context, c *ws.Conn) {
			read(ctx, c)
			_ = c.Close(4014, "no")
		})
		_, err := c.Call(t.Context(), "x", text("x"))
		e, ok := errors.AsType[*socket.CloseError](err)
		if !errors.Is(err, socket.ErrLost) || !ok || e.Code != 4014 {
			t.Errorf("Call: %v", err)
		}
		r.end()
	})
}

// A code that comes during the login is the reason that Lost is told, whatever
// Open waits for.
func TestCodeDuringOpen(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(ctx context.Context, c *socket.Conn) error{
		"next": func(ctx context.Context, c *socket.Conn) error { _, err := c.Next(ctx); return err },
		"call": func(ctx context.Context, c *socket.Conn) error { _, err := c.Call(ctx, "x", text("x")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := start(t, socket.Options{
					Client: serve(t, peers(t, func(ctx context.Context, _ int, c *ws.Conn) {
						if name == "call" {
							read(ctx, c)
						}
						_ = c.Close(4004, "no ticket-123456")
					})),
					Dial: at("ws://server.test/?ticket=ticket-123456"),
					Open: open,
				})
				for range 50 {
					err := <-r.lost
					if e, ok := errors.AsType[*socket.CloseError](err); !ok || e.Code != 4004 || e.Reason != "no ***" {
						t.Fatalf("lost: %v", err)
					}
				}
				r.end()
			})
		})
	}
}

// The end of Run ends a call whatever its context says.
func TestCallEndsWithRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, socket.Options{
			Client: serve(t, peers(t, func(ctx context.Context, _ int, c *ws.Conn) {
				_ = c.Write(ctx, ws.MessageText, []byte("x"))
				for s := "x"; s != ""; {
					s = read(ctx, c)
				}
			})),
			Receive: func(ctx context.Context, c *socket.Conn, _ socket.Frame) error {
				_, err := c.Call(context.WithoutCancel(ctx), "x", text("x"))
				return err
			},
		})
		pass(time.Second)
		r.end()
	})
}
