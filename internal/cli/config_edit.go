package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

func (c *configCommand) editCommand() *cobra.Command {
	return &cobra.Command{
		Use: "edit", Short: "Edit the configuration file in your editor", Args: noArgs,
		Long: `edit opens a copy of the configuration file in $VISUAL or $EDITOR. The copy
replaces the file only if it is valid; otherwise it is kept next to the file,
which stays unchanged. The previous version is kept as config.json.bak-<time>.`,
		Example: "  nanobot config edit\n  EDITOR='code --wait' nanobot config edit",
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := c.home.file()
			if err != nil {
				return err
			}
			return c.edit(cmd.Context(), file)
		},
	}
}

// edit lets a person change a copy, checks it and puts it in place. The
// copy lies beside the file, because it holds the same credentials.
func (c *configCommand) edit(ctx context.Context, file string) error {
	was, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	shown := was
	if was == nil {
		shown = []byte("{}\n")
	}

	copied := file + ".edit-" + time.Now().UTC().Format("20060102T150405Z") + ".json"
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(copied, shown, 0o600); err != nil { //nolint:gosec // beside the file the user names
		return err
	}
	if err := c.openEditor(ctx, copied); err != nil {
		return errors.Join(fmt.Errorf("%w; %s is unchanged", err, file), os.Remove(copied))
	}

	edited, err := os.ReadFile(copied)
	if err != nil {
		return err
	}
	if bytes.Equal(edited, shown) {
		c.say("No changes.\n")
		return os.Remove(copied)
	}

	l, err := c.home.readAs(copied)
	if err != nil {
		c.sayErr("%s is unchanged. Your version is %s\n", file, copied)
		return err
	}
	if err := config.Replace(file, was, edited, time.Now()); err != nil {
		return fmt.Errorf("%w; your version is %s", err, copied)
	}

	for _, p := range l.Warnings {
		c.sayErr("warning: %s\n", p.String())
	}

	c.say("%s is changed\n", file)
	return os.Remove(copied)
}

func (c *configCommand) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use: "restore [latest|FILE]", Short: "Restore an earlier version of the configuration file", Args: atMost(1),
		Long: `restore lists the copies that were kept when the configuration file changed,
newest first. With the name of a copy, or latest, it replaces the file with the
copy and keeps the current version too. It refuses a copy that is not valid.`,
		Example: "  nanobot config restore\n  nanobot config restore latest",
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := c.home.file()
			if err != nil {
				return err
			}

			copies, err := config.Backups(file)
			if err != nil {
				return err
			}

			if len(args) == 0 {
				for _, name := range copies {
					fmt.Fprintln(c.Out, filepath.Base(name))
				}
				if len(copies) == 0 {
					c.say("There are no copies of earlier versions.\n")
				}
				return nil
			}

			return c.restore(file, args[0], copies)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			names := []string{"latest"}
			if file, err := c.home.file(); err == nil {
				copies, _ := config.Backups(file) // none to offer
				for _, n := range copies {
					names = append(names, filepath.Base(n))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func (c *configCommand) restore(file, name string, copies []string) error {
	switch {
	case name != "latest":
		name = filepath.Join(filepath.Dir(file), filepath.Base(name))
	case len(copies) == 0:
		return usageError{errors.New("there are no copies of earlier versions")}
	default:
		name = copies[0]
	}

	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return usageError{fmt.Errorf("there is no %s; nanobot config restore lists the copies", name)}
	}
	if err != nil {
		return err
	}
	if _, err := c.home.readAs(name); err != nil {
		return err
	}

	was, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := config.Replace(file, was, text, time.Now()); err != nil {
		return err
	}

	c.say("%s is %s again\n", file, filepath.Base(name))
	return nil
}
