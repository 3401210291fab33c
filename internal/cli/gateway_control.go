package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

func (c *gatewayCommand) startCommand(f *gatewayFlags) *cobra.Command {
	return &cobra.Command{
		Use: "start", Short: "Run the gateway in the background", Args: noArgs,
		Example: "  nanobot gateway start\n  nanobot gateway start --port 18800",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.start(cmd.Context(), *f) },
	}
}

// startWait is how long a gateway in the background may take until it answers.
const startWait = 15 * time.Second

func (c *gatewayCommand) start(ctx context.Context, f gatewayFlags) error {
	l, err := c.home.readLenient()
	if err != nil {
		return err
	}
	if i, err := daemon.Find(gateway.InstanceFile(l)); err == nil {
		return unavailable{fmt.Errorf("the gateway is already running (process %d, %s); see: nanobot gateway status", i.PID, i.Address)}
	}

	exe, err := os.Executable()
	if err != nil {
		return err
	}

	args := []string{"gateway", "--launch-mode", "background"}
	if c.home.configPath != "" {
		args = append(args, "-c", l.File)
	}
	if c.home.workspace != "" {
		args = append(args, "-w", c.home.workspace)
	}
	if f.port >= 0 {
		args = append(args, "--port", strconv.Itoa(f.port))
	}
	if f.host != "" {
		args = append(args, "--host", f.host)
	}
	if f.verbose {
		args = append(args, "--verbose")
	}

	out := gateway.LogFile(l) + ".start"
	_ = os.Remove(out) // what an earlier start said
	pid, ended, err := daemon.Start(exe, args, c.Env, out)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	for {
		if address, ok := answers(ctx, l, pid); ok {
			c.say("The gateway is running (process %d) and listens on http://%s\n", pid, address)
			c.say("Log: %s\nStop it with: nanobot gateway stop\n", gateway.LogFile(l))
			c.warnChannels(ctx, l, tick.C)
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			said, _ := os.ReadFile(out)
			return fmt.Errorf("the gateway exited immediately. Its output:\n%s", strings.TrimSpace(string(said)))
		case <-ctx.Done():
			return fmt.Errorf("the gateway (process %d) does not answer after %s; see %s", pid, startWait, gateway.LogFile(l))
		}
	}
}

// connectWait is how long a start waits to see whether chat platforms let us in.
const connectWait = 3 * time.Second

// warnChannels says which chat platforms a gateway that was just started cannot
// reach. One that is still connecting after a while is not mentioned.
func (c *gatewayCommand) warnChannels(ctx context.Context, l *config.Loaded, tick <-chan time.Time) {
	if !l.Config.Gateway.ControlSocket {
		return // nothing tells
	}

	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	var s control.Status
	for {
		now, err := control.To(l).Status(ctx)
		if err != nil {
			break // what the last answer said
		}

		s = now
		connecting := slices.ContainsFunc(s.Channels, func(ch deliver.Status) bool {
			return ch.Enabled && ch.State == deliver.Starting && ch.Error == ""
		})
		if !connecting {
			break
		}

		select {
		case <-tick:
			continue
		case <-ctx.Done():
		}
		break
	}

	for i := range s.Channels {
		if ch := &s.Channels[i]; ch.Enabled && ch.Error != "" {
			c.sayErr("nanobot: warning: the channel %s does not work: %s\n", ch.Name, c.known(printable(ch.Error)))
		}
	}
}

// answers asks the gateway of a process for its address. Without a control socket,
// its own description is all there is.
func answers(ctx context.Context, l *config.Loaded, pid int) (address string, ok bool) {
	if !l.Config.Gateway.ControlSocket {
		i, err := daemon.Find(gateway.InstanceFile(l))
		return i.Address, err == nil && i.PID == pid
	}
	s, err := control.To(l).Status(ctx)
	return s.Address, err == nil && s.PID == pid
}

func (c *gatewayCommand) stopCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the gateway",
		Args:  noArgs,
		Long: `stop lets running turns finish. The next start continues turns that did not
finish in time: no message is lost.`,
		Example: "  nanobot gateway stop\n  nanobot gateway stop --timeout 5s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := c.home.findGateway()
			if err != nil {
				return err
			}

			gently, err := i.Stop(cmd.Context(), timeout)
			if err != nil {
				return err
			}
			if !gently {
				c.say("The gateway (process %d) did not stop within %s and was killed. The next start continues its work.\n", i.PID, timeout)
				return nil
			}

			c.say("The gateway (process %d) has stopped.\n", i.PID)
			return nil
		},
	}

	stopTimeout(cmd, &timeout)
	return cmd
}

// stopTimeout adds the flag that bounds how long a gateway may take to end.
func stopTimeout(cmd *cobra.Command, d *time.Duration) {
	*d = 40 * time.Second
	cmd.Flags().Var(length{d}, "timeout", "`time` for running turns to finish: seconds, or 20s, 1m")
}

// notRunning says that no gateway runs and what to do.
func notRunning(err error) error {
	if stale, ok := errors.AsType[*daemon.StaleError](err); ok {
		return fmt.Errorf("The gateway is not running: %w. Nothing is lost; start it with: nanobot gateway start", stale) //nolint:staticcheck // a sentence of its own
	}
	if errors.Is(err, daemon.ErrNotRunning) {
		return errors.New("The gateway is not running. Start it with: nanobot gateway start") //nolint:staticcheck // likewise
	}
	return err
}

