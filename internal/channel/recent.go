package channel

import "container/list"

// recent is a map that forgets what was not used for longest. It is not safe
// for concurrent use.
type recent[K comparable, V any] struct {
	max   int
	order *list.List // of entry, newest first
	at    map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](n int) *recent[K, V] {
	return &recent[K, V]{max: n, order: list.New(), at: map[K]*list.Element{}}
}

func (r *recent[K, V]) get(k K) (v V, ok bool) {
	e := r.at[k]
	if e == nil {
		return v, false
	}
	r.order.MoveToFront(e)
	return r.entry(e).value, true
}

func (r *recent[K, V]) entry(e *list.Element) *entry[K, V] {
	return e.Value.(*entry[K, V]) //nolint:errcheck // put takes nothing else in
}

func (r *recent[K, V]) put(k K, v V) {
	if e := r.at[k]; e != nil {
		r.entry(e).value = v
		r.order.MoveToFront(e)
		return
	}
	r.at[k] = r.order.PushFront(&entry[K, V]{k, v})
	for len(r.at) > r.max {
		last := r.order.Back()
		delete(r.at, r.entry(last).key)
		r.order.Remove(last)
	}
}
