package kit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Bounds of what was acknowledged and is not handed over yet. One chat gets a
// quarter of it, so that it cannot keep others out.
const (
	heldMost  = 2000     // events
	heldBytes = 32 << 20 // of their lines
	heldShare = 4
	heldSeen  = 4096     // keys of events that were handed over, which a platform may repeat
	heldSlack = 64 << 10 // bytes of dead lines that are always left in the log
)

// held keeps events in a log until they are handed over. A line holds an event,
// or says that the one with its key was handed over. Lines that are brought
// while a write goes on are written together.
type held struct {
	log    store.Log
	logger *slog.Logger
	// queue takes events that are durable, in the order of the log. It is
	// called with no lock but disk.
	queue func(e *heldEvent)

	disk   sync.Mutex // one write at a time; taken before mu
	size   int64      // of the log
	broken error      // the log may differ from what is in memory; it is replaced before anything else
	shared bool       // a former run that did not end writes to it, too; it is never replaced
	closed bool

	mu     sync.Mutex
	events map[string]*heldEvent // by key
	seen   *recent.Map[string, bool]
	total  load
	chats  map[string]load
	last   int64      // the order of the newest event
	next   *heldBatch // nil: no line waits
}

// load is how much is held.
type load struct {
	events int
	bytes  int64
}

func (l load) plus(events int, bytes int64) load { return load{l.events + events, l.bytes + bytes} }

// over reports whether more than a part of the bounds is used.
func (l load) over(part int) bool { return l.events > heldMost/part || l.bytes > heldBytes/int64(part) }

// heldEvent is a line of the log.
type heldEvent struct {
	Chat  string          `json:"chat,omitempty"`
	Key   string          `json:"key"`
	Event json.RawMessage `json:"event,omitempty"`
	Done  bool            `json:"done,omitempty"` // the event of this key was handed over

	line  []byte
	order int64
	batch *heldBatch // it is being written with; nil: it is on the disk
}

// heldBatch is what is written at once.
type heldBatch struct {
	lines  []byte
	events []*heldEvent
	done   chan struct{}
	err    error // set before done is closed
}

// openHeld opens the log beside a channel's state, with what a former run left
// in it.
func openHeld(ctx context.Context, s *chat.State, logger *slog.Logger) (*held, error) {
	log, err := s.Log(ctx, "held")
	if err != nil {
		return nil, fmt.Errorf("open the held events: %w", err)
	}

	h := &held{
		log:    log,
		logger: logger,
		events: map[string]*heldEvent{},
		seen:   recent.New[string, bool](heldSeen),
		chats:  map[string]load{},
	}
	if err := h.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("read the held events: %w", err), log.Close())
	}
	return h, nil
}

// load reads the log.
func (h *held) load(ctx context.Context) error {
	info, err := h.log.Info(ctx)
	if err != nil {
		return err
	}

	h.size = info.Size
	for line, err := range store.Lines(h.log, 0, info.Size) {
		if err != nil {
			return err
		}

		e := &heldEvent{line: append(bytes.Clone(line.Bytes), '\n')}
		switch err := json.Unmarshal(line.Bytes, e); {
		case err != nil || e.Key == "":
			h.logger.WarnContext(ctx, "a line of the held events is damaged and left out", "offset", line.Offset, "err", err)
		case e.Done:
			h.forget(e.Key)
		case h.events[e.Key] == nil:
			h.add(e)
		}
	}

	return nil
}

// left returns what is held, the oldest first.
func (h *held) left() []*heldEvent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.events), func(a, b *heldEvent) int { return cmp.Compare(a.order, b.order) })
}

// add notes an event. The lock is held, or not needed yet.
func (h *held) add(e *heldEvent) {
	h.last++
	e.order = h.last
	h.events[e.Key] = e
	h.total, h.chats[e.Chat] = h.total.plus(1, int64(len(e.line))), h.chats[e.Chat].plus(1, int64(len(e.line)))
}

// remove is the opposite of add.
func (h *held) remove(e *heldEvent) {
	if h.events[e.Key] != e {
		return
	}
	delete(h.events, e.Key)
	h.total, h.chats[e.Chat] = h.total.plus(-1, -int64(len(e.line))), h.chats[e.Chat].plus(-1, -int64(len(e.line)))
	if h.chats[e.Chat].events == 0 {
		delete(h.chats, e.Chat)
	}
}

