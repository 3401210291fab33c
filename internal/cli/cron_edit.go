package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// jobFlags are the flags that describe a job.
type jobFlags struct {
	name, message        string
	every, expr, tz, at  string
	channel, to, catchUp string
	silent, deliver      bool
	timeout              time.Duration
}

func (f *jobFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.name, "name", "n", "", "`name` of the job")
	fl.StringVarP(&f.message, "message", "m", "", "`text` of the task")
	fl.StringVarP(&f.every, "every", "e", "", "run at this `interval`: seconds, or 20m, 2h, 1d")
	fl.StringVar(&f.expr, "cron", "", "run by a cron `expression`: minute hour day month weekday")
	fl.StringVar(&f.tz, "tz", "", "time `zone` of the expression, such as Europe/Berlin")
	fl.StringVar(&f.at, "at", "", "run once at this `time`, such as 2027-01-31T09:00")
	fl.StringVar(&f.channel, "channel", "", "`channel` for the result (default: the chat used last)")
	fl.StringVar(&f.to, "to", "", "`chat` in the channel")
	fl.StringVar(&f.catchUp, "catch-up", "", "how to handle missed runs: once, skip or tell")
	fl.DurationVar(&f.timeout, "timeout", 0, "maximum `time` of one run")
	fl.BoolVar(&f.silent, "silent", false, "deliver failures only")
	fl.BoolVarP(&f.deliver, "deliver", "d", true, "deliver the result")
	_ = fl.MarkHidden("deliver") // the old word; it exists
	_ = cmd.RegisterFlagCompletionFunc("catch-up", cobra.FixedCompletions([]string{"once", "skip", "tell"}, cobra.ShellCompDirectiveNoFileComp))
}

// timing reads the flags about time; nil if there are none.
func (f *jobFlags) timing(loc *time.Location) (*schedule.Timing, error) {
	given := 0
	for _, s := range []string{f.every, f.expr, f.at} {
		if s != "" {
			given++
		}
	}

	switch {
	case given > 1:
		return nil, errors.New("use exactly one of --every, --cron and --at")
	case f.tz != "" && f.expr == "":
		return nil, errors.New("--tz requires --cron")
	case f.every != "":
		d, err := schedule.ParseInterval(f.every)
		if err != nil {
			return nil, err
		}
		t := schedule.Every(d)
		return &t, nil

	case f.expr != "":
		t := schedule.Cron(f.expr, f.tz)
		return &t, nil
	case f.at != "":
		at, err := schedule.ParseMoment(f.at, loc)
		if err != nil {
			return nil, err
		}
		t := schedule.Once(at)
		return &t, nil
	}

	return nil, nil
}

// route returns the chat that --channel and --to name.
func (f *jobFlags) route(ctx context.Context, l *config.Loaded) (bus.Route, error) {
	if (f.channel == "") != (f.to == "") {
		return bus.Route{}, errors.New("--channel and --to must be used together")
	}
	return gateway.Accounts{Loaded: l}.Address(ctx, bus.Route{Channel: f.channel, ChatID: f.to})
}

