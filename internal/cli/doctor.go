package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/run/doctor"
)

// securityJSON is written by nanobot doctor security --json.
type securityJSON struct {
	doctor.SecurityReport
	Findings int      `json:"findings"`
	Fixed    []string `json:"fixed,omitempty"`
}

// doctorCommand is nanobot doctor.
type doctorCommand struct {
	*console
	home    *home
	folders *folders
}

func (c *doctorCommand) command() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find problems and show how to fix them", Args: subcommand,
		Long: `doctor checks the program, its configuration and data, the model, chat platforms,
MCP servers, the schedule, the service and the running gateway. It shows the
result of each check and how to fix problems. It makes one small call to the
model in use; --offline makes no network requests.

The exit code is 0 if everything works, 1 if something does not and 78 if the
configuration has errors. --fix corrects what needs no decision: permissions
that are too wide and missing folders. --bundle writes a file for people who
help you, without keys and conversations.`,
		Example: `  nanobot doctor
  nanobot doctor --offline --json
  nanobot doctor --fix
  nanobot doctor --bundle problem.zip
  nanobot doctor security`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return c.checkup(cmd.Context(), f)
		},
	}

	jsonFlag(cmd, &f.json)
	cmd.Flags().BoolVar(&f.fix, "fix", false, "fix what needs no decision")
	cmd.Flags().BoolVar(&f.offline, "offline", false, "make no network requests")
	cmd.Flags().StringVar(&f.bundle, "bundle", "", "write a zip `file` for people who help you")
	cmd.AddCommand(c.securityCommand())
	return cmd
}

func (c *doctorCommand) securityCommand() *cobra.Command {
	var asJSON, fix, yes bool
	cmd := &cobra.Command{
		Use: "security", Short: "Check how this machine is protected from the agent", Args: noArgs,
		Long: `security shows what the agent could do at worst with this configuration: which
sandbox commands run in, which files and networks they can reach, who approves
risky calls and who may talk to the agent. Each finding has a name, a
description and a fix. A new install has no findings.

The exit code is 0 without findings, 1 with findings. --fix closes findings that
need no decision, after a confirmation; the previous configuration is kept as
config.json.bak-<time>. Keys in old conversations are replaced without a copy.`,
		Example: `  nanobot doctor security
  nanobot doctor security --fix
  nanobot doctor security --fix --yes
  nanobot doctor security --json | jq .findings`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.security(cmd.Context(), asJSON, fix, yes) },
	}

	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&fix, "fix", false, "close what needs no decision")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before --fix")
	return cmd
}

func (c *doctorCommand) security(ctx context.Context, asJSON, fix, yes bool) error {
	look := func() (doctor.SecurityReport, error) {
		return doctor.Security(ctx, c.home.appOptions())
	}
	r, err := look()
	if err != nil {
		return err
	}

	var fixed []string
	if fix && slices.ContainsFunc(r.Findings(), doctor.Check.Fixable) {
		if !yes {
			err := c.agree("Apply these changes? A copy of the configuration is kept. yes or no", func() {
				for _, check := range r.Findings() {
					if check.Fixable() {
						fmt.Fprintf(c.Out, "%-9s %s\n          → %s\n", check.Severity, c.known(check.Detail), c.known(check.Fix))
					}
				}
			})
			if err != nil {
				return err
			}
		}

		if fixed, err = r.Fix(ctx, c.home.options()); err != nil {
			return err
		}
		if r, err = look(); err != nil {
			return err
		}
	}

	err = c.show(asJSON, securityJSON{SecurityReport: r, Findings: len(r.Findings()), Fixed: fixed}, func() error {
		c.printSecurity(r, fixed)
		if folder, _ := c.folders.here(ctx); folder != "" {
			c.say("note      A chat that is started here can read and change %s, beside the workspace.\n", folder)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(r.Findings()) > 0 {
		return failure{exitFailure}
	}
	return nil
}

func (c *doctorCommand) printSecurity(r doctor.SecurityReport, fixed []string) {
	c.say("Protection  %s\n\n", c.known(r.Level))
	if len(fixed) > 0 {
		c.say("Closed: %s\n\n", strings.Join(fixed, ", "))
	}

	found := r.Findings()
	fixable := 0
	for _, check := range found {
		fmt.Fprintf(c.Out, "%-9s %s\n          %s\n          → %s\n", check.Severity, check.ID, c.known(check.Detail), c.known(check.Fix))
		if check.Fixable() {
			fixable++
		}
	}

	if len(found) > 0 {
		fmt.Fprintln(c.Out)
	}

	for _, check := range r.Checks {
		if check.Severity == "" {
			c.say("ok        %s: %s\n", check.ID, c.known(check.Detail))
		}
	}

	for i, n := range r.Notes {
		if i == 0 {
			fmt.Fprintln(c.Out)
		}
		c.say("note      %s\n", c.known(n))
	}

	switch {
	case len(found) == 0:
		c.say("\nNothing is open.\n")
	case fixable > 0:
		c.say("\n%d open. nanobot doctor security --fix closes %d of them.\n", len(found), fixable)
	default:
		c.say("\n%d open.\n", len(found))
	}
}
