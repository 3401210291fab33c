package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// serveCommand is nanobot serve.
type serveCommand struct {
	*console
	home *home
}

func (c *serveCommand) command() *cobra.Command {
	var host string
	var port int
	var timeout float64
	var verbose bool
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve only the OpenAI-compatible API", Args: noArgs,
		Long: `serve offers the OpenAI-compatible API on api.host and api.port, without chat
platforms and schedules. The gateway serves the same API on its own port; serve
is for programs that need only the API. It can run next to a gateway.

Access from other machines requires a key: set api.apiKey.`,
		Example: `  nanobot serve
  nanobot serve --port 9000
  curl http://127.0.0.1:8900/v1/models`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return c.run(ctx, app.APIListen{Host: host, Port: port, Timeout: timeout}, verbose)
		},
	}

	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log in more detail")
	cmd.Flags().StringVarP(&host, "host", "H", "", "`address` to listen on instead of api.host")
	portFlag(cmd.Flags(), &port, "`port` to listen on instead of api.port")
	cmd.Flags().Float64VarP(&timeout, "timeout", "t", 0, "maximum `seconds` of one request instead of api.timeout")
	return cmd
}

func (c *serveCommand) run(ctx context.Context, where app.APIListen, verbose bool) error {
	loaded, err := c.home.load()
	if err != nil {
		return err
	}

	log, done := c.home.openLog(loaded, verbose, true)
	defer done()
	return app.ServeAPI(ctx, app.Options{
		Config: c.home.options(), Workspace: c.home.workspace, Env: c.Env, Version: nanobot.Version(), Log: log,
	}, where, func(a *app.App, addr string) {
		c.sayErr("nanobot %s API\n  model      %s\n  listening  http://%s/v1\n", nanobot.Version(), a.ModelInfo().Name, addr)
		for _, n := range a.Notes {
			c.sayErr("  note       %s\n", n)
		}
	})
}
