package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// gatewayFlags are the flags of nanobot gateway.
type gatewayFlags struct {
	port       int
	host       string
	verbose    bool
	dryRun     bool
	background bool
	mode       string // how we were started; for the description only
}

// gatewayCommand is nanobot gateway.
type gatewayCommand struct {
	*console
	home    *home
	service *serviceCommand
}

func (c *gatewayCommand) command() *cobra.Command {
	var f gatewayFlags
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve chat platforms, schedules and the HTTP API",
		Long: `gateway keeps the agent running: it connects to the enabled chat platforms, runs
the schedule and serves HTTP on one port. It stores every message on disk before
it confirms it to the platform, and keeps every answer until it is delivered.

Without a subcommand it runs in the foreground until Ctrl-C. The first Ctrl-C
lets running turns finish, the second exits immediately; nothing is lost either
way. SIGHUP, or a change of the configuration file, reloads the settings.`,
		Example: `  nanobot gateway                  run in the foreground
  nanobot gateway --dry-run        check everything without connecting
  nanobot gateway start            run in the background
  nanobot gateway status           show its status
  nanobot gateway logs -f          follow the log
  nanobot service install          start with the machine`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.background {
				return c.start(cmd.Context(), f)
			}
			return c.run(cmd.Context(), f)
		},
	}

	fl := cmd.PersistentFlags()
	portFlag(fl, &f.port, "`port` to listen on instead of gateway.port")
	fl.StringVar(&f.host, "host", "", "`address` to listen on instead of gateway.host")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "log in more detail")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check everything without connecting and print the plan")
	cmd.Flags().BoolVar(&f.background, "background", false, "same as nanobot gateway start")
	cmd.Flags().Bool("foreground", true, "run in the foreground (default)")
	cmd.Flags().StringVar(&f.mode, "launch-mode", "foreground", "")
	for _, hidden := range []string{"background", "foreground", "launch-mode"} {
		_ = cmd.Flags().MarkHidden(hidden) // it exists
	}

	cmd.AddCommand(c.startCommand(&f), c.stopCommand(), c.restartCommand(&f), c.reloadCommand(),
		c.statusCommand(), c.logsCommand())
	cmd.AddCommand(c.service.olderCommands()...)
	return cmd
}

// options returns those of a gateway in this process.
func (c *gatewayCommand) options(l *config.Loaded, f gatewayFlags, log *slog.Logger) gateway.Options {
	o := gateway.Options{Options: app.Options{
		Config:    c.home.options(),
		Workspace: c.home.workspace,
		Env:       c.Env,
		Version:   nanobot.Version(),
		Log:       log,
		Now:       c.Now,
	}}
	if f.host != "" || f.port >= 0 {
		host, port := l.Config.Gateway.Host, l.Config.Gateway.Port
		if f.host != "" {
			host = f.host
		}
		if f.port >= 0 {
			port = f.port
		}
		o.Listen = net.JoinHostPort(host, strconv.Itoa(port))
	}

	o.Checks = doctor.Web{Options: o.Options}
	return o
}

