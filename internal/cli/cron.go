package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

func cronCommand(c *command) *cobra.Command {
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
	cmd.AddCommand(cronList(c), cronNext(c), cronHistory(c), cronAdd(c), cronEdit(c), cronRemove(c), cronEnable(c, true), cronEnable(c, false), cronRun(c))
	return cmd
}

// jobs are the jobs of the workspace in use.
type jobs struct {
	*schedule.Scheduler
	loaded *config.Loaded
}

// withJobs makes a command of what works on the jobs.
func withJobs(c *command, work func(cmd *cobra.Command, args []string, j *jobs) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		j, err := c.stores.jobs(cmd.Context())
		if err != nil {
			return err
		}
		return work(cmd, args, j)
	}
}

// withJob does the same for what works on the job its argument names.
func withJob(c *command, work func(cmd *cobra.Command, j *jobs, job *schedule.Job) error) func(*cobra.Command, []string) error {
	return withJobs(c, func(cmd *cobra.Command, args []string, j *jobs) error {
		job, err := j.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return work(cmd, j, &job)
	})
}

// deliverer says who runs the jobs.
func (j *jobs) deliverer(ctx context.Context) phrase.Sentence {
	if pid, running := schedule.Owner(ctx, j.State); running {
		return phrase.Later("The program with process id %d runs the jobs of this workspace.", pid)
	}
	if pid, chat := schedule.Guest(ctx, j.State); chat {
		return phrase.Later("Only the jobs of a chat that is open in a terminal (process id %d) run now: for all others start nanobot gateway.", pid)
	}
	return phrase.Later("Nothing runs the jobs of this workspace now: start nanobot gateway.")
}

// find takes an id, the beginning of one, or a name.
func (j *jobs) find(ctx context.Context, id string) (schedule.Job, error) {
	all, err := j.List(ctx)
	if err != nil {
		return schedule.Job{}, err
	}
	return schedule.FindJob(all, id)
}

// jobIDs completes ids of jobs.
func jobIDs(c *command, cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
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

func cronList(c *command) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the jobs, the next one first", Args: noArgs,
		Example: "  nanobot cron list\n  nanobot cron list --all\n  nanobot cron list --json",
		RunE: withJobs(c, func(cmd *cobra.Command, _ []string, j *jobs) error {
			list, err := j.List(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, list)
			}
			j.print(cmd, list, all)
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "include disabled jobs")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write all jobs with their state as JSON")
	return cmd
}

func (j *jobs) print(cmd *cobra.Command, list []schedule.Job, all bool) {
	var shown []*schedule.Job
	for i := range list {
		job := &list[i]
		if all || job.Enabled || job.Broken() != "" || job.State.ErrorsInRow > 0 || job.State.LastStatus == schedule.StatusMissed {
			shown = append(shown, job)
		}
	}
	if len(shown) == 0 {
		say(cmd, "There are no jobs.\n")
	} else {
		w := headed(cmd, "ID", "NAME", "WHEN", "NEXT", "LAST", "FOR")
		for _, job := range shown {
			w.row(job.ID, text.Label(printable(job.Name), 30), job.Schedule.Describe(j.Location).In(languageOf(cmd)), j.next(cmd, job), j.last(cmd, job), target(cmd, job))
		}
		_ = w.Flush() // standard output
	}
	if hidden := len(list) - len(shown); hidden > 0 {
		say(cmd, "%d disabled; --all shows them.\n", hidden)
	}
	for i := range list {
		if job := &list[i]; job.Broken() != "" {
			cmd.Printf("%s: %s\n", job.ID, printable(job.Broken()))
		} else if u := job.State.Undelivered; u != nil {
			say(cmd, "%s: a result is waiting for delivery: %s\n", job.ID, printable(u.Cause))
		}
	}
	say(cmd, "%s\n", j.deliverer(cmd.Context()))
}

func target(cmd *cobra.Command, job *schedule.Job) string {
	if job.Protected() {
		return words(cmd, "nanobot itself")
	}
	if r := job.Payload.Route(); r.Channel != "" {
		return r.SessionKey()
	}
	return words(cmd, "the last chat")
}

