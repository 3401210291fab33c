package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/web/api"
)

// healthWait is how long nanobot health waits for an answer.
const healthWait = 5 * time.Second

// healthCommand asks the gateway how it is, for a container or a monitor.
// healthCommand is nanobot health.
type healthCommand struct {
	*console
	home *home
}

func (c *healthCommand) command() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use: "health", Short: "Check whether the gateway is ready", Args: noArgs,
		Long: `health requests /readyz of the gateway that runs with this configuration. It
exits with 0 if the gateway is ready, otherwise with 1. Use it in containers and
monitoring.`,
		Example: "  nanobot health\n  nanobot health --url http://127.0.0.1:18790",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthWait)
			defer cancel()
			if address == "" {
				i, err := c.home.runningGateway()
				if err != nil {
					return err
				}
				if i.Address == "" {
					return fmt.Errorf("the gateway (process %d) does not listen; see: nanobot gateway status", i.PID)
				}
				address = "http://" + reachable(i.Address)
			}

			if err := health(ctx, address); err != nil {
				return err
			}

			fmt.Fprintln(c.Out, "ready")
			return nil
		},
	}

	cmd.Flags().StringVar(&address, "url", "", "`address` of another gateway")
	return cmd
}

// reachable returns an address to connect to for one that is listened on.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// health asks a gateway and says what is wrong with it.
func health(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usageError{fmt.Errorf("%q is not an address; use http://HOST:PORT", address)}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/readyz"
	}
	return api.AskReady(ctx, u.String())
}
