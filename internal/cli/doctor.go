package cli

import (
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

func doctorCommand(c *command) *cobra.Command {
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
			return checkup(c, cmd, f)
		},
	}
	jsonFlag(cmd, &f.json)
	cmd.Flags().BoolVar(&f.fix, "fix", false, "fix what needs no decision")
	cmd.Flags().BoolVar(&f.offline, "offline", false, "make no network requests")
	cmd.Flags().StringVar(&f.bundle, "bundle", "", "write a zip `file` for people who help you")
	cmd.AddCommand(doctorSecurity(c))
	return cmd
}

func doctorSecurity(c *command) *cobra.Command {
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
		RunE: func(cmd *cobra.Command, _ []string) error { return security(c, cmd, asJSON, fix, yes) },
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&fix, "fix", false, "close what needs no decision")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before --fix")
	return cmd
}

func security(c *command, cmd *cobra.Command, asJSON, fix, yes bool) error {
	look := func() (doctor.SecurityReport, error) {
		return doctor.Security(cmd.Context(), c.appOptions())
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
						cmd.Printf("%-9s %s\n          → %s\n", check.Severity, known(cmd, check.Detail), known(cmd, check.Fix))
					}
				}
			})
			if err != nil {
				return err
			}
		}
		if fixed, err = r.Fix(cmd.Context(), c.options()); err != nil {
			return err
		}
		if r, err = look(); err != nil {
			return err
		}
	}
	if asJSON {
		if err := printJSON(cmd, securityJSON{SecurityReport: r, Findings: len(r.Findings()), Fixed: fixed}); err != nil {
			return err
		}
	} else {
		printSecurity(cmd, r, fixed)
		if folder, _ := c.folders.here(cmd.Context()); folder != "" {
			say(cmd, "note      A chat that is started here can read and change %s, beside the workspace.\n", folder)
		}
	}
	if len(r.Findings()) > 0 {
		return failure{exitFailure}
	}
	return nil
}

func printSecurity(cmd *cobra.Command, r doctor.SecurityReport, fixed []string) {
	say(cmd, "Protection  %s\n\n", known(cmd, r.Level))
	if len(fixed) > 0 {
		say(cmd, "Closed: %s\n\n", strings.Join(fixed, ", "))
	}
	found := r.Findings()
	fixable := 0
	for _, c := range found {
		cmd.Printf("%-9s %s\n          %s\n          → %s\n", c.Severity, c.ID, known(cmd, c.Detail), known(cmd, c.Fix))
		if c.Fixable() {
			fixable++
		}
	}
	if len(found) > 0 {
		cmd.Println()
	}
	for _, c := range r.Checks {
		if c.Severity == "" {
			say(cmd, "ok        %s: %s\n", c.ID, known(cmd, c.Detail))
		}
	}
	for i, n := range r.Notes {
		if i == 0 {
			cmd.Println()
		}
		say(cmd, "note      %s\n", known(cmd, n))
	}
	switch {
	case len(found) == 0:
		say(cmd, "\nNothing is open.\n")
	case fixable > 0:
		say(cmd, "\n%d open. nanobot doctor security --fix closes %d of them.\n", len(found), fixable)
	default:
		say(cmd, "\n%d open.\n", len(found))
	}
}
