package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/daemon"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/gateway"
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

func (c *command) serviceCommand() *cobra.Command {
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
	cmd.AddCommand(c.serviceInstall(&f), c.serviceUninstall(&f), c.serviceStatus(&f))
	return cmd
}

func (c *command) serviceInstall(f *serviceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "install", Short: "Install the service and start it", Args: noArgs,
		Long: `install writes the service file, enables the service and starts it. Run it again to
update an existing service, for example after you moved the program. The service
does not see the variables of your shell: store keys in the configuration.`,
		Example: "  nanobot service install\n  nanobot service install --dry-run\n  sudo nanobot service install --system --user me",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.serviceHost(*f)
			if err != nil {
				return err
			}
			return c.installService(cmd, s, *f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.dryRun, "dry-run", false, "only show the file and the commands")
	fl.StringVar(&f.user, "user", "", "with --system: `user` that the gateway runs as")
	fl.IntVarP(&f.port, "port", "p", -1, "`port` to listen on instead of gateway.port")
	fl.StringVar(&f.host, "host", "", "`address` to listen on instead of gateway.host")
	return cmd
}

func (c *command) serviceUninstall(f *serviceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Stop the service and remove it", Args: noArgs,
		Long:    "uninstall stops the gateway and removes the service file. Your data stays.",
		Example: "  nanobot service uninstall\n  nanobot service uninstall --dry-run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.serviceHost(*f)
			if err != nil {
				return err
			}
			return c.uninstallService(cmd, s, *f)
		},
	}
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only show what would be done")
	return cmd
}

