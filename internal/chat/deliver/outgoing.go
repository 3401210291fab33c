package deliver

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Bounds of what waits to be sent.
const (
	chatsKept   = 256                   // chats remembered before idle ones are let go
	sweepChats  = time.Minute           // at most that often
	answersKept = 1024                  // answers remembered to find the same one sent twice
	acksMax     = 1024                  // deliveries that wait to be noted; full blocks the reader
	awayMax     = 1024                  // answers that wait for clients; more would fill the outbox, which then takes nothing in
	awayBytes   = 16 << 20              // of their texts
	passWait    = 20 * time.Millisecond // for what is sent at once; then its chat gets a goroutine
)

// sender sends what the queue has for one channel. It divides the messages into
// chats, each of which has a goroutine while there is something to do.
type sender struct {
	name       string
	queue      bus.Queue
	maxRetries int
	now        func() time.Time
	redact     func(string) string
	log        *slog.Logger

	a       *adapter
	health  *health
	signals *signals
	filters chat.Filters
	total   *shared // rate of all chats
	edits   *shared // rate of all edits
	replies *replies
	acks    chan string // ids of what was sent at once, on their way to the queue; made by open

	mu       sync.Mutex
	closing  bool // starts nothing any more
	chats    map[chatKey]*conversation
	rates    map[string]*chatRate // by the chat
	swept    time.Time
	answered *recent.Map[answerKey, string]
	work     sync.WaitGroup // one per chat; nothing is added once closing is set
}

func newSender(name string, o *Options, a *adapter, h *health, sig *signals, f chat.Filters) *sender {
	return &sender{
		name:       name,
		queue:      o.Queue,
		maxRetries: o.MaxRetries,
		now:        o.Now,
		redact:     o.Redact,
		log:        a.log,
		a:          a,
		health:     h,
		signals:    sig,
		filters:    f,
		total:      &shared{bucket: bucket{limit: a.caps.Rate.Total}},
		edits:      &shared{bucket: bucket{limit: a.caps.Rate.Edit}},
		replies:    newReplies(a.caps),
		chats:      map[chatKey]*conversation{},
		rates:      map[string]*chatRate{},
		answered:   recent.New[answerKey, string](answersKept),
	}
}

// open prepares for run.
func (w *sender) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing, w.acks = false, make(chan string, acksMax)
}

// close keeps chats from being started.
func (w *sender) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
}

// run sends until ctx ends and everything that was being sent is out.
func (w *sender) run(ctx context.Context) {
	var acks sync.WaitGroup
	acks.Go(func() { w.acknowledge(context.WithoutCancel(ctx)) })
	w.read(ctx)
	<-ctx.Done()
	w.work.Wait()
	close(w.acks)
	acks.Wait()
}

// waiting returns how many messages are not sent yet.
func (w *sender) waiting() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.chats {
		n += len(c.queue) + c.busy
	}
	return n
}

// park notes that a chat waits for something that we cannot bring about: a client,
// the end of a pause after a failure, or the platform to take more. The returned
// func notes that it goes on.
func (w *sender) park(c *conversation) (resume func()) {
	set := func(parked bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.parked = parked
	}
	set(true)
	return func() { set(false) }
}

// parked returns how many messages that must arrive wait in chats that are parked.
func (w *sender) parked() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.chats {
		if !c.parked {
			continue
		}
		if c.must {
			n++
		}
		n += len(c.queue) - c.volatile
	}

	return n
}

// read takes what goes to the channel from the queue until ctx ends.
func (w *sender) read(ctx context.Context) {
	send, done := linger(ctx)
	defer done()
	for d, err := range w.queue.Outgoing(ctx, w.name) {
		if err != nil {
			if !errors.Is(err, bus.ErrClosed) {
				w.health.failed(err)
			}
			return
		}

		if d.Kind == bus.Ended && w.a.signaller == nil && !w.a.caps.OneMessage || w.a.caps.Whole && w.passOn(send, d) {
			continue
		}
		w.push(ctx, d)
	}
}

