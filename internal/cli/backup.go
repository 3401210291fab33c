package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/run/backup"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// backupCommand is nanobot backup.
type backupCommand struct {
	*console
	home *home
}

func (c *backupCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", Short: "Create and restore backups", Args: subcommand, RunE: showHelp,
		Example: "  nanobot backup create\n  nanobot backup restore nanobot-backup.tar.gz --dry-run",
	}
	cmd.AddCommand(c.createCommand(), c.restoreCommand())
	return cmd
}

func (c *backupCommand) createCommand() *cobra.Command {
	var secrets, asJSON bool
	cmd := &cobra.Command{
		Use: "create [FILE]", Short: "Create a backup", Args: atMost(1),
		Long: `create writes the configuration, the workspace, conversations, memory, schedule,
pairings and undelivered messages to one .tar.gz file. A gateway may keep
running. Logs, caches and the search index are left out.

Without FILE, the backup is written next to the data folder, which is your home
folder unless you moved it.

Keys and logins are removed unless --with-secrets is given; create lists the
settings that you must fill in again. Conversations can contain private content:
keep the file where only you can read it.`,
		Example: "  nanobot backup create\n  nanobot backup create /mnt/usb/bot.tar.gz --with-secrets",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := c.home.lenient()
			if err != nil {
				return err
			}

			// Not in the folder of the start: that may be a repository.
			file := filepath.Join(filepath.Dir(l.DataDir), "nanobot-backup-"+c.Now().Format("20060102-150405")+".tar.gz")
			if len(args) == 1 {
				file = args[0]
			}

			ws, err := c.home.workspaceOf(l)
			if err != nil {
				return err
			}

			m, err := backup.Create(cmd.Context(), file, backup.Options{
				Config:    l,
				Workspace: ws,
				Secrets:   secrets,
				Version:   nanobot.Version(),
				Now:       c.Now(),
			})
			if err != nil {
				return err
			}
			return c.show(asJSON, map[string]any{
				"file": file, "files": len(m.Files), "bytes": m.Bytes(), "blank": m.Blank, "skipped": m.Skipped, "with_secrets": m.Secrets,
			}, func() error {
				c.say("Wrote %s: %d files, %s unpacked\n", file, len(m.Files), megabytes(m.Bytes()))
				for _, s := range m.Skipped {
					c.say("Left out %s\n", s)
				}
				if len(m.Blank) > 0 {
					c.say("Without the credentials in: %s\n", strings.Join(m.Blank, ", "))
				}
				return nil
			})
		},
	}

	cmd.Flags().BoolVar(&secrets, "with-secrets", false, "include keys and logins; protect the file like the keys")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *backupCommand) restoreCommand() *cobra.Command {
	var to string
	var dry, force, asJSON bool
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup", Args: exactArgs(1),
		Long: `restore first reads the whole backup and checks every hash. It refuses to run
while a gateway runs, or if existing data is in the way. With --force it moves
that data to before-restore-<time> next to its old place; it deletes nothing.`,
		Example: `  nanobot backup restore bot.tar.gz --dry-run
  nanobot backup restore bot.tar.gz
  nanobot backup restore bot.tar.gz --to ~/second-bot`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := backup.RestoreOptions{Force: force, DryRun: dry, Now: c.Now()}
			if err := c.restorePlace(&o, to); err != nil {
				return err
			}

			b, err := backup.Open(cmd.Context(), args[0])
			if err != nil {
				return err
			}

			r, err := b.Restore(cmd.Context(), o)
			if errors.Is(err, backup.ErrInTheWay) {
				return fmt.Errorf("%w\nMove it aside with --force, or restore to another folder with --to DIR", err)
			}
			if err != nil {
				return err
			}

			if to != "" && !dry {
				if _, err := os.Stat(r.Config); err == nil {
					if err := backup.Relocate(r.Config, r.Workspace); err != nil {
						return err
					}
				}
			}

			return c.show(asJSON, r, func() error {
				c.printRestored(b, r, dry)
				return nil
			})
		},
	}

	cmd.Flags().StringVar(&to, "to", "", "`folder` to restore to instead of the original place")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only check the backup and show what would be done")
	cmd.Flags().BoolVar(&force, "force", false, "move existing data aside")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// restorePlace finds where a backup goes and makes sure that no gateway uses
// that place. The configuration there may be missing or broken: that is when
// one restores.
func (c *backupCommand) restorePlace(o *backup.RestoreOptions, to string) (err error) {
	if to != "" {
		if o.Config, err = filepath.Abs(filepath.Join(to, "config.json")); err != nil {
			return err
		}
		o.Workspace = filepath.Join(filepath.Dir(o.Config), "workspace")
	} else if o.Config, err = c.home.file(); err != nil {
		return err
	}

	if c.home.workspace != "" {
		if o.Workspace, err = filepath.Abs(c.home.workspace); err != nil {
			return err
		}
	}

	i, err := daemon.Find(gateway.InstanceFile(&config.Loaded{DataDir: filepath.Dir(o.Config)}))
	if err == nil && !o.DryRun {
		return fmt.Errorf("a gateway uses this data (process %d); stop it first: nanobot gateway stop", i.PID)
	}
	return nil
}

func (c *backupCommand) printRestored(b *backup.Backup, r backup.Restored, dry bool) {
	c.say("The backup of %s is complete: %d files, %s.\n", b.Created.Local().Format(time.DateTime), r.Files, megabytes(r.Bytes))
	restored := "Restored the data to %s\nRestored the workspace to %s\n"
	aside := "Put aside: %s\n"
	fill := "Now fill in again: %s\n"
	if dry {
		restored = "Would restore the data to %s\nWould restore the workspace to %s\n"
		aside = "Would put aside: %s\n"
		fill = "Then fill in again: %s\n"
	}

	c.say(restored, r.DataDir, r.Workspace)
	if len(r.Replaced) > 0 {
		c.say(aside, strings.Join(r.Replaced, ", "))
	}

	for _, dir := range r.Aside {
		c.say("What was there is in %s\n", dir)
	}

	if len(r.Blank) > 0 {
		c.say(fill, strings.Join(r.Blank, ", "))
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
