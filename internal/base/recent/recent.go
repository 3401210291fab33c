// Package recent hides a bounded cache for facts about chats, turns and messages
// whose end is never announced. A Map holds at most as many keys as New was told
// and forgets the one that was not used for longest; Get and Has count as a use.
package recent

import (
	"container/list"
	"sync"
)

// Map holds the keys that were used last. It is safe for concurrent use.
type Map[K comparable, V any] struct {
	most int

	mu    sync.Mutex
	order *list.List // of entry, the last used first
	at    map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New returns a map of at most so many keys.
func New[K comparable, V any](most int) *Map[K, V] {
	return &Map[K, V]{most: most, order: list.New(), at: map[K]*list.Element{}}
}

// Get finds the value of a key, which counts as a use.
func (m *Map[K, V]) Get(k K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.at[k]
	if e == nil {
		return v, false
	}
	m.order.MoveToFront(e)
	return m.entry(e).value, true
}

// Has reports whether a key is known, which counts as a use.
func (m *Map[K, V]) Has(k K) bool { _, ok := m.Get(k); return ok }

// Put keeps a value.
func (m *Map[K, V]) Put(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if e := m.at[k]; e != nil {
		m.entry(e).value = v
		m.order.MoveToFront(e)
		return
	}

	m.at[k] = m.order.PushFront(&entry[K, V]{k, v})
	if len(m.at) > m.most {
		last := m.order.Back()
		delete(m.at, m.entry(last).key)
		m.order.Remove(last)
	}
}

// Delete forgets a key.
func (m *Map[K, V]) Delete(k K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.at[k]; e != nil {
		delete(m.at, k)
		m.order.Remove(e)
	}
}

func (*Map[K, V]) entry(e *list.Element) *entry[K, V] {
	return e.Value.(*entry[K, V]) //nolint:errcheck // Put takes nothing else in
}
