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
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// channelNames completes the names of sections.
func channelNames(c *command) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		loaded, err := c.load()
		if len(args) > 0 || err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(loaded.Config.Channels.Each)), cobra.ShellCompDirectiveNoFileComp
	}
}

// accountsOf are the channels of the configuration in use, after a look whether
// it has this one.
func accountsOf(c *command, name string) (gateway.Accounts, error) {
	a, err := knownAccounts(c, name)
	if err != nil {
		return a, err
	}
	if _, ok := a.Loaded.Config.Channels.Each[name]; !ok {
		return a, fmt.Errorf("channels.%s is not configured yet; add it with: nanobot channels add %[1]s", name)
	}
	return a, nil
}

// knownAccounts are the channels of the configuration in use, which may lack this
// one.
func knownAccounts(c *command, name string) (gateway.Accounts, error) {
	if err := gateway.KnownChannel(name); err != nil {
		return gateway.Accounts{}, err
	}
	loaded, err := c.load()
	return gateway.Accounts{Loaded: loaded, File: c.options()}, err
}

func channelsList(c *command) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the chat platforms and their sections", Args: noArgs,
		Long: `list names every chat platform that this program knows, and the sections of the
configuration that use it. A second account is a second section, such as
telegram.work.`,
		Example: "  nanobot channels list\n  nanobot channels list --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			list := platforms(slices.Sorted(maps.Keys(loaded.Config.Channels.Each)))
			if asJSON {
				return printJSON(cmd, map[string]any{"platforms": list})
			}
			w := headed(cmd, "PLATFORM", "NAME", "SECTIONS", "LOGIN")
			for _, p := range list {
				w.row(p.Title, p.Name, cmp.Or(strings.Join(p.Sections, ", "), "-"), c.yesNo(p.Login))
			}
			return w.Flush()
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

func channelsTest(c *command) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Check that the settings of a channel work", Args: exactArgs(1), ValidArgsFunction: channelNames(c),
		Long: `test asks the platform whether the section of a channel works: whether it accepts
the token, which account that is, and which permissions are missing. People see
nothing of it. The channel need not be enabled, and no gateway need run.`,
		Example: "  nanobot channels test telegram\n  nanobot channels test email --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := accountsOf(c, args[0])
			if err != nil {
				return err
			}
			report, err := a.Test(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("channels.%s: %w", args[0], err)
			}
			if asJSON {
				err = printJSON(cmd, map[string]any{"channel": args[0], "identity": report.Identity, "checks": report.Checks})
			} else {
				printReport(cmd, args[0], report)
			}
			return errors.Join(err, failedChecks(report))
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// failedChecks names the checks that failed; nil: none did.
func failedChecks(r chat.Report) error {
	var failed []string
	for _, check := range r.Checks {
		if !check.OK {
			failed = append(failed, check.Name)
		}
	}
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("the check %s failed", failed[0])
	}
	return fmt.Errorf("the checks %s failed", strings.Join(failed, ", "))
}

func printReport(cmd *cobra.Command, name string, r chat.Report) {
	switch {
	case r.Identity == "":
	case failedChecks(r) == nil:
		say(cmd, "channels.%s works as %s.\n", name, r.Identity)
	default:
		say(cmd, "channels.%s reaches the platform as %s, but does not work yet.\n", name, r.Identity)
	}
	for _, check := range r.Checks {
		mark := words(cmd, "ok    ")
		if !check.OK {
			mark = words(cmd, "FAILED")
		}
		cmd.Printf("%s %s", mark, check.Name)
		if check.Detail != "" {
			cmd.Printf(": %s", known(cmd, check.Detail))
		}
		cmd.Println()
	}
	if r.Identity == "" && len(r.Checks) == 0 {
		say(cmd, "channels.%s is complete; the platform cannot be asked more without connecting.\n", name)
	}
}

func channelsSend(c *command) *cobra.Command {
	var files []string
	var thread string
	cmd := &cobra.Command{
		Use: "send NAME CHAT TEXT", Short: "Send a message to a chat", Args: exactArgs(3), ValidArgsFunction: channelNames(c),
		Long: `send has the running gateway send a message to a chat: by its id, or by its name
where the platform has names, such as #general or @ann. The message is kept
until the platform has taken it.`,
		Example: `  nanobot channels send telegram 12345 "Backup done"
  nanobot channels send telegram 12345 "The report" --file report.pdf`,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := accountsOf(c, args[0])
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
			say(cmd, "The message to %s on %s is on its way.\n", to.ChatID, to.Channel)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&files, "file", nil, "`file` to send along; may be repeated")
	cmd.Flags().StringVar(&thread, "thread", "", "`thread` or topic in the chat")
	return cmd
}

