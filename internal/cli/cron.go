package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// cronCommand is nanobot cron.
type cronCommand struct {
	*console
	home   *home
	stores *stores
}

func (c *cronCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cron", Short: "List, add and change reminders and recurring jobs",
		Long: `cron manages the jobs of the workspace: messages that are sent to the agent on a
schedule. The gateway runs them and sees changes immediately.`,
		Example: `  nanobot cron list
  nanobot cron add -m "Check mail" --cron "0 8 * * 1-5" --channel telegram --to 42
  nanobot cron add -m "Drink water" --every 2h
  nanobot cron edit 3f2a91bc --at 2027-01-31T09:00
  nanobot cron history 3f2a91bc`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.listCommand(), c.nextCommand(), c.historyCommand(), c.addCommand(), c.editCommand(), c.removeCommand(), c.enableCommand(), c.disableCommand(), c.runCommand())
	return cmd
}

// withJob does the same for what works on the job its argument names.
func (c *cronCommand) withJob(work func(cmd *cobra.Command, j *jobs, job *schedule.Job) error) func(*cobra.Command, []string) error {
	return c.stores.withJobs(func(cmd *cobra.Command, args []string, j *jobs) error {
		job, err := j.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return work(cmd, j, &job)
	})
}

// names completes ids of jobs.
func (c *cronCommand) names(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	j, err := c.stores.jobs(cmd.Context())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	all, err := j.List(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}

	var out []string
	for _, job := range all {
		if strings.HasPrefix(job.ID, typed) {
			out = append(out, job.ID+"\t"+text.Label(job.Name, 40))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (c *cronCommand) listCommand() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the jobs, the next one first", Args: noArgs,
		Example: "  nanobot cron list\n  nanobot cron list --all\n  nanobot cron list --json",
		RunE: c.stores.withJobs(func(cmd *cobra.Command, _ []string, j *jobs) error {
			list, err := j.List(cmd.Context())
			if err != nil {
				return err
			}
			return c.show(asJSON, list, func() error {
				c.print(cmd.Context(), j, list, all)
				return nil
			})
		}),
	}

	cmd.Flags().BoolVarP(&all, "all", "a", false, "include disabled jobs")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write all jobs with their state as JSON")
	return cmd
}

func (c *cronCommand) print(ctx context.Context, j *jobs, list []schedule.Job, all bool) {
	var shown []*schedule.Job
	for i := range list {
		job := &list[i]
		if all || job.Enabled || job.Broken() != "" || job.State.ErrorsInRow > 0 || job.State.LastStatus == schedule.StatusMissed {
			shown = append(shown, job)
		}
	}

	if len(shown) == 0 {
		c.say("There are no jobs.\n")
	} else {
		w := c.table("ID", "NAME", "WHEN", "NEXT", "LAST", "FOR")
		for _, job := range shown {
			w.row(job.ID, text.Label(printable(job.Name), 30), job.Schedule.Describe(j.Location).In(c.language), c.next(j, job), c.last(j, job), c.target(job))
		}
		_ = w.Flush() // standard output
	}

	if hidden := len(list) - len(shown); hidden > 0 {
		c.say("%d disabled; --all shows them.\n", hidden)
	}

	for i := range list {
		if job := &list[i]; job.Broken() != "" {
			fmt.Fprintf(c.Out, "%s: %s\n", job.ID, printable(job.Broken()))
		} else if u := job.State.Undelivered; u != nil {
			c.say("%s: a result is waiting for delivery: %s\n", job.ID, printable(u.Cause))
		}
	}

	c.say("%s\n", j.deliverer(ctx))
}

func (c *cronCommand) target(job *schedule.Job) string {
	if job.Protected() {
		return c.in("nanobot itself")
	}
	if r := job.Payload.Route(); r.Channel != "" {
		return r.SessionKey()
	}
	return c.in("the last chat")
}

func (c *cronCommand) next(j *jobs, job *schedule.Job) string {
	switch {
	case job.Broken() != "":
		return c.in("unreadable")
	case job.State.Pending != nil:
		return c.in("running")
	case !job.Enabled:
		return c.in("off")
	case job.State.NextRunAtMS == 0:
		return c.in("never")
	}
	return job.State.NextRunAtMS.Time().In(j.Location).Format("2006-01-02 15:04")
}

func (c *cronCommand) last(j *jobs, job *schedule.Job) string {
	st := job.State
	if st.LastStatus == "" {
		return "-"
	}

	s := c.in(string(st.LastStatus))
	if st.LastRunAtMS != 0 {
		s = st.LastRunAtMS.Time().In(j.Location).Format("2006-01-02 15:04 ") + s
	}
	if st.ErrorsInRow > 1 {
		s += c.in(" (%d times)", st.ErrorsInRow)
	}
	return s
}

func (c *cronCommand) historyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "history ID",
		Short:             "Show the last runs of a job",
		Args:              exactArgs(1),
		ValidArgsFunction: c.names,
		Example:           "  nanobot cron history 3f2a91bc",
		RunE: c.withJob(func(_ *cobra.Command, j *jobs, job *schedule.Job) error {
			return c.show(asJSON, job.State.RunHistory, func() error {
				if len(job.State.RunHistory) == 0 {
					c.say("It has not run yet.\n")
					return nil
				}

				w := c.table("TIME", "STATUS", "TOOK", "TOKENS", "COST", "NOTE")
				for _, r := range job.State.RunHistory {
					note := strings.TrimSpace(string(r.Error) + " " + r.Note)
					took := (time.Duration(r.DurationMS) * time.Millisecond).Round(100 * time.Millisecond)
					cost := "-"
					if r.CostUSD > 0 {
						cost = ledger.Dollars(r.CostUSD)
					}
					w.row(r.RunAtMS.Time().In(j.Location).Format("2006-01-02 15:04:05"), c.in(r.Status), took, r.Tokens, cost, text.Label(printable(note), 100))
				}

				return w.Flush()
			})
		}),
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *cronCommand) nextCommand() *cobra.Command {
	var count int
	var tz string
	cmd := &cobra.Command{
		Use:               "next ID|EXPRESSION",
		Short:             "Show the next times of a job or an expression",
		Args:              exactArgs(1),
		ValidArgsFunction: c.names,
		Example:           "  nanobot cron next 3f2a91bc\n  nanobot cron next \"30 2 * * *\" --tz America/New_York -n 10",
		RunE: c.stores.withJobs(func(cmd *cobra.Command, args []string, j *jobs) error {
			timing := schedule.Cron(args[0], tz)
			created := c.Now()
			zone := j.Location
			if !strings.ContainsAny(args[0], " @") {
				job, err := j.find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				timing = job.Schedule
				created = job.CreatedAtMS.Time()
				zone = j.Limits.Host
			}

			if timing.TZ != "" {
				var err error
				if zone, err = schedule.LoadZone(string(timing.TZ)); err != nil {
					return usageError{err}
				}
			}

			all, err := timing.Upcoming(min(max(count, 1), 1000), c.Now(), created, zone)
			if err != nil {
				return usageError{err}
			}
			if len(all) == 0 {
				return errors.New("it never runs again")
			}

			for _, at := range all {
				fmt.Fprintln(c.Out, c.moment(at.In(zone)))
			}
			return nil
		}),
	}

	cmd.Flags().IntVarP(&count, "number", "n", 5, "how `many`")
	cmd.Flags().StringVar(&tz, "tz", "", "time `zone` of an expression")
	return cmd
}

// moment returns a time with its weekday and zone.
func (c *cronCommand) moment(t time.Time) string {
	var day string
	switch t.Weekday() {
	case time.Monday:
		day = c.in("Mon")
	case time.Tuesday:
		day = c.in("Tue")
	case time.Wednesday:
		day = c.in("Wed")
	case time.Thursday:
		day = c.in("Thu")
	case time.Friday:
		day = c.in("Fri")
	case time.Saturday:
		day = c.in("Sat")
	case time.Sunday:
		day = c.in("Sun")
	}

	return day + t.Format(" 2006-01-02 15:04:05 -07:00")
}
