package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// mcpSetting is a server as it is written into the file, in this order.
type mcpSetting struct {
	Type         string            `json:"type,omitempty"`
	Command      string            `json:"command,omitempty"`
	Args         []string          `json:"args,omitempty"`
	Env          map[string]string `json:"env,omitempty"`
	Cwd          string            `json:"cwd,omitempty"`
	URL          string            `json:"url,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
	Auth         string            `json:"auth,omitempty"`
	ToolTimeout  int               `json:"toolTimeout,omitempty"`
	EnabledTools []string          `json:"enabledTools,omitempty"`
	Trusted      bool              `json:"trusted,omitempty"`
	Sandbox      bool              `json:"sandbox,omitempty"`
}

// mcpAddFlags are the flags of mcp add.
type mcpAddFlags struct {
	mcpSetting
	env, headers []string
	force, dry   bool
}

func (c *mcpCommand) addCommand() *cobra.Command {
	var f mcpAddFlags
	cmd := &cobra.Command{
		Use:   "add NAME [flags] URL | add NAME [flags] -- COMMAND [ARGUMENTS]",
		Short: "Add an MCP server to the configuration",
		Long: `add writes a server to tools.mcpServers. A server is a program that nanobot
starts, given after --, or an address. The rest of the file stays unchanged.

Keep keys in the environment: --env NAME without a value, or a value such as
'Bearer ${NAME}', writes a reference that is resolved when nanobot starts. A
program sees only these variables and a few harmless ones.`,
		Example: `  nanobot mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/docs
  nanobot mcp add github --env GITHUB_TOKEN -- github-mcp-server stdio
  nanobot mcp add tracker https://mcp.example.com/mcp --auth oauth
  nanobot mcp add search https://example.com/mcp --header 'X-Key=${SEARCH_KEY}'
  nanobot mcp add old https://example.com/events --transport sse`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.read(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w\nSee: nanobot mcp add --help", err)}
			}
			return c.add(args[0], f)
		},
	}

	fl := cmd.Flags()
	fl.StringVarP(&f.Type, "transport", "t", "", "stdio, sse or http; detected by default")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "`NAME=VALUE` for a program (repeatable)")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "`NAME=VALUE` for an address (repeatable)")
	fl.StringSliceVar(&f.EnabledTools, "enabled-tools", nil, "`names` of the tools to use, separated by commas (default all)")
	fl.StringVar(&f.Auth, "auth", "", "oauth for an address that requires a login")
	fl.StringVar(&f.Cwd, "cwd", "", "working `folder` of a program")
	fl.IntVar(&f.ToolTimeout, "timeout", 0, "`seconds` a call may take (default 30)")
	fl.BoolVar(&f.Trusted, "trusted", false, "trust its declaration of read-only tools")
	fl.BoolVar(&f.Sandbox, "sandbox", false, "run a program in the sandbox")
	fl.BoolVar(&f.force, "force", false, "replace a server with the same name")
	fl.BoolVar(&f.dry, "dry-run", false, "only check the change")
	return cmd
}

// read completes the setting from the arguments.
func (f *mcpAddFlags) read(cmd *cobra.Command, args []string) (err error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return errors.New("a server needs a name")
	case !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`).MatchString(args[0]):
		return fmt.Errorf("%q is not a valid name: use letters, digits, - and _, at most 40", args[0])
	case len(args) == 1:
		return errors.New("give an address, or a command after --")
	case dash < 0 && len(args) > 2:
		return errors.New("put -- in front of the command")
	case dash > 1:
		return errors.New("only the name may come before --")
	case isURL(args[1]) && len(args) == 2:
		f.URL = args[1]
	default:
		f.Command, f.Args = args[1], args[2:]
	}

	if f.Env, err = pairs(f.env, "=", true); err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	if f.Headers, err = pairs(f.headers, "=:", false); err != nil {
		return fmt.Errorf("--header: %w", err)
	}
	if len(f.Env) > 0 && f.URL != "" {
		return errors.New("--env is for programs; use --header for an address")
	}
	if len(f.Headers) > 0 && f.URL == "" {
		return errors.New("--header is for addresses; use --env for a program")
	}

	if f.Type == "http" {
		f.Type = mcp.StreamableHTTP
	}
	return nil
}

func isURL(s string) bool {
	s = strings.ToLower(s)
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "${")
}

// pairs reads NAME=VALUE. Without a value the name of a variable refers to
// the environment nanobot is started with.
func pairs(list []string, seps string, reference bool) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range list {
		i := strings.IndexAny(p, seps)
		switch {
		case i < 0 && reference && p != "":
			out[p] = "${" + p + "}"
		case i <= 0:
			return nil, errors.New("want NAME=VALUE")
		default:
			out[strings.TrimSpace(p[:i])] = strings.TrimSpace(p[i+1:])
		}
	}

	if len(out) == 0 {
		return nil, nil // nothing to write
	}
	return out, nil
}

func (c *mcpCommand) add(name string, f mcpAddFlags) error {
	b, err := json.Marshal(f.mcpSetting)
	if err != nil {
		return err
	}

	// References are not looked up here: the address may be one.
	if !strings.HasPrefix(f.URL, "${") {
		_, warns, err := mcp.ParseServer(name, b)
		if err != nil {
			return usageError{err}
		}
		for _, w := range warns {
			c.sayErr("nanobot: warning: %s\n", w)
		}
	}

	path := "tools.mcpServers." + name
	err = c.settings.edit(path, f.dry, func(file *config.File) (string, error) {
		old, err := file.Get(path)
		if err != nil {
			return "", err
		}
		if old != nil && !f.force {
			return "", fmt.Errorf("MCP server %q exists already; replace it with --force", name)
		}
		return setIn, file.SetValue(path, f.mcpSetting)
	})
	if err != nil || f.dry {
		return err
	}

	for _, ref := range f.env {
		if !strings.Contains(ref, "=") && c.getenv(ref) == "" {
			c.sayErr("Note: set %s before you start nanobot\n", ref)
		}
	}

	if f.Auth == mcp.WithLogin {
		c.say("Next: nanobot mcp login %s\n", name)
		return nil
	}

	c.say("Try it: nanobot mcp test %s\nThen accept its tool descriptions: nanobot mcp accept %s\n", name, name)
	return nil
}

func (c *mcpCommand) removeCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove an MCP server and its login", Args: exactArgs(1),
		Long:              "remove deletes a server from the configuration, and its login. The rest of the file\nstays unchanged.",
		Example:           "  nanobot mcp remove files",
		ValidArgsFunction: c.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, loaded, err := c.named(args[0])
			if loaded == nil {
				return err // a server that makes no sense can be removed
			}

			path := "tools.mcpServers." + config.Escape(args[0])
			err = c.settings.edit(path, dry, func(f *config.File) (string, error) {
				found, err := f.Unset(path)
				if err == nil && !found {
					return "", fmt.Errorf("MCP server %q is not in the file; it comes from the environment (NANOBOT_TOOLS__MCP_SERVERS)", args[0])
				}
				return removedFrom, err
			})
			if err != nil || dry {
				return err
			}

			auth, err := c.logins(loaded)
			if err != nil {
				return err
			}

			found, err := auth.Logout(cmd.Context(), args[0])
			if found {
				c.say("The login to %s was removed too.\n", args[0])
			}
			return err
		},
	}

	cmd.Flags().BoolVar(&dry, "dry-run", false, "only check the change")
	return cmd
}
