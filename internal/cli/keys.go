package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/keyring"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// keysCommand is nanobot keys.
type keysCommand struct {
	*console
	home     *home
	settings *settings
}

func (c *keysCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "Store keys outside of the configuration file",
		Long: `keys stores API keys and passwords under a name, so that the configuration only
contains ${keyring:NAME}. It uses the system keyring: the Secret Service of a
Linux desktop, the macOS Keychain or the Windows Credential Manager. Without a
keyring, or if it does not answer, keys are stored in files that only you can
read, in the folder secrets next to the configuration. NANOBOT_NO_KEYRING=1
always uses the files.

${keyring:SERVICE/USER} names an entry of another program in the system keyring.`,
		Example: `  nanobot keys set anthropic --for providers.anthropic.apiKey
  pass show openai | nanobot keys set openai
  nanobot keys list
  nanobot keys remove openai`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.listCommand(), c.setCommand(), c.removeCommand())
	return cmd
}

// open opens the keys beside the configuration, which may name one that is
// missing yet and so is not read.
func (c *keysCommand) open() (*keyring.Ring, error) {
	file, err := c.home.file()
	if err != nil {
		return nil, err
	}
	return keyring.Open(keyring.Options{DataDir: filepath.Dir(file), Getenv: c.getenv, Wait: keyring.WaitForPerson}), nil
}

// keyJSON is one key as keys list --json shows it.
type keyJSON struct {
	Name  string    `json:"name"`
	Where string    `json:"where"`
	Since time.Time `json:"since"`
}

func (c *keysCommand) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List stored keys and where they are, without their values",
		Args:    noArgs,
		Example: "  nanobot keys list\n  nanobot keys list --json",
		RunE: func(*cobra.Command, []string) error {
			ring, err := c.open()
			if err != nil {
				return err
			}

			list, err := ring.List()
			if err != nil {
				return err
			}

			out := []keyJSON{}
			for _, e := range list {
				out = append(out, keyJSON{e.Name, e.Place.String(), e.Since})
			}
			return c.show(asJSON, out, func() error {
				if len(list) == 0 {
					c.say("No keys are stored.\n")
					return nil
				}

				w := c.table("NAME", "STORED IN", "SINCE")
				for _, e := range list {
					w.row(e.Name, e.Place, e.Since.Format(time.DateOnly))
				}
				return w.Flush()
			})
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *keysCommand) setCommand() *cobra.Command {
	var setting string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Store a key, from a hidden prompt or standard input",
		Args:  exactArgs(1),
		Example: `  nanobot keys set anthropic --for providers.anthropic.apiKey
  pass show openai | nanobot keys set openai`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if !keyring.ValidName(name) {
				return usageError{fmt.Errorf("%q cannot be the name of a key: use at most 64 letters, digits, dots, dashes and underscores", name)}
			}

			ring, err := c.open()
			if err != nil {
				return err
			}

			value, err := c.readKey(name)
			if err != nil {
				return err
			}

			place, err := ring.Set(cmd.Context(), name, value)
			if err != nil {
				return err
			}

			c.say("Stored %s in %s.\n", name, place)
			if place.Why != "" {
				c.sayErr("Note: it is in a file: %s\n", place.Why)
			}

			if setting != "" {
				return c.settings.edit(setting, false, func(f *config.File) (string, error) {
					return setIn, f.Set(setting, "${keyring:"+name+"}")
				})
			}

			c.say("Use it as ${keyring:%s} in the configuration.\n", name)
			return nil
		},
	}

	cmd.Flags().StringVar(&setting, "for", "", "`setting` that will use the key")
	return cmd
}

// readKey reads a value that is shown nowhere.
func (c *keysCommand) readKey(name string) (string, error) {
	var value string
	if ask := c.prompter(); ask.terminal() {
		s, err := ask.secret(c.in("The key %s (it is not shown)", name))
		if err != nil {
			return "", err
		}
		value = s
	} else {
		const most = 64<<10 + 1 // one more than is allowed
		b, err := io.ReadAll(io.LimitReader(c.In, most))
		if err != nil {
			return "", fmt.Errorf("read the key: %w", err)
		}
		value = strings.TrimRight(string(b), "\r\n")
	}

	if value == "" {
		return "", usageError{errors.New("the key is empty; nothing was stored")}
	}
	return value, nil
}

func (c *keysCommand) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a stored key", Args: exactArgs(1),
		Example: "  nanobot keys remove openai",
		RunE: func(cmd *cobra.Command, args []string) error {
			ring, err := c.open()
			if err != nil {
				return err
			}

			place, err := ring.Remove(cmd.Context(), args[0])
			if err != nil {
				return err
			}

			c.say("Removed %s from %s.\n", args[0], place)
			return nil
		},
	}
}