func (c *command) serviceStatus(f *serviceFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the service's status", Args: noArgs,
		Long:    "status exits with 0 if the service is running, otherwise with 3.",
		Example: "  nanobot service status\n  nanobot service status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.serviceHost(*f)
			if err != nil {
				return err
			}
			st := s.state(cmd.Context())
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), st)
			} else {
				cmd.Println(st.String())
			}
			if err == nil && st.Active != "active" {
				return failure{exitNotRunning}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// serviceHost finds the service manager of this machine and checks that the
// caller may use it.
func (c *command) serviceHost(f serviceFlags) (serviceHost, error) {
	s := serviceHost{os: runtime.GOOS, uid: os.Geteuid(), name: f.name, system: f.system, env: c.Env}
	if s.os != "linux" && s.os != "darwin" {
		return s, errors.New("services require systemd or launchd. On Windows, use the Task Scheduler to run at logon: nanobot gateway start")
	}
	if !serviceName(f.name) {
		return s, usageError{fmt.Errorf("%q is not a valid service name; use letters, digits, - and _", f.name)}
	}
	if f.system { // it may be set up by a program that has no home
		return s, nil
	}
	var err error
	s.home, err = os.UserHomeDir()
	return s, err
}

// serviceName reports names that mean the same everywhere: as a file, a unit
// and a label.
func serviceName(s string) bool {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	return s != "" && len(s) <= 64 && s[0] != '-' && strings.TrimFunc(s, plain) == ""
}

// allowed says why the caller cannot change the service.
func (s serviceHost) allowed() error {
	switch {
	case s.system && s.uid != 0:
		return errors.New("a system service requires root: sudo nanobot service ... --system")
	case !s.system && s.uid == 0:
		return errors.New("you are root; a user service of root is rarely useful.\n" +
			"Run this as the user that owns the bot, or install a system service:\n" +
			"  nanobot service install --system --user NAME")
	}
	return nil
}

func (c *command) installService(cmd *cobra.Command, s serviceHost, f serviceFlags) error {
	if err := s.allowed(); err != nil && !f.dryRun {
		return err
	}
	unit, l, err := c.serviceUnit(s, f)
	if err != nil {
		return err
	}
	text := s.text(unit)
	if f.dryRun {
		cmd.Printf("# %s\n%s\n# then:\n%s", s.path(), text, shellLines(f.begin(s)))
		return nil
	}
	if err := s.ours(); err != nil {
		return err
	}
	if i, err := daemon.Find(gateway.InstanceFile(l)); err == nil && i.Mode != "service" {
		return unavailable{fmt.Errorf("the gateway is already running (process %d); stop it first: nanobot gateway stop", i.PID)}
	}
	if err := diskio.MkdirAll(filepath.Dir(s.path()), 0o755); err != nil {
		return err
	}
	if s.system {
		if err := ownFolders(unit.Write, unit.User); err != nil {
			return err
		}
	}
	if unit.Log != "" {
		if err := diskio.MkdirAll(filepath.Dir(unit.Log), 0o700); err != nil {
			return err
		}
	}
	if err := diskio.WriteFile(s.path(), []byte(text), 0o644); err != nil {
		return err
	}
	cmd.Printf("Wrote %s\n", s.path())
	switch left, err := s.run(cmd.Context(), f.begin(s)); {
	case left == 1 && !f.noStart: // the start itself
		return fmt.Errorf("%w\nThe service is installed, but the gateway does not start. Show the reason with: %s", err, s.journal())
	case err != nil:
		return fmt.Errorf("%w\nThe file is in place. Do the rest by hand:\n%s", err, strings.TrimRight(shellLines(f.begin(s)), "\n"))
	}
	if f.noStart {
		cmd.Println("The service is installed but not started.")
		return nil
	}
	see := "nanobot gateway status"
	if s.system { // what root has is another configuration
		see = "nanobot service status --system, or as the user " + unit.User + ": " + see
	}
	cmd.Println("The service is enabled and started. See: " + see)
	if s.os == "linux" && !s.system {
		cmd.Println("It runs while you are logged in. To keep it running without a login: loginctl enable-linger")
	}
	c.warnOfShellKeys(l)
	return nil
}

// begin are the commands that make an installed service run.
func (f serviceFlags) begin(s serviceHost) [][]string {
	return slices.DeleteFunc(s.start(), func(words []string) bool {
		verb := words[len(words)-2] // before the unit, or what launchd calls it
		switch {
		case slices.Contains(words, "daemon-reload"):
			return false
		case f.noStart && s.os == "darwin":
			return true // what is loaded runs
		}
		return f.noEnable && verb == "enable" || f.noStart && verb == "restart"
	})
}

// warnOfShellKeys names keys that are in this shell and will be missing there.
func (c *command) warnOfShellKeys(l *config.Loaded) {
	for _, p := range c.providers(l) {
		if p.Key != "" && p.Key != "configuration" {
			fmt.Fprintf(c.Err, "nanobot: warning: the key for %s is in the variable %s of your shell, which the service does not see; store it with: nanobot config set providers.%s.apiKey\n", p.Name, p.Key, p.Name)
		}
	}
}

func (c *command) uninstallService(cmd *cobra.Command, s serviceHost, f serviceFlags) error {
	if _, err := os.Lstat(s.path()); diskio.IsMissing(err) {
		cmd.Printf("There is no service: %s does not exist.\n", s.path())
		return nil
	}
	if f.dryRun {
		cmd.Printf("%srm %s\n%s", shellLines(s.stop()), shellWord(s.path()), shellLines(s.forget()))
		return nil
	}
	if err := errors.Join(s.allowed(), s.ours()); err != nil {
		return err
	}
	_, stopped := s.run(cmd.Context(), s.stop())
	if err := os.Remove(s.path()); err != nil {
		return err
	}
	cmd.Printf("Removed %s\n", s.path())
	_, err := s.run(cmd.Context(), s.forget())
	if err = errors.Join(stopped, err); err != nil {
		return fmt.Errorf("%w\nThe file is removed. Do the rest by hand:\n%s", err, strings.TrimRight(shellLines(slices.Concat(s.stop(), s.forget())), "\n"))
	}
	cmd.Println("The service is stopped and removed. Your data stays.")
	return nil
}

// serviceUnit describes the gateway as a service.
func (c *command) serviceUnit(s serviceHost, f serviceFlags) (daemon.Service, *config.Loaded, error) {
	u := daemon.Service{Name: s.label(), About: "nanobot gateway", System: s.system}
	o := c.configOptions()
	o.Lenient = true
	if s.system {
		owner, err := serviceOwner(cmp.Or(f.user, c.getenv("SUDO_USER")))
		if err != nil {
			return u, nil, err
		}
		u.User, s.home, o.Home = owner.Username, owner.HomeDir, owner.HomeDir
	}
	l, err := config.Load(o)
	if err != nil {
		return u, nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return u, nil, err
	}
	u.Command = []string{exe, "gateway", "--launch-mode", "service"}
	ws := l.Workspace()
	// The variables of this shell that lead to the configuration are not there.
	home := c.getenv("NANOBOT_HOME")
	if c.configPath != "" || c.getenv("NANOBOT_CONFIG") != "" || home != "" {
		u.Command = append(u.Command, "-c", l.File)
	}
	if home != "" {
		file, err := config.Locate(config.Options{Home: o.Home, Env: []string{"NANOBOT_HOME=" + home}})
		if err != nil {
			return u, nil, err
		}
		u.Env = append(u.Env, "NANOBOT_HOME="+filepath.Dir(file))
	}
	if c.workspace != "" {
		if ws, err = app.Workspace(c.workspace, l); err != nil {
			return u, nil, err
		}
		u.Command = append(u.Command, "-w", ws)
	}
	if f.port >= 0 {
		u.Command = append(u.Command, "--port", strconv.Itoa(f.port))
	}
	if f.host != "" {
		u.Command = append(u.Command, "--host", f.host)
	}
	u.Folder, u.Write = s.home, []string{l.DataDir, ws}
	// Programs the agent and MCP servers need are found as in this shell.
	if p := c.getenv("PATH"); p != "" && !s.system {
		u.Env = append(u.Env, "PATH="+p)
	}
	if s.os == "darwin" {
		u.Log = datadir.Logs.In(l.DataDir, f.name+".launchd")
	}
	return u, l, nil
}

// serviceOwner is the user a service of the machine runs as.
func serviceOwner(name string) (*user.User, error) {
	if name == "" {
		return nil, usageError{errors.New("give the user that the gateway runs as: --user NAME")}
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("there is no user %q", name)}
	}
	return u, nil
}

// ownFolders makes folders that are missing and gives them to a user: a service
// manager refuses to open what is not there.
func ownFolders(dirs []string, owner string) error {
	u, err := serviceOwner(owner)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		var missing []string
		for at := dir; ; at = filepath.Dir(at) {
			if _, err := os.Stat(at); !diskio.IsMissing(err) {
				break
			}
			missing = append(missing, at)
		}
		for _, at := range slices.Backward(missing) {
			if err := errors.Join(os.Mkdir(at, 0o700), os.Lchown(at, uid, gid)); err != nil {
				return err
			}
		}
	}
	return nil
}
