package chain

import (
	"cmp"
	"context"
	"slices"
)

// Pause is pause for the tests, which are outside of the package.
type Pause = pause

// Paused lists the endpoints that are left alone now, by id.
func (b *Breakers) Paused(ctx context.Context) []pause {
	b.ready(ctx)
	now := wall()
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []pause
	for id, c := range b.circuits {
		if c.open(now) {
			out = append(out, pause{ID: id, Kind: c.Kind, Until: c.Until})
		}
	}
	slices.SortStableFunc(out, func(a, b pause) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
