package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// item is a message in a mailbox, with the way back to its asker.
type item struct {
	in   bus.Inbound
	key  string
	ctx  context.Context   //nolint:containedctx // the asker's context, which travels with the message
	out  chan bus.Outbound // 16 deep; a slow asker slows its own turn, nobody else's
	done chan struct{}
	err  error // set before done is closed
	post *post // of a message from a queue, which has no out and done

	over  tool.Turn    // ends with the work on it
	began time.Time    // when its turn began; guarded by mailboxes.mu until then
	moved atomic.Int64 // how long after that something happened last, whatever the clock on the wall says; see Pulse
}

// stir notes that the turn of the message moves.
func (it *item) stir() { it.moved.Store(int64(time.Since(it.began))) }

func (it *item) emit(o bus.Outbound) {
	it.stir()
	if it.post != nil {
		it.post.say(o)
		return
	}
	select {
	case it.out <- o:
	case <-it.ctx.Done():
	}
}

func (it *item) finish(err error) {
	if it.post != nil {
		it.post.end(err)
		return
	}
	it.err = err
	close(it.done)
}

// discard waits for the end of a turn nobody listens to.
func (it *item) discard() {
	for {
		select {
		case <-it.out:
		case <-it.done:
			return
		}
	}
}

// rest yields what is still buffered after the turn ended.
func (it *item) rest(yield func(bus.Outbound, error) bool) {
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