// run serves until it is stopped.
func (c *gatewayCommand) run(ctx context.Context, f gatewayFlags) error {
	opts := c.home.options()
	opts.Lenient = true
	loaded, rejected := config.Load(opts)
	if rejected != nil {
		if loaded = gateway.LastGood(opts); loaded == nil {
			return rejected
		}
		c.sayErr("nanobot: %v\n\nStarting with the last good configuration instead: %s\n", rejected, loaded.File)
	}

	c.home.warn(loaded)
	log, done := c.home.openLog(loaded, f.verbose, f.mode == "foreground")
	defer done()
	crashes := daemon.OpenCrashes(datadir.Starts.In(loaded.DataDir))
	o := c.options(loaded, f, log)
	o.Loaded = loaded
	o.Rejected = rejected
	o.Dry = f.dryRun
	begun := c.Now()
	if !f.dryRun {
		recent, err := crashes.Begin(begun, crashWindow)
		if err != nil {
			log.WarnContext(ctx, "count starts", "err", err)
		}
		o.NoChannels = recent >= crashLimit
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, err := gateway.New(ctx, o)
	if err != nil {
		if !f.dryRun { // who says why it cannot start has not crashed
			_ = crashes.Remove(begun) // without it channels may stay off for two minutes
		}
		return err
	}

	if f.dryRun {
		c.warnExposed(ctx, loaded, log)
		c.printPlan(ctx, g, dryRun)
		c.sayErr("This was a dry run: nothing was connected and nothing runs.\n")
		return g.Close()
	}

	notify := daemon.NewNotifier(c.getenv)
	watchSignals(ctx, stop, g, log)
	self := describeSelf(g, loaded, f)
	file := gateway.InstanceFile(loaded)
	if err := self.Write(file); err != nil {
		log.WarnContext(ctx, "describe the running gateway", "err", err)
	}

	err = g.Run(ctx, func() {
		g.Watchdog(ctx, notify, crashes) // whoever waits for us need not wait for the terminal
		c.warnExposed(ctx, loaded, log)
		c.printPlan(ctx, g, "ready")
		log.InfoContext(ctx, "gateway ready", "version", nanobot.Version(), "pid", self.PID, "address", self.Address, "model", g.Status().Model)
		if o.NoChannels {
			c.sayErr("nanobot: it crashed %d times within %s, so chat platforms stay off for two minutes. See: nanobot gateway logs\n", crashLimit, crashWindow)
		}

		daemon.WorkBesideDisk(c.getenv)
		go daemon.ReleaseWhenQuiet(ctx, g.DropCaches)
	})

	_ = os.Remove(file) // before the next one describes itself; whoever finds it sees that we are gone
	_ = notify.Send("STOPPING=1")
	log.InfoContext(ctx, "gateway ended", "pid", self.PID, "err", err)
	if e := crashes.Clear(); e != nil {
		log.WarnContext(ctx, "count starts", "err", e)
	}

	if errors.Is(err, gateway.ErrRestart) {
		return exited(self.Again(loaded.Config.Gateway.RestartMode, c.Env, log))
	}
	return err
}

// warnExposed says what the configuration leaves open.
func (c *gatewayCommand) warnExposed(ctx context.Context, l *config.Loaded, log *slog.Logger) {
	for _, line := range doctor.FirstLook(l) {
		log.WarnContext(ctx, "security", "open", line)
		fmt.Fprintln(c.Err, c.known(line))
	}
	for _, w := range doctor.Exposed(l) {
		log.WarnContext(ctx, "security", "open", w)
		c.sayErr("nanobot: warning: %s\n", c.known(w))
	}
}

const (
	crashWindow = 2 * time.Minute
	crashLimit  = 5
)

// watchSignals makes the first signal end the gateway in order, the second at
// once, and SIGHUP read the configuration again.
func watchSignals(ctx context.Context, stop context.CancelFunc, g *gateway.Gateway, log *slog.Logger) {
	end := make(chan os.Signal, 2) // two are told apart
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	again := make(chan os.Signal, 1)
	notifyReload(again)
	go func() {
		select {
		case <-end:
			log.InfoContext(ctx, "shutting down; running turns may finish, a second signal exits immediately")
			stop()
			signal.Reset(os.Interrupt, syscall.SIGTERM)
		case <-ctx.Done():
			signal.Stop(end)
		}
	}()

	go func() { // beside it, because a reload waits for turns
		defer signal.Stop(again)
		for {
			select {
			case <-again:
				_ = g.Reload(ctx) // it tells by itself
			case <-ctx.Done():
				return
			}
		}
	}()
}

func describeSelf(g *gateway.Gateway, l *config.Loaded, f gatewayFlags) daemon.Instance {
	self := daemon.Self()
	self.Started = time.Now()
	self.Workspace = g.Workspace()
	self.Config = l.File
	self.Version = nanobot.Version()
	self.Mode, self.Log = f.mode, gateway.LogFile(l)

	if a := g.Addr(); a != nil {
		self.Address = a.String()
		if _, port, err := net.SplitHostPort(self.Address); err == nil {
			self.Port, _ = strconv.Atoi(port) // it is one
		}
	}
	return self
}

const dryRun = "dry run"

// printPlan says what runs, or would.
func (c *gatewayCommand) printPlan(ctx context.Context, g *gateway.Gateway, state string) {
	s := g.Status()
	s.Jobs = g.Jobs(ctx)
	w := &strings.Builder{}
	defer func() { fmt.Fprint(c.Err, w) }() // at once
	tell := func(english string, args ...any) { w.WriteString(c.in(english, args...)) }
	tell("nanobot %s gateway: %s\n", nanobot.Version(), c.in(state))
	tell("  model      %s\n", s.Model)
	tell("  workspace  %s\n", g.Workspace())
	if s.Address != "" {
		tell("  listening  http://%s (health: /readyz)\n", s.Address)
	}
	if s.Page != "" {
		tell("  web page   %s (sign in with: nanobot web)\n", s.Page)
	}

	on := 0
	for _, ch := range s.Channels {
		if !ch.Enabled {
			continue
		}

		on++
		line := c.in(string(ch.State))
		if state == dryRun && ch.State == deliver.Stopped {
			line = c.in("would connect")
		}
		if ch.Error != "" {
			line += ": " + c.known(ch.Error)
		}
		tell("  channel    %-10s %s\n", ch.Name, line)
	}

	if on == 0 {
		tell("  channel    none is enabled; see docs/how-to/channels\n")
	}

	tell("  schedule   %s\n", phrase.Counted(s.Jobs, "job"))
	for _, p := range s.Problems {
		tell("  problem    %s\n", c.known(p))
	}

	for _, n := range g.Notes() {
		tell("  note       %s\n", c.known(n))
	}
}
