package socket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	ws "github.com/coder/websocket"
)

const (
	writeTimeout = 10 * time.Second
	batchFrames  = 32       // taken from the hub at once
	bufferBytes  = 64 << 10 // of a read buffer that is kept
	closeWait    = 100 * time.Millisecond
)

// statusSignedOut closes the connection of a page whose device was signed out.
const statusSignedOut ws.StatusCode = 4401

// errBehind closes a connection that does not keep up.
var errBehind = errors.New("the peer reads too slowly")

// socket is one connection. Its handler reads, one goroutine writes, one
// pings; whichever fails ends the others.
type socket struct {
	c    *Channel
	life *life
	conn *ws.Conn
	cork *cork // below conn
	person
	home  string          // chat of messages that name none
	local bool            // from a program of our user on this machine
	wake  chan struct{}   // capacity 1: something is there to write
	eased chan struct{}   // capacity 1: answers were taken to be written
	gone  <-chan struct{} // closed when the person is signed out; nil: never

	// Guarded by hub.mu.
	modern  bool   // has spoken the newer protocol
	closing bool   // the program ends
	flooded bool   // more answers than replyRoom wait
	held    string // chat that must wait, because its client is yet to be told about it
	replies [][]byte
	places  map[*conversation]*place
	dirty   []*conversation // with something to write
	feed    feed            // what happens outside of chats
}

// outgoing is a frame on its way.
type outgoing struct {
	data  []byte // nil: the peer has it by what was written before
	event *event // set when it must be delivered
}

// mark notes that a chat has something for this connection. The caller holds
// the lock of the hub.
func (s *socket) mark(c *conversation, p *place) {
	if !p.dirty {
		p.dirty = true
		s.dirty = append(s.dirty, c)
	}
	s.poke()
}

func (s *socket) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// hold keeps what happens in a chat back until release is called, so that the
// answer to who joins it comes before what it announces.
func (s *socket) hold(id string) (release func()) {
	h := s.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s.held = id
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.held = ""
		if c := h.chats[id]; c != nil && s.places[c] != nil {
			s.mark(c, s.places[c])
		}
	}
}

// reply answers this connection alone.
func (s *socket) reply(f frame) {
	h := s.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(s.replies) >= replyRoom {
		s.flooded = true
	} else {
		s.replies = append(s.replies, f.end())
	}
	s.poke()
}

// run serves the connection until it or the program ends.
func (s *socket) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, s.cut)() // ends what reads and writes, which costs less than telling each of them
	h := s.c.hub
	s.reply(newFrame(evReady, s.home, 32).text("client_id", s.client))
	h.join(s)
	h.attach(s, s.home, 0, false)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		s.closeAfter(s.write(ctx))
	})
	wg.Go(func() {
		defer cancel()
		s.ping(ctx)
	})

	if s.gone != nil {
		wg.Go(func() {
			select {
			case <-s.gone:
				s.close(statusSignedOut, "signed out")
				cancel()
			case <-ctx.Done():
			}
		})
	}

	defer wg.Wait()
	defer h.leave(s) // before the wait: senders wait for this
	defer cancel()
	s.read(ctx, &wg)
}

// read takes frames one after the other: order within a connection holds, and
// a queue that is full slows this peer alone.
func (s *socket) read(ctx context.Context, wg *sync.WaitGroup) {
	var buf bytes.Buffer
	in := receiver{socket: s, wg: wg}
	for lasting := context.WithoutCancel(ctx); ; {
		_, r, err := s.conn.Reader(lasting)
		if err != nil {
			return
		}

		buf.Reset()
		if _, err := io.Copy(&buf, r); err != nil {
			return
		}

		in.contained(ctx, buf.Bytes())
		if !s.answered(ctx) {
			return
		}

		if buf.Cap() > bufferBytes {
			buf = bytes.Buffer{}
		}
	}
}

// answered waits until a peer that asks much has got some of its answers, and
// reports whether it is to be listened to any longer.
func (s *socket) answered(ctx context.Context) bool {
	for {
		s.c.hub.mu.Lock()
		n := len(s.replies)
		s.c.hub.mu.Unlock()
		if n < replyRoom/2 {
			return true
		}

		select {
		case <-s.eased:
		case <-ctx.Done():
			return false
		}
	}
}

