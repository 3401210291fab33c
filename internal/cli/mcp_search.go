package cli

import (
	"context"
	"time"

	"github.com/nanobot-go/nanobot/internal/api"
	"github.com/nanobot-go/nanobot/internal/session/search"
)

// wordSearch offers the owner's part of the index to programs of the owner.
type wordSearch struct{ index *search.Index }

func (m wordSearch) search(ctx context.Context, query string, limit int) ([]api.Hit, error) {
	res, err := m.index.Search(ctx, search.Query{Text: query, Limit: limit})
	if err != nil {
		return nil, err
	}
	var hits []api.Hit
	for _, h := range res.Hits {
		if h.Partial {
			break // the caller asked for all words
		}
		hit := api.Hit{Source: h.Source, Text: h.Snippet}
		if h.Session != "" {
			hit.Source = "session " + h.Session
		}
		if h.Role == search.User || h.Role == search.Assistant {
			hit.Text = string(h.Role) + ": " + hit.Text
		}
		if h.Role != search.Note {
			hit.At = moment(h.Time)
		}
		hits = append(hits, hit)
	}
	return hits, nil
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
