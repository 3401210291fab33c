package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// sessionsCommand is nanobot sessions.
type sessionsCommand struct {
	*console
	stores *stores
}

func (c *sessionsCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "sessions", Short: "List, show, export and remove conversations", Aliases: []string{"session"},
		Long: `sessions manages the conversations of the workspace. The name of a conversation
consists of its channel and chat, such as cli:direct; for terminal conversations
you can omit cli:.`,
		Example: `  nanobot sessions list
  nanobot sessions show direct --tools
  nanobot sessions export direct --format md -o chat.md
  nanobot sessions rm old-project`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.listCommand(), c.showCommand(), c.exportCommand(), c.removeCommand(), c.copyBackCommand())
	return cmd
}

// names completes names of conversations.
func (c *sessionsCommand) names(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	store, err := c.stores.sessions(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}

	list, err := store.List(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}

	var out []string
	for _, s := range list {
		if strings.HasPrefix(s.Key, typed) {
			out = append(out, s.Key+"\t"+text.Label(s.Preview, 40))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// named finds the conversation a user means: its key, or the chat of the
// terminal by that name.
func named(ctx context.Context, store *session.Store, name string) (string, error) {
	key, err := store.Find(ctx, name)
	if errors.Is(err, session.ErrNotFound) {
		return "", noSession(name)
	}
	return key, err
}

func noSession(name string) error {
	return usageError{fmt.Errorf("there is no session %q; nanobot sessions list shows them", name)}
}

// sessionJSON is a line of sessions list --json.
type sessionJSON struct {
	Key      string    `json:"key"`
	Title    string    `json:"title,omitempty"`
	Preview  string    `json:"preview,omitempty"`
	Messages int       `json:"messages"`
	Bytes    int64     `json:"bytes"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

func (c *sessionsCommand) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List conversations, newest first", Args: noArgs,
		Example: "  nanobot sessions list\n  nanobot sessions list --json | jq -r '.[].key'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := c.stores.sessions(cmd.Context())
			if err != nil {
				return err
			}

			list, err := store.List(cmd.Context())
			if err != nil {
				return err
			}

			out := []sessionJSON{}
			for _, s := range list {
				out = append(out, sessionJSON{s.Key, s.Title, s.Preview, s.Messages, s.Bytes, s.Created, s.Updated})
			}
			return c.show(asJSON, out, func() error {
				if len(list) == 0 {
					c.say("No conversations yet. Start one with: nanobot agent\n")
					return nil
				}

				w := c.table("SESSION", "MESSAGES", "UPDATED", "ABOUT")
				for _, s := range list {
					about := s.Title
					if about == "" {
						about = s.Preview
					}
					w.row(s.Key, s.Messages, s.Updated.Local().Format("2006-01-02 15:04"), text.Label(about, 40))
				}

				return w.Flush()
			})
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *sessionsCommand) showCommand() *cobra.Command {
	var tools bool
	cmd := &cobra.Command{
		Use: "show SESSION", Short: "Print a conversation as Markdown", Args: exactArgs(1),
		Example:           "  nanobot sessions show direct\n  nanobot sessions show telegram:12345 --tools",
		ValidArgsFunction: c.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := c.stores.sessions(cmd.Context())
			if err != nil {
				return err
			}

			key, err := named(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			return printSession(cmd.Context(), c.Out, store, key, tools)
		},
	}

	cmd.Flags().BoolVar(&tools, "tools", false, "also show tool calls and results")
	return cmd
}

func (c *sessionsCommand) exportCommand() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Write a conversation as JSONL or Markdown",
		Args:  exactArgs(1),
		Long: `export writes a conversation to standard output or a file. The format jsonl
contains everything, and older versions can read it; md is for people.`,
		Example:           "  nanobot sessions export direct > chat.jsonl\n  nanobot sessions export direct --format md -o chat.md",
		ValidArgsFunction: c.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "jsonl" && format != "md" {
				return usageError{fmt.Errorf("--format %s: want jsonl or md", format)}
			}

			store, err := c.stores.sessions(cmd.Context())
			if err != nil {
				return err
			}

			key, err := named(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			return c.export(out, func(w io.Writer) error {
				if format == "md" {
					return printSession(cmd.Context(), w, store, key, false)
				}
				return store.Export(cmd.Context(), key, w)
			})
		},
	}

	cmd.Flags().StringVar(&format, "format", "jsonl", "`jsonl` or md")
	cmd.Flags().StringVarP(&out, "output", "o", "", "`file` to write; it must not exist")
	return cmd
}

// export writes to standard output or to a new file, which only stays if all
// of it could be written.
func (c *sessionsCommand) export(name string, write func(io.Writer) error) error {
	if name == "" {
		return write(c.Out)
	}

	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usageError{fmt.Errorf("--output %s: %w", name, errors.Unwrap(err))}
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

func (c *sessionsCommand) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "rm SESSION...",
		Aliases:           []string{"remove"},
		Short:             "Move conversations to the archive",
		Long:              "rm removes conversations from the list. It moves their files to the archive folder\nof the sessions and does not delete them.",
		Example:           "  nanobot sessions rm old-project\n  nanobot sessions rm cli:a cli:b",
		ValidArgsFunction: c.names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name at least one session; nanobot sessions list shows them")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := c.stores.sessions(cmd.Context())
			if err != nil {
				return err
			}

			for _, name := range args {
				key, err := named(cmd.Context(), store, name)
				if err != nil {
					return err
				}
				if err := store.Delete(cmd.Context(), key); err != nil {
					return err
				}
				c.say("%s moved to the archive\n", key)
			}

			return nil
		},
	}
}

// printRecord writes one message for a reader.
func printRecord(w io.Writer, r session.Record, tools bool) error {
	body := strings.TrimSpace(r.Display())
	var err error
	switch {
	case r.Mark():
		_, err = fmt.Fprintf(w, "%s\n\n", body)
	case r.Role == llm.User && !r.Internal:
		_, err = fmt.Fprintf(w, "## You\n\n%s\n\n", body)
	case r.Role == llm.Assistant:
		if body != "" {
			_, err = fmt.Fprintf(w, "## nanobot\n\n%s\n\n", body)
		}
		if tools && err == nil {
			for _, call := range r.ToolCalls {
				if _, err = fmt.Fprintf(w, "> %s %s\n\n", call.Name, call.Arguments); err != nil {
					break
				}
			}
		}

	case r.Role == llm.ToolRole && tools:
		_, err = fmt.Fprintf(w, "```\n%s\n```\n\n", body)
	}

	return err
}

func printSession(ctx context.Context, w io.Writer, store *session.Store, key string, tools bool) error {
	for r, err := range store.Records(ctx, key) {
		if err != nil {
			return err
		}
		if err := printRecord(w, r, tools); err != nil {
			return err
		}
	}
	return nil
}

func (c *sessionsCommand) copyBackCommand() *cobra.Command {
	return &cobra.Command{
		Use: "restore-workspace", Short: "Copy conversations to where older versions look for them", Args: noArgs,
		Long: `restore-workspace prepares a return to an older version, which keeps its
conversations in the folder sessions of the workspace. It copies them there. It
replaces a file only if the conversation here has all of its messages; it lists
other files as conflicts and then exits with 1. Later changes are not copied,
and the agent's tools can read the copies in the workspace. What the older
version adds to them can be imported with: nanobot migrate`,
		Example: "  nanobot sessions restore-workspace",
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := c.stores.sessions(cmd.Context())
			if err != nil {
				return err
			}

			done, err := store.CopyBack(cmd.Context())
			if err != nil {
				return err
			}

			if n := len(done.Same); n > 0 {
				c.say("%d copied to %s, %d already there.\n", len(done.Copied), done.Dir, n)
			} else {
				c.say("%d copied to %s.\n", len(done.Copied), done.Dir)
			}

			if len(done.Conflict) == 0 {
				return nil
			}

			c.sayErr("Not copied, because another file exists:\n")
			for _, key := range done.Conflict {
				fmt.Fprintln(c.Err, "  "+text.Label(key, 200))
			}
			return failure{exitFailure}
		},
	}
}