// passOn sends at once to a platform that takes everything as it is. False
// means that it has to be tried again, in its turn.
func (w *sender) passOn(ctx context.Context, d bus.Delivery) bool {
	w.mu.Lock()
	waiting := w.chats[keyOf(d.Route)] != nil
	w.mu.Unlock()
	if waiting {
		return false
	}
	if d.Kind == bus.Ask && w.expired(d.Outbound) {
		w.acks <- d.ID
		return true
	}

	if d.Kind.Durable() { // the platform may wait for a slow reader, which must not hold up the others
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, passWait)
		defer cancel()
	}

	if _, err := w.a.send(ctx, d.Outbound); err != nil {
		return !d.Kind.Durable() // what only shows progress is not worth another try
	}

	if d.Kind.Durable() {
		w.health.sent()
		w.acks <- d.ID
	}
	return true
}

// acknowledge tells the queue what was sent, beside the reader: the queue may
// wait for the disk.
func (w *sender) acknowledge(ctx context.Context) {
	for id := range w.acks {
		w.delivered(ctx, id)
	}
}

func (w *sender) delivered(ctx context.Context, id string) {
	if err := w.queue.Delivered(context.WithoutCancel(ctx), id); err != nil && !errors.Is(err, bus.ErrClosed) {
		w.log.WarnContext(ctx, "a delivery cannot be noted; it may be sent again after a restart", "id", id, "err", err)
	}
}

// recordParts tells the queue how many parts are sent, so that they are not sent
// again after a restart.
func (w *sender) recordParts(ctx context.Context, id string, n int) {
	if err := w.queue.Sent(context.WithoutCancel(ctx), id, n); err != nil && !errors.Is(err, bus.ErrClosed) {
		w.log.WarnContext(ctx, "a sent part cannot be noted", "id", id, "err", err)
	}
}

// wanted reports whether a channel shows this at all.
func (w *sender) wanted(out bus.Outbound) bool {
	caps := &w.a.caps
	switch out.Kind {
	case bus.Delta, bus.DeltaEnd:
		return w.a.streamer != nil || caps.Whole
	case bus.Reasoning:
		return caps.Whole || caps.Reasoning && w.filters.ShowReasoning
	case bus.Progress, bus.Notice:
		return out.Text != "" && (caps.Whole || w.filters.SendProgress)
	case bus.Gone:
		return out.Text != "" || caps.Whole || caps.Settles
	case bus.ToolHint:
		return out.Text != "" && (caps.Whole || w.filters.SendToolHints)
	case bus.ToolEvent, bus.ToolDelta, bus.ToolOutput, bus.GoalState, bus.FileEdit, bus.Used:
		return caps.Whole
	}

	return true
}

// push queues something for its chat and starts the chat if it does not run.
func (w *sender) push(ctx context.Context, d bus.Delivery) {
	switch d.Kind {
	case bus.Delta, bus.Reasoning, bus.ToolEvent, bus.ToolDelta:
		w.signals.show(ctx, bus.Route{Channel: d.Route.Channel, ChatID: d.Route.ChatID, ThreadID: d.Route.ThreadID})
	}

	if !w.wanted(d.Outbound) {
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	c := w.chats[keyOf(d.Route)]
	if c == nil {
		c = w.begin(keyOf(d.Route))
	}
	if c.add(d); !c.away.IsZero() {
		w.boundAway()
	}

	select {
	case c.wake <- struct{}{}:
	default:
	}

	if !c.running && !w.closing {
		c.running = true
		w.work.Go(func() { c.serve(ctx) })
	}
}

// begin makes a chat. The caller holds the lock.
func (w *sender) begin(key chatKey) *conversation {
	rate := w.rates[key.chat]
	if rate == nil {
		rate = &chatRate{}
		rate.chat.bucket.limit, rate.group.bucket.limit = w.a.caps.Rate.Chat, w.a.caps.Rate.Group
		w.rates[key.chat] = rate
	}

	rate.threads++
	c := newChat(w, key, rate)
	w.chats[key] = c
	return c
}

// forget lets go of an idle chat. The caller holds the lock.
func (w *sender) forget(c *conversation) {
	delete(w.chats, c.key)
	if c.rate.threads--; c.rate.threads == 0 {
		delete(w.rates, c.key.chat)
	}
}

// back tells a chat that a client listens to it.
func (w *sender) back(to bus.Route) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, c := range w.chats {
		if key.chat == to.ChatID {
			c.notify()
		}
	}
}

