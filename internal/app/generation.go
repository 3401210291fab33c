package app

import (
	"context"
	"sync"
)

// generation is an agent between two configurations.
type generation struct {
	app    *App
	intake context.CancelFunc // no more messages from the queue
	stop   context.CancelFunc
	work   sync.WaitGroup
}

// start makes the agent work through the queue and its schedule run.
func (g *generation) start(ctx context.Context, gw *Gateway) {
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
	g.work.Go(func() {
		if err := g.app.Schedule.Run(intake); err != nil && intake.Err() == nil {
			gw.log.ErrorContext(ctx, "the schedule does not run", "err", err)
			gw.tellOwner(ctx, "Scheduled jobs do not run: "+err.Error())
		}
	})
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
