package cli

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/config"
)

func (c *command) channelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "channels", Short: "Show the chat platforms the bot is on", Aliases: []string{"channel"},
		Example: "  nanobot channels status\n  nanobot channels status --json",
		Args:    subcommand, RunE: showHelp,
	}
	cmd.AddCommand(c.channelsStatus())
	return cmd
}

func (c *command) channelsStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show which channels are on and how they are", Args: noArgs,
		Long: `status lists the sections of channels in the configuration. While a gateway
runs it also tells how each channel is, as whom it is logged in, what went
wrong last, how much waits to be sent, and who was turned away.`,
		Example: "  nanobot channels status\n  nanobot channels status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			list, live := c.channelStates(cmd.Context(), loaded)
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), map[string]any{"gateway": live, "channels": list})
			}
			return printChannels(cmd, list, live)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// channelStates are the channels as a running gateway sees them, or as they
// are configured when none runs.
func (c *command) channelStates(ctx context.Context, loaded *config.Loaded) (list []channel.Status, live bool) {
	if list, ok := c.liveChannels(ctx, loaded); ok {
		return list, true
	}
	list = []channel.Status{}
	for _, name := range slices.Sorted(maps.Keys(loaded.Config.Channels.Each)) {
		list = append(list, channel.Status{Name: name, Enabled: loaded.Config.Channels.Each[name].Enabled, State: channel.Stopped})
	}
	return list, false
}

// liveChannels asks the gateway of this configuration; false means that none
// answers.
func (*command) liveChannels(ctx context.Context, l *config.Loaded) ([]channel.Status, bool) {
	var s app.GatewayStatus
	if err := app.Control(ctx, l, http.MethodGet, "/status", nil, &s); err != nil {
		return nil, false
	}
	return s.Channels, true
}

func printChannels(cmd *cobra.Command, list []channel.Status, live bool) error {
	if len(list) == 0 {
		cmd.Println("No channel is configured. docs/channels.md says how to add one.")
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "CHANNEL\tENABLED\tSTATE\tAS\tWAITING\tSENT\tFAILED\tDENIED\tREASON")
	for _, s := range list {
		enabled := "no"
		if s.Enabled {
			enabled = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", s.Name, enabled, s.State, dash(s.Identity), s.Queue, s.Sent, s.Failed, s.Denied, dash(s.Error))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range list {
		for _, who := range s.Refused {
			cmd.Printf("%s turned away %s. To let them in: nanobot pairing list, or add the id to channels.%s.allowFrom.\n", s.Name, who, s.Name)
		}
	}
	if !live {
		cmd.Println("No running gateway answered, so this is only what is configured.")
	}
	return nil
}

// dash stands for nothing in a table.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
