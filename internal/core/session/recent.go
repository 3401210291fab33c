package session

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// Seen is a conversation and when its log was last written to.
type Seen struct {
	Key     string
	Changed time.Time
}

// Count counts the conversations without reading them.
func (st *Store) Count(ctx context.Context) (n int, err error) {
	for _, err := range st.state.Logs(ctx, "") {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Recent finds the conversations that changed since a time, the last changed
// first, at most the given number. It reads the directory and, of logs whose
// name does not tell, the end: it costs little however many conversations
// there are.
func (st *Store) Recent(ctx context.Context, since time.Time, most int) ([]Seen, error) {
	var found []Seen
	for e, err := range st.state.Logs(ctx, "") {
		if err != nil {
			return nil, err
		}
		if e.Changed.After(since) {
			found = append(found, Seen{e.Name, e.Changed})
		}
	}

	slices.SortStableFunc(found, func(a, b Seen) int {
		return cmp.Or(b.Changed.Compare(a.Changed), cmp.Compare(a.Key, b.Key))
	})
	out := found[:0]
	for _, s := range found[:min(most, len(found))] {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if key, ok := keyOf(strings.TrimSuffix(s.Key, suffixLog)); ok {
			out = append(out, Seen{key, s.Changed})
			continue
		}

		info, err := st.describe(ctx, s.Key)
		if err == nil && info.Key != "" {
			out = append(out, Seen{info.Key, s.Changed})
		}
	}

	return out, nil
}
