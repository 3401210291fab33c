package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/gitstore"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
)

func (c *memoryCommand) logCommand() *cobra.Command {
	var n int
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "List changes of the memory files, newest first",
		Args:    noArgs,
		Example: "  nanobot memory log\n  nanobot memory log -n 100\n  nanobot memory log --json | jq -r '.[].id'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n <= 0 {
				return usageError{fmt.Errorf("-n %d: want a positive number", n)}
			}

			err := c.with(cmd.Context(), func(m *memory.Memory) error {
				log, err := m.Repo.Log(cmd.Context(), n)
				if err != nil {
					return err
				}

				if log == nil {
					log = []gitstore.Commit{}
				}
				return c.show(asJSON, log, func() error {
					if len(log) == 0 {
						c.say("No changes are recorded yet.\n")
						return nil
					}

					w := c.table("CHANGE", "TIME", "ABOUT")
					for _, e := range log {
						w.row(gitstore.Short(e.ID), e.Time.Local().Format("2006-01-02 15:04"), text.Label(printable(e.Subject), 80))
					}
					return w.Flush()
				})
			})
			return c.home.orNothing(err, asJSON, []gitstore.Commit{}, "No changes are recorded yet.")
		},
	}

	cmd.Flags().IntVarP(&n, "number", "n", 20, "how many")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *memoryCommand) diffCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "diff [CHANGE [CHANGE]]", Short: "Show a change of the memory files",
		Long: `diff shows one change; nanobot memory log lists them. Without CHANGE it shows what
is not recorded yet, with two it shows the difference between them.`,
		Example:           "  nanobot memory diff\n  nanobot memory diff 3f2a91bc",
		ValidArgsFunction: c.commitIDs,
		Args:              atMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := c.with(cmd.Context(), func(m *memory.Memory) error {
				var of *gitstore.Commit
				var change gitstore.Change
				var err error
				switch len(args) {
				case 0:
					change, err = m.Repo.Diff(cmd.Context(), "", "")
				case 1:
					var e gitstore.Commit
					e, change, err = m.Repo.Show(cmd.Context(), args[0])
					of = &e
				default:
					change, err = m.Repo.Diff(cmd.Context(), args[0], args[1])
				}

				if err != nil {
					return commitError(strings.Join(args, " or "), err)
				}
				return c.show(asJSON, struct {
					*gitstore.Commit
					gitstore.Change
				}{of, change}, func() error {
					if of != nil {
						c.printCommit(phrase.Later("Change"), of)
						if of.Body != "" {
							fmt.Fprintf(c.Out, "\n%s\n", printable(of.Body))
						}
						fmt.Fprintln(c.Out)
					}

					if len(change.Files) == 0 {
						c.say("Nothing differs.\n")
					}

					fmt.Fprint(c.Out, printable(change.Diff))
					return nil
				})
			})
			if len(args) > 0 {
				return err // there is no such change
			}
			return c.home.orNothing(err, asJSON, gitstore.Change{}, "Nothing differs.")
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

// commitError tells why a change cannot be used.
func commitError(name string, err error) error {
	switch {
	case errors.Is(err, gitstore.ErrNoCommit):
		return usageError{fmt.Errorf("there is no change %q; nanobot memory log shows them", name)}
	case errors.Is(err, gitstore.ErrAmbiguous):
		return usageError{fmt.Errorf("several changes begin with %q; give more of the id", name)}
	case errors.Is(err, gitstore.ErrFirst):
		return usageError{fmt.Errorf("%s is the oldest change that is kept; there is nothing to go back to", name)}
	}
	return err
}

