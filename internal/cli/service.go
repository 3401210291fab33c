package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// serviceFlags are the flags of nanobot service.
type serviceFlags struct {
	name   string
	system bool
	user   string // of a service of the machine
	dryRun bool
	port   int
	host   string

	noStart, noEnable bool // only for older scripts
}

// serviceCommand is nanobot service.
type serviceCommand struct {
	*console
	home *home
}

func (c *serviceCommand) command() *cobra.Command {
	var f serviceFlags
	cmd := &cobra.Command{
		Use: "service", Short: "Run the gateway as a service", Args: subcommand, RunE: showHelp,
		Long: `service installs the gateway as a systemd (Linux) or launchd (macOS) service, so
that it starts automatically and restarts after a crash.`,
		Example: `  nanobot service install
  nanobot service install --dry-run
  sudo nanobot service install --system --user me
  nanobot service status
  nanobot service uninstall`,
	}

	fl := cmd.PersistentFlags()
	fl.StringVar(&f.name, "name", "nanobot", "`name` of the service; one for each configuration")
	fl.BoolVar(&f.system, "system", false, "system service instead of a user service; requires root")
	cmd.AddCommand(c.installCommand(&f), c.uninstallCommand(&f), c.statusCommand(&f))
	return cmd
}

func (c *serviceCommand) installCommand(f *serviceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the service and start it",
		Args:  noArgs,
		Long: `install writes the service file, enables the service and starts it. Run it again to
update an existing service, for example after you moved the program. The service
does not see the variables of your shell: store keys in the configuration.`,
		Example: "  nanobot service install\n  nanobot service install --dry-run\n  sudo nanobot service install --system --user me",
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := daemon.NewManager(f.name, f.system, c.Env)
			if err != nil {
				return err
			}
			return c.install(cmd.Context(), m, *f)
		},
	}

	fl := cmd.Flags()
	fl.BoolVar(&f.dryRun, "dry-run", false, "only show the file and the commands")
	fl.StringVar(&f.user, "user", "", "with --system: `user` that the gateway runs as")
	portFlag(fl, &f.port, "`port` to listen on instead of gateway.port")
	fl.StringVar(&f.host, "host", "", "`address` to listen on instead of gateway.host")
	return cmd
}

func (c *serviceCommand) uninstallCommand(f *serviceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Stop the service and remove it", Args: noArgs,
		Long:    "uninstall stops the gateway and removes the service file. Your data stays.",
		Example: "  nanobot service uninstall\n  nanobot service uninstall --dry-run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := daemon.NewManager(f.name, f.system, c.Env)
			if err != nil {
				return err
			}
			return c.uninstall(cmd.Context(), m, *f)
		},
	}

	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only show what would be done")
	return cmd
}

func (c *serviceCommand) statusCommand(f *serviceFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the service's status", Args: noArgs,
		Long:    "status exits with 0 if the service is running, otherwise with 3.",
		Example: "  nanobot service status\n  nanobot service status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := daemon.NewManager(f.name, f.system, c.Env)
			if err != nil {
				return err
			}

			st := m.State(cmd.Context())
			err = c.show(asJSON, st, func() error {
				fmt.Fprintln(c.Out, c.known(st.String()))
				return nil
			})
			if err == nil && st.Active != "active" {
				return failure{exitNotRunning}
			}
			return err
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *serviceCommand) install(ctx context.Context, m daemon.Manager, f serviceFlags) error {
	if !f.dryRun {
		if err := m.Check(); err != nil {
			return err
		}
	}

	unit, l, err := c.unit(m, f)
	if err != nil {
		return err
	}

	begin := daemon.Begin{NoStart: f.noStart, NoEnable: f.noEnable}
	if f.dryRun {
		fmt.Fprint(c.Out, m.InstallPlan(unit, begin))
		return nil
	}
	if i, err := daemon.Find(gateway.InstanceFile(l)); err == nil && i.Mode != "service" {
		return unavailable{fmt.Errorf("the gateway is already running (process %d); stop it first: nanobot gateway stop", i.PID)}
	}
	if err := m.Install(unit); err != nil {
		return err
	}

	c.say("Wrote %s\n", m.Path())
	if err := m.Start(ctx, begin); err != nil {
		return err
	}
	if f.noStart {
		c.say("The service is installed but not started.\n")
		return nil
	}

	if m.System { // what root has is another configuration
		c.say("The service is enabled and started. See: nanobot service status --system, or as the user %s: nanobot gateway status\n", unit.User)
	} else {
		c.say("The service is enabled and started. See: nanobot gateway status\n")
	}

	if m.OS == "linux" && !m.System {
		c.say("It runs while you are logged in. To keep it running without a login: loginctl enable-linger\n")
	}

	c.warnOfShellKeys(l)
	return nil
}

// warnOfShellKeys names keys that are in this shell and will be missing there.
func (c *serviceCommand) warnOfShellKeys(l *config.Loaded) {
	for _, p := range doctor.KeyedProviders(l, c.getenv) {
		if p.Key != "" && p.Key != "configuration" {
			c.sayErr("nanobot: warning: the key for %s is in the variable %s of your shell, which the service does not see; store it with: nanobot config set providers.%s.apiKey\n", p.Name, p.Key, p.Name)
		}
	}
}

func (c *serviceCommand) uninstall(ctx context.Context, m daemon.Manager, f serviceFlags) error {
	if _, err := os.Lstat(m.Path()); diskio.IsMissing(err) {
		c.say("There is no service: %s does not exist.\n", m.Path())
		return nil
	}
	if f.dryRun {
		fmt.Fprint(c.Out, m.UninstallPlan())
		return nil
	}

	removed, err := m.Uninstall(ctx)
	if removed {
		c.say("Removed %s\n", m.Path())
	}

	if err != nil {
		return err
	}

	c.say("The service is stopped and removed. Your data stays.\n")
	return nil
}

// unit describes the gateway as a service.
func (c *serviceCommand) unit(m daemon.Manager, f serviceFlags) (daemon.Service, *config.Loaded, error) {
	return gateway.ServiceUnit(m, gateway.UnitOptions{
		Config:    c.home.options(),
		Workspace: c.home.workspace,
		User:      f.user,
		Log:       f.name + ".launchd",
		Port:      f.port,
		Host:      f.host,
		Env:       c.Env,
	})
}
