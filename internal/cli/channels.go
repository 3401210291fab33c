package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/gateway"
)

func channelsCommand(c *command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "channels", Short: "Show the chat platforms of the bot", Aliases: []string{"channel"},
		Example: "  nanobot channels status\n  nanobot channels status --json",
		Args:    subcommand, RunE: showHelp,
	}
	cmd.AddCommand(channelsStatus(c), channelsLogin(c))
	return cmd
}

func channelsLogin(c *command) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "login NAME", Short: "Log in to a chat platform", Args: exactArgs(1),
		Long: `login connects a channel to an account if that needs more than a token in the
configuration. For other channels it lists the missing settings.`,
		Example: "  nanobot channels login telegram\n  nanobot channels login telegram.work --force",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if err := gateway.KnownChannel(name); err != nil {
				return err
			}
			loaded, err := c.load()
			if err != nil {
				return err
			}
			if _, ok := loaded.Config.Channels.Each[name]; !ok {
				return fmt.Errorf("channels.%s is not configured yet; docs/channels.md says how", name)
			}
			m, err := gateway.UnconnectedChannels(loaded)
			if err != nil {
				return err
			}
			_, err = m.Login(cmd.Context(), name, loginDialog{cmd, newPrompter(c.In, cmd.OutOrStdout())}, force)
			if errors.Is(err, channel.ErrNoLogin) {
				cmd.Printf("%s needs no login: its settings in the configuration are complete. Try it with: nanobot gateway\n", name)
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "discard an earlier login")
	return cmd
}

// loginDialog is the person during a login.
type loginDialog struct {
	cmd *cobra.Command
	ask *prompter
}

// Tell implements channel.Dialog.
func (l loginDialog) Tell(s channel.Step) {
	for _, line := range []string{s.Note, s.URL, s.Code} {
		if line != "" {
			l.cmd.Println(line)
		}
	}
}

// Ask implements channel.Dialog.
func (l loginDialog) Ask(_ context.Context, q channel.Question) (string, error) {
	if q.Hidden {
		return l.ask.secret(q.Text, "")
	}
	return l.ask.line(q.Text, "")
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
			return printChannels(cmd, list, live)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// channelStates are the channels as a running gateway sees them, or as they
// are configured when none runs.
func channelStates(ctx context.Context, c *command, loaded *config.Loaded) (list []channel.Status, live bool) {
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
	var s gateway.Status
	if err := gateway.Control(ctx, l, http.MethodGet, "/status", nil, &s); err != nil {
		return nil, false
	}
	return s.Channels, true
}

func printChannels(cmd *cobra.Command, list []channel.Status, live bool) error {
	if len(list) == 0 {
		cmd.Println("No channel is configured. docs/channels.md says how to add one.")
		return nil
	}
	w := newTable(cmd.OutOrStdout(), "CHANNEL", "ENABLED", "STATE", "AS", "WAITING", "SENT", "FAILED", "DENIED", "REASON")
	for _, s := range list {
		w.row(s.Name, yesNo(s.Enabled), s.State, cmp.Or(s.Identity, "-"), s.Queue, s.Sent, s.Failed, s.Denied, cmp.Or(s.Error, "-"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range list {
		for _, who := range s.Refused {
			cmd.Printf("%s refused %s. To admit them: nanobot pairing list, or add the id to channels.%s.allowFrom.\n", s.Name, who, s.Name)
		}
	}
	if !live {
		cmd.Println("No gateway is running, so this shows only the configuration.")
	}
	return nil
}
