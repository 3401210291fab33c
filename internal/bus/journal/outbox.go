package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// outEntry is an outbound message until it is delivered, or until it was read
// if it is not durable.
type outEntry struct {
	seq      uint64
	at       time.Time
	out      bus.Outbound
	more     []string // text that joined it
	parts    int      // sent
	accepted bool     // durable
	again    bool     // was handed out before, perhaps by an earlier process
}

// lane holds what concerns one channel. All fields are guarded by Journal.mu.
type lane struct {
	in, inBytes int // accepted and not completed
	out         int // durable and not delivered
	room        chan struct{}

	reading bool
	wake    chan struct{} // capacity 1: there is something to read
	queue   []*outEntry   // not read yet
	shown   int           // of them, not durable
	last    map[chat]*outEntry
	lossy   map[chat]bool // text of the running stream was dropped
}

// chat is a conversation within a channel.
type chat struct{ id, thread string }

func chatOf(r bus.Route) chat { return chat{r.ChatID, r.ThreadID} }

// lanes are those of all channels.
type lanes map[string]*lane

func (s lanes) of(channel string) *lane {
	l := s[channel]
	if l == nil {
		l = &lane{room: make(chan struct{}), wake: make(chan struct{}, 1), last: map[chat]*outEntry{}, lossy: map[chat]bool{}}
		s[channel] = l
	}
	return l
}

// takes reports whether there is room for one more message of the channel. A
// message larger than all the room there is is taken when nothing else is there.
func (l *lane) takes(e *inEntry, o *Options) bool {
	limit, outs := o.MaxInbound, o.MaxOutbound
	if strings.HasPrefix(e.in.Text, "/") {
		limit, outs = limit+commandReserve, outs+commandReserve
		return l.in < limit && l.out < outs
	}
	return l.in < limit && l.out < outs && (l.in == 0 || l.inBytes+e.bytes <= o.MaxInboundBytes)
}

func (l *lane) roomMade() {
	close(l.room)
	l.room = make(chan struct{})
}

// Publish gives a message to its channel; see bus.Outbox.
func (j *Journal) Publish(ctx context.Context, out bus.Outbound) error {
	if !out.Kind.Durable() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.closed {
			return bus.ErrClosed
		}
		j.show(out)
		return nil
	}

	if out.ID = strings.ToValidUTF8(out.ID, "\uFFFD"); out.ID == "" {
		out.ID = rand.Text()
	}

	e := &outEntry{out: out, at: j.opts.Now()}
	var b bytes.Buffer
	if err := message(&b, "out", out.ID, e.at, out); err != nil {
		return err
	}

	c, err := j.place(ctx, e, b.Bytes())
	if err != nil || c == nil {
		return err
	}
	return j.flush(c)
}

// place waits for room in the outbox; nil means that the message is known already.
func (j *Journal) place(ctx context.Context, e *outEntry, raw []byte) (*commit, error) {
	j.mu.Lock()
	defer j.mu.Unlock()

	for {
		if j.closed {
			return nil, bus.ErrClosed
		}
		if j.outs[e.out.ID] != nil || j.seen.has(outKey(e.out.ID)) {
			return nil, nil
		}

		l := j.lanes.of(e.out.Route.Channel)
		if l.out < j.opts.MaxOutbound {
			break
		}
		if err := j.wait(ctx, l.room); err != nil {
			return nil, err
		}
	}

	c := j.join(raw, step{onResult: func(err error) {
		if err == nil {
			j.enqueue(e)
		}
	}})

	c.sync = true
	return c, nil
}

// enqueue takes a durable message into the books. The caller holds the lock.
func (j *Journal) enqueue(e *outEntry) {
	if j.outs[e.out.ID] != nil {
		return // two of one id came at the same time
	}

	l := j.lanes.of(e.out.Route.Channel)
	e.seq, e.accepted = j.stamp(), true
	if at := chatOf(e.out.Route); e.out.Kind == bus.Final && l.lossy[at] {
		e.out.Streamed = false
		delete(l.lossy, at)
	}

	j.outs[e.out.ID] = e
	j.seen.add(outKey(e.out.ID), e.at)
	l.out++
	l.push(e)
}

// restoreOut takes up a message of an earlier opening.
func (j *Journal) restoreOut(out bus.Outbound, f *found) {
	l := j.lanes.of(out.Route.Channel)
	j.outs[out.ID] = &outEntry{seq: j.stamp(), at: f.at, out: out, parts: f.parts, accepted: true, again: true}
	l.out++
}

