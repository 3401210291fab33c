package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nanobot-go/nanobot/internal/core/session/search"
)

// memorySearchFlags are the flags of memory search.
type memorySearchFlags struct {
	session, scope, after, before string
	limit                         int
	everyone, asJSON              bool
}

func (c *memoryCommand) searchCommand() *cobra.Command {
	var f memorySearchFlags
	cmd := &cobra.Command{
		Use: "search QUERY...", Short: "Search conversations and memory",
		Long: `search finds words in conversations (including archived ones), in their summaries
and in the memory files, best matches first. All words should occur; "several
words" in quotes must occur together, -word must not occur (put -- before the
query), and wor* matches a prefix. Accents and case are ignored.

Texts in other people's scopes are searched only with --scope or --everyone. The
index is created on first use, and you can delete it at any time.`,
		Example: `  nanobot memory search passport number
  nanobot memory search '"birthday party" cake*' --after 2026-01-01
  nanobot memory search 京都 旅行 --json
  nanobot memory search -- deploy -staging`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("usage: %s\nSee: %s --help", cmd.UseLine(), cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.search(cmd.Context(), args, f) },
	}

	fl := cmd.Flags()
	fl.StringVar(&f.session, "session", "", "only this `conversation`")
	fl.StringVar(&f.scope, "scope", "", "search this `scope` instead of your own")
	fl.BoolVar(&f.everyone, "everyone", false, "search all scopes")
	fl.StringVar(&f.after, "after", "", "not before this `day` (YYYY-MM-DD)")
	fl.StringVar(&f.before, "before", "", "earlier than this `day`")
	fl.IntVarP(&f.limit, "limit", "n", 10, "maximum `number` of results")
	jsonFlag(cmd, &f.asJSON)
	cmd.MarkFlagsMutuallyExclusive("scope", "everyone")
	return cmd
}

// memoryHitJSON is an element of memory search --json.
type memoryHitJSON struct {
	Session  string    `json:"session,omitempty"`
	Source   string    `json:"source"`
	Role     string    `json:"role"`
	Time     time.Time `json:"time"`
	Scope    string    `json:"scope,omitempty"`
	Score    float64   `json:"score"`
	Partial  bool      `json:"partial,omitempty"`
	Tainted  bool      `json:"tainted,omitempty"`
	Snippet  string    `json:"snippet"`
	Position int       `json:"rank"`
}

func (c *memoryCommand) search(ctx context.Context, args []string, f memorySearchFlags) (err error) {
	x, loc, err := c.stores.search(ctx)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, x.Close()) }()
	q := search.Query{
		Text:     strings.Join(args, " "),
		Session:  f.session,
		Scope:    f.scope,
		Everyone: f.everyone,
		Limit:    f.limit,
		Wait:     true,
	}
	if q.After, err = search.Day(f.after, loc); err != nil {
		return usageError{fmt.Errorf("--after: %w", err)}
	}
	if q.Before, err = search.Day(f.before, loc); err != nil {
		return usageError{fmt.Errorf("--before: %w", err)}
	}

	if term.IsTerminal(int(c.Out.Fd())) && c.getenv("NO_COLOR") == "" {
		q.Open, q.Close = "\x1b[1m", "\x1b[22m"
	}

	stop := c.announceIndexing(ctx)
	res, err := x.Search(ctx, q)
	stop()
	if errors.Is(err, search.ErrEmpty) {
		return usageError{err}
	}
	if err != nil {
		return err
	}

	out := []memoryHitJSON{}
	for i, h := range res.Hits {
		out = append(out, memoryHitJSON{h.Session, h.Source, string(h.Role), h.Time, h.Scope, h.Score, h.Partial, h.Tainted, h.Snippet, i + 1})
	}
	return c.show(f.asJSON, out, func() error {
		return c.printHits(res, loc)
	})
}

// announceIndexing reports that the index is being made, when that takes a while.
func (c *memoryCommand) announceIndexing(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTimer(2 * time.Second)
		defer t.Stop()
		select {
		case <-t.C:
			c.sayErr("nanobot: updating the index...\n")
		case <-ctx.Done():
		}
	}()
	return func() { cancel(); <-done }
}

func (c *memoryCommand) printHits(res search.Result, loc *time.Location) error {
	if len(res.Hits) == 0 {
		c.sayErr("Nothing found.\n")
		return failure{exitFailure}
	}

	if res.Total == 0 {
		c.sayErr("No text contains all of these words; these contain some:\n")
	}

	for _, h := range res.Hits {
		where := h.Source
		if h.Session != "" {
			where = h.Session + ", " + string(h.Role)
		}
		if h.Scope != "" {
			where += c.in(", scope %s", printable(h.Scope))
		}
		fmt.Fprintf(c.Out, "%s  %s\n    %s\n", h.Time.In(loc).Format("2006-01-02 15:04"), printable(where), h.Snippet)
	}

	switch {
	case res.AtLeast:
		c.sayErr("More than %d texts contain these words; narrow the search with more words or --after.\n", res.Total)
	case res.Total > len(res.Hits):
		c.sayErr("%d of %d shown; --limit shows more.\n", len(res.Hits), res.Total)
	}
	return nil
}
