package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// trustCommand is nanobot trust.
type trustCommand struct {
	*console
	home *home
}

func (c *trustCommand) command() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "trust [PATH...]",
		Short: "Trust files that came from outside",
		Long: `nanobot records which files of the workspace came from outside: files written by a
command with network access, files that were cloned or downloaded, and files
written by a turn after it had read such content. Reading one of them taints a
turn, and commands that can read one are contained. trust declares files, or
folders with all their current content, as yours. Review them first. Names are
looked up in the folder you are in, then in the workspace.`,
		Example: "  nanobot trust --list\n  nanobot trust notes/page.md\n  nanobot trust my-clone",
		Args: func(cmd *cobra.Command, args []string) error {
			if list == (len(args) > 0) {
				return usageError{fmt.Errorf("usage: %s\nName the files, or use --list alone. See: %s --help", cmd.UseLine(), cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}

	cmd.Flags().BoolVar(&list, "list", false, "show the files that came from outside")
	return cmd
}

func (c *trustCommand) run(ctx context.Context, args []string) error {
	loaded, ws, err := c.home.inUse()
	if err != nil {
		return err
	}

	root, folder := ws, ""
	if here, err := filepath.EvalSymlinks(c.Dir); err == nil && trustsHere(here, ws, args) {
		root, folder = here, here
	}

	rec, err := app.OpenOrigins(ctx, loaded, ws, folder, c.home.logger())
	if err != nil {
		return err
	}
	if err := rec.MarkEnded(ctx); err != nil {
		return err
	}

	if len(args) == 0 {
		marked, err := rec.List()
		if err != nil {
			return err
		}

		for _, name := range marked {
			fmt.Fprintln(c.Out, name)
		}

		if len(marked) == 0 {
			c.sayErr("No file of the workspace is recorded as from outside.\n")
		}
		return nil
	}

	tree, err := diskio.OpenTree(root)
	if err != nil {
		return err
	}

	defer tree.Close() //nolint:errcheck // read only
	var paths []string
	for _, name := range args {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, name)
		}

		rel, err := filepath.Rel(root, path)
		if err != nil || !filepath.IsLocal(rel) {
			return usageError{fmt.Errorf("%s is not in the workspace %s", name, ws)}
		}
		if _, err := tree.Lstat(filepath.ToSlash(rel)); err != nil {
			return errors.Join(fmt.Errorf("%s cannot be trusted", name), err)
		}
		paths = append(paths, path)
	}

	if err := rec.Trust(paths...); err != nil {
		return err
	}

	for _, path := range paths {
		c.say("Trusted: %s\n", path)
	}
	return nil
}

// trustsHere reports whether the names are those of files in the folder that the
// call was made in, outside of the workspace, instead of in the workspace.
func trustsHere(here, ws string, names []string) bool {
	if here == "" || diskio.Within(here, ws) {
		return false
	}

	for _, name := range names {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(here, name)
		}
		if _, err := os.Lstat(path); err != nil || !diskio.Within(path, here) || diskio.Within(path, ws) {
			return false
		}
	}

	return len(names) > 0
}
