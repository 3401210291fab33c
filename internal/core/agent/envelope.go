package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// envelope is a message in a mailbox, with the way back to its asker.
type envelope struct {
	in      bus.Inbound
	key     string
	ctx     context.Context   //nolint:containedctx // the asker's context, which travels with the message
	out     chan bus.Outbound // 16 deep; a slow reader slows only its own turn
	done    chan struct{}
	err     error    // set before done is closed
	extra   Extra    // for its turn
	replyTo *replyTo // of a message from a queue, which has no out and done
	left    bool     // its turn was interrupted, and nothing more is done about it

	over  tool.Turn    // ends with the work on it
	began time.Time    // when its turn began; guarded by mailboxes.mu until then
	moved atomic.Int64 // how long after that something happened last, whatever the clock on the wall says; see Pulse
}

// touch notes that the turn of the message moves.
func (it *envelope) touch() { it.moved.Store(int64(time.Since(it.began))) }

func (it *envelope) emit(o bus.Outbound) {
	it.touch()
	o.Language = it.in.Language
	if !scheduled(it.in) { // what a schedule says belongs to the chat that gets it
		o.Session = it.key
	}
	if it.replyTo != nil {
		it.replyTo.say(o)
		return
	}
	select {
	case it.out <- o:
	case <-it.ctx.Done():
	}
}

// final is the last reply to the message.
func (it *envelope) final(r Reply, turn *bus.Turn) bus.Outbound {
	return bus.Outbound{
		Kind: bus.Final, Route: it.in.Route, ReplyTo: it.in.Route.MessageID, Text: r.Text, Plain: !r.Markdown, Meta: it.in.Meta, Turn: turn,
	}
}

func (it *envelope) finish(err error) {
	if it.replyTo != nil {
		it.replyTo.end(err)
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

// rest yields what is still buffered after the turn ended.
func (it *envelope) rest(yield func(bus.Outbound, error) bool) {
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

// readerOf is who reads what became of a message.
func readerOf(e *envelope) explain.Reader {
	return explain.Reader{Language: e.in.Language, Page: e.in.Route.Channel == "websocket"}
}
