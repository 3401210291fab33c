package telegram

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/wait"
)

const (
	albumWait    = 600 * time.Millisecond // between two parts of an album
	submitRetry  = time.Second            // first pause after a message could not be made durable
	submitRepeat = 30 * time.Second       // longest such pause
)

// intake hands updates over, those of one chat one after the other, those of
// different chats side by side. How many there are is bounded by who adds
// them: a window of updates, or the connections of a webhook.
type intake struct {
	ctx    context.Context //nolint:containedctx // of one Run, which waits for the intake
	handle func(ctx context.Context, us []update) error
	log    *slog.Logger
	group  sync.WaitGroup
	mu     sync.Mutex
	queues map[int64][]job // by chat; a key is there as long as its worker lives
}

// job is one update, or the parts of an album.
type job struct {
	updates []update
	done    func() // called once the message in it is durable
}

func newIntake(ctx context.Context, handle func(context.Context, []update) error, log *slog.Logger) *intake {
	return &intake{ctx: ctx, handle: handle, log: log, queues: map[int64][]job{}}
}

// add queues a job behind the others of its chat.
func (in *intake) add(us []update, done func()) {
	id := us[0].chatID()
	in.mu.Lock()
	defer in.mu.Unlock()
	q, working := in.queues[id]
	in.queues[id] = append(q, job{us, done})
	if !working {
		in.group.Go(func() { in.work(id) })
	}
}

// wait returns when all workers are gone, which happens when ctx has ended.
func (in *intake) wait() { in.group.Wait() }

func (in *intake) work(id int64) {
	for {
		in.mu.Lock()
		q := in.queues[id]
		if len(q) == 0 || in.ctx.Err() != nil {
			delete(in.queues, id)
			in.mu.Unlock()
			return
		}
		in.queues[id] = q[1:]
		in.mu.Unlock()
		in.try(q[0])
	}
}

// try repeats until the message is durable: it must not be lost, and later
// ones of the chat must not overtake it.
func (in *intake) try(j job) {
	for backoff := submitRetry; ; backoff = min(2*backoff, submitRepeat) {
		err := in.once(j.updates)
		if err == nil {
			j.done()
			return
		}
		if in.ctx.Err() != nil || errors.Is(err, channel.ErrStopping) {
			return // it stays with Telegram for the next start
		}
		in.log.ErrorContext(in.ctx, "a message could not be accepted yet", "update", j.updates[0].ID, "err", err)
		if wait.For(in.ctx, backoff) != nil {
			return
		}
	}
}

// once handles a job. One that breaks the program would come again for ever,
// so it is given up.
func (in *intake) once(us []update) error {
	defer func() {
		if p := recover(); p != nil {
			in.log.ErrorContext(in.ctx, "an update was given up, please report this", "update", us[0].ID, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	return in.handle(in.ctx, us)
}

func (in *intake) report(what string, err error) {
	if err != nil {
		in.log.ErrorContext(in.ctx, "a step failed", "step", what, "err", err)
	}
}
