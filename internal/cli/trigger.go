package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// triggerCommand is nanobot trigger.
type triggerCommand struct {
	*console
	stores *stores
}

func (c *triggerCommand) command() *cobra.Command {
	var trusted, untrusted bool
	cmd := &cobra.Command{
		Use: "trigger ID [MESSAGE]", Short: "Start a turn in a chat from a program",
		Long: `trigger sends a message to a chat, which starts a turn there: use it at the end of
a script, a hook or a system cron job. Without MESSAGE it reads standard input.
The message waits in the data folder until the gateway accepts it.`,
		Example: `  nanobot trigger add deploys --channel telegram --to 12345
  nanobot trigger trg_AB23CD45 "the build failed"
  make test 2>&1 | tail -20 | nanobot trigger trg_AB23CD45
  nanobot trigger list`,
		Args: atMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if !strings.HasPrefix(strings.ToLower(args[0]), "trg_") {
				return unknown(cmd, args[0])
			}

			var text string
			if len(args) == 2 {
				text = args[1]
			} else {
				var err error
				if text, err = readQuestion(c.In); err != nil {
					return err
				}
			}

			j, err := c.stores.jobs(cmd.Context())
			if err != nil {
				return err
			}

			id, err := j.Triggers.Fire(cmd.Context(), args[0], text, untrusted || !trusted)
			if errors.Is(err, schedule.ErrNoTrigger) {
				return fmt.Errorf("there is no trigger %s; nanobot trigger list shows them", args[0])
			}
			if err != nil {
				return err
			}

			c.say("Queued %s.\n", id)
			if _, running := schedule.Owner(cmd.Context(), j.State); !running {
				c.sayErr("%s\n", j.deliverer(cmd.Context()))
			}
			return nil
		},
	}

	cmd.Flags().BoolVar(&trusted, "trusted", false, "treat the message as your own words; by default it is data, not instructions")
	cmd.Flags().BoolVar(&untrusted, "untrusted", false, "treat the message as untrusted (default)")
	cmd.AddCommand(c.addCommand(), c.listCommand(), c.removeCommand(), c.secretCommand(), c.enableCommand(), c.disableCommand())
	return cmd
}

func (c *triggerCommand) addCommand() *cobra.Command {
	var channel, to string
	cmd := &cobra.Command{
		Use:     "add NAME",
		Short:   "Create a trigger for a chat",
		Args:    exactArgs(1),
		Example: "  nanobot trigger add deploys --channel telegram --to 12345",
		RunE: func(cmd *cobra.Command, args []string) error {
			if channel == "" || to == "" {
				return usageError{errors.New("missing chat: use --channel and --to")}
			}

			j, err := c.stores.jobs(cmd.Context())
			if err != nil {
				return err
			}

			route, err := gateway.Accounts{Loaded: j.loaded}.Address(cmd.Context(), bus.Route{Channel: channel, ChatID: to})
			if err != nil {
				return err
			}

			t, err := j.Triggers.Add(cmd.Context(), args[0], route, "")
			if err != nil {
				return err
			}

			c.say("Added %s. Use it with: nanobot trigger %s \"text\"\n", t.ID, t.ID)
			return nil
		},
	}

	cmd.Flags().StringVar(&channel, "channel", "", "`channel` of the chat")
	cmd.Flags().StringVar(&to, "to", "", "`chat` in the channel")
	return cmd
}

func (c *triggerCommand) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the triggers",
		Args:    noArgs,
		Example: "  nanobot trigger list --json",
		RunE: c.stores.withJobs(func(cmd *cobra.Command, _ []string, j *jobs) error {
			all, err := j.Triggers.List(cmd.Context())
			if err != nil {
				return err
			}

			if all == nil {
				all = []schedule.Trigger{}
			}
			return c.show(asJSON, all, func() error {
				if len(all) == 0 {
					c.say("There are no triggers.\n")
					return nil
				}

				w := c.table("ID", "NAME", "FOR", "LAST")
				for i := range all {
					t := &all[i]
					last := c.in("never")
					if t.LastRunAtMS != 0 {
						last = t.LastRunAtMS.Time().In(j.Location).Format("2006-01-02 15:04 ") + c.in(string(t.LastStatus))
					}
					if !t.Enabled {
						last += c.in(", off")
					}
					w.row(t.ID, text.Label(printable(t.Name), 40), t.Route().SessionKey(), last)
				}

				return w.Flush()
			})
		}),
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *triggerCommand) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "remove ID",
		Aliases: []string{"rm"},
		Short:   "Delete a trigger",
		Args:    exactArgs(1),
		Example: "  nanobot trigger remove trg_AB23CD45",
		RunE: c.stores.withJobs(func(cmd *cobra.Command, args []string, j *jobs) error {
			if err := j.Triggers.Remove(cmd.Context(), args[0]); err != nil {
				return err
			}
			c.say("Removed %s.\n", args[0])
			return nil
		}),
	}
}

func (c *triggerCommand) secretCommand() *cobra.Command {
	return &cobra.Command{
		Use: "secret ID", Short: "Print the signing key of a trigger", Args: exactArgs(1),
		Long: `secret prints the signing key of one trigger. A program on another machine that
signs its requests to POST /v1/triggers/ID with this key needs no API key, and
can do nothing else. Use it as the secret of a webhook at a code forge. Removing
a trigger also removes its key.`,
		Example: "  nanobot trigger secret trg_AB23CD45",
		RunE: c.stores.withJobs(func(cmd *cobra.Command, args []string, j *jobs) error {
			all, err := j.Triggers.List(cmd.Context())
			if err != nil {
				return err
			}

			for i := range all {
				if strings.EqualFold(all[i].ID, args[0]) {
					key, err := schedule.TriggerSecret(j.loaded.DataDir, all[i].ID)
					if err != nil {
						return err
					}
					fmt.Fprintln(c.Out, key)
					return nil
				}
			}

			return fmt.Errorf("there is no trigger %s; nanobot trigger list shows them", args[0])
		}),
	}
}

func (c *triggerCommand) enableCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "enable ID",
		Short:   "Switch a trigger on",
		Args:    exactArgs(1),
		Example: "  nanobot trigger enable trg_AB23CD45",
		RunE: c.stores.withJobs(func(cmd *cobra.Command, args []string, j *jobs) error {
			if err := j.Triggers.Enable(cmd.Context(), args[0], true); err != nil {
				return err
			}
			c.say("Switched on %s.\n", args[0])
			return nil
		}),
	}
}

func (c *triggerCommand) disableCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "disable ID",
		Short:   "Switch a trigger off",
		Args:    exactArgs(1),
		Example: "  nanobot trigger disable trg_AB23CD45",
		RunE: c.stores.withJobs(func(cmd *cobra.Command, args []string, j *jobs) error {
			if err := j.Triggers.Enable(cmd.Context(), args[0], false); err != nil {
				return err
			}
			c.say("Switched off %s.\n", args[0])
			return nil
		}),
	}
}