func (c *cronCommand) addCommand() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use: "add", Short: "Add a reminder or a recurring job", Args: noArgs,
		Long: `add creates a job that sends a message to the agent on a schedule. The answer goes
to the chat given by --channel and --to, or to the chat used last. Times without
a zone use the configured time zone.`,
		Example: `  nanobot cron add -m "Remind me to stretch" --every 2h
  nanobot cron add -m "Weather for Lisbon" --cron "0 7 * * *" --tz Europe/Lisbon
  nanobot cron add -m "Call Ana" --at 2027-01-31T09:00 --channel telegram --to 12345`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.expr == "" && isExpression(c.home.configPath) { // older versions knew -c as --cron
				f.expr, c.home.configPath = c.home.configPath, ""
			}

			j, err := c.stores.jobs(cmd.Context())
			if err != nil {
				return err
			}

			timing, err := f.timing(j.Location)
			if err == nil && timing == nil {
				err = errors.New("missing schedule: use --every, --cron or --at")
			}

			if err != nil {
				return usageError{err}
			}

			route, err := f.route(cmd.Context(), j.loaded)
			if err != nil {
				return usageError{err}
			}

			added, err := j.Add(cmd.Context(), schedule.Draft{
				Name:    f.name,
				Message: f.message,
				Timing:  *timing,
				Route:   route,
				Silent:  f.silent || !f.deliver,
				CatchUp: f.catchUp,
				Timeout: f.timeout,
			})
			if err != nil {
				return usageError{err}
			}
			if added.Same {
				c.say("This job exists already: %s.\n", added.Job.ID)
				return nil
			}

			c.say("Added %s: %s, %s.\n", added.Job.ID, printable(added.Job.Name), added.Job.Schedule.Describe(j.Location))
			c.printNext(cmd.Context(), j, added)
			return nil
		},
	}

	f.register(cmd)
	return cmd
}

func (c *cronCommand) printNext(ctx context.Context, j *jobs, added schedule.Added) {
	zone := j.Location
	if tz := added.Job.Schedule.TZ; tz != "" {
		if loc, err := schedule.LoadZone(string(tz)); err == nil {
			zone = loc
		}
	}

	for i, at := range added.Next {
		label := c.in("Next: ")
		if i > 0 {
			label = pad("", tui.Width(label))
		}
		fmt.Fprintln(c.Out, label+c.moment(at.In(zone)))
	}

	if added.Cost != "" {
		c.say("Cost: %s.\n", added.Cost)
	}
	c.say("%s\n", j.deliverer(ctx))
}

func (c *cronCommand) editCommand() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:               "edit ID",
		Short:             "Change a job",
		Args:              exactArgs(1),
		ValidArgsFunction: c.names,
		Example:           "  nanobot cron edit 3f2a91bc --cron \"0 9 * * 1-5\"\n  nanobot cron edit 3f2a91bc -m \"Another text\" --catch-up tell",
		RunE: c.withJob(func(cmd *cobra.Command, j *jobs, job *schedule.Job) error {
			change, err := f.change(cmd, j)
			if err != nil {
				return usageError{err}
			}

			changed, err := j.Update(cmd.Context(), job.ID, change)
			if err != nil {
				return usageError{err}
			}

			c.say("Changed %s: %s, %s; next: %s.\n", changed.ID, printable(changed.Name), changed.Schedule.Describe(j.Location), c.next(j, &changed))
			return nil
		}),
	}

	f.register(cmd)
	return cmd
}

// change returns what the flags that were given alter.
func (f *jobFlags) change(cmd *cobra.Command, j *jobs) (c schedule.Change, err error) {
	given := cmd.Flags().Changed
	if c.Timing, err = f.timing(j.Location); err != nil {
		return c, err
	}

	if given("channel") || given("to") {
		route, err := f.route(cmd.Context(), j.loaded)
		if err != nil {
			return c, err
		}
		c.Route = &route
	}

	if given("name") {
		c.Name = &f.name
	}
	if given("message") {
		c.Message = &f.message
	}
	if given("silent") || given("deliver") {
		silent := f.silent || !f.deliver
		c.Silent = &silent
	}
	if given("catch-up") {
		c.CatchUp = &f.catchUp
	}
	if given("timeout") {
		c.Timeout = &f.timeout
	}

	if c == (schedule.Change{}) {
		return c, errors.New("nothing to change; nanobot cron edit --help lists the flags")
	}
	return c, nil
}

