package api

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
)

// SearchOwner offers the owner's part of the index to programs of the owner.
func SearchOwner(index *search.Index) func(ctx context.Context, query string, limit int) ([]Hit, error) {
	return func(ctx context.Context, query string, limit int) ([]Hit, error) {
		res, err := index.Search(ctx, search.Query{Text: query, Limit: limit})
		if err != nil {
			return nil, err
		}

		var hits []Hit
		for _, h := range res.Hits {
			if h.Partial {
				break // the caller asked for all words
			}
			hits = append(hits, hitOf(h))
		}
		return hits, nil
	}
}

func hitOf(h search.Hit) Hit {
	hit := Hit{Source: h.Source, Text: h.Snippet}
	if h.Session != "" {
		hit.Source = "session " + h.Session
	}
	if h.Role == search.User || h.Role == search.Assistant {
		hit.Text = string(h.Role) + ": " + hit.Text
	}
	if h.Role != search.Note {
		hit.At = moment(h.Time)
	}
	return hit
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// ListSessions offers the conversations of a store to programs of the owner.
func ListSessions(store *session.Store) func(context.Context) ([]SessionInfo, error) {
	return func(ctx context.Context) ([]SessionInfo, error) {
		list, err := store.List(ctx)
		if err != nil && len(list) == 0 {
			return nil, err
		}

		var out []SessionInfo
		for _, s := range list {
			plain := strings.FieldsFunc(cmp.Or(s.Title, s.Preview), func(r rune) bool { return r <= ' ' || r == 0x7f })
			out = append(out, SessionInfo{Session: s.Key, Title: text.Ellipsis(strings.Join(plain, " "), 120), Messages: s.Messages, Updated: s.Updated})
		}
		return out, nil
	}
}
