package httpsafe

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// join copies both ways until both have ended or nothing moved for a while.
func join(a, b net.Conn) {
	var last atomic.Int64
	last.Store(time.Now().UnixNano())
	var both sync.WaitGroup
	both.Go(func() { copyUntilIdle(a, b, &last) })
	both.Go(func() { copyUntilIdle(b, a, &last) })
	both.Wait()
}

// copyUntilIdle ends one direction by closing only that half, because the
// other side may still have something to say.
func copyUntilIdle(to, from net.Conn, last *atomic.Int64) {
	buf := make([]byte, 32<<10)
	for {
		_ = from.SetReadDeadline(time.Now().Add(proxyIdleTime))
		n, err := from.Read(buf)
		if n > 0 {
			last.Store(time.Now().UnixNano())
			_ = to.SetWriteDeadline(time.Now().Add(proxyIdleTime))
			if _, werr := to.Write(buf[:n]); werr != nil {
				_ = from.Close() // what it sends has no receiver any more
				return
			}
		}

		if errors.Is(err, os.ErrDeadlineExceeded) && time.Since(time.Unix(0, last.Load())) < proxyIdleTime {
			continue // the other direction is busy
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_, _ = from.Close(), to.Close()
			return
		}

		if err != nil {
			if h, ok := to.(interface{ CloseWrite() error }); ok {
				_ = h.CloseWrite()
			} else {
				_ = to.Close()
			}
			return
		}
	}
}

// boundedListener accepts no more than a number of connections at a time.
type boundedListener struct {
	net.Listener
	slots chan struct{}
	done  <-chan struct{}
}

func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}

	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

type boundedConn struct {
	net.Conn
	release func()
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

// CloseWrite ends one direction, which both TCP and Unix sockets can.
func (c *boundedConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}
