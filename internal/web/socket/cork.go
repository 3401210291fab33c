package socket

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// corkBytes is how much a corked connection holds back at most.
const corkBytes = 64 << 10

// corkable lets the connection of a request hold back what is written to it, so
// that frames that are there at the same time leave in one go: a write costs
// more than what most frames hold.
type corkable struct {
	http.ResponseWriter
	conn *cork
}

// Hijack implements http.Hijacker.
func (c *corkable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.conn = &cork{Conn: conn}
	return c.conn, bufio.NewReadWriter(rw.Reader, bufio.NewWriter(c.conn)), nil
}

// cork is a connection that collects what is written between hold and flush,
// by whomever.
type cork struct {
	net.Conn
	mu   sync.Mutex
	held bool
	buf  []byte
}

// Write implements io.Writer.
func (c *cork) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if !c.held {
		return c.Conn.Write(p)
	}

	c.buf = append(c.buf, p...)
	if len(c.buf) < corkBytes {
		return len(p), nil
	}
	if err := c.send(); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *cork) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
}

// flush sends what was held back and holds nothing back from then on.
func (c *cork) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	return c.send()
}

// send has a limit of its own: no writer waits for it. The caller holds
// the lock.
func (c *cork) send() error {
	if len(c.buf) == 0 {
		return nil
	}
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}

	_, err := c.Conn.Write(c.buf)
	if c.buf = c.buf[:0]; cap(c.buf) > bufferBytes {
		c.buf = nil
	}

	_ = c.SetWriteDeadline(time.Time{}) // a connection that the peer has closed by now has got it all the same
	return err
}