func (c *cronCommand) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "remove ID",
		Aliases:           []string{"rm"},
		Short:             "Delete a job",
		Args:              exactArgs(1),
		ValidArgsFunction: c.names,
		Example:           "  nanobot cron remove 3f2a91bc",
		RunE: c.withJob(func(cmd *cobra.Command, j *jobs, job *schedule.Job) error {
			removed, err := j.Remove(cmd.Context(), job.ID)
			if err != nil {
				return err
			}
			c.say("Removed %s: %s.\n", removed.ID, printable(removed.Name))
			return nil
		}),
	}
}

func (c *cronCommand) enableCommand() *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use: "enable ID", Short: "Switch a job on", Args: exactArgs(1), ValidArgsFunction: c.names,
		Example: "  nanobot cron enable 3f2a91bc",
		RunE: c.withJob(func(cmd *cobra.Command, j *jobs, job *schedule.Job) error {
			if off {
				return c.disable(cmd.Context(), j, job)
			}

			now, err := j.Enable(cmd.Context(), job.ID, true)
			if err != nil {
				return err
			}

			c.say("Switched on %s: %s; next: %s.\n", now.ID, printable(now.Name), c.next(j, &now))
			return nil
		}),
	}

	cmd.Flags().BoolVar(&off, "disable", false, "switch it off instead")
	_ = cmd.Flags().MarkHidden("disable") // the old way; it exists
	return cmd
}

func (c *cronCommand) disableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "disable ID", Short: "Switch a job off", Args: exactArgs(1), ValidArgsFunction: c.names,
		Example: "  nanobot cron disable 3f2a91bc",
		RunE: c.withJob(func(cmd *cobra.Command, j *jobs, job *schedule.Job) error {
			return c.disable(cmd.Context(), j, job)
		}),
	}
}

func (c *cronCommand) disable(ctx context.Context, j *jobs, job *schedule.Job) error {
	now, err := j.Enable(ctx, job.ID, false)
	if err != nil {
		return err
	}
	c.say("Switched off %s: %s.\n", now.ID, printable(now.Name))
	return nil
}

func (c *cronCommand) runCommand() *cobra.Command {
	var force, wait bool
	cmd := &cobra.Command{
		Use:               "run ID",
		Short:             "Run a job now, in addition to its schedule",
		Args:              exactArgs(1),
		ValidArgsFunction: c.names,
		Long: `Run a job now, in addition to its schedule. The gateway runs it and delivers the
result to where the job would deliver it. Without a gateway the job is not started.`,
		Example: "  nanobot cron run 3f2a91bc\n  nanobot cron run 3f2a91bc --wait",
		RunE: c.withJob(func(cmd *cobra.Command, j *jobs, job *schedule.Job) error {
			if _, running := schedule.Owner(cmd.Context(), j.State); !running {
				return fmt.Errorf("job %s was not started: only the gateway runs a job at once; start it with nanobot gateway start", job.ID)
			}

			before := schedule.LastRun(job)
			started, err := j.RunNow(cmd.Context(), job.ID, force)
			if err != nil {
				return err
			}
			if wait {
				return c.awaitRun(cmd.Context(), j.Scheduler, &started, before)
			}

			c.say("Started %s: %s. nanobot cron history %s shows the result.\n", started.ID, printable(started.Name), started.ID)
			return nil
		}),
	}

	cmd.Flags().BoolVarP(&force, "force", "f", false, "run it even if it is disabled")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it ends; the exit code shows the result")
	return cmd
}

// awaitRun waits for the end of a run and tells it.
func (c *cronCommand) awaitRun(ctx context.Context, s *schedule.Scheduler, job *schedule.Job, before schedule.Run) error {
	r, err := schedule.AwaitRun(ctx, s, job.ID, before)
	if err != nil {
		return err
	}

	took := (time.Duration(r.DurationMS) * time.Millisecond).Round(100 * time.Millisecond)
	if r.Status != "ok" {
		return fmt.Errorf("job %s ended with %s after %s: %s", job.ID, r.Status, took, printable(string(r.Error)))
	}

	c.say("%s succeeded after %s. %s\n", printable(job.Name), took, printable(r.Note))
	return nil
}