func (c *gatewayCommand) restartCommand(f *gatewayFlags) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "restart", Short: "Restart the gateway", Args: noArgs,
		Example: "  nanobot gateway restart",
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := c.home.findGateway()
			if err != nil {
				return err
			}

			if i.Mode != "background" {
				l, err := c.home.lenient()
				if err != nil {
					return err
				}
				if err := control.To(l).Restart(cmd.Context()); err != nil {
					return err
				}

				c.say("The gateway is restarting.\n")
				return nil
			}

			if _, err := i.Stop(cmd.Context(), timeout); err != nil {
				return err
			}
			return c.start(cmd.Context(), *f)
		},
	}

	stopTimeout(cmd, &timeout)
	return cmd
}

func (c *gatewayCommand) reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "reload",
		Short:   "Reload the configuration",
		Args:    noArgs,
		Example: "  nanobot gateway reload",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := c.home.lenient()
			if err != nil {
				return err
			}
			if err := control.To(l).Reload(cmd.Context()); err != nil {
				return err
			}

			s, err := control.To(l).Status(cmd.Context())
			if err != nil {
				return err
			}
			if len(s.Later) > 0 {
				c.say("The new settings are in use, except for those that need a restart: %s\nRestart it with: nanobot gateway restart\n", strings.Join(s.Later, ", "))
				return nil
			}

			c.say("The new settings are in use.\n")
			return nil
		},
	}
}

func (c *gatewayCommand) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the gateway's status", Args: noArgs,
		Long: `status exits with 0 if the gateway is running and ready, 1 if it is not ready or
every enabled channel has failed, and 3 if it is not running.`,
		Example: "  nanobot gateway status\n  nanobot gateway status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := c.home.lenient()
			if err != nil {
				return err
			}

			i, err := daemon.Find(gateway.InstanceFile(l))
			if err != nil {
				_ = c.show(asJSON, map[string]any{"running": false, "reason": err.Error()}, func() error {
					c.say("%v\n", notRunning(err))
					return nil
				})
				return failure{exitNotRunning}
			}

			s, err := control.To(l).Status(cmd.Context())
			if err != nil {
				return fmt.Errorf("the gateway (process %d) does not answer: %w", i.PID, err)
			}

			running := struct {
				Running bool            `json:"running"`
				Process daemon.Instance `json:"process"`
				control.Status
			}{true, i, s}

			err = c.show(asJSON, running, func() error {
				c.printStatus(i, s)
				return nil
			})
			if err == nil && (!s.Ready || deaf(s.Channels)) {
				return failure{exitFailure}
			}
			return err
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

// deaf reports whether there are channels and all of them have failed, so that
// no sender reaches the bot.
func deaf(list []deliver.Status) bool {
	on, failed := 0, 0
	for _, s := range list {
		if s.Enabled {
			on++
		}
		if s.Enabled && s.State == deliver.Failed {
			failed++
		}
	}

	return on > 0 && on == failed
}

// exitNotRunning is the exit code that init scripts call "program is not
// running".
const exitNotRunning = 3

func (c *gatewayCommand) printStatus(i daemon.Instance, s control.Status) {
	state := phrase.Later("ready")
	if !s.Ready {
		state = phrase.Later("not ready")
	}

	c.say("nanobot %s gateway: %s\n", s.Version, state)
	c.say("  process    %d, %s, since %s\n", i.PID, c.in(i.Mode), i.Started.Local().Format(time.DateTime))
	c.say("  address    http://%s\n", s.Address)
	if s.Page != "" {
		c.say("  web page   %s (sign in with: nanobot web)\n", s.Page)
	}

	c.say("  model      %s\n", s.Model)
	c.say("  turns      %d running, %d waiting\n", s.Agent.Turns, s.Agent.Waiting)
	out := 0
	for _, n := range s.Queue.Outbound {
		out += n
	}

	c.say("  messages   %d to answer, %d to deliver\n", s.Queue.Inbound, out)
	for _, ch := range s.Channels {
		if !ch.Enabled {
			continue
		}

		line := c.in(string(ch.State))
		if ch.Identity != "" {
			line += c.in(" as %s", ch.Identity)
		}
		if ch.Error != "" {
			line += ": " + c.known(ch.Error)
		}
		c.say("  channel    %-10s %s\n", ch.Name, line)
	}

	c.say("  schedule   %s\n", phrase.Counted(s.Jobs, "job"))
	if len(s.Later) > 0 {
		c.say("  waiting    for a restart: %s\n", strings.Join(s.Later, ", "))
	}

	for _, p := range s.Problems {
		c.say("  problem    %s\n", c.known(p))
	}
	c.say("  log        %s\n", i.Log)
}

func (c *gatewayCommand) logsCommand() *cobra.Command {
	var follow bool
	var lines int
	var session string
	cmd := &cobra.Command{
		Use:     "logs",
		Short:   "Show the gateway's log",
		Args:    noArgs,
		Example: "  nanobot gateway logs\n  nanobot gateway logs -f\n  nanobot gateway logs -n 500 --session telegram:42",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := c.home.lenient()
			if err != nil {
				return err
			}
			return daemon.ShowLog(cmd.Context(), c.Out, gateway.LogFile(l), daemon.LogView{Lines: lines, Follow: follow, Text: session})
		},
	}

	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log")
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "`number` of lines from the end")
	cmd.Flags().IntVar(&lines, "tail", 100, "same as --lines")
	cmd.Flags().Bool("no-follow", true, "do not follow the log (default)")
	for _, older := range []string{"tail", "no-follow"} {
		_ = cmd.Flags().MarkHidden(older) // it exists
	}

	cmd.Flags().StringVar(&session, "session", "", "only lines about this `session`")
	return cmd
}
