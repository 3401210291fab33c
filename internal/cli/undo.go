package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// undoCall holds what nanobot undo was asked for.
type undoCall struct {
	list, diff, force, json bool
	session                 string
	turn                    string
}

// undoCommand is nanobot undo.
type undoCommand struct {
	*console
	home   *home
	stores *stores
}

func (c *undoCommand) command() *cobra.Command {
	var u undoCall
	cmd := &cobra.Command{
		Use: "undo [TURN]", Short: "Undo the file changes of a turn",
		Long: `undo restores the files that a turn changed and shows the difference. Without TURN
it undoes the last turn that changed files; the first characters of an id are
enough. A file that changed again after the turn is left alone unless --force is
given. undo saves the current content first, so that you can undo an undo by its
own id.`,
		Example: `  nanobot undo --list
  nanobot undo --diff
  nanobot undo
  nanobot undo 3f2a91bc --force
  nanobot undo --session telegram:12345`,
		Args:              atMost(1),
		ValidArgsFunction: c.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				u.turn = args[0]
			}

			switch {
			case u.list && (u.turn != "" || u.diff || u.force):
				return usageError{errors.New("--list takes no TURN, and only the flags --session and --json")}
			case u.diff && u.force:
				return usageError{errors.New("--diff changes nothing; do not use --force with it")}
			}
			return c.run(cmd.Context(), u)
		},
	}

	f := cmd.Flags()
	f.BoolVarP(&u.list, "list", "l", false, "list the turns that changed files, newest first")
	f.BoolVar(&u.diff, "diff", false, "show the changes without undoing them")
	f.BoolVar(&u.force, "force", false, "also replace files that changed again after the turn")
	f.StringVarP(&u.session, "session", "s", "", "only turns of this `conversation`")
	jsonFlag(cmd, &u.json)
	return cmd
}

// open opens the record of the workspace in use.
func (c *undoCommand) open(ctx context.Context) (*change.Record, func() error, error) {
	loaded, err := c.home.read()
	if err != nil {
		return nil, nil, err
	}
	ws, err := c.home.existingWorkspace(loaded)
	if err != nil {
		return nil, nil, err
	}
	return app.OpenUndo(ctx, loaded, ws, c.home.logger())
}

func (c *undoCommand) run(ctx context.Context, u undoCall) (err error) {
	store, done, err := c.open(ctx)
	if err != nil && u.turn == "" {
		return c.home.orNothing(err, u.json, []undo.Turn{}, "There is nothing to undo: nanobot has not changed any file yet.")
	}
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, done()) }()
	if u.session != "" {
		if u.session, err = c.sessionKey(ctx, store, u.session); err != nil {
			return err
		}
	}

	if u.list {
		return c.list(ctx, store, u)
	}

	t, err := chosenTurn(ctx, store, u)
	if err != nil {
		return err
	}
	if u.diff {
		return c.showDiff(ctx, store, t, u.json)
	}

	r, err := store.Undo(ctx, t.ID, undo.Choice{Force: u.force})
	if err != nil {
		return err
	}
	if err := c.report(ctx, store, r, u.json); err != nil {
		return err
	}
	if len(r.Skipped) > 0 {
		return failure{exitFailure}
	}
	return nil
}

// sessionKey returns the key of the conversation that a name means. What a conversation
// changed can be undone after it was removed.
func (c *undoCommand) sessionKey(ctx context.Context, record *change.Record, name string) (string, error) {
	store, err := c.stores.sessions(ctx)
	if err != nil {
		return "", err
	}

	defer store.Close() //nolint:errcheck // read only

	key, err := store.Find(ctx, name)
	if !errors.Is(err, session.ErrNotFound) {
		return key, err
	}

	for _, removed := range []string{name, key} {
		if turns, err := record.Turns(ctx, removed); err != nil || len(turns) > 0 {
			return removed, err
		}
	}
	return "", noSession(name)
}

// chosenTurn returns the turn the user means.
func chosenTurn(ctx context.Context, store *change.Record, u undoCall) (undo.Turn, error) {
	if u.turn == "" {
		t, err := store.Last(ctx, u.session)
		if errors.Is(err, undo.ErrNoTurn) {
			return t, errors.New("there is nothing to undo: no stored turn changed files")
		}
		return t, err
	}

	t, err := store.Find(ctx, u.turn)
	switch {
	case errors.Is(err, undo.ErrAmbiguous):
		return t, usageError{fmt.Errorf("several turns begin with %q; give more of the id", u.turn)}
	case errors.Is(err, undo.ErrNoTurn), err == nil && u.session != "" && t.Session != u.session:
		return t, usageError{fmt.Errorf("there is no turn %q; nanobot undo --list shows them", u.turn)}
	}
	return t, err
}

func (c *undoCommand) list(ctx context.Context, store *change.Record, u undoCall) error {
	turns, err := store.Turns(ctx, u.session)
	if err != nil {
		return err
	}

	if turns == nil {
		turns = []undo.Turn{}
	}
	return c.show(u.json, turns, func() error {
		if len(turns) == 0 {
			c.say("No stored turn changed files.\n")
			return nil
		}

		w := c.table("TURN", "TIME", "SESSION", "CHANGES")
		for _, t := range turns {
			w.row(undo.Short(t.ID), t.At.Local().Format("2006-01-02 15:04"), text.Label(t.Session, 30), t.Summary())
		}
		return w.Flush()
	})
}

func (c *undoCommand) showDiff(ctx context.Context, store *change.Record, t undo.Turn, asJSON bool) error {
	diff, err := store.Diff(ctx, t.ID)
	if err != nil {
		return err
	}
	return c.show(asJSON, struct {
		undo.Turn
		Diff string `json:"diff"`
	}{t, diff}, func() error {
		fmt.Fprint(c.Out, diff)
		for _, g := range t.Gaps {
			c.sayErr("nanobot: not covered: %s\n", text.Label(g, 300))
		}
		return nil
	})
}

// report shows what was taken back.
func (c *undoCommand) report(ctx context.Context, store *change.Record, r undo.Report, asJSON bool) error {
	diff := ""
	if r.Undo != "" {
		var err error
		if diff, err = store.Diff(ctx, r.Undo); err != nil {
			return err
		}
	}
	return c.show(asJSON, struct {
		undo.Report
		Diff string `json:"diff,omitempty"`
	}{r, diff}, func() error {
		out := c.Out
		fmt.Fprintln(out, r.Text(phrase.With(ctx, c.language), "nanobot undo TURN --force"))
		if diff != "" {
			fmt.Fprint(out, "\n"+diff)
			c.say("\nTo redo the changes: nanobot undo %s\n", undo.Short(r.Undo))
		}
		return nil
	})
}

// names completes turn ids.
func (c *undoCommand) names(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	store, done, err := c.open(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}

	defer done() //nolint:errcheck // nothing was written
	turns, err := store.Turns(cmd.Context(), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}

	var out []string
	for _, t := range turns {
		if strings.HasPrefix(t.ID, typed) {
			out = append(out, undo.Short(t.ID)+"\t"+text.Label(t.Summary(), 60))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