func (c *memoryCommand) restoreCommand() *cobra.Command {
	var only, asJSON bool
	cmd := &cobra.Command{
		Use: "restore CHANGE", Short: "Restore the memory files to before a change",
		Long: `restore undoes a change and everything after it. With --only it undoes that one
change and keeps later ones; if the same lines changed again, it does nothing.
The current version is kept: you can undo a restore by its own id.`,
		Example:           "  nanobot memory restore 3f2a91bc\n  nanobot memory restore 3f2a91bc --only",
		ValidArgsFunction: c.commitIDs,
		Args:              exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), func(m *memory.Memory) error {
				undo := m.Repo.Restore
				if only {
					undo = m.Repo.UndoOnly
				}

				later, err := m.LaterChanges(cmd.Context(), args[0])
				if err != nil {
					return commitError(args[0], err)
				}

				u, err := undo(cmd.Context(), args[0])
				if conflict, ok := errors.AsType[*gitstore.ConflictError](err); ok {
					return fmt.Errorf("%w; without --only the change and everything after it is undone", conflict)
				}
				if err != nil {
					return commitError(args[0], err)
				}
				return c.show(asJSON, u, func() error {
					c.printRestored(u, only, later)
					return nil
				})
			})
		},
	}

	cmd.Flags().BoolVar(&only, "only", false, "undo this change alone")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *memoryCommand) printRestored(u gitstore.Undone, only bool, later []gitstore.Commit) {
	if u.Commit == "" {
		c.say("Nothing to do: the files are already as they were before the change.\n")
		return
	}

	c.say("Undid %s %s\n", gitstore.Short(u.Of.ID), text.Label(printable(u.Of.Subject), 80))
	if !only {
		for _, e := range later {
			c.say("  and %s %s\n", gitstore.Short(e.ID), text.Label(printable(e.Subject), 80))
		}
	}

	if u.Snapshot != "" {
		c.say("Changes that were not recorded yet are kept as %s\n", gitstore.Short(u.Snapshot))
	}

	for _, f := range u.Files {
		fmt.Fprintf(c.Out, "  %s\n", printable(f))
	}
	c.say("To undo this: nanobot memory restore %s\n", gitstore.Short(u.Commit))
}

func (c *memoryCommand) editCommand() *cobra.Command {
	var scope string
	cmd := &cobra.Command{
		Use: "edit [USER|SOUL|MEMORY]", Short: "Edit a memory file in your editor",
		Long: `edit opens a memory file (default MEMORY) in $VISUAL or $EDITOR and records the
change.`,
		Example: "  nanobot memory edit USER\n  EDITOR='code --wait' nanobot memory edit",
		Args:    atMost(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"USER", "SOUL", "MEMORY"}, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "MEMORY"
			if len(args) == 1 {
				name = args[0]
			}
			return c.with(cmd.Context(), func(m *memory.Memory) error {
				file, err := m.FileNamed(name, scope)
				if err != nil {
					return err
				}
				return c.edit(cmd.Context(), m, file)
			})
		},
	}

	cmd.Flags().StringVar(&scope, "scope", "", "the memory of this `person or group`")
	return cmd
}

// edit lets a person change a copy and takes it over if the file has not
// changed meanwhile.
func (c *memoryCommand) edit(ctx context.Context, m *memory.Memory, file string) (err error) {
	if _, _, err := m.Repo.Commit(ctx, "snapshot: before an edit by hand", ""); err != nil {
		return err
	}

	old, err := m.Repo.ReadWork(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	dir, err := os.MkdirTemp("", "nanobot-memory-")
	if err != nil {
		return err
	}

	keep := false
	defer func() {
		if !keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()

	tmp := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(tmp, old, 0o600); err != nil {
		return err
	}
	if err := c.openEditor(ctx, tmp); err != nil {
		return fmt.Errorf("%w; %s is unchanged", err, file)
	}

	edited, err := os.ReadFile(tmp)
	if err != nil {
		return err
	}
	if bytes.Equal(edited, old) {
		c.say("No changes.\n")
		return nil
	}

	now, err := m.Repo.ReadWork(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || !bytes.Equal(now, old) {
		keep = true
		return fmt.Errorf("%s changed while you edited it; your version is %s", file, tmp)
	}
	if err := m.Repo.WriteWork(file, edited); err != nil {
		keep = true
		return fmt.Errorf("%w; your version is %s", err, tmp)
	}

	id, _, err := m.Repo.Commit(ctx, "edit: by hand", "")
	if err != nil {
		return err
	}

	c.say("%s is changed (%s)\n", file, gitstore.Short(id))
	return nil
}
