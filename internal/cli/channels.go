package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// channelsCommand is nanobot channels.
type channelsCommand struct {
	*console
	home     *home
	accounts *channelAccounts
}

func (c *channelsCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "channels", Short: "Manage the chat platforms of the bot", Aliases: []string{"channel"},
		Example: `  nanobot channels list                     platforms, and the sections you have
  nanobot channels add telegram             enter its settings and try them
  nanobot channels status --json
  nanobot channels test telegram            check its settings
  nanobot channels send telegram 12345 "Backup done"`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.listCommand(), c.addCommand(), c.statusCommand(), c.testCommand(), c.sendCommand(), c.loginCommand(), c.logoutCommand(), c.restartCommand())
	return cmd
}

func (c *channelsCommand) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the chat platforms and their sections", Args: noArgs,
		Long: `list names every chat platform that this program knows, and the sections of the
configuration that use it. A second account is a second section, such as
telegram.work.`,
		Example: "  nanobot channels list\n  nanobot channels list --json",
		RunE: func(*cobra.Command, []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			list := platforms(slices.Sorted(maps.Keys(loaded.Config.Channels.Each)))
			return c.show(asJSON, map[string]any{"platforms": list}, func() error {
				w := c.table("PLATFORM", "NAME", "SECTIONS", "LOGIN")
				for _, p := range list {
					w.row(p.Title, p.Name, cmp.Or(strings.Join(p.Sections, ", "), "-"), c.yesNo(p.Login))
				}
				return w.Flush()
			})
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

// platformInfo is a chat platform as list shows it.
type platformInfo struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Sections []string `json:"sections"`
	Login    bool     `json:"login"` // needs channels login
}

func platforms(sections []string) []platformInfo {
	all := gateway.Channels()
	list := []platformInfo{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		p := platformInfo{Name: name, Title: cmp.Or(d.Title, name), Sections: []string{}, Login: d.Login != nil}
		for _, s := range sections {
			if s == name || strings.HasPrefix(s, name+".") {
				p.Sections = append(p.Sections, s)
			}
		}
		list = append(list, p)
	}

	return list
}

func (c *channelsCommand) testCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "test NAME",
		Short:             "Check that the settings of a channel work",
		Args:              exactArgs(1),
		ValidArgsFunction: c.accounts.names,
		Long: `test asks the platform whether the section of a channel works: whether it accepts
the token, which account that is, and which permissions are missing. People see
nothing of it. The channel need not be enabled, and no gateway need run.`,
		Example: "  nanobot channels test telegram\n  nanobot channels test email --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.accounts.configured(args[0])
			if err != nil {
				return err
			}

			report, err := a.Test(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("channels.%s: %w", args[0], err)
			}

			result := map[string]any{"channel": args[0], "identity": report.Identity, "checks": report.Checks}
			err = c.show(asJSON, result, func() error {
				c.accounts.printReport(args[0], report)
				return nil
			})
			return errors.Join(err, failedChecks(report))
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *channelsCommand) sendCommand() *cobra.Command {
	var files []string
	var thread string
	cmd := &cobra.Command{
		Use:               "send NAME CHAT TEXT",
		Short:             "Send a message to a chat",
		Args:              exactArgs(3),
		ValidArgsFunction: c.accounts.names,
		Long: `send has the running gateway send a message to a chat: by its id, or by its name
where the platform has names, such as #general or @ann. The message is kept
until the platform has taken it.`,
		Example: `  nanobot channels send telegram 12345 "Backup done"
  nanobot channels send telegram 12345 "The report" --file report.pdf`,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.accounts.configured(args[0])
			if err != nil {
				return err
			}

			out := bus.Outbound{Route: bus.Route{Channel: args[0], ChatID: args[1], ThreadID: thread}, Text: args[2]}
			for _, file := range files {
				path, err := filepath.Abs(file)
				if err != nil {
					return err
				}
				out.Media = append(out.Media, bus.Media{Path: path, Name: filepath.Base(file)})
			}

			to, err := control.To(a.Loaded).Send(cmd.Context(), out)
			if err != nil {
				return err
			}

			c.say("The message to %s on %s is on its way.\n", to.ChatID, to.Channel)
			return nil
		},
	}

	cmd.Flags().StringArrayVar(&files, "file", nil, "`file` to send along; may be repeated")
	cmd.Flags().StringVar(&thread, "thread", "", "`thread` or topic in the chat")
	return cmd
}

