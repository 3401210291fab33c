package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// generation is an agent between two configurations.
type generation struct {
	app    *app.App
	intake context.CancelFunc // no more messages from the queue
	stop   context.CancelFunc
	work   sync.WaitGroup
	idle   atomic.Pointer[string] // why the schedule could not begin the last time
}

// start makes the agent work through the queue. It returns what makes its
// schedule run, which nobody waits for.
func (g *generation) start(ctx context.Context, gw *Gateway) (keepTime func()) {
	running, stop := context.WithCancel(ctx)
	intake, stopIntake := context.WithCancel(running)
	g.stop, g.intake = stop, stopIntake
	g.app.Agent.Open(running)
	g.work.Go(func() { _ = g.app.Run(running) }) // ends with its context only
	g.work.Go(func() {
		if err := g.app.Agent.Serve(intake, gw.door()); err != nil && intake.Err() == nil {
			gw.log.ErrorContext(ctx, "messages are not taken from the queue any more", "err", err)
		}
	})
	return func() {
		g.work.Go(func() { g.keepTime(intake, gw) })
	}
}

// scheduleRetry is when the schedule is tried again after it could not begin.
// Somebody who mends its file need not do more.
const scheduleRetry = 30 * time.Second

// keepTime runs the schedule until ctx ends.
func (g *generation) keepTime(ctx context.Context, gw *Gateway) {
	told := ""
	for {
		err := g.app.Schedule.Run(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != told {
			told = text
			g.idle.Store(&text)
			gw.log.ErrorContext(ctx, "the schedule does not run", "err", err)
			gw.tellOwner(ctx, "Scheduled jobs do not run: "+text+".")
		}
		if httpsafe.Pause(ctx, scheduleRetry) != nil {
			return
		}
	}
}

// blocked tells that another program has been running the jobs for a while.
func (g *Gateway) blocked(ctx context.Context, err error) {
	g.log.ErrorContext(ctx, "the schedule waits for another program", "err", err)
	g.tellOwner(ctx, "Scheduled jobs do not run here as long as another program runs them: "+err.Error())
}

// finish lets running turns end within their grace time and gives everything
// back. What was not finished is still in the queue.
func (g *generation) finish() error {
	if g.stop != nil {
		g.intake()
		g.stop()
		g.work.Wait()
	}
	return g.app.Close()
}

// leaveWait is how long turns may take to end after they were cancelled.
const leaveWait = 3 * time.Second

// finishWithin is finish, but once hurry is closed it takes only the grace
// time and a little more. A tool that does not listen is left behind then; its
// message is still in the queue.
func (g *generation) finishWithin(hurry <-chan struct{}) error {
	done := make(chan error, 1)
	go func() { done <- g.finish() }()
	select {
	case err := <-done:
		return err
	case <-hurry:
	}
	t := time.NewTimer(time.Duration(g.app.Config.Config.Gateway.ShutdownTimeoutS)*time.Second + leaveWait)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errors.New("a turn did not stop in time; the next start continues it")
	}
}
