package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/control"
)

// stuckAfter is how long a turn may be silent: longer than any model call or
// command of ours is allowed to take by default.
const stuckAfter = 15 * time.Minute

// scheduleSilence is how long the schedule may be silent: it looks every minute,
// and waits for other processes and the disk for a while.
const scheduleSilence = 5 * time.Minute

// Status tells how the gateway is, cheaply. The command line, the page, doctor, /readyz
// and /metrics say what it says.
func (g *Gateway) Status() control.Status {
	use := g.state.snapshot()
	s := control.Status{
		Version: g.o.Version, PID: os.Getpid(), Started: g.started, Ready: true,
		Queue: g.mail.Status(), Channels: g.web.platforms(g.channels),
	}
	if a := g.Addr(); a != nil {
		if s.Address = a.String(); servesPages(use.config, a) {
			s.Page = g.pages.base()
		}
	}

	unready := func(why string) { s.Ready, s.Problems = false, append(s.Problems, why) }
	if use.agent == nil {
		unready("the agent takes over a new configuration")
	} else {
		s.Model = use.agent.app.ModelInfo().Name
		s.Agent = use.agent.app.Agent.Pulse(stuckAfter)
	}

	for _, key := range s.Agent.Stuck {
		unready("conversation " + key + " has not moved for " + stuckAfter.String())
	}

	if len(s.Agent.Stuck) > 0 {
		s.Wrong.Agent = fmt.Sprintf("has not moved for %s: %s", stuckAfter, s.Agent.Stuck)
	}
	if s.Queue.Err != nil {
		unready("messages cannot be kept: " + s.Queue.Err.Error())
	}

	if use.agent != nil {
		at, why := use.agent.app.Schedule.LastCheck(), use.agent.idle.Load()
		switch {
		case at.IsZero() && why != nil:
			s.Wrong.Schedule = "scheduled jobs do not run: " + *why
			s.Problems = append(s.Problems, s.Wrong.Schedule)
		case !at.IsZero() && g.o.Now().Sub(at) > scheduleSilence:
			s.Wrong.Schedule = "the schedule has not moved for " + scheduleSilence.String()
			unready(s.Wrong.Schedule)
		}
	}

	if s.Wrong.Model = g.o.Figures.Unreachable(); s.Wrong.Model != "" {
		s.Problems = append(s.Problems, s.Wrong.Model)
	}
	if free, ok := g.free(use.config.DataDir); ok && free < LowSpace {
		s.Wrong.Disk = fmt.Sprintf("only %d MB are free where %s lies", free>>20, use.config.DataDir)
		s.Problems = append(s.Problems, s.Wrong.Disk)
	}
	if s.Wrong.Config = use.rejected; use.rejected != "" {
		s.Problems = append(s.Problems, "the newest configuration is not used: "+use.rejected)
	}

	for _, name := range use.config.Changed(g.state.booted) {
		if changeOf([]string{name}).restart {
			s.Later = append(s.Later, name)
		}
	}

	for _, p := range use.config.Disabled {
		s.Problems = append(s.Problems, "left out: "+p.String())
	}
	return s
}

// alive reports whether a new start would not help: nothing hangs, although
// we may not be ready. A disk that is full or may not be written stays so.
func alive(s *control.Status) bool {
	if s.Model == "" || len(s.Agent.Stuck) > 0 {
		return false
	}
	err := s.Queue.Err
	return err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS)
}

// Jobs is how many scheduled jobs are switched on, without those of nanobot
// itself.
func (g *Gateway) Jobs(ctx context.Context) int {
	a, err := g.state.current(ctx)
	if err != nil {
		return 0
	}

	list, err := a.Schedule.List(ctx)
	if err != nil {
		return 0 // the log and cron list say why
	}

	n := 0
	for i := range list {
		if list[i].Enabled && !list[i].Protected() {
			n++
		}
	}
	return n
}

// LowSpace is how many free bytes are too few to go on for long.
const LowSpace = 200 << 20
