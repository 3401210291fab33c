// Package socket is a WebSocket client that stays connected. It hides how a
// connection is made, kept alive, judged dead and made again, so that a chat
// platform only says where to connect, how to log in and what a frame means.
//
// Servers are not trusted: frames, the time that one takes and what waits to
// be handled are bounded, nothing is decompressed, redirects are refused, and
// neither an address nor a header of ours is in an error.
package socket

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
)

const (
	dialTime     = 15 * time.Second       // for Dial, and again for the handshake
	openTime     = 30 * time.Second       // for Open
	writeTime    = 30 * time.Second       // for one frame
	frameTime    = 2 * time.Minute        // for one frame to arrive, once it has begun
	closeTime    = 500 * time.Millisecond // for a server to confirm that we leave
	healthyAfter = time.Minute            // a connection that lasts this long makes the next failure the first
	firstPause   = time.Second
	shortestBeat = time.Second
	writeQueue   = 64 // frames
	frameCost    = 64 // bytes that a waiting frame takes beside its data
)

// Frame is one message of the connection.
type Frame struct {
	Binary bool
	Data   []byte
}

// Target is where to connect to.
type Target struct {
	URL          string // ws, wss, http or https
	Header       http.Header
	Subprotocols []string
}

// Options say how to connect and what to do with frames. Client, Dial and
// Receive must be set. All functions but Match are called from the goroutine of
// Run, one after the other.
type Options struct {
	// Client makes the connections: its proxy and the address checks of its
	// transport apply. Redirects are never followed.
	Client *http.Client
	// Dial names the target of the next connection. A platform that resumes
	// returns the address for it, and sends what else is needed from Open.
	Dial func(ctx context.Context) (Target, error)
	// Open logs in. It may use Send, Call and Next, which returns frames before
	// Receive gets any. It has half a minute.
	Open func(ctx context.Context, c *Conn) error
	// Receive handles a frame. It should be quick: the server must wait while
	// the backlog is full. The frames of a connection that is lost are still
	// handled before the next one is made. An error ends the connection.
	Receive func(ctx context.Context, c *Conn, f Frame) error
	// Lost is called with the reason why a connection ended or could not be made. What it returns
	// decides how to go on: Fatal ends Run, After sets the pause.
	Lost func(err error) error
	// Match names the call that a frame answers; false: none. It must not block
	// or keep the data.
	Match func(f Frame) (id string, ok bool)

	Ping     time.Duration // between two pings; 0: 20 s; negative: none
	Silence  time.Duration // longest time without a frame, ping or pong; 0: three pings, or one minute
	MaxFrame int64         // bytes; 0: 64 MiB
	Backlog  int64         // bytes that wait for Receive; 0: 4 MiB
	MaxPause time.Duration // longest pause between two tries; 0: one minute
}

func (o Options) withDefaults() *Options {
	o.Ping = cmp.Or(o.Ping, 20*time.Second)
	o.Silence = cmp.Or(o.Silence, max(3*o.Ping, time.Minute))
	o.MaxFrame = cmp.Or(o.MaxFrame, 64<<20)
	o.Backlog = cmp.Or(o.Backlog, 4<<20)
	o.MaxPause = cmp.Or(o.MaxPause, time.Minute)
	if o.Lost == nil {
		o.Lost = func(err error) error { return err }
	}
	return &o
}

// Run connects, and connects again when the connection is lost, until ctx ends,
// which is not an error, or an error is marked with Fatal, which it returns.
// Within a second after the end of ctx nothing of it is left, if the functions
// of o heed their context.
func Run(ctx context.Context, o Options) error {
	set := o.withDefaults()
	for tries := 1; ; tries++ {
		lasted, err := session(ctx, set)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is not an error
		}

		set.Client.CloseIdleConnections() // they may be as dead, and Dial would wait for one
		err = set.Lost(err)
		v, _ := errors.AsType[*verdict](err)
		if v != nil && v.fatal {
			return v.err
		}

		if lasted >= healthyAfter {
			tries = 1
		}

		if wait.For(ctx, pause(tries, set.MaxPause, v)) != nil {
			return nil //nolint:nilerr // the end of ctx is not an error
		}
	}
}

// session makes one connection and serves it. Lasted is how long it was open.
func session(ctx context.Context, o *Options) (lasted time.Duration, err error) {
	c, err := connect(ctx, o)
	if err != nil {
		return 0, err
	}

	defer c.leave()

	if err := c.open(ctx); err != nil {
		return 0, err
	}

	began := time.Now()
	for {
		f, err := c.Next(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = o.Receive(ctx, c, f)
		}

		if err != nil {
			return time.Since(began), err
		}
	}
}

// pause returns how long to wait before the next try: anything up to a limit
// that doubles with each failure, so that the clients of a server that comes
// back do not return at once. What the server or the platform asks for is kept,
// but "at once" holds only after a connection that lasted.
func pause(tries int, longest time.Duration, v *verdict) time.Duration {
	limit := min(firstPause<<min(tries-1, 20), longest)
	d := rand.N(limit) //nolint:gosec // only spreads load
	switch {
	case v == nil:
		return d
	case tries == 1:
		return v.after
	}
	return max(v.after, d)
}
