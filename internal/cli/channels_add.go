package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

func (c *channelsCommand) addCommand() *cobra.Command {
	var set, allow []string
	var untested bool
	cmd := &cobra.Command{
		Use:               "add NAME",
		Short:             "Connect the bot to a chat platform",
		Args:              exactArgs(1),
		ValidArgsFunction: platformNames,
		Long: `add asks for the settings that a chat platform needs, tries them, and writes them
into the configuration. A running gateway uses them at once. The pages in
docs/how-to/channels say how to make a bot on each platform. For a second
account, add a name: slack.work.

In a script, give the settings with --set. Other users of this machine can see
arguments, so refer to a variable for secrets: --set 'token=${TELEGRAM_TOKEN}'.`,
		Example: `  nanobot channels add telegram
  nanobot channels add slack.work
  nanobot channels add telegram --set 'token=${TELEGRAM_TOKEN}' --allow 12345`,
		RunE: func(cmd *cobra.Command, args []string) error {
			a := &addition{
				console:  c.console,
				home:     c.home,
				accounts: c.accounts,
				name:     args[0],
				set:      map[string]string{},
				allow:    allow,
			}
			for _, s := range set {
				key, value, ok := strings.Cut(s, "=")
				if !ok {
					return usageError{fmt.Errorf("--set %s: write key=value", s)}
				}
				a.set[key] = value
			}

			return a.run(cmd.Context(), untested)
		},
	}

	cmd.Flags().StringArrayVar(&set, "set", nil, "`key=value` of a setting; may be repeated")
	cmd.Flags().StringArrayVar(&allow, "allow", nil, "`id` of a person who may talk to the bot; may be repeated")
	cmd.Flags().BoolVar(&untested, "untested", false, "do not ask the platform whether the settings work")
	return cmd
}

// platformNames completes names of platforms.
func platformNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(gateway.Channels())), cobra.ShellCompDirectiveNoFileComp
}

// addition is a channel that is being added.
type addition struct {
	*console
	home     *home
	accounts *channelAccounts

	name  string
	set   map[string]string
	allow []string
}

func (a *addition) run(ctx context.Context, untested bool) error {
	a.name = gateway.ChannelName(a.name)
	if err := gateway.KnownChannel(a.name); err != nil {
		return usageError{err}
	}

	kind, _, _ := strings.Cut(a.name, ".")
	driver := gateway.Channels()[kind]
	if driver.Needs != nil && !untested {
		if err := driver.Needs(a.set); err != nil {
			return fmt.Errorf("nothing was changed: %w\nTo add it all the same: --untested", err)
		}
	}

	switch scan, err := a.scans(driver); {
	case err != nil:
		return err
	case scan:
		return a.accounts.login(ctx, a.name, false)
	}

	file, err := a.home.file()
	if err != nil {
		return err
	}
	if _, err := config.Open(file, gateway.Sections(nil)); err != nil {
		return err // before anything is asked for
	}
	if err := a.answers(driver); err != nil {
		return err
	}

	next, err := a.candidate(file)
	if err != nil {
		return err
	}

	if needsLogin := driver.Login != nil && !driver.LoginOptional; !untested && !needsLogin {
		if err := a.try(ctx, next); err != nil {
			return err
		}
	}

	// The answers go into the file as it is now: it was not held while a person typed and
	// a platform was asked, and another program may have written it.
	if err := config.Edit(file, gateway.Sections(nil), a.write); err != nil {
		return err
	}

	a.say("Added channels.%s to %s.\n", a.name, file)
	return a.finish(ctx, driver, next)
}

// candidate returns the configuration as it would be with the section.
func (a *addition) candidate(path string) (*config.Loaded, error) {
	o := a.home.options()
	file, err := config.Open(path, o.Sections)
	if err != nil {
		return nil, err
	}
	if err := a.write(file); err != nil {
		return nil, err
	}

	o.Text = file.Text()
	return config.Load(o)
}

// scans asks whether to connect by a QR code, where that makes the keys.
func (a *addition) scans(driver chat.Driver) (bool, error) {
	ask := a.prompter()
	if driver.Login == nil || driver.LoginOptional || len(driver.Fields()) == 0 || len(a.set) > 0 || !ask.terminal() {
		return false, nil
	}
	answer, err := ask.line(a.in("Scan a QR code, which makes the keys (yes), or type keys that you have (no)"), "yes")
	return strings.HasPrefix("yes", strings.ToLower(answer)), err
}

