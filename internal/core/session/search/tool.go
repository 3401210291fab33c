package search

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
)

type toolInput struct {
	Query   string `json:"query" desc:"words, \"a phrase\", -not, begin*"`
	Limit   int    `json:"limit,omitempty" max:"30"`
	Session string `json:"session,omitempty"`
	After   string `json:"after,omitempty" desc:"YYYY-MM-DD"`
	Before  string `json:"before,omitempty"`
}

const toolHits = 8

// Tool is search_memory: the model looks for what was said or noted, as far as
// the person it works for may see it. The result is untrusted when a hit comes
// from a turn that had words from outside in it: what a page said last month is
// not more true today.
func (x *Index) Tool(loc *time.Location) tool.Tool {
	if loc == nil {
		loc = time.Local
	}
	return tool.Func(tool.Tool{
		Name: "search_memory", ReadOnly: true, Trusted: true,
		Description: "Search past conversations and memory. Use it before saying you do not remember.",
	}, func(ctx context.Context, c tool.Call, in toolInput) (tool.Result, error) {
		q := Query{Text: in.Query, Session: in.Session, Scope: c.Scope, Own: c.SessionKey, Limit: in.Limit}
		if q.Limit <= 0 {
			q.Limit = toolHits
		}

		var err error
		if q.After, err = Day(in.After, loc); err == nil {
			q.Before, err = Day(in.Before, loc)
		}

		if err != nil {
			return tool.Fail(tool.InvalidArgs, "%v", err), nil
		}

		res, err := x.Search(ctx, q)
		switch {
		case errors.Is(err, ErrEmpty):
			return tool.Fail(tool.InvalidArgs, "%v", err), nil
		case err != nil && ctx.Err() != nil:
			return tool.Result{}, context.Cause(ctx)
		case err != nil:
			return tool.Fail(tool.Internal, "%v", err), nil
		}

		return answer(in.Query, res, loc), nil
	})
}

// answer returns a result as the model sees it.
func answer(query string, res Result, loc *time.Location) tool.Result {
	var b strings.Builder
	tainted := false
	for _, h := range res.Hits {
		where := h.Source
		if h.Session != "" {
			where = h.Session
			if h.Source == "history" {
				where += " (summary)"
			}
		}

		if h.Role == User || h.Role == Assistant {
			where = string(h.Role) + " in " + where
		}

		fmt.Fprintf(&b, "[%s] %s: %s\n", h.Time.In(loc).Format("2006-01-02 15:04"), where, h.Snippet)
		tainted = tainted || h.Tainted
	}

	switch {
	case len(res.Hits) == 0:
		fmt.Fprintf(&b, "Nothing found for %q.", query)
	case res.AtLeast:
		fmt.Fprintf(&b, "More than %d texts have these words; add words or dates to narrow it down.", res.Total)
	case res.Total > len(res.Hits):
		fmt.Fprintf(&b, "%d of %d shown.", len(res.Hits), res.Total)
	case res.Total == 0:
		b.WriteString("No text has all of these words; these have some.")
	}

	if res.Behind {
		b.WriteString("\nThe index is being built; older texts may be missing.")
	}

	out := tool.Text(strings.TrimSpace(b.String()))
	out.Untrusted = tainted
	return out
}

// Day reads a day, or a moment in RFC 3339; "" is the zero time.
func Day(s string, loc *time.Location) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}

	t, err := time.ParseInLocation(time.DateOnly, s, loc)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no day; want YYYY-MM-DD", s)
	}
	return t, nil
}
