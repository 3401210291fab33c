package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/session"
)

func (c *command) sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "sessions", Short: "List, show, export and remove conversations", Aliases: []string{"session"},
		Example: "  nanobot sessions list\n  nanobot sessions show cli:direct\n  nanobot sessions export cli:direct --format md -o chat.md\n  nanobot sessions rm old-project",
		Args:    subcommand,
		RunE:    showHelp,
	}
	cmd.AddCommand(c.sessionsList(), c.sessionsShow(), c.sessionsExport(), c.sessionsRemove())
	return cmd
}

// store opens the sessions of the workspace in use.
func (c *command) store() (*session.Store, error) {
	loaded, err := c.load()
	if err != nil {
		return nil, err
	}
	ws, err := app.Workspace(c.workspace, loaded)
	if err != nil {
		return nil, err
	}
	return app.OpenSessions(loaded, ws, c.logger())
}

func (c *command) sessionsList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List conversations, newest first", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := c.store()
			if err != nil {
				return err
			}
			list, err := store.List(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			if len(list) == 0 {
				cmd.Println("No conversations yet. Start one with: nanobot agent")
				return nil
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tMESSAGES\tUPDATED")
			for _, s := range list {
				fmt.Fprintf(w, "%s\t%d\t%s\n", s.Key, s.Messages, s.Updated.Local().Format("2006-01-02 15:04"))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func (c *command) sessionsShow() *cobra.Command {
	var tools bool
	cmd := &cobra.Command{
		Use: "show SESSION", Short: "Print a conversation", Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := c.store()
			if err != nil {
				return err
			}
			return printSession(cmd.Context(), cmd.OutOrStdout(), store, args[0], tools)
		},
	}
	cmd.Flags().BoolVar(&tools, "tools", false, "also show tool calls and results")
	return cmd
}

func (c *command) sessionsExport() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use: "export SESSION", Short: "Write a conversation as JSONL or Markdown", Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "jsonl" && format != "md" {
				return usageError{fmt.Errorf("--format %s: want jsonl or md", format)}
			}
			store, err := c.store()
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			var file *os.File
			if out != "" {
				if file, err = os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
					return fmt.Errorf("--output: %w", err)
				}
				w = file
			}
			if format == "md" {
				err = printSession(cmd.Context(), w, store, args[0], false)
			} else {
				err = store.Export(cmd.Context(), args[0], w)
			}
			if file != nil {
				err = errors.Join(err, file.Close())
			}
			return noSuchSession(err, args[0])
		},
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl or md")
	cmd.Flags().StringVarP(&out, "output", "o", "", "`file` to write; it must not exist")
	return cmd
}

func (c *command) sessionsRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm SESSION...", Short: "Move conversations to the archive",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name at least one session; nanobot sessions list shows them")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := c.store()
			if err != nil {
				return err
			}
			for _, key := range args {
				if err := noSuchSession(store.Delete(cmd.Context(), key), key); err != nil {
					return err
				}
				cmd.Printf("%s moved to the archive\n", key)
			}
			return nil
		},
	}
}

func noSuchSession(err error, key string) error {
	if errors.Is(err, session.ErrNotFound) {
		return fmt.Errorf("there is no session %q; nanobot sessions list shows them", key)
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printRecord writes one message for a reader.
func printRecord(w io.Writer, r session.Record, tools bool) error {
	body := strings.TrimSpace(agent.DisplayText(r))
	var err error
	switch {
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
			return noSuchSession(err, key)
		}
		if err := printRecord(w, r, tools); err != nil {
			return err
		}
	}
	return nil
}