func (j *jobs) next(cmd *cobra.Command, job *schedule.Job) string {
	switch {
	case job.Broken() != "":
		return words(cmd, "unreadable")
	case job.State.Pending != nil:
		return words(cmd, "running")
	case !job.Enabled:
		return words(cmd, "off")
	case job.State.NextRunAtMS == 0:
		return words(cmd, "never")
	}
	return job.State.NextRunAtMS.Time().In(j.Location).Format("2006-01-02 15:04")
}

func (j *jobs) last(cmd *cobra.Command, job *schedule.Job) string {
	st := job.State
	if st.LastStatus == "" {
		return "-"
	}
	s := words(cmd, string(st.LastStatus))
	if st.LastRunAtMS != 0 {
		s = st.LastRunAtMS.Time().In(j.Location).Format("2006-01-02 15:04 ") + s
	}
	if st.ErrorsInRow > 1 {
		s += words(cmd, " (%d times)", st.ErrorsInRow)
	}
	return s
}

func cronHistory(c *command) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "history ID", Short: "Show the last runs of a job", Args: exactArgs(1), ValidArgsFunction: c.complete(jobIDs),
		Example: "  nanobot cron history 3f2a91bc",
		RunE: withJob(c, func(cmd *cobra.Command, j *jobs, job *schedule.Job) error {
			if asJSON {
				return printJSON(cmd, job.State.RunHistory)
			}
			if len(job.State.RunHistory) == 0 {
				say(cmd, "It has not run yet.\n")
				return nil
			}
			w := headed(cmd, "TIME", "STATUS", "TOOK", "TOKENS", "COST", "NOTE")
			for _, r := range job.State.RunHistory {
				note := strings.TrimSpace(string(r.Error) + " " + r.Note)
				took := (time.Duration(r.DurationMS) * time.Millisecond).Round(100 * time.Millisecond)
				cost := "-"
				if r.CostUSD > 0 {
					cost = ledger.Dollars(r.CostUSD)
				}
				w.row(r.RunAtMS.Time().In(j.Location).Format("2006-01-02 15:04:05"), words(cmd, r.Status), took, r.Tokens, cost, text.Label(printable(note), 100))
			}
			return w.Flush()
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func cronNext(c *command) *cobra.Command {
	var count int
	var tz string
	cmd := &cobra.Command{
		Use: "next ID|EXPRESSION", Short: "Show the next times of a job or an expression", Args: exactArgs(1), ValidArgsFunction: c.complete(jobIDs),
		Example: "  nanobot cron next 3f2a91bc\n  nanobot cron next \"30 2 * * *\" --tz America/New_York -n 10",
		RunE: withJobs(c, func(cmd *cobra.Command, args []string, j *jobs) error {
			timing, created, zone := schedule.Cron(args[0], tz), c.Now(), j.Location
			if !strings.ContainsAny(args[0], " @") {
				job, err := j.find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				timing, created, zone = job.Schedule, job.CreatedAtMS.Time(), j.Limits.Host
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
				cmd.Println(moment(cmd, at.In(zone)))
			}
			return nil
		}),
	}
	cmd.Flags().IntVarP(&count, "number", "n", 5, "how `many`")
	cmd.Flags().StringVar(&tz, "tz", "", "time `zone` of an expression")
	return cmd
}

// moment is a time with its weekday and zone.
func moment(cmd *cobra.Command, t time.Time) string {
	var day string
	switch t.Weekday() {
	case time.Monday:
		day = words(cmd, "Mon")
	case time.Tuesday:
		day = words(cmd, "Tue")
	case time.Wednesday:
		day = words(cmd, "Wed")
	case time.Thursday:
		day = words(cmd, "Thu")
	case time.Friday:
		day = words(cmd, "Fri")
	case time.Saturday:
		day = words(cmd, "Sat")
	case time.Sunday:
		day = words(cmd, "Sun")
	}
	return day + t.Format(" 2006-01-02 15:04:05 -07:00")
}
