package subject

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Bounds of a search: so many hits are ranked, the best first.
const (
	hitsDefault = 20
	hitsMost    = 100
	queryBytes  = 2000
)

// Search finds words in conversations and memory.
type Search struct{ Now Source }

// Routes implements web.Subject.
func (s Search) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"search": s.search}}
}

// hit is a place where words were found.
type hit struct {
	Session string `json:"session,omitempty"` // key of the conversation
	Source  string `json:"source"`            // session, archive, history, or a file of the workspace
	Role    string `json:"role"`
	At      string `json:"at,omitempty"`
	Snippet string `json:"snippet"`         // the words stand between U+0002 and U+0003
	Index   *int   `json:"index,omitempty"` // of the message in the thread
	Partial bool   `json:"partial,omitempty"`
	Outside bool   `json:"untrusted,omitempty"` // words from outside are in it or were before it
}

// search finds words in conversations and memory, with the index that the agent
// and the command line use.
func (s Search) search(ctx context.Context, r *http.Request) (any, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	if now.Index == nil {
		return nil, web.Refuse(http.StatusNotImplemented, "there is no search index; the built-in tools are switched off")
	}

	form := r.URL.Query()
	q := search.Query{Text: form.Get("q"), Session: form.Get("session"), Everyone: true, Open: "\x02", Close: "\x03"}
	if strings.TrimSpace(q.Text) == "" || len(q.Text) > queryBytes {
		return nil, web.Refuse(http.StatusBadRequest, "q must have between 1 and %d bytes", queryBytes)
	}

	for name, to := range map[string]*time.Time{"after": &q.After, "before": &q.Before} {
		if *to, err = moment(r, name, now.Location); err != nil {
			return nil, err
		}
	}

	limit, err := number(r, "limit", hitsDefault)
	if err != nil {
		return nil, err
	}

	from, err := number(r, "cursor", 0)
	if err != nil {
		return nil, err
	}

	limit, from = min(max(limit, 1), hitsMost), min(from, hitsMost)
	q.Limit = min(from+limit, hitsMost)
	res, err := now.Index.Search(ctx, q)
	if err != nil && !errors.Is(err, search.ErrEmpty) { // a query without words finds nothing
		return nil, err
	}

	hits := []hit{}
	views := &views{ctx: ctx, store: now.Sessions}
	defer views.close()

	for _, f := range res.Hits[min(from, len(res.Hits)):] {
		hits = append(hits, hit{
			Session: f.Session,
			Source:  f.Source,
			Role:    string(f.Role),
			At:      stamp(f.Time),
			Snippet: now.Secrets.Redact(f.Snippet),
			Index:   views.index(&f),
			Partial: f.Partial,
			Outside: f.Tainted,
		})
	}

	out := map[string]any{"hits": hits, "total": res.Total, "at_least": res.AtLeast, "behind": res.Behind, "cursor": nil}
	if len(res.Hits) == q.Limit && q.Limit < hitsMost {
		out["cursor"] = strconv.Itoa(q.Limit)
	}
	return out, nil
}

// views are the conversations that hits are in. A hit that cannot be found any
// more has no index.
type views struct {
	ctx   context.Context //nolint:containedctx // it lives inside one request
	store *session.Store
	open  map[string]*session.View
}

func (v *views) index(f *search.Hit) *int {
	if f.Source != "session" || f.Session == "" {
		return nil
	}

	view, known := v.open[f.Session]
	if !known {
		if v.open == nil {
			v.open = map[string]*session.View{}
		}
		view, _ = session.OpenView(v.ctx, v.store, f.Session)
		v.open[f.Session] = view
	}

	if view == nil {
		return nil
	}
	if n, ok, err := view.IndexAt(v.ctx, f.Offset); ok && err == nil {
		return &n
	}
	return nil
}

func (v *views) close() {
	for _, view := range v.open {
		if view != nil {
			_ = view.Close() // only read from
		}
	}
}
