package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/gitstore"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// memoryCommand is nanobot memory.
type memoryCommand struct {
	*console
	home   *home
	stores *stores
}

func (c *memoryCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "memory", Short: "Show, edit, undo and forget memories",
		Long: `memory manages the long-term memory: USER.md about you, SOUL.md about how the agent
behaves, MEMORY.md about everything else. A git repository keeps earlier
versions, so that you can view and undo every change.`,
		Example: `  nanobot memory show --why
  nanobot memory edit USER
  nanobot memory log
  nanobot memory restore 3f2a91bc --only
  nanobot memory search "old address"
  nanobot memory forget "old address"`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.showCommand(), c.editCommand(), c.logCommand(), c.diffCommand(), c.restoreCommand(), c.forgetCommand(),
		c.confirmCommand(), c.rejectCommand(), c.searchCommand())
	return cmd
}

// with runs fn with the memory of the workspace in use, which must exist.
func (c *memoryCommand) with(ctx context.Context, fn func(*memory.Memory) error) (err error) {
	loaded, err := c.home.read()
	if err != nil {
		return err
	}

	ws, err := c.home.existingWorkspace(loaded)
	if err != nil {
		return err
	}

	sessions, err := c.stores.sessionsOf(ctx, loaded, ws)
	if err != nil {
		return err
	}

	m, done, err := app.OpenMemory(loaded, ws, sessions, app.OpenFiles(loaded, ws, c.home.logger()), c.home.logger())
	if err := errors.Join(err, sessions.Close()); err != nil {
		return err
	}

	defer func() { err = errors.Join(err, done()) }()
	return fn(m)
}

func (c *memoryCommand) showCommand() *cobra.Command {
	var why, asJSON bool
	var scope string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the memory files and their sources",
		Args:  noArgs,
		Long: `show prints the memory files with their sizes, the findings from outside that wait
for your decision, and the last change. --why shows for each line who said it,
when and in which conversation. Memories of other people and groups are separate;
--scope shows one of them.`,
		Example: "  nanobot memory show\n  nanobot memory show --why\n  nanobot memory show --scope telegram:-100123/42\n  nanobot memory show --json | jq '.files[].bytes'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := c.with(cmd.Context(), func(m *memory.Memory) error {
				shown, err := m.Overview(cmd.Context(), scope, why)
				if err != nil {
					return err
				}
				return c.show(asJSON, shown, func() error {
					c.print(shown, why)
					return nil
				})
			})
			return c.home.orNothing(err, asJSON, memory.Overview{Files: []memory.FileView{}}, nothingYet)
		},
	}

	f := cmd.Flags()
	f.BoolVar(&why, "why", false, "show the source of each line")
	f.StringVar(&scope, "scope", "", "show the memory of this `person or group`")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// nothingYet says what there is to see before anything happened.
const nothingYet = `Nothing is remembered yet. nanobot adds facts from your conversations (nanobot agent)
to USER.md, SOUL.md and MEMORY.md in the workspace over time. After nanobot onboard
you can also edit them yourself: nanobot memory edit`

func (c *memoryCommand) print(m memory.Overview, why bool) {
	for _, f := range m.Files {
		c.say("== %s (%d of %d bytes)\n\n", f.Path, f.Bytes, f.Cap)
		switch {
		case strings.TrimSpace(f.Text) == "":
			c.say("(empty)\n\n")
		case why:
			printWhy(c.Out, f)
		default:
			fmt.Fprintf(c.Out, "%s\n\n", printable(strings.TrimRight(f.Text, "\n")))
		}
	}

	c.printWaiting(m.Waiting)
	for i, s := range m.Scopes {
		if i == 0 {
			c.say("== Separate memories of other people and groups (--scope)\n")
		}
		c.say("  %s  %d bytes\n", printable(s.Name), s.Bytes)
	}

	if len(m.Scopes) > 0 {
		fmt.Fprintln(c.Out)
	}

	c.say("Summaries of conversations: %d, not yet read by Dream: %d\n", m.History.Entries, m.History.Unread)
	c.printCommit(phrase.Later("Last Dream:"), m.Dreamed)
	c.printCommit(phrase.Later("Last change:"), m.Last)
	if m.Unsaved > 0 {
		c.say("Changed since: %s; nanobot memory diff\n", phrase.Counted(m.Unsaved, "file"))
	}
	c.say("Earlier versions: %s\n", m.Repository)
}

func (c *memoryCommand) printCommit(label phrase.Sentence, commit *gitstore.Commit) {
	if commit == nil {
		c.say("%s none\n", label)
		return
	}
	at := commit.Time.Local().Format("2006-01-02 15:04")
	fmt.Fprintf(c.Out, "%s %s %s %s\n", label.In(c.language), at, gitstore.Short(commit.ID), text.Label(printable(commit.Subject), 80))
}

// printable makes what moves a cursor or reorders text visible; lines stay.
func printable(s string) string { return text.Reveal(s, text.Prose) }

// commitIDs completes ids of commits.
func (c *memoryCommand) commitIDs(cmd *cobra.Command, args []string, typed string) (out []string, _ cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	err := c.with(cmd.Context(), func(m *memory.Memory) error {
		log, err := m.Repo.Log(cmd.Context(), 50)
		for _, e := range log {
			if strings.HasPrefix(e.ID, typed) {
				out = append(out, gitstore.Short(e.ID)+"\t"+text.Label(e.Subject, 40))
			}
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
