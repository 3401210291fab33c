package app

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/core/turn/sessiontool"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// OpenSearch opens the full-text index of a workspace. Nothing is read or
// written before it is used.
func OpenSearch(loaded *config.Loaded, workspace string, sessions *session.Store, log *slog.Logger) (*search.Index, error) {
	return search.Open(searchOptions(loaded, workspace, sessions, log))
}

func searchOptions(loaded *config.Loaded, workspace string, sessions *session.Store, log *slog.Logger) search.Options {
	id := filepath.Base(sessions.Dir())
	return search.Options{
		Path:        datadir.Index.In(loaded.DataDir, id+".db"),
		Store:       State(loaded, log),
		Sessions:    path.Join(string(datadir.Sessions), id),
		OldSessions: []string{filepath.Join(workspace, "sessions"), datadir.Sessions.In(loaded.DataDir)},
		History:     path.Join(string(datadir.Memory), id, "history.jsonl"),
		Workspace:   workspace,
		Log:         log,
	}
}

// searchSessions finds words in the conversations of the owner.
func searchSessions(ctx context.Context, x *search.Index, query string) ([]sessiontool.Hit, error) {
	res, err := x.Search(ctx, search.Query{Text: query, Limit: 50, Roles: []search.Role{search.User, search.Assistant}})
	if errors.Is(err, search.ErrEmpty) {
		return nil, nil
	}

	var hits []sessiontool.Hit
	for _, h := range res.Hits {
		if h.Source == "session" { // archives cannot be read by their key
			hits = append(hits, sessiontool.Hit{Session: h.Session, Time: h.Time, Excerpt: h.Snippet, Tainted: h.Tainted})
		}
	}
	return hits, err
}

// gatewayIndexes is how long after its start a gateway, which is not
// short-lived, brings the index up to date: before it gives back the memory
// that only the start needed.
const gatewayIndexes = 2 * time.Second

// openIndex opens the index the agent searches in.
func (a *App) openIndex(log *slog.Logger) (*search.Index, error) {
	o := searchOptions(a.Config, a.Workspace, a.Sessions, log)
	if a.gateway {
		o.First = gatewayIndexes
	}
	return search.Open(o)
}
