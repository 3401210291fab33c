// Package kit has what chat platforms share: it hides how what came in survives
// a kill until the agent has it, how files are fetched and opened, how an API is
// called, how a webhook is served, and how a program beside a channel lives and
// dies.
//
// An Intake handles the events of a chat in order, and nothing that it holds is
// lost. A Webhook has no call of Receive left when Serve returns, and a Child does
// not outlive this process. Files are bounded in number, bytes and time. The errors
// of a REST show neither addresses nor tokens.
package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	intakeRetry  = time.Second      // first pause after an event could not be handled
	intakeRepeat = 30 * time.Second // longest such pause
)

// Intake hands what a platform sends over to the agent: the events of one chat
// one after the other, those of different chats side by side. It never blocks
// whoever reads from the platform, and it repeats an event until it is durable
// as a message. An event whose handling panics is given up.
type Intake[T any] struct {
	ctx    context.Context //nolint:containedctx // of one Run, which waits for the intake
	cancel context.CancelFunc
	handle func(ctx context.Context, event T) error
	log    *slog.Logger
	held   *held
	group  sync.WaitGroup // one per chat with something to do; nothing is added once stopped is set

	mu      sync.Mutex
	stopped bool
	chats   map[string]*intakeChat[T] // with something to do
}

// intakeChat is what waits in one chat.
type intakeChat[T any] struct {
	jobs []intakeJob[T]
	more chan struct{} // capacity 1: something was queued
}

// intakeJob is an event, or several that belong together.
type intakeJob[T any] struct {
	event T
	lost  bool   // it cannot be read
	key   string // of a held event, for the log
	done  []func()
}

// joiner is an event that may be one of several that make one message, such as
// the pictures of an album.
type joiner[T any] interface {
	// Joins is how long to wait for the next one; 0: it is complete.
	Joins() time.Duration
	// Join adds the next event of the chat. False: that is something else, so
	// this one is complete.
	Join(next T) (joined T, ok bool)
}

// NewIntake makes the intake of one Run; it needs Deps.State and Deps.Log. What
// a former run held is queued first. Handle is repeated until it returns nil,
// which means that the event is durable as a message, or that nothing comes of
// it; downloads belong into it. T must survive JSON, if events are held; handle
// must know events of another account by itself. An event whose type has the
// methods Joins() time.Duration and Join(T) (T, bool) is joined with those that
// follow it, before it is handled.
func NewIntake[T any](ctx context.Context, d chat.Deps, handle func(ctx context.Context, event T) error) (*Intake[T], error) {
	h, err := openHeld(ctx, d.State, d.Log)
	if err != nil {
		return nil, err
	}

	in := &Intake[T]{handle: handle, log: d.Log, held: h, chats: map[string]*intakeChat[T]{}}
	in.ctx, in.cancel = context.WithCancel(ctx) //nolint:gosec // Wait calls it
	h.queue = in.enqueue
	for _, e := range h.left() {
		in.enqueue(e)
	}
	return in, nil
}

// Add queues an event behind the others of its chat and calls done when it was
// handled. It is kept in memory only: the platform must not be told that it
// arrived before done is called. How many there are is bounded by the caller.
func (in *Intake[T]) Add(chatID string, event T, done func()) {
	in.push(chatID, intakeJob[T]{event: event, done: []func(){done}})
}

// Hold queues an event like Add, but after nil the platform may be told that it
// arrived: the event is on the disk and outlives the process. The same key
// again is not a second event. An error means that the platform should repeat
// it later: the disk failed, too much waits already, or the channel is being
// stopped.
func (in *Intake[T]) Hold(ctx context.Context, chatID, key string, event T) error {
	if in.ctx.Err() != nil {
		return chat.ErrStopping
	}
	if err := in.held.hold(ctx, chatID, key, event); err != nil {
		return fmt.Errorf("hold an event: %w", err)
	}
	return nil
}

// Wait ends the intake and returns when all handling has ended. What is not
// handled stays with the platform or, if it is held, on the disk.
func (in *Intake[T]) Wait() {
	in.cancel()
	in.mu.Lock()
	in.stopped = true
	in.mu.Unlock()
	in.group.Wait()
	if err := in.held.close(); err != nil {
		in.log.WarnContext(in.ctx, "close the held events", "err", err)
	}
}

