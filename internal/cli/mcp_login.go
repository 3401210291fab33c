package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// mcpLoginFlags are the flags of mcp login.
type mcpLoginFlags struct {
	port             int
	client, secretIn string
	stay             bool
}

func (c *mcpCommand) loginCommand() *cobra.Command {
	var f mcpLoginFlags
	cmd := &cobra.Command{
		Use: "login NAME", Short: "Log in to an MCP server", Args: exactArgs(1),
		Long: `login shows an address to open in a browser, which then redirects to this machine.
If the browser runs on another machine, paste the address of the last page. The
login is stored in a file that only you can read and is renewed automatically.

If the server does not allow programs to register themselves, create an OAuth app
there: give its id with --client-id and a fixed --port for its redirect address
http://127.0.0.1:PORT/auth/mcp/callback.`,
		Example: `  nanobot mcp login tracker
  nanobot mcp login tracker --no-browser
  nanobot mcp login github --client-id Iv1.abc --port 8765`,
		ValidArgsFunction: c.names,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.login(cmd.Context(), args[0], f) },
	}

	fl := cmd.Flags()
	fl.IntVar(&f.port, "port", 0, "`port` for the redirect (default any)")
	fl.StringVar(&f.client, "client-id", "", "`id` of your own OAuth app")
	fl.StringVar(&f.secretIn, "client-secret-file", "", "`file` with the secret of that app, if it has one")
	fl.BoolVar(&f.stay, "no-browser", false, "only print the address")
	return cmd
}

func (c *mcpCommand) login(ctx context.Context, name string, f mcpLoginFlags) error {
	e, loaded, err := c.named(name)
	if err != nil {
		return err
	}
	if e.Type == mcp.Stdio {
		return usageError{fmt.Errorf("%s is a local program; give it keys with nanobot mcp add --env", name)}
	}
	if e.Client.Alone {
		return usageError{fmt.Errorf("%s uses the clientId and clientSecret of the configuration and needs no login; try it with: nanobot mcp test %s", name, name)}
	}
	if f.secretIn != "" && f.client == "" {
		return usageError{fmt.Errorf("--client-secret-file requires --client-id")}
	}

	auth, err := c.logins(loaded)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := mcp.LoginOptions{
		Port:     f.port,
		ClientID: f.client,
		Pasted:   func() <-chan string { return c.lines(ctx) },
		Notify:   func(text string) { fmt.Fprintln(c.Out, text) },
		ShowAddress: func(address string) {
			c.say("Open this address in a browser:\n\n  %s\n\n", address)
			c.say("If the browser runs on another machine, the last page cannot be displayed:\npaste the address of that page here and press Enter.\n")
			if !f.stay && c.hasBrowser() {
				openBrowser(ctx, address)
			}
			c.say("Waiting...\n")
		},
	}
	if f.secretIn != "" {
		b, err := os.ReadFile(f.secretIn)
		if err != nil {
			return fmt.Errorf("read the secret: %w", err)
		}
		o.ClientSecret = httpsafe.NewSecret(strings.TrimSpace(string(b)))
	}

	st, err := auth.Login(ctx, name, e.URL, o)
	if err != nil {
		return fmt.Errorf("log in to %s: %w", name, err)
	}

	c.say("Logged in to %s. %s\n", name, c.loginNote(st, time.Now()))
	if e.Auth == mcp.WithLogin {
		return nil
	}

	// A login that is not used would be a surprise.
	path := "tools.mcpServers." + name + ".auth"
	return c.settings.edit(path, false, func(file *config.File) (string, error) { return setIn, file.SetValue(path, mcp.WithLogin) })
}

func (c *mcpCommand) loginNote(st mcp.LoginState, now time.Time) string {
	switch {
	case st.Renews:
		return c.in("The login is renewed automatically.")
	case !st.Expires.IsZero():
		return c.in("The login expires in %s and cannot be renewed.", st.Expires.Sub(now).Round(time.Minute))
	}
	return c.in("The server does not say when the login expires.")
}

func (c *mcpCommand) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "logout NAME",
		Short:             "Log out of an MCP server",
		Args:              exactArgs(1),
		Long:              "logout removes the login and the registration from this machine. It does not notify\nthe server; use the server's account page to end logins everywhere.",
		Example:           "  nanobot mcp logout tracker",
		ValidArgsFunction: c.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			auth, err := c.logins(loaded)
			if err != nil {
				return err
			}

			found, err := auth.Logout(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !found {
				c.say("You were not logged in to %s.\n", args[0])
				return nil
			}

			c.say("Logged out of %s.\n", args[0])
			return nil
		},
	}
}
