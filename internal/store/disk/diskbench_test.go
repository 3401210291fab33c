package disk_test
import ("testing";"bytes";"github.com/nanobot-go/nanobot/internal/store/disk";"github.com/nanobot-go/nanobot/internal/store")
func BenchmarkLook(b *testing.B) {
	s := disk.Open(b.TempDir(), nil)
	l, _ := s.Log(b.Context(), "a.jsonl")
	_ = l.Append(b.Context(), 0, bytes.Repeat([]byte("1234567\n"), 1000), false)
	var c store.Cursor
	i, _, _ := c.Look(b.Context(), l)
	_ = c.Reached(l, i)
	for b.Loop() { if _, ch, err := c.Look(b.Context(), l); err != nil || ch != store.Same { b.Fatal(ch, err) } }
}
func BenchmarkTwoAppends(b *testing.B) {
	s := disk.Open(b.TempDir(), nil)
	l, _ := s.Log(b.Context(), "a.jsonl")
	m, _ := s.Log(b.Context(), "b.jsonl")
	line := []byte("{\"op\":\"drop\",\"id\":\"x\"}\n")
	var at int64
	var c store.Cursor
	for b.Loop() {
		for _, l := range []store.Log{m, l} { if err := l.Append(b.Context(), at, line, false); err != nil { b.Fatal(err) } }
		at += int64(len(line))
		i, _, _ := c.Look(b.Context(), l)
		_ = c.Reached(l, i)
	}
}
