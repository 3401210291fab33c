package recent_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/recent"
)

func TestMap(t *testing.T) {
	t.Parallel()
	m := recent.New[string, int](2)
	m.Put("a", 1)
	m.Put("b", 2)
	m.Put("a", 3)
	m.Put("c", 4) // b was not used for longest
	m.Get("a")
	m.Put("d", 5)
	m.Delete("d")
	m.Delete("d")
	m.Put("e", 6)
	for key, want := range map[string]int{"a": 3, "b": 0, "c": 0, "d": 0, "e": 6} {
		if got, ok := m.Get(key); got != want || ok != (want > 0) {
			t.Errorf("%s: %d, %v; want %d", key, got, ok, want)
		}
	}
}