// forget notes that an event was handed over.
func (h *held) forget(key string) {
	if e := h.events[key]; e != nil {
		h.remove(e)
	}
	h.seen.Put(key, true)
}

// hold keeps an event. It is on the disk when hold returns nil, or was before.
func (h *held) hold(ctx context.Context, chatID, key string, event any) error {
	if key == "" {
		return errors.New("an event without a key cannot be held")
	}

	raw, err := json.Marshal(event)
	if err != nil {
		return err
	}

	e := &heldEvent{Chat: chatID, Key: key, Event: raw}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}

	e.line = append(line, '\n')

	h.mu.Lock()
	b, err := h.admit(e)
	h.mu.Unlock()
	if err != nil || b == nil {
		return err
	}
	return h.awaitWrite(ctx, b)
}

// admit adds an event to the next batch and returns it, or the one that the
// event is in already; nil: it is on the disk. The lock is held.
func (h *held) admit(e *heldEvent) (*heldBatch, error) {
	if known := h.events[e.Key]; known != nil {
		return known.batch, nil
	}

	size := int64(len(e.line))
	switch {
	case h.seen.Has(e.Key):
		return nil, nil
	case h.total.plus(1, size).over(1):
		return nil, errors.New("too many events wait to be handled")
	case h.chats[e.Chat].plus(1, size).over(heldShare):
		return nil, errors.New("too many events of one chat wait to be handled")
	}

	h.add(e)
	b := h.join(e.line)
	b.events, e.batch = append(b.events, e), b
	return b, nil
}

// release forgets an event that was handed over. A power loss may bring it
// back, which does no harm: the agent knows its id.
func (h *held) release(ctx context.Context, key string) error {
	line, err := json.Marshal(heldEvent{Key: key, Done: true})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.forget(key)
	b := h.join(append(line, '\n'))
	h.mu.Unlock()
	return h.awaitWrite(ctx, b)
}

// join adds a line to the next batch. The lock is held.
func (h *held) join(line []byte) *heldBatch {
	if h.next == nil {
		h.next = &heldBatch{done: make(chan struct{})}
	}
	h.next.lines = append(h.next.lines, line...)
	return h.next
}

// awaitWrite waits until a batch is written: by this call or by another one that
// had a line in it.
func (h *held) awaitWrite(ctx context.Context, b *heldBatch) error {
	h.disk.Lock()
	defer h.disk.Unlock()

	select {
	case <-b.done:
		return b.err
	default:
	}

	h.mu.Lock()
	h.next = nil // later lines go into the next one
	h.mu.Unlock()

	if h.closed {
		b.err = chat.ErrStopping
	} else {
		b.err = h.write(context.WithoutCancel(ctx), b) // others wait for it, too
	}

	h.mu.Lock()
	for _, e := range b.events {
		if e.batch = nil; b.err != nil {
			h.remove(e) // the platform repeats it
		}
	}

	h.mu.Unlock()
	if b.err == nil {
		for _, e := range b.events {
			h.queue(e)
		}
	}

	close(b.done)
	return b.err
}

// write writes a batch. The lock of the disk is held.
func (h *held) write(ctx context.Context, b *heldBatch) error {
	if h.broken != nil && !h.shared {
		return h.replace(ctx, -1) // what is in memory has all of it
	}

	sync := len(b.events) > 0
	err := h.log.Append(ctx, h.size, b.lines, sync)
	if errors.Is(err, store.ErrMoved) {
		h.shared = true
		err = store.Add(ctx, h.log, b.lines, sync)
	}

	if err != nil {
		h.broken = err
		return err
	}

	h.size += int64(len(b.lines))
	h.mu.Lock()
	wasteful := h.size > 2*h.total.bytes+heldSlack
	h.mu.Unlock()
	if !wasteful || h.shared {
		return nil
	}

	if err := h.replace(ctx, h.size); err != nil {
		h.logger.WarnContext(ctx, "the log of held events cannot be made smaller", "err", err)
	}
	return nil
}

// replace writes a log of what is left. The lock of the disk is held.
func (h *held) replace(ctx context.Context, at int64) error {
	var lines []byte
	for _, e := range h.left() {
		lines = append(lines, e.line...)
	}
	if h.broken = h.log.Replace(ctx, at, lines); h.broken != nil {
		return h.broken
	}
	h.size = int64(len(lines))
	return nil
}

// close ends the use of the log.
func (h *held) close() error {
	h.disk.Lock()
	defer h.disk.Unlock()
	h.closed = true
	return h.log.Close()
}