// write sends what is there whenever something is.
func (s *socket) write(ctx context.Context) error {
	batch := make([]outgoing, 0, batchFrames)
	for lasting := context.WithoutCancel(ctx); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		}
		for {
			var closing bool
			var err error
			batch, closing, err = s.collect(batch[:0])
			if err != nil {
				return err
			}

			if len(batch) == 0 {
				if closing {
					return nil
				}
				break
			}

			if err := s.writeBatch(lasting, batch); err != nil {
				return err
			}
		}
	}
}

// collect gathers frames: answers to this connection first, then the chats.
func (s *socket) collect(batch []outgoing) (_ []outgoing, closing bool, err error) {
	h := s.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()

	if s.flooded {
		return batch, false, errBehind
	}

	for _, r := range s.replies {
		batch = append(batch, outgoing{data: r})
	}

	s.replies = s.replies[:0]
	select {
	case s.eased <- struct{}{}:
	default: // no sender waits, or it was said already
	}

	batch = s.feed.collect(batch, h.pausing)
	for len(s.dirty) > 0 && len(batch) < batchFrames {
		c := s.dirty[0]
		p := s.places[c]
		if p == nil { // left meanwhile
			s.dirty = s.dirty[1:]
			continue
		}

		e := c.ring.next(p.seq)
		if e == nil || c.id == s.held {
			p.dirty = false
			s.dirty = s.dirty[1:]
			continue
		}

		if c.ring.gone > max(p.seq, p.floor) {
			return batch, false, errBehind
		}

		seq := p.seq
		p.seq = e.last
		var o outgoing
		switch {
		case e.except == s.home || e.to == modern && !s.modern: // needs none of it
		case e.streamed && p.begin <= e.whole:
			o.data = e.rest
		default:
			o.data = e.after(seq, c.id)
		}

		if e.id != "" && !e.seen {
			o.event = e
		}
		if o.data != nil || o.event != nil {
			batch = append(batch, o)
		}
	}

	if len(s.dirty) == 0 {
		s.dirty = nil
	}
	return batch, s.closing, nil
}

// arrived notes that a peer has got an event. The caller holds the lock of the hub.
func (e *event) arrived() {
	e.seen = true
	e.release()
}

// writeBatch sends frames, all in one go.
func (s *socket) writeBatch(ctx context.Context, batch []outgoing) error {
	s.cork.hold()
	for _, o := range batch {
		if o.data == nil {
			continue
		}
		if err := s.conn.Write(ctx, ws.MessageText, o.data); err != nil {
			return err
		}
	}

	if err := s.cork.flush(); err != nil {
		return err
	}

	h := s.c.hub
	h.mu.Lock()
	defer h.mu.Unlock()

	for _, o := range batch {
		if o.event != nil {
			o.event.arrived()
		}
	}

	clear(batch)
	return nil
}

// closeAfter closes the connection as its writer ended.
func (s *socket) closeAfter(err error) {
	switch {
	case err == nil:
		s.close(ws.StatusServiceRestart, "restarting")
	case errors.Is(err, errBehind):
		s.close(ws.StatusTryAgainLater, "too slow; come back and resume")
	default:
		_ = s.conn.CloseNow()
	}
}

// close tells the peer that the connection ends, and why. A peer that does not close
// its end within closeWait is not waited for: all it had to get is written.
func (s *socket) close(code ws.StatusCode, reason string) {
	t := time.AfterFunc(closeWait, s.cut)
	defer t.Stop()
	_ = s.conn.Close(code, reason)
}

// cut ends the connection at once. It closes what is below the protocol first, since
// CloseNow waits for a Close that is under way, which waits for the peer.
func (s *socket) cut() {
	_ = s.cork.Close()
	_ = s.conn.CloseNow()
}

// ping ends connections whose other side is gone without a word.
func (s *socket) ping(ctx context.Context) {
	t := time.NewTicker(span(s.c.set.PingIntervalS))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}

		pctx, cancel := context.WithTimeout(ctx, span(s.c.set.PingTimeoutS))
		err := s.conn.Ping(pctx)
		cancel()
		if err != nil {
			return
		}
	}
}

// speaksModern notes that the peer used the newer protocol: from now on it
// gets events the older one did not have.
func (s *socket) speaksModern() {
	s.c.hub.mu.Lock()
	defer s.c.hub.mu.Unlock()
	s.modern = true
}
