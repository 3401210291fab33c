package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
)

// envelope is a message in a mailbox, with the way back to its asker.
type envelope struct {
	in      bus.Inbound
	key     string
	ctx     context.Context   //nolint:containedctx // the asker's context, which travels with the message
	out     chan bus.Outbound // 16 deep; a slow reader slows only its own turn
	done    chan struct{}
	err     error          // set before done is closed
	extra   turn.Extra     // for its turn
	replyTo *replyTo       // of a message from a queue, which has no out and done
	left    bool           // its turn was interrupted, and nothing more is done about it
	joined  []*envelope    // messages from a queue that end with its turn
	door    *turn.Outgoing // what is said passes it

	host  *envelope    // in whose turn it may join
	began time.Time    // when its turn began; guarded by mailboxes.mu until then
	moved atomic.Int64 // how long after that something happened last, whatever the clock on the wall says; see Pulse
}

// newEnvelope puts a message into an envelope without a way back.
func (a *Agent) newEnvelope(ctx context.Context, in bus.Inbound) *envelope {
	return &envelope{in: in, key: a.engine.KeyOf(in), ctx: ctx, door: turn.NewOutgoing(a.opts.Secrets)}
}

// toReader returns a context whose work speaks to the person who wrote a message.
func (a *Agent) toReader(ctx context.Context, it *envelope) context.Context {
	return phrase.InZone(phrase.With(ctx, it.in.Language), a.opts.Location)
}

// touch notes that the turn of the message moves.
func (it *envelope) touch() { it.moved.Store(int64(time.Since(it.began))) }

// Message is what its turn sees of it.
func (it *envelope) message() turn.Message {
	return turn.Message{In: it.in, Key: it.key, Extra: it.extra, Sink: it, Queued: it.replyTo != nil}
}

// Emit implements sink.
func (it *envelope) Emit(o bus.Outbound) {
	it.touch()
	for _, clean := range it.door.Pass(o) {
		it.emit(clean)
	}
}

// emit sends what has passed the door.
func (it *envelope) emit(o bus.Outbound) {
	o.Language = it.in.Language
	if !turn.Scheduled(it.in) { // what a schedule says belongs to the chat that gets it
		o.Session = it.key
	}

	if it.replyTo != nil {
		it.replyTo.emit(o)
		return
	}

	select {
	case it.out <- o:
	case <-it.ctx.Done():
	}
}

// Join implements sink: a message from a queue ends with the turn that it joined, the
// sender of another one does not wait for that.
func (it *envelope) Join() {
	if it.replyTo == nil {
		it.Done(nil)
		return
	}
	it.host.joined = append(it.host.joined, it)
}

// Done implements sink.
func (it *envelope) Done(err error) {
	if it.replyTo != nil {
		it.replyTo.complete(err)
		return
	}
	it.err = err
	close(it.done)
}

// discard waits for the end of a turn without a listener.
func (it *envelope) discard() {
	for {
		select {
		case <-it.out:
		case <-it.done:
			return
		}
	}
}

// drain yields what is still buffered after the turn ended.
func (it *envelope) drain(yield func(bus.Outbound, error) bool) {
	for {
		select {
		case o := <-it.out:
			if !yield(o, nil) {
				return
			}
		default:
			if it.err != nil {
				yield(bus.Outbound{}, it.err)
			}
			return
		}
	}
}