func channelsLogin(c *command) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "login NAME", Short: "Log in to a chat platform", Args: exactArgs(1), ValidArgsFunction: channelNames(c),
		Long: `login connects a channel to an account if that needs more than a token in the
configuration, such as a QR code. While a gateway runs, the gateway logs in and
starts the channel afterwards. The configuration need not have the channel yet. For
other channels it lists the missing settings.`,
		Example: "  nanobot channels login whatsapp\n  nanobot channels login whatsapp.work --force",
		RunE: func(cmd *cobra.Command, args []string) error {
			return loginChannel(cmd.Context(), c, cmd, args[0], force)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "discard an earlier login")
	return cmd
}

// loginChannel connects a channel to an account with the person at the terminal.
func loginChannel(ctx context.Context, c *command, cmd *cobra.Command, name string, force bool) error {
	kind, _, _ := strings.Cut(name, ".")
	find := accountsOf
	if gateway.Channels()[kind].Login != nil {
		find = knownAccounts // the login can be the first that is set up
	}
	a, err := find(c, name)
	if err != nil {
		return err
	}
	result, err := a.Login(ctx, name, &loginDialog{cmd: cmd, ask: c.prompter()}, force)
	switch {
	case errors.Is(err, deliver.ErrNoLogin):
		say(cmd, "%s needs no login: its settings in the configuration are complete. Try it with: nanobot channels test %s\n", name, name)
	case err != nil:
		return err
	case result.Identity != "":
		say(cmd, "%s is logged in as %s.\n", name, result.Identity)
	default:
		say(cmd, "%s is logged in.\n", name)
	}
	return nil
}

func channelsLogout(c *command) *cobra.Command {
	return &cobra.Command{
		Use: "logout NAME", Short: "Log out of a chat platform", Args: exactArgs(1), ValidArgsFunction: channelNames(c),
		Long: `logout discards what a login left. Channels that use a token in the configuration
have nothing to discard: remove the token, or disable the channel.`,
		Example: "  nanobot channels logout whatsapp",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := accountsOf(c, args[0])
			if err != nil {
				return err
			}
			if err := a.Logout(cmd.Context(), args[0]); err != nil {
				return err
			}
			say(cmd, "%s is logged out.\n", args[0])
			return nil
		},
	}
}

func channelsRestart(c *command) *cobra.Command {
	return &cobra.Command{
		Use: "restart NAME", Short: "Restart a channel of the running gateway", Args: exactArgs(1), ValidArgsFunction: channelNames(c),
		Long: `restart stops one channel and starts it again, also one that gave up. The others
go on. Messages that wait to be sent are kept.`,
		Example: "  nanobot channels restart telegram",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := accountsOf(c, args[0])
			if err != nil {
				return err
			}
			if err := control.To(a.Loaded).RestartChannel(cmd.Context(), args[0]); err != nil {
				return err
			}
			say(cmd, "%s is starting. See: nanobot channels status\n", args[0])
			return nil
		},
	}
}

// loginDialog is the person during a login.
type loginDialog struct {
	cmd *cobra.Command
	ask *prompter
}

// Tell implements chat.Dialog.
func (l *loginDialog) Tell(s chat.Step) {
	if s.Note != "" {
		l.cmd.Println(known(l.cmd, s.Note))
	}
	if s.QR != "" {
		picture, err := qrCode(s.QR)
		if err != nil {
			picture = s.QR // some apps take it as text
		}
		l.cmd.Println(picture)
	}
	if s.URL != "" {
		say(l.cmd, "Open %s\n", s.URL)
	}
	if s.Code != "" {
		say(l.cmd, "Code: %s\n", s.Code)
	}
	if !s.Expires.IsZero() {
		say(l.cmd, "It is valid until %s.\n", s.Expires.Local().Format("15:04:05"))
	}
}

// Ask implements chat.Dialog.
func (l *loginDialog) Ask(_ context.Context, q chat.Question) (string, error) {
	if q.Hidden {
		return l.ask.secret(known(l.cmd, q.Text))
	}
	return l.ask.line(known(l.cmd, q.Text), "")
}
