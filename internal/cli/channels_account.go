package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// channelAccounts are the sections of chat platforms in the configuration.
type channelAccounts struct {
	*console
	home *home
}

// names completes the names of sections.
func (c *channelAccounts) names(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	loaded, err := c.home.load()
	if len(args) > 0 || err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(loaded.Config.Channels.Each)), cobra.ShellCompDirectiveNoFileComp
}

// configured returns the channels of the configuration in use, after a look whether
// it has this one.
func (c *channelAccounts) configured(name string) (gateway.Accounts, error) {
	a, err := c.supported(name)
	if err != nil {
		return a, err
	}
	if _, ok := a.Loaded.Config.Channels.Each[name]; !ok {
		return a, fmt.Errorf("channels.%s is not configured yet; add it with: nanobot channels add %[1]s", name)
	}
	return a, nil
}

// supported returns the channels of the configuration in use, which may lack this
// one.
func (c *channelAccounts) supported(name string) (gateway.Accounts, error) {
	if err := gateway.KnownChannel(name); err != nil {
		return gateway.Accounts{}, err
	}
	loaded, err := c.home.load()
	return gateway.Accounts{Loaded: loaded, File: c.home.options()}, err
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

func (c *channelAccounts) printReport(name string, r chat.Report) {
	switch {
	case r.Identity == "":
	case failedChecks(r) == nil:
		c.say("channels.%s works as %s.\n", name, r.Identity)
	default:
		c.say("channels.%s reaches the platform as %s, but does not work yet.\n", name, r.Identity)
	}

	for _, check := range r.Checks {
		mark := c.in("ok    ")
		if !check.OK {
			mark = c.in("FAILED")
		}

		fmt.Fprintf(c.Out, "%s %s", mark, check.Name)
		if check.Detail != "" {
			fmt.Fprintf(c.Out, ": %s", c.known(check.Detail))
		}
		fmt.Fprintln(c.Out)
	}

	if r.Identity == "" && len(r.Checks) == 0 {
		c.say("channels.%s is complete; the platform cannot be asked more without connecting.\n", name)
	}
}

// login connects a channel to an account with the person at the terminal.
func (c *channelAccounts) login(ctx context.Context, name string, force bool) error {
	kind, _, _ := strings.Cut(name, ".")
	find := c.configured
	if gateway.Channels()[kind].Login != nil {
		find = c.supported // the login can be the first that is set up
	}

	a, err := find(name)
	if err != nil {
		return err
	}

	result, err := a.Login(ctx, name, &loginDialog{c.console, c.prompter()}, force)
	switch {
	case errors.Is(err, deliver.ErrNoLogin):
		c.say("%s needs no login: its settings in the configuration are complete. Try it with: nanobot channels test %s\n", name, name)
	case err != nil:
		return err
	case result.Identity != "":
		c.say("%s is logged in as %s.\n", name, result.Identity)
	default:
		c.say("%s is logged in.\n", name)
	}

	return nil
}

// loginDialog is the person during a login.
type loginDialog struct {
	*console
	ask *prompter
}

// Tell implements chat.Dialog.
func (l *loginDialog) Tell(s chat.Step) {
	if s.Note != "" {
		fmt.Fprintln(l.Out, l.known(s.Note))
	}

	if s.QR != "" {
		picture, err := qrCode(s.QR)
		if err != nil {
			picture = s.QR // some apps take it as text
		}
		fmt.Fprintln(l.Out, picture)
	}

	if s.URL != "" {
		l.say("Open %s\n", s.URL)
	}
	if s.Code != "" {
		l.say("Code: %s\n", s.Code)
	}
	if !s.Expires.IsZero() {
		l.say("It is valid until %s.\n", s.Expires.Local().Format("15:04:05"))
	}
}

// Ask implements chat.Dialog.
func (l *loginDialog) Ask(_ context.Context, q chat.Question) (string, error) {
	if q.Hidden {
		return l.ask.secret(l.known(q.Text))
	}
	return l.ask.line(l.known(q.Text), "")
}
