package chain

import (
	"slices"
	"sync"
)

// recent is a map that remembers its newest keys, for facts about turns and
// sessions that nobody tells us the end of. It is safe for concurrent use.
type recent[V any] struct {
	limit int // keys kept; more are forgotten, oldest first

	mu    sync.Mutex
	vals  map[string]V
	order []string // keys by age
}

func newRecent[V any](limit int) *recent[V] {
	return &recent[V]{limit: limit, vals: map[string]V{}}
}

func (r *recent[V]) get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.vals[key]
	return v, ok
}

// put keeps a value. The empty key stands for nobody and is not kept.
func (r *recent[V]) put(key string, v V) {
	if key == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.vals[key]; !ok {
		r.order = append(r.order, key)
	}
	r.vals[key] = v
	for len(r.order) > r.limit {
		delete(r.vals, r.order[0])
		r.order = r.order[1:]
	}
}

func (r *recent[V]) drop(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.vals[key]; !ok {
		return
	}
	delete(r.vals, key)
	r.order = slices.DeleteFunc(r.order, func(k string) bool { return k == key })
}
