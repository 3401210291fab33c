package journal

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Submit keeps a message; see bus.Inbox.
func (j *Journal) Submit(ctx context.Context, in bus.Inbound) error {
	in.ID = strings.ToValidUTF8(in.ID, "\uFFFD") // as it will be read back
	if in.ID == "" {
		return bus.ErrNoID
	}

	e := &inEntry{in: in, at: j.opts.Now()}
	var b bytes.Buffer
	if err := message(&b, "in", in.ID, e.at, in); err != nil {
		return err
	}
	if b.Len() > maxMessage {
		return bus.ErrTooLarge
	}

	e.bytes = b.Len()
	c, err := j.accept(ctx, e, b.Bytes())
	if err != nil || c == nil {
		return err
	}
	return j.flush(c)
}

// Known implements bus.Knower.
func (j *Journal) Known(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seen.has(inKey(id))
}

// Completed implements bus.Knower.
func (j *Journal) Completed(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seen.has(inKey(id)) && j.inbound[id] == nil && j.outs[bus.FinalID(id)] == nil
}

// accept finds a place for a message and returns the commit that makes it
// durable; nil if it is known already.
func (j *Journal) accept(ctx context.Context, e *inEntry, raw []byte) (*commit, error) {
	j.mu.Lock()
	defer j.mu.Unlock()

	for {
		if j.closed {
			return nil, bus.ErrClosed
		}
		if old := j.inbound[e.in.ID]; old != nil {
			return old.commit, nil
		}
		if j.seen.has(inKey(e.in.ID)) {
			return nil, nil
		}

		l := j.lanes.of(e.in.Route.Channel)
		if l.takes(e, &j.opts) {
			break
		}
		if err := j.wait(ctx, l.room); err != nil {
			return nil, err
		}
	}

	e.seq = j.stamp()
	e.commit = j.join(raw, step{onResult: func(err error) { j.accepted(e, err) }})
	e.commit.sync = true
	j.inbound[e.in.ID] = e
	l := j.lanes.of(e.in.Route.Channel)
	l.in++
	l.inBytes += e.bytes
	return e.commit, nil
}

// wait gives up the lock until there may be room.
func (j *Journal) wait(ctx context.Context, room <-chan struct{}) error {
	j.mu.Unlock()
	defer j.mu.Lock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.closing:
		return bus.ErrClosed
	}
}

// accepted hands a message on, or forgets it. The caller holds the lock.
func (j *Journal) accepted(e *inEntry, err error) {
	if err != nil {
		j.leave(e)
		return
	}
	e.accepted, e.commit = true, nil
	j.seen.add(inKey(e.in.ID), e.at)
	j.queue = append(j.queue, e)
	signal(j.ready)
}

// leave takes a message out of the books. The caller holds the lock.
func (j *Journal) leave(e *inEntry) {
	delete(j.inbound, e.in.ID)
	l := j.lanes.of(e.in.Route.Channel)
	l.in--
	l.inBytes -= e.bytes
	l.roomMade()
}

// restoreIn takes up a message of an earlier opening.
func (j *Journal) restoreIn(in bus.Inbound, f *found) {
	e := &inEntry{seq: j.stamp(), at: f.at, in: in, bytes: len(f.raw), accepted: true}
	j.inbound[in.ID] = e
	j.queue = append(j.queue, e)
	l := j.lanes.of(in.Route.Channel)
	l.in++
	l.inBytes += e.bytes
	signal(j.ready)
}

// Receive waits for the next message; see bus.Inbox.
func (j *Journal) Receive(ctx context.Context) (bus.Inbound, error) {
	for {
		if err := ctx.Err(); err != nil {
			return bus.Inbound{}, context.Cause(ctx)
		}

		j.mu.Lock()
		switch {
		case j.closed:
			j.mu.Unlock()
			return bus.Inbound{}, bus.ErrClosed
		case len(j.queue) > 0:
			e := j.queue[0]
			j.queue[0] = nil
			j.queue = j.queue[1:]
			j.mu.Unlock()
			return e.in, nil
		}

		j.mu.Unlock()
		select {
		case <-j.ready:
		case <-ctx.Done():
		case <-j.closing:
		}
	}
}

// Complete ends the life of a message; see bus.Inbox.
func (j *Journal) Complete(_ context.Context, id string, outs ...bus.Outbound) error {
	now := j.opts.Now()
	j.mu.Lock()
	e := j.inbound[id]
	if e == nil || e.ending || !e.accepted {
		j.mu.Unlock()
		return nil
	}
	if j.closed {
		j.mu.Unlock()
		return bus.ErrClosed
	}

	e.ending = true
	var kept []*outEntry
	for i, o := range outs {
		if !o.Kind.Durable() {
			j.show(o)
			continue
		}

		if o.ID == "" {
			o.ID = id + "#" + strconv.Itoa(i)
		}
		if j.outs[o.ID] == nil && !j.seen.has(outKey(o.ID)) {
			kept = append(kept, &outEntry{out: o, at: now})
		}
	}

	j.mu.Unlock()

	lasting := make([]bus.Outbound, len(kept))
	for i, o := range kept {
		lasting[i] = o.out
	}

	var b bytes.Buffer
	if err := doneLine(&b, id, now, lasting); err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		e.ending = false
		return err
	}

	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return bus.ErrClosed
	}

	j.shown.forgetUnanswered(&b, e.in.Route, kept)
	c := j.join(b.Bytes(), step{written: func() {
		j.leave(e)
		for _, o := range kept {
			j.enqueue(o)
		}
	}})

	// Should the power fail before it is on the disk, the message is received
	// again. Its final reply can be found or given again; the rest could not.
	again := len(kept) > 0
	for _, o := range kept {
		again = again && o.out.Kind == bus.Final && len(o.out.Media) == 0
	}

	c.sync, c.soon = c.sync || !again, c.soon || again
	j.mu.Unlock()
	return j.flush(c)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Redeliver makes Receive hand out again, before anything newer, what was
// received and not completed. It is for a program that replaces its agent: the
// old one must have let go of the messages.
func (j *Journal) Redeliver() {
	j.mu.Lock()
	defer j.mu.Unlock()

	j.queue = j.queue[:0:0]
	for _, e := range j.inbound {
		if e.accepted && !e.ending {
			j.queue = append(j.queue, e)
		}
	}

	slices.SortStableFunc(j.queue, func(a, b *inEntry) int { return cmp.Compare(a.seq, b.seq) })
	signal(j.ready)
}
