package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/api"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// mcpServeFlags are the flags of mcp serve.
type mcpServeFlags struct {
	http, tokenFile string
	model           string
	hosts           []string
}

func (c *mcpCommand) serveCommand() *cobra.Command {
	var f mcpServeFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Offer the agent to other programs as an MCP server", Args: noArgs,
		Long: `serve offers the agent to MCP clients, with the tools ask, search_memory and
list_sessions. Without --http it uses standard input and output: enter
"nanobot mcp serve" as the command in the client. It cannot ask questions, so
calls that need an approval are denied.

With --http it listens on this machine and requires a token with every request.
It creates a token if there is none and prints its path. Access from other
machines requires your own --token-file.`,
		Example: `  nanobot mcp serve
  nanobot mcp serve --http 127.0.0.1:8765
  nanobot mcp serve --http 0.0.0.0:8765 --token-file token --allow-host box.lan`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), f) },
	}

	fl := cmd.Flags()
	fl.StringVar(&f.http, "http", "", "listen on this `address` instead, e.g. 127.0.0.1:8765")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with the token that clients must send")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "additional host `name` of this machine (repeatable)")
	fl.StringVar(&f.model, "model", "", "`model` to use, e.g. anthropic/claude-sonnet-4-5")
	return cmd
}

// serve runs the server. Standard output belongs to the protocol; all that
// is for people goes to standard error.
func (c *mcpCommand) serve(ctx context.Context, f mcpServeFlags) error {
	if f.http == "" && (f.tokenFile != "" || len(f.hosts) > 0) {
		return usageError{errors.New("--token-file and --allow-host require --http")}
	}

	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	// The end of ctx must not stop the bot before the server has hung up.
	bot, err := c.bots.open(context.WithoutCancel(ctx), botChoice{model: f.model})
	if err != nil {
		return err
	}

	defer bot.Close() //nolint:errcheck // always nil
	for _, n := range bot.Notes() {
		fmt.Fprintln(c.Err, n)
	}

	store, err := c.stores.sessions(ctx)
	if err != nil {
		return err
	}

	defer store.Close() //nolint:errcheck // only read from
	index, _, err := c.stores.search(ctx)
	if err != nil {
		return err
	}

	defer index.Close() //nolint:errcheck // derived data
	m, err := api.NewMCP(api.MCPOptions{
		Ask: bot.Ask, Version: nanobot.Version(), Log: c.home.logger(),
		Sessions: api.ListSessions(store), SearchMemory: api.SearchOwner(index),
	})
	if err != nil {
		return err
	}
	if f.http == "" {
		return m.ServeStdio(ctx, c.In, c.Out)
	}
	return c.serveHTTP(ctx, m, f, bot.DataDir())
}

func (c *mcpCommand) serveHTTP(ctx context.Context, m *api.MCP, f mcpServeFlags, data string) error {
	address := f.http
	if _, err := strconv.Atoi(address); err == nil {
		address = ":" + address
	}

	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usageError{fmt.Errorf("--http: want HOST:PORT: %w", err)}
	}

	if host == "" {
		host = "127.0.0.1" // everywhere must be asked for
	}

	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if !api.Loopback(l.Addr()) && f.tokenFile == "" {
		return errors.Join(usageError{fmt.Errorf("%s is reachable from other machines; give your own token with --token-file", l.Addr())}, l.Close())
	}

	token, where, err := auth.ListenerToken(ctx, f.tokenFile, disk.Open(data, nil))
	if err != nil {
		return errors.Join(err, l.Close())
	}

	if fi, err := os.Stat(where); err == nil && fi.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		c.sayErr("nanobot: warning: other users of this machine can read %s; chmod 600 it\n", where)
	}

	c.sayErr("MCP server at http://%s/mcp\nClients send the header Authorization: Bearer with the token in %s\n", l.Addr(), where)
	err = m.Serve(ctx, l, api.Gate{Token: token, Hosts: f.hosts})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