// notify wakes a chat that waits for a client.
func (c *conversation) notify() {
	select {
	case c.listener <- struct{}{}:
	default:
	}
}

// setAway notes whether a chat waits for a client.
func (w *sender) setAway(c *conversation, away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !away {
		c.away = time.Time{}
		return
	}
	c.away = time.Now()
	w.boundAway()
}

// clearExcess reports whether the first answer of a chat is given up.
func (w *sender) clearExcess(c *conversation) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	excess := c.excess
	c.excess = false
	return excess
}

// boundAway gives up an answer of the chat that has waited longest if too many
// wait for clients. The answer stays in its session. The caller holds the lock.
func (w *sender) boundAway() {
	var oldest *conversation
	n, bytes := 0, 0
	for _, c := range w.chats {
		if c.away.IsZero() {
			continue
		}

		n += c.busy + len(c.queue)
		for _, d := range c.queue {
			bytes += len(d.Text)
		}

		if oldest == nil || c.away.Before(oldest.away) {
			oldest = c
		}
	}

	if oldest != nil && (n > awayMax || bytes > awayBytes) {
		oldest.excess = true
		oldest.notify()
	}
}

// next takes the first message of a chat. False ends the goroutine, unless
// keep is set, which it is while a preview is due.
func (w *sender) next(c *conversation, keep bool) (d bus.Delivery, more, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	c.busy, c.must = 0, false
	if len(c.queue) == 0 {
		if !keep {
			c.running = false
			if c.idle(time.Now()) {
				w.forget(c)
			}
			w.forgetIdle()
		}
		return d, false, false
	}

	d = c.queue[0]
	c.queue[0] = bus.Delivery{}
	c.queue = c.queue[1:]
	if !d.Kind.Durable() {
		c.volatile--
	}

	c.busy, c.must = 1, d.Kind.Durable()
	return d, len(c.queue) > 0, true
}

// forgetIdle forgets idle chats. The caller holds the lock.
func (w *sender) forgetIdle() {
	now := time.Now()
	if len(w.chats) <= chatsKept || now.Sub(w.swept) < sweepChats {
		return
	}

	w.swept = now
	for _, c := range w.chats {
		if c.idle(now) {
			w.forget(c)
		}
	}
}

// expired reports whether the time to answer a question is over.
func (w *sender) expired(out bus.Outbound) bool {
	return out.Question != nil && !out.Question.Expires.IsZero() && !out.Question.Expires.After(w.now())
}

// answerKey is an answer to a message, to find one that is sent twice.
type answerKey struct {
	chat    chatKey
	message string
	sum     [8]byte
}

// repeated reports whether the same was said in answer to the same message.
func (w *sender) repeated(c chatKey, out bus.Outbound) (bool, answerKey) {
	key := answerKey{chat: c, message: out.Route.MessageID}
	if w.a.caps.Whole || out.Kind == bus.Ask || key.message == "" || len(out.Media) > 0 || out.Text == "" {
		return false, answerKey{}
	}

	sum := sha256.Sum256([]byte(strings.Join(strings.Fields(out.Text), " ")))
	copy(key.sum[:], sum[:])

	w.mu.Lock()
	defer w.mu.Unlock()
	id, ok := w.answered.Get(key)
	return ok && id != out.ID, key
}

// remember notes an answer for repeated.
func (w *sender) remember(key answerKey, id string) {
	if key == (answerKey{}) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered.Put(key, id)
}
