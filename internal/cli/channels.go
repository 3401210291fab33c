package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
)

func channelsCommand(c *command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "channels", Short: "Manage the chat platforms of the bot", Aliases: []string{"channel"},
		Example: `  nanobot channels list                     platforms, and the sections you have
  nanobot channels add telegram             enter its settings and try them
  nanobot channels status --json
  nanobot channels test telegram            check its settings
  nanobot channels send telegram 12345 "Backup done"`,
		Args: subcommand, RunE: showHelp,
	}
	cmd.AddCommand(channelsList(c), channelsAdd(c), channelsStatus(c), channelsTest(c), channelsSend(c), channelsLogin(c), channelsLogout(c), channelsRestart(c))
	return cmd
}

func channelsStatus(c *command) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the status of the channels", Args: noArgs,
		Long: `status lists the channels in the configuration. While a gateway runs, it also
shows for each channel its state, its account, the last error, the number of
undelivered messages, and the people who were refused.`,
		Example: "  nanobot channels status\n  nanobot channels status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			list, live := channelStates(cmd.Context(), c, loaded)
			if asJSON {
				return printJSON(cmd, map[string]any{"gateway": live, "channels": list})
			}
			return printChannels(c, cmd, list, live)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// channelStates are the channels as a running gateway sees them, or as they
// are configured when none runs.
func channelStates(ctx context.Context, c *command, loaded *config.Loaded) (list []deliver.Status, live bool) {
	if list, ok := c.liveChannels(ctx, loaded); ok {
		return list, true
	}
	list = []deliver.Status{}
	for _, name := range slices.Sorted(maps.Keys(loaded.Config.Channels.Each)) {
		list = append(list, deliver.Status{Name: name, Enabled: loaded.Config.Channels.Each[name].Enabled, State: deliver.Stopped})
	}
	return list, false
}

// liveChannels asks the gateway of this configuration; false means that none
// answers.
func (*command) liveChannels(ctx context.Context, l *config.Loaded) ([]deliver.Status, bool) {
	s, err := control.To(l).Status(ctx)
	if err != nil {
		return nil, false
	}
	return s.Channels, true
}

func printChannels(c *command, cmd *cobra.Command, list []deliver.Status, live bool) error {
	if len(list) == 0 {
		say(cmd, "No channel is configured. Add one with: nanobot channels add telegram (or another name of: nanobot channels list)\n")
		return nil
	}
	w := headed(cmd, "CHANNEL", "ENABLED", "STATE", "AS", "WAITING", "SENT", "FAILED", "DENIED", "REASON")
	for _, s := range list {
		w.row(s.Name, c.yesNo(s.Enabled), words(cmd, string(s.State)), cmp.Or(s.Identity, "-"), s.Queue, s.Sent, s.Failed, s.Denied, cmp.Or(s.Error, "-"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range list {
		for _, who := range s.Refused {
			say(cmd, "%s refused %s. To admit them: nanobot pairing list, or add the id to channels.%s.allowFrom.\n", s.Name, who, s.Name)
		}
	}
	if !live {
		say(cmd, "No gateway is running, so this shows only the configuration.\n")
	}
	return nil
}