// show passes on a message that is only of interest now. The caller holds the lock.
func (j *Journal) show(out bus.Outbound) {
	l := j.lanes.of(out.Route.Channel)
	at := chatOf(out.Route)
	text := out.Kind == bus.Delta || out.Kind == bus.Reasoning
	if prev := l.last[at]; text && prev != nil && prev.out.Kind == out.Kind && prev.out.StreamID == out.StreamID && !l.lossy[at] {
		prev.more = append(prev.more, out.Text)
		return
	}

	full := l.shown >= j.opts.MaxVolatile && out.Kind != bus.DeltaEnd // an end is short and few
	if !l.reading || full || (out.Kind == bus.Delta && l.lossy[at]) {
		j.dropped++
		if out.Kind == bus.Delta {
			l.lossy[at] = true
		}
		return
	}

	l.shown++
	l.push(&outEntry{out: out})
}

func (l *lane) push(e *outEntry) {
	if !l.reading {
		return // a reader starts with all that is not delivered
	}
	l.queue = append(l.queue, e)
	l.last[chatOf(e.out.Route)] = e
	signal(l.wake)
}

// Outgoing yields what goes to a channel; see bus.Outbox.
func (j *Journal) Outgoing(ctx context.Context, channel string) iter.Seq2[bus.Delivery, error] {
	return func(yield func(bus.Delivery, error) bool) {
		l, err := j.beginReading(channel)
		if err != nil {
			yield(bus.Delivery{}, err)
			return
		}

		defer j.endReading(l)
		for {
			d, ok, err := j.nextOut(ctx, l)
			if err != nil {
				if ctx.Err() == nil {
					yield(bus.Delivery{}, err)
				}
				return
			}

			if ok {
				if !yield(d, nil) {
					return
				}
				continue
			}

			select {
			case <-l.wake:
			case <-ctx.Done():
			case <-j.closing:
			}
		}
	}
}

func (j *Journal) beginReading(channel string) (*lane, error) {
	j.mu.Lock()
	defer j.mu.Unlock()

	l := j.lanes.of(channel)
	if l.reading {
		return nil, errors.New("messages of channel " + channel + " are being read already")
	}

	l.reading = true
	for _, e := range bySeq(j.outs, func(e *outEntry) uint64 { return e.seq }) {
		if e.out.Route.Channel == channel {
			l.push(e)
		}
	}
	return l, nil
}

func (j *Journal) endReading(l *lane) {
	j.mu.Lock()
	defer j.mu.Unlock()

	for _, e := range l.queue {
		if !e.accepted && e.out.Kind == bus.Delta {
			l.lossy[chatOf(e.out.Route)] = true
		}
	}

	l.reading = false
	l.queue = nil
	l.shown = 0
	clear(l.last)
}

func (j *Journal) nextOut(ctx context.Context, l *lane) (d bus.Delivery, ok bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()

	switch {
	case ctx.Err() != nil:
		return d, false, context.Cause(ctx)
	case j.closed:
		return d, false, bus.ErrClosed
	case len(l.queue) == 0:
		return d, false, nil
	}

	e := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	if at := chatOf(e.out.Route); l.last[at] == e {
		delete(l.last, at)
	}

	d = bus.Delivery{Outbound: e.out, Parts: e.parts}
	if !e.accepted {
		l.shown--
		if len(e.more) > 0 {
			d.Text += strings.Join(e.more, "")
		}
		return d, true, nil
	}

	if e.again {
		d.Streamed = false
	}

	e.again = true
	return d, true, nil
}

// Sent notes that a message was sent up to and with the part of this number,
// counted from 1; see bus.Outbox.
func (j *Journal) Sent(_ context.Context, id string, part int) error {
	return j.record("sent", id, part, func(e *outEntry) { e.parts = max(e.parts, part) })
}

// Delivered ends the life of a message; see bus.Outbox.
func (j *Journal) Delivered(_ context.Context, id string) error {
	return j.record("delivered", id, 0, func(e *outEntry) {
		delete(j.outs, id)
		l := j.lanes.of(e.out.Route.Channel)
		l.out--
		l.roomMade()
	})
}

// record writes a line about an outbound message, without waiting for the disk,
// and applies it even if that fails: what was sent was sent.
func (j *Journal) record(kind, id string, part int, apply func(*outEntry)) error {
	var b bytes.Buffer
	if err := mark(&b, kind, id, part); err != nil {
		return err
	}

	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return bus.ErrClosed
	}

	e := j.outs[id]
	if e == nil {
		j.mu.Unlock()
		return nil
	}

	if kind == "delivered" && e.out.Kind == bus.Final {
		j.shown.forget(&b, e.out.Route)
	}

	c := j.join(b.Bytes(), step{written: func() {
		if e := j.outs[id]; e != nil {
			apply(e)
		}
	}})

	j.mu.Unlock()
	return j.flush(c)
}
