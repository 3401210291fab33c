package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// What follows is for people and scripts that know older versions: their words
// still work, and help names the ones of today.

// length is a flag for a time. Older versions knew only seconds.
type length struct{ to *time.Duration }

// String implements pflag.Value.
func (l length) String() string {
	if l.to == nil {
		return ""
	}
	return l.to.String()
}

// Set implements pflag.Value.
func (l length) Set(s string) error {
	d, err := schedule.ParseInterval(s)
	if err == nil {
		*l.to = d
	}
	return err
}

// Type implements pflag.Value.
func (length) Type() string { return "time" }

// isExpression reports whether the name of a file is none, but a cron
// expression.
func isExpression(name string) bool {
	if len(strings.Fields(name)) < 5 {
		return false
	}
	_, err := os.Stat(name)
	return diskio.IsMissing(err)
}

// olderCommands are nanobot service install and uninstall under their old names.
func (c *serviceCommand) olderCommands() []*cobra.Command {
	var f serviceFlags
	install, uninstall := c.installCommand(&f), c.uninstallCommand(&f)
	install.Flags().BoolVar(&f.noStart, "no-start", false, "do not start it")
	install.Flags().BoolVar(&f.noEnable, "no-enable", false, "do not enable it for the next login")
	install.Flags().Bool("start", true, "start it (default)")
	install.Flags().Bool("enable", true, "enable it (default)")

	for _, cmd := range []*cobra.Command{install, uninstall} {
		cmd.Flags().StringVar(&f.name, "name", "nanobot-gateway", "`name` of the service")
		manager := cmd.Flags().String("manager", "auto", "accepted for compatibility; it must match this machine")
		cmd.PreRunE = func(*cobra.Command, []string) error {
			if own := map[string]string{"linux": "systemd", "darwin": "launchd"}[runtime.GOOS]; *manager != "auto" && *manager != own {
				return usageError{fmt.Errorf("--manager %s: this machine has %s", *manager, cmp.Or(own, "none"))}
			}
			return nil
		}

		cmd.Hidden = true
		cmd.Use += "-service"
	}

	return []*cobra.Command{install, uninstall}
}

// pluginsCommand is the command for channels in older versions.
// pluginsCommand is nanobot plugins.
type pluginsCommand struct {
	*console
	home *home
}

func (c *pluginsCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plugins", Short: "Show the built-in channels", Hidden: true, Args: subcommand, RunE: showHelp,
		Long:    "plugins exists for older scripts: every channel is built in. See nanobot channels.",
		Example: "  nanobot plugins list\n  nanobot plugins enable telegram",
	}

	cmd.AddCommand(&cobra.Command{
		Use:     "list",
		Short:   "List the channels and whether they are enabled",
		Args:    noArgs,
		Example: "  nanobot plugins list",
		RunE: func(*cobra.Command, []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			w := c.table("NAME", "SOURCE", "ENABLED")
			for _, name := range slices.Sorted(maps.Keys(gateway.Channels())) {
				w.row(name, "builtin", c.yesNo(loaded.Config.Channels.Each[name].Enabled))
			}
			return w.Flush()
		},
	}, c.enableCommand(), c.disableCommand())
	return cmd
}

func (c *pluginsCommand) enableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "enable NAME", Short: "Switch a channel on", Args: exactArgs(1),
		Example: "  nanobot plugins enable telegram",
		RunE:    func(_ *cobra.Command, args []string) error { return c.turn(args[0], true) },
	}
}

func (c *pluginsCommand) disableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "disable NAME", Short: "Switch a channel off", Args: exactArgs(1),
		Example: "  nanobot plugins disable telegram",
		RunE:    func(_ *cobra.Command, args []string) error { return c.turn(args[0], false) },
	}
}

// turn switches a channel on or off.
func (c *pluginsCommand) turn(name string, on bool) error {
	if err := gateway.KnownChannel(name); err != nil {
		return err
	}

	loaded, err := c.home.load()
	if err != nil {
		return err
	}

	path := "channels." + name + ".enabled"
	err = config.Edit(loaded.File, gateway.Sections(nil), func(f *config.File) error {
		return f.SetValue(path, strconv.FormatBool(on))
	})
	if err != nil {
		return err
	}

	c.say("Set %s to %t in %s\n", path, on, loaded.File)
	return nil
}
