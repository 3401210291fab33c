package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// How long one call of a platform may take.
const (
	sendWait   = 2 * time.Minute  // for one text
	mediaWait  = 10 * time.Minute // for one file
	signalWait = 10 * time.Second // for one signal
)

// adapter calls a platform. Each method makes one call, bounds it in time, and
// turns a panic into an error.
type adapter struct {
	ch          chat.Channel
	caps        chat.Caps                 // as the factory made them; see limits
	refined     atomic.Pointer[chat.Caps] // nil: as in caps
	limitsKnown chan struct{}             // closed when the limits are
	streamer    chat.Streamer             // nil: no streaming by edits
	signaller   chat.Signaller            // nil: cannot show what happens to a message
	quotes      *quotes                   // nil: the platform needs none
	planner     chat.Planner              // nil: messages are divided as texts are
	gate        *access.Gate
	log         *slog.Logger
}

// newAdapter makes the adapter of a channel. Without streaming its messages are
// never edited, even if the platform could.
func newAdapter(ch chat.Channel, streaming bool, gate *access.Gate, log *slog.Logger) *adapter {
	a := &adapter{ch: ch, caps: ch.Caps(), limitsKnown: make(chan struct{}), gate: gate, log: log}
	if !a.caps.Refines {
		close(a.limitsKnown)
	}
	if a.caps.Quotes {
		a.quotes = newQuotes()
	}

	a.signaller, _ = ch.(chat.Signaller)
	a.planner, _ = ch.(chat.Planner)
	if streaming && a.caps.EditEvery > 0 && !a.caps.Whole {
		a.streamer, _ = ch.(chat.Streamer)
	}
	return a
}

// limits returns the caps with the limits that hold now.
func (a *adapter) limits() *chat.Caps {
	if c := a.refined.Load(); c != nil {
		return c
	}
	return &a.caps
}

// refine changes the limits.
func (a *adapter) refine(change func(*chat.Caps)) {
	told, fresh := *a.limits(), a.caps
	change(&told)
	fresh.MaxChars = told.MaxChars
	fresh.MaxMedia = told.MaxMedia
	fresh.Together = told.Together
	if a.refined.Swap(&fresh) == nil && a.caps.Refines {
		close(a.limitsKnown)
	}
}

// send sends one part. If ctx ends during the call, the call gets time to
// finish.
func (a *adapter) send(ctx context.Context, out bus.Outbound) (id string, err error) {
	defer recoverPanic(a.log, &err)

	if a.caps.Whole {
		return a.ch.Send(ctx, out)
	}

	limit := sendWait
	if len(out.Media) > 0 {
		limit = mediaWait
	}

	ctx, done := bounded(ctx, limit)
	defer done()
	if id, err = a.ch.Send(ctx, out); err == nil {
		a.quotes.store(out.Route.ChatID, id, chat.Quoted{Text: out.Text, Media: out.Media})
	}
	return id, err
}

// plan divides a message into parts.
func (a *adapter) plan(out bus.Outbound) (parts []bus.Outbound, err error) {
	if a.planner == nil {
		return chat.Divide(*a.limits(), out), nil
	}
	defer recoverPanic(a.log, &err)
	return chat.Keyed(out, a.planner.Plan(out)), nil
}

// edit changes a message.
func (a *adapter) edit(ctx context.Context, out bus.Outbound, id string, final bool) (err error) {
	defer recoverPanic(a.log, &err)

	ctx, done := bounded(ctx, sendWait)
	defer done()
	if err = a.streamer.Edit(ctx, out, id, final); err == nil {
		a.quotes.store(out.Route.ChatID, id, chat.Quoted{Text: out.Text, Media: out.Media})
	}
	return err
}

// erase removes a message. An error that wraps errors.ErrUnsupported means that
// the platform cannot.
func (a *adapter) erase(ctx context.Context, to bus.Route, id string) (err error) {
	defer recoverPanic(a.log, &err)

	ctx, done := bounded(ctx, sendWait)
	defer done()
	if err = a.streamer.Erase(ctx, to, id); err == nil {
		a.quotes.remove(to.ChatID, id)
	}

	if errors.Is(err, errors.ErrUnsupported) {
		return chat.Permanent(err)
	}
	return err
}

// signal shows a phase of a message.
func (a *adapter) signal(ctx context.Context, to bus.Route, phase chat.Phase) (err error) {
	defer recoverPanic(a.log, &err)

	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	return a.signaller.Signal(ctx, to, phase)
}

// group reports whether several people read a chat.
func (a *adapter) group(to bus.Route) bool {
	if a.caps.Group != nil {
		return a.caps.Group(to)
	}
	return a.gate.IsGroup(to.ChatID)
}

// bounded returns a context for one call: it outlives ctx a little, and ends in time.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := linger(ctx)
	ctx, cancel := context.WithTimeout(ctx, limit)
	return ctx, func() { cancel(); stop() }
}

// linger makes a context that outlives another by the time for flushing.
func linger(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(flushWait, cancel)
		context.AfterFunc(out, func() { t.Stop() })
	})
	return out, func() { stop(); cancel() }
}

// recoverPanic, when deferred, makes an error of a panic in a channel. The error
// is permanent, since the same message would cause the same panic.
func recoverPanic(log *slog.Logger, err *error) {
	if r := recover(); r != nil {
		log.Error("a channel panicked", "panic", r, "stack", string(debug.Stack()))
		*err = chat.Permanent(fmt.Errorf("panic: %v", r))
	}
}