// answers asks for what is not given.
func (a *addition) answers(driver chat.Driver) error {
	ask := a.prompter()
	talk := ask.terminal()
	if talk {
		a.say("%s: its page in docs/how-to/channels says how to make a bot and where to find its keys.\n", cmp.Or(driver.Title, a.name))
	}

	var missing []string
	for _, f := range driver.Fields() {
		switch _, given := a.set[f.Name]; {
		case given:
		case f.Consent && !talk, !talk && f.Usual == "":
			missing = append(missing, fmt.Sprintf("  --set %s=...   %s", f.Name, a.known(f.Doc)))
		case talk:
			answer, err := askField(ask, f, strings.TrimSuffix(a.known(f.Doc), "."))
			if err != nil {
				return err
			}
			a.set[f.Name] = answer
		}
	}

	if len(missing) > 0 {
		if driver.Login != nil {
			missing = append(missing, fmt.Sprintf("  or connect by a login, which adds the channel: nanobot channels login %s", a.name))
		}
		return usageError{fmt.Errorf("channels.%s needs more settings:\n%s", a.name, strings.Join(missing, "\n"))}
	}

	if talk && len(a.allow) == 0 {
		id, err := ask.line(a.in("Your own id there (empty: the bot gives you a code to approve)"), "")
		if err != nil {
			return err
		}
		if id != "" {
			a.allow = []string{id}
		}
	}

	return nil
}

// askField asks until there is an answer.
func askField(ask *prompter, f chat.Field, question string) (string, error) {
	for {
		var answer string
		var err error
		switch {
		case f.Consent:
			answer, err = ask.line(question+" (yes/no)", "")
			if answer = strings.ToLower(answer); answer != "" && strings.HasPrefix("yes", answer) {
				return "true", err
			}
			if err == nil && answer != "" {
				return "", errors.New("nothing was changed")
			}

		case f.Secret:
			answer, err = ask.secret(question)
		default:
			answer, err = ask.line(question, f.Usual)
			answer = cmp.Or(answer, f.Usual)
		}

		if errors.Is(err, errSkipped) {
			return "", errors.New("nothing was changed")
		}
		if err != nil || answer != "" {
			return answer, err
		}
	}
}

// write puts the section into the text of the file. An error is a wrong call, because
// the settings were given by a person.
func (a *addition) write(file *config.File) error {
	at := "channels." + strings.ReplaceAll(a.name, ".", `\.`) + "."
	for _, key := range slices.Sorted(maps.Keys(a.set)) {
		if err := file.Set(at+key, a.set[key]); err != nil {
			return usageError{err}
		}
	}

	if len(a.allow) > 0 {
		if err := file.Set(at+"allowFrom", strings.Join(a.allow, ",")); err != nil {
			return usageError{err}
		}
	}

	if err := file.Set(at+"enabled", "true"); err != nil {
		return usageError{err}
	}
	return nil
}

// try asks the platform before anything is written.
func (a *addition) try(ctx context.Context, next *config.Loaded) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	report, err := gateway.Accounts{Loaded: next}.Try(ctx, a.name)
	if err == nil {
		a.accounts.printReport(a.name, report)
		err = failedChecks(report)
	}

	if err != nil {
		return fmt.Errorf("nothing was changed, because the settings do not work: %w\nTo add them all the same: --untested", err)
	}
	return nil
}

// finish logs in where a platform needs it, and says how to go on.
func (a *addition) finish(ctx context.Context, driver chat.Driver, next *config.Loaded) error {
	running := control.To(next).Reload(ctx) == nil
	if driver.Login != nil && !driver.LoginOptional {
		if !a.prompter().terminal() {
			a.say("Log in with: nanobot channels login %s\n", a.name)
			return nil
		}
		return a.accounts.login(ctx, a.name, false)
	}

	if running {
		a.say("The gateway uses it now. See: nanobot channels status\n")
	} else {
		a.say("Start it with: nanobot gateway\n")
	}
	return nil
}
