package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// migrateShown bounds the lines of each kind that are printed.
const migrateShown = 50

// migrateCommand is nanobot migrate.
type migrateCommand struct {
	*console
	home *home
}

func (c *migrateCommand) command() *cobra.Command {
	var yes, dry bool
	var from string
	cmd := &cobra.Command{
		Use: "migrate", Short: "Import files that another program left in the workspace", Args: noArgs,
		Long: `The first start with a workspace imports the files of Python nanobot: sessions,
jobs and history. Files that appear in the workspace later are not used, because
the agent's commands can write there. migrate shows them and, after
confirmation, imports them: new conversations, additions to conversations, new
and changed jobs, and history entries. Review them first: imported content
counts as your own words. The files in the workspace stay where they are.

A configuration in YAML (config.yaml or nanobot.yaml, or the file of -c) is
turned into config.json first; run migrate again for the rest.

--from names the previous folder of the workspace, if nanobot did not recognise
it after a move to another disk.`,
		Example: "  nanobot migrate --dry-run\n  nanobot migrate\n  nanobot migrate --from /old/disk/workspace",
		RunE: func(cmd *cobra.Command, _ []string) error {
			source, target, err := c.yamlToConvert()
			if err != nil {
				return err
			}
			if source != "" {
				return c.convertYAML(source, target, yes, dry)
			}
			if from != "" {
				return c.adopt(from, yes, dry)
			}
			return c.run(cmd.Context(), yes, dry)
		},
	}

	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "import without asking")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would be imported")
	cmd.Flags().StringVar(&from, "from", "", "previous `folder` of this workspace")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
	return cmd
}

func (c *migrateCommand) run(ctx context.Context, yes, dry bool) (err error) {
	loaded, ws, err := c.home.inUse()
	if err != nil {
		return err
	}

	m, err := app.OpenMigration(ctx, loaded, ws, c.home.logger())
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, m.Close()) }()

	for _, n := range m.Notes {
		fmt.Fprintln(c.Err, "nanobot:", c.known(n))
	}

	c.print(m)
	switch {
	case m.Empty():
		c.say("There is nothing to import from %s.\n", ws)
		return nil
	case dry:
		return nil
	case !yes:
		ok, err := c.agrees(c.in("Import this?"))
		if err != nil || !ok {
			return err
		}
	}

	what, err := m.Take(ctx)
	if what != "" {
		c.say("Imported: %s.\n", what)
	}
	return err
}

// adopt gives the workspace in use what belonged to another folder.
func (c *migrateCommand) adopt(from string, yes, dry bool) error {
	loaded, ws, err := c.home.inUse()
	if err != nil {
		return err
	}
	if dry {
		c.say("%s would receive the conversations, jobs and memory of %s.\n", ws, from)
		return nil
	}

	if !yes {
		ok, err := c.agrees(c.in("Give %s the conversations, jobs and memory of %s?", ws, from))
		if err != nil || !ok {
			return err
		}
	}

	w, err := session.Adopt(app.State(loaded, nil), loaded.DataDir, ws, from)
	if err != nil {
		return err
	}

	c.say("%s continues where %s ended.\n", w.Path, from)
	return nil
}

// print prints what was found, without a character that a terminal
// would obey.
func (c *migrateCommand) print(m *app.Migration) {
	var lines []string
	for _, s := range m.Sessions {
		what := c.in("%d more messages", s.Messages)
		switch {
		case s.Apart:
			what = c.in("is not imported: it does not continue the conversation here")
		case s.New:
			what = c.in("new, %d messages", s.Messages)
		}
		lines = append(lines, fmt.Sprintf("  %s: %s (%s): %s", text.Label(s.Key, 60), what, text.Label(s.File, 200), text.Label(s.Last, 80)))
	}

	c.printKind("Conversations:", lines)

	lines = nil
	for i := range m.Jobs {
		j := &m.Jobs[i]
		what := "new"
		if j.Changed {
			what = "changed"
		}
		lines = append(lines, fmt.Sprintf("  %s %s (%s): %s", text.Label(j.ID, 20), text.Label(j.Name, 40), what, text.Label(j.Payload.Message, 120)))
	}

	c.printKind("Jobs:", lines)

	lines = nil
	for _, e := range m.History {
		lines = append(lines, fmt.Sprintf("  %s %s", text.Label(e.Time, 20), text.Label(e.Content, 120)))
	}

	c.printKind("History:", lines)

	for _, u := range m.Unread {
		c.say("Cannot be read: %s\n", c.known(text.Label(u, 400)))
	}
}

func (c *migrateCommand) printKind(title string, lines []string) {
	if len(lines) == 0 {
		return
	}

	fmt.Fprintln(c.Out, c.in(title))
	for _, l := range lines[:min(len(lines), migrateShown)] {
		fmt.Fprintln(c.Out, l)
	}

	if n := len(lines) - migrateShown; n > 0 {
		c.say("  and %d more\n", n)
	}
}
