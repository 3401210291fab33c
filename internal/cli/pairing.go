package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// pairingCommand is nanobot pairing.
type pairingCommand struct {
	*console
	home *home
}

func (c *pairingCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pairing", Short: "Manage who may talk to the bot",
		Long: `A stranger who writes to the bot receives a code that only they see: ask them for
it. pairing approves or denies such codes, lists paired people and revokes their
access. It works whether or not the gateway runs, and takes effect with their
next message.`,
		Example: `  nanobot pairing list
  nanobot pairing approve ABCD-EFGH
  nanobot pairing revoke telegram 123456`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.listCommand(), c.approveCommand(), c.denyCommand(), c.revokeCommand())
	return cmd
}

// open opens the list of people that belongs to the configuration.
func (c *pairingCommand) open() (*access.Book, error) {
	loaded, err := c.home.load()
	if err != nil {
		return nil, err
	}
	return access.OpenBook(access.BookOptions{Store: app.State(loaded, c.home.logger()), Log: c.home.logger()}), nil
}

func (c *pairingCommand) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List waiting and paired people",
		Args:    noArgs,
		Example: "  nanobot pairing list\n  nanobot pairing list --json",
		RunE: func(*cobra.Command, []string) error {
			p, err := c.open()
			if err != nil {
				return err
			}

			waiting, approved, err := p.List()
			if err != nil {
				return err
			}
			return c.show(asJSON, map[string]any{"pending": append([]access.PairingRequest{}, waiting...), "approved": approved}, func() error { return c.print(waiting, approved) })
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *pairingCommand) print(waiting []access.PairingRequest, approved map[string][]string) error {
	if len(waiting)+len(approved) == 0 {
		c.say("No people are paired or waiting.\n")
		return nil
	}

	w := c.table("CHANNEL", "PERSON", "STATE")
	for _, r := range waiting {
		w.row(r.Channel, r.Sender, c.in("waits until %s", r.Expires.Format("15:04")))
	}

	for _, name := range slices.Sorted(maps.Keys(approved)) {
		for _, who := range approved[name] {
			w.row(name, who, c.in("approved"))
		}
	}
	return w.Flush()
}

func (c *pairingCommand) approveCommand() *cobra.Command {
	var owner bool
	cmd := &cobra.Command{
		Use: "approve CODE", Short: "Admit the person with this code", Args: exactArgs(1),
		Example: "  nanobot pairing approve ABCD-EFGH\n  nanobot pairing approve ABCD-EFGH --owner   this is you",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := c.open()
			if err != nil {
				return err
			}

			approve, done := p.Approve, "%s may now talk to the bot on %s, as a guest with a separate memory.\n"
			if owner {
				approve, done = p.ApproveOwner, "%s is now the owner on %s.\n"
			}

			who, err := approve(cmd.Context(), args[0])
			if err != nil {
				return err
			}

			c.say(done, who.Sender, who.Channel)
			return nil
		},
	}

	cmd.Flags().BoolVar(&owner, "owner", false, "make the person an owner, with full access to memory, files and rights")
	return cmd
}

func (c *pairingCommand) denyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "deny CODE", Short: "Deny a request", Args: exactArgs(1), Example: "  nanobot pairing deny ABCD-EFGH",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := c.open()
			if err != nil {
				return err
			}

			who, err := p.Deny(cmd.Context(), args[0])
			if err != nil {
				return err
			}

			c.say("Denied the request of %s on %s.\n", who.Sender, who.Channel)
			return nil
		},
	}
}

func (c *pairingCommand) revokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke [CHANNEL] PERSON", Short: "Revoke a person's access",
		Example: "  nanobot pairing revoke 123456\n  nanobot pairing revoke telegram 123456",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := c.open()
			if err != nil {
				return err
			}

			name, who := "", args[len(args)-1]
			if len(args) == 2 {
				name = args[0]
			}

			from, err := p.Revoke(cmd.Context(), name, who)
			if err != nil {
				return err
			}
			if len(from) == 0 {
				return fmt.Errorf("%s was not paired; nanobot pairing list shows who is", who)
			}

			c.say("%s may no longer talk to the bot on %s.\n", who, strings.Join(from, ", "))
			return nil
		},
	}
}
