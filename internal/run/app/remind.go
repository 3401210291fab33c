package app

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

const (
	remindFirst = time.Second // a person who opens a chat waits for its prompt first
	remindRetry = time.Minute // after another process ran the jobs
)

// reminders are what KeepTime needs.
type reminders struct {
	begin func()                                       // starts the agent
	say   func(ctx context.Context, text string) error // shows something in the chat; nil: there is none
}

// asGuest lets the schedule run the jobs of some chats in this process.
func (a *App) asGuest(so *schedule.Options, o Options) {
	here := bus.Route{Channel: "cli", ChatID: "direct"} // whoever delivers has one place to show things
	say := func(_ context.Context, out bus.Outbound) error {
		if o.Deliver == nil {
			return errors.New("there is no one to tell")
		}
		o.Deliver(out)
		return nil
	}

	so.Guest.Takes, so.Notify = o.Reminders, say
	so.LastRoute = func(context.Context) (bus.Route, bool) { return here, true }
	a.remind.say = func(ctx context.Context, text string) error {
		return say(ctx, bus.Outbound{Kind: bus.Message, Route: here, Text: text, Plain: true})
	}
	so.Submit = func(ctx context.Context, in bus.Inbound) error {
		a.remind.begin()
		return a.Agent.Perform(ctx, in)
	}
	so.Guest.Leave = func(in bus.Inbound) { a.Agent.Leave(in) }
}

// KeepTime runs the jobs of the chats in Options.Reminders until ctx ends,
// whenever no gateway runs those of the workspace. Their replies go to
// Options.Deliver. begin is called before a job runs and makes the agent
// accept messages, if it does not yet. It can be called once.
func (a *App) KeepTime(ctx context.Context, begin func()) {
	a.remind.begin = begin
	wait := time.NewTimer(remindFirst)
	defer wait.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}

		err := a.Schedule.Run(ctx)
		if ctx.Err() != nil {
			return
		}

		_, locked := errors.AsType[*diskio.LockedError](err)
		switch {
		case locked || errors.Is(err, schedule.ErrYield):
			a.log.DebugContext(ctx, "jobs of this chat are run elsewhere", "err", err)
		case err != nil && err.Error() != told:
			told = err.Error()
			a.log.ErrorContext(ctx, "jobs of this chat do not run", "err", err)
			if a.remind.say != nil && a.remind.say(ctx, "Reminders of this chat do not run: "+told+".") != nil {
				told = "" // there may be someone later
			}

		case err == nil:
			told = ""
		}

		wait.Reset(remindRetry)
	}
}