func (c *channelsCommand) loginCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "login NAME", Short: "Log in to a chat platform", Args: exactArgs(1), ValidArgsFunction: c.accounts.names,
		Long: `login connects a channel to an account if that needs more than a token in the
configuration, such as a QR code. While a gateway runs, the gateway logs in and
starts the channel afterwards. The configuration need not have the channel yet. For
other channels it lists the missing settings.`,
		Example: "  nanobot channels login whatsapp\n  nanobot channels login whatsapp.work --force",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.accounts.login(cmd.Context(), args[0], force)
		},
	}

	cmd.Flags().BoolVarP(&force, "force", "f", false, "discard an earlier login")
	return cmd
}

func (c *channelsCommand) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "logout NAME",
		Short:             "Log out of a chat platform",
		Args:              exactArgs(1),
		ValidArgsFunction: c.accounts.names,
		Long: `logout discards what a login left. Channels that use a token in the configuration
have nothing to discard: remove the token, or disable the channel.`,
		Example: "  nanobot channels logout whatsapp",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.accounts.configured(args[0])
			if err != nil {
				return err
			}
			if err := a.Logout(cmd.Context(), args[0]); err != nil {
				return err
			}

			c.say("%s is logged out.\n", args[0])
			return nil
		},
	}
}

func (c *channelsCommand) restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "restart NAME",
		Short:             "Restart a channel of the running gateway",
		Args:              exactArgs(1),
		ValidArgsFunction: c.accounts.names,
		Long: `restart stops one channel and starts it again, also one that gave up. The others
go on. Messages that wait to be sent are kept.`,
		Example: "  nanobot channels restart telegram",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.accounts.configured(args[0])
			if err != nil {
				return err
			}
			if err := control.To(a.Loaded).RestartChannel(cmd.Context(), args[0]); err != nil {
				return err
			}

			c.say("%s is starting. See: nanobot channels status\n", args[0])
			return nil
		},
	}
}

func (c *channelsCommand) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of the channels",
		Args:  noArgs,
		Long: `status lists the channels in the configuration. While a gateway runs, it also
shows for each channel its state, its account, the last error, the number of
undelivered messages, and the people who were refused.`,
		Example: "  nanobot channels status\n  nanobot channels status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}
			list, live := c.states(cmd.Context(), loaded)
			return c.show(asJSON, map[string]any{"gateway": live, "channels": list}, func() error { return c.print(list, live) })
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

// states returns the channels as a running gateway sees them, or as they
// are configured when none runs.
func (c *channelsCommand) states(ctx context.Context, loaded *config.Loaded) (list []deliver.Status, live bool) {
	if s, err := control.To(loaded).Status(ctx); err == nil {
		return s.Channels, true
	}
	list = []deliver.Status{}
	for _, name := range slices.Sorted(maps.Keys(loaded.Config.Channels.Each)) {
		list = append(list, deliver.Status{Name: name, Enabled: loaded.Config.Channels.Each[name].Enabled, State: deliver.Stopped})
	}
	return list, false
}

func (c *channelsCommand) print(list []deliver.Status, live bool) error {
	if len(list) == 0 {
		c.say("No channel is configured. Add one with: nanobot channels add telegram (or another name of: nanobot channels list)\n")
		return nil
	}

	w := c.table("CHANNEL", "ENABLED", "STATE", "AS", "WAITING", "SENT", "FAILED", "DENIED", "REASON")
	for _, s := range list {
		w.row(s.Name, c.yesNo(s.Enabled), c.in(string(s.State)), cmp.Or(s.Identity, "-"), s.Queue, s.Sent, s.Failed, s.Denied, cmp.Or(s.Error, "-"))
	}

	if err := w.Flush(); err != nil {
		return err
	}

	for _, s := range list {
		for _, who := range s.Refused {
			c.say("%s refused %s. To admit them: nanobot pairing list, or add the id to channels.%s.allowFrom.\n", s.Name, who, s.Name)
		}
	}

	if !live {
		c.say("No gateway is running, so this shows only the configuration.\n")
	}
	return nil
}