// enqueue adds a held event to the queue of its key.
func (in *Intake[T]) enqueue(e *heldEvent) {
	job := intakeJob[T]{key: e.Key}
	job.done = []func(){func() { in.release(e.Key) }}
	if err := json.Unmarshal(e.Event, &job.event); err != nil {
		in.log.ErrorContext(in.ctx, "a held event cannot be read and is given up", "key", e.Key, "err", err)
		job.lost = true
	}
	e.Event = nil
	in.push(e.Chat, job)
}

func (in *Intake[T]) release(key string) {
	if err := in.held.release(in.ctx, key); err != nil {
		in.log.WarnContext(in.ctx, "a held event was handled and cannot be removed; it comes again after a restart", "key", key, "err", err)
	}
}

func (in *Intake[T]) push(chatID string, job intakeJob[T]) {
	in.mu.Lock()
	defer in.mu.Unlock()

	if in.stopped {
		return
	}

	c := in.chats[chatID]
	if c == nil {
		c = &intakeChat[T]{more: make(chan struct{}, 1)}
		in.chats[chatID] = c
		in.group.Go(func() { in.work(chatID, c) })
	}

	c.jobs = append(c.jobs, job)
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// work handles the events of a chat until none is left.
func (in *Intake[T]) work(chatID string, c *intakeChat[T]) {
	for {
		in.mu.Lock()
		if len(c.jobs) == 0 || in.ctx.Err() != nil {
			delete(in.chats, chatID)
			in.mu.Unlock()
			return
		}

		job := c.jobs[0]
		c.jobs[0] = intakeJob[T]{}
		c.jobs = c.jobs[1:]
		in.mu.Unlock()
		if job, ok := in.collect(c, job); ok {
			in.try(chatID, job)
		}
	}
}

// collect joins an event with those that belong to it. False means that the
// intake ended meanwhile.
func (in *Intake[T]) collect(c *intakeChat[T], job intakeJob[T]) (intakeJob[T], bool) {
	for {
		j, ok := any(job.event).(joiner[T])
		if !ok || job.lost || j.Joins() <= 0 {
			return job, true
		}

		in.mu.Lock()
		if len(c.jobs) > 0 {
			next := c.jobs[0]
			event, ok := j.Join(next.event)
			if ok = ok && !next.lost; ok {
				c.jobs = c.jobs[1:]
				job.event, job.done = event, append(job.done, next.done...)
			}

			in.mu.Unlock()
			if !ok {
				return job, true
			}
			continue
		}

		select {
		case <-c.more: // of something that was taken since
		default:
		}

		in.mu.Unlock()

		t := time.NewTimer(j.Joins())
		select {
		case <-c.more:
		case <-t.C:
			return job, true
		case <-in.ctx.Done():
			t.Stop()
			return job, false
		}

		t.Stop()
	}
}

// try handles an event until it is durable: it must not be lost, and later ones
// of the chat must not overtake it.
func (in *Intake[T]) try(chatID string, job intakeJob[T]) {
	pauses := wait.Backoff{Least: intakeRetry, Most: intakeRepeat}
	for {
		err := in.once(chatID, job)
		if err == nil {
			for _, done := range job.done {
				done()
			}
			return
		}

		if in.ctx.Err() != nil || errors.Is(err, chat.ErrStopping) {
			return // it stays for the next start
		}

		level := slog.LevelDebug
		if pauses.Fresh() {
			level = slog.LevelError
		}

		in.log.Log(in.ctx, level, "a message could not be accepted yet", "chat", chatID, "key", job.key, "err", err)
		if pauses.Wait(in.ctx) != nil {
			return
		}
	}
}

// once handles an event one time. One that breaks the program would do so for
// ever, so it is given up.
func (in *Intake[T]) once(chatID string, job intakeJob[T]) (err error) {
	defer func() {
		if p := recover(); p != nil {
			in.log.ErrorContext(in.ctx, "an event was given up, please report this", "chat", chatID, "key", job.key, "panic", p, "stack", string(debug.Stack()))
			err = nil
		}
	}()
	if job.lost {
		return nil
	}
	return in.handle(in.ctx, job.event)
}
