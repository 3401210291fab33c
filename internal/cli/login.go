package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// signinCommands returns the parts of the provider command that deal with sign-ins.
func (c *providerCommand) signinCommands() []*cobra.Command {
	return []*cobra.Command{c.loginCommand(), c.logoutCommand(), c.statusCommand()}
}

// loginFlags are the choices of provider login.
type loginFlags struct {
	main, device, force, stay bool
	model                     string
}

func (c *providerCommand) loginCommand() *cobra.Command {
	var f loginFlags
	cmd := &cobra.Command{
		Use: "login NAME", Short: "Sign in to a provider without an API key", Args: exactArgs(1),
		Long: fmt.Sprintf(`login signs in with a subscription instead of a key: %s.
It shows an address to open in a browser. If the browser runs on another machine,
paste the address of the last page, or use --device and enter a code there.

The sign-in is stored in the system keyring, or in a file that only you can read
if there is none (NANOBOT_NO_KEYRING=1 always uses the file). It is renewed
automatically.`, strings.Join(signin.Names(), ", ")),
		Example: `  nanobot provider login openai-codex --set-main
  nanobot provider login openai-codex --device           no browser here
  nanobot provider login github-copilot --set-main -m gpt-5.4-mini`,
		ValidArgsFunction: signinNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.login(cmd.Context(), args[0], f)
		},
	}

	fl := cmd.Flags()
	fl.BoolVar(&f.main, "set-main", false, "use this provider by default")
	fl.BoolVar(&f.main, "main", false, "same as --set-main")
	_ = fl.MarkHidden("main") // it exists
	fl.StringVarP(&f.model, "model", "m", "", "`model` for --set-main")
	fl.BoolVar(&f.device, "device", false, "sign in with a code, on any machine")
	fl.BoolVar(&f.force, "force", false, "sign in again even if already signed in")
	fl.BoolVar(&f.stay, "no-browser", false, "only print the address")
	return cmd
}

func (c *providerCommand) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "logout NAME",
		Short:             "Sign out of a provider",
		Args:              exactArgs(1),
		Long:              "logout removes the sign-in from this machine. It does not notify the provider; use\nthe provider's account page to end sign-ins everywhere.",
		Example:           "  nanobot provider logout openai-codex",
		ValidArgsFunction: signinNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			a, err := c.signIns.account(loaded, args[0])
			if err != nil {
				return err
			}

			removed, err := a.Logout(cmd.Context())
			if err != nil {
				return err
			}
			if len(removed) == 0 {
				c.say("You were not signed in to %s.\n", a.Display())
				return nil
			}

			c.say("Signed out of %s. Removed %s.\n", a.Display(), strings.Join(removed, " and "))
			return nil
		},
	}
}

// signinState is a line of provider status.
type signinState struct {
	Name     string     `json:"name"`
	SignedIn bool       `json:"signed_in"`
	Account  string     `json:"account,omitempty"`
	Where    string     `json:"where,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
	Problem  string     `json:"problem,omitempty"`
}

func (c *providerCommand) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show where you are signed in",
		Args:    noArgs,
		Long:    "status lists the providers that use a sign-in instead of a key. It contacts neither\nthem nor the keyring.",
		Example: "  nanobot provider status\n  nanobot provider status --json",
		RunE: func(*cobra.Command, []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			states, err := c.states(loaded)
			if err != nil {
				return err
			}
			return c.show(asJSON, states, func() error {
				for _, s := range states {
					c.say("%s\n", s.about())
				}
				return nil
			})
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

// states lists every provider that wants a sign-in.
func (c *providerCommand) states(loaded *config.Loaded) ([]signinState, error) {
	states := []signinState{}
	for _, name := range signin.Names() {
		a, err := c.signIns.account(loaded, name)
		if err != nil {
			return nil, err
		}

		st := a.Status()
		s := signinState{Name: name, SignedIn: st.SignedIn, Account: st.Account, Where: st.Where, Problem: st.Problem}
		if st.SignedIn {
			s.Expires = &st.Expires
		}
		states = append(states, s)
	}

	return states, nil
}

// about returns the state of a sign-in in a line.
func (s signinState) about() phrase.Sentence {
	switch {
	case s.Problem != "":
		return phrase.Later("%-16s ✗ %s; sign in with: nanobot provider login %s", s.Name, s.Problem, s.Name)
	case s.SignedIn && s.Account != "":
		return phrase.Later("%-16s ✓ signed in as %s (%s)", s.Name, s.Account, s.Where)
	case s.SignedIn:
		return phrase.Later("%-16s ✓ signed in (%s)", s.Name, s.Where)
	}
	return phrase.Later("%-16s   not signed in", s.Name)
}

func signinNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return signin.Names(), cobra.ShellCompDirectiveNoFileComp
}

func (c *providerCommand) login(ctx context.Context, name string, f loginFlags) error {
	if f.model != "" && !f.main {
		return usageError{errors.New("--model requires --set-main")}
	}

	loaded, err := c.home.load()
	if err != nil {
		return err
	}

	a, err := c.signIns.account(loaded, name)
	if err != nil {
		return err
	}

	st, err := c.signedIn(ctx, a, f)
	if err != nil {
		return err
	}

	if !st.SignedIn {
		if st, err = c.signIn(ctx, a, f); err != nil {
			return err
		}
		if st.Account != "" {
			c.say("Signed in to %s as %s. Stored in: %s\n", a.Display(), st.Account, st.Where)
		} else {
			c.say("Signed in to %s. Stored in: %s\n", a.Display(), st.Where)
		}
	}

	if f.main {
		return c.setMain(loaded.File, a, f.model)
	}

	c.say("Use it by default with: nanobot provider login %s --set-main\n", a.Command())
	return nil
}

// signedIn tells of a sign-in that still works, so that the user does not sign
// in twice.
func (c *providerCommand) signedIn(ctx context.Context, a *signin.Account, f loginFlags) (signin.Status, error) {
	if f.force {
		return signin.Status{}, nil
	}

	st := a.Status()
	if !st.SignedIn || st.Problem != "" {
		return signin.Status{}, nil
	}

	if err := a.Check(ctx); err != nil {
		if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind == llm.Auth {
			return signin.Status{}, nil
		}
		return signin.Status{}, err
	}

	c.say("Already signed in to %s. Sign in again with --force.\n", a.Display())
	return st, nil
}

func (c *providerCommand) signIn(ctx context.Context, a *signin.Account, f loginFlags) (signin.Status, error) {
	if note := a.Caution(); note != "" {
		c.say("Note: %s\n", c.known(note))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return a.Login(ctx, signin.Dialog{
		Device: f.device, Pasted: func() <-chan string { return c.lines(ctx) },
		Notify: func(s signin.Step) { c.signIns.showStep(ctx, s, f.stay) },
	})
}

// setMain makes a provider the one that answers.
func (c *providerCommand) setMain(file string, a *signin.Account, model string) error {
	switch {
	case model == "":
		model = a.DefaultModel()
	case !strings.Contains(model, "/"):
		model = a.Command() + "/" + model
	}

	err := config.Edit(file, nil, func(f *config.File) error {
		if err := f.SetValue("agents.defaults.provider", a.Name()); err != nil {
			return err
		}
		if err := f.SetValue("agents.defaults.model", model); err != nil {
			return err
		}
		_, err := f.Unset("agents.defaults.modelPreset")
		return err
	})
	if err != nil {
		return err
	}

	c.say("%s is now the default. Set in %s\n", model, file)
	c.settings.warnStronger("agents.defaults.model")
	return nil
}
