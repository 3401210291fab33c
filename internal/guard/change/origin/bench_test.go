package origin_test

import (
	"fmt"
	"testing"

	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// What a look at a file and a command cost.
func BenchmarkRecord(b *testing.B) {
	r := newRoom(b)
	for i := range 1000 {
		r.must(r.store.Mark(r.write(fmt.Sprintf("page%d.md", i), fmt.Sprint(text, i))))
	}
	path := r.write("notes.md", text)

	b.Run("foreign", func(b *testing.B) {
		for b.Loop() {
			r.store.Foreign(path)
		}
	})

	b.Run("mark", func(b *testing.B) {
		for b.Loop() {
			r.must(r.store.Mark(path))
		}
	})

	b.Run("command", func(b *testing.B) {
		for b.Loop() {
			w, err := r.store.Begin(origin.Running{})
			r.must(err)
			r.must(w.Clean())
		}
	})
}
