package undo

import (
	"fmt"
	"strings"
	"testing"
)

func fill(b *bench, files int) {
	for i := range files {
		b.write(fmt.Sprintf("dir%d/sub%d/file%d.txt", i%10, i%50, i), strings.Repeat(fmt.Sprint(i, " "), 800))
	}
}

// The first command in a workspace keeps all of it.
func BenchmarkFirstCommand(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := open(b)
		fill(s, 4500)
		b.StartTimer()
		s.command("t", func() {})
	}
}

// A command that changes one of many files.
func BenchmarkCommand(b *testing.B) {
	s := open(b)
	fill(s, 4500)
	s.command("t", func() {})
	for i := 0; b.Loop(); i++ {
		s.command(fmt.Sprint("t", i), func() { s.write("dir0/x", fmt.Sprint(i)) })
	}
}

// One edited file, the everyday case.
func BenchmarkEdit(b *testing.B) {
	s := open(b)
	s.write("a.txt", "0")
	for i := 0; b.Loop(); i++ {
		s.edit(fmt.Sprint("t", i), "a.txt", func() { s.write("a.txt", strings.Repeat(fmt.Sprint(i), 500)) })
	}
}

// Another process opens a store that has seen much.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	s := openIn(b, dir)
	fill(s, 4500)
	for i := range 40 {
		s.command(fmt.Sprint("t", i), func() { s.write("dir0/x", fmt.Sprint(i)) })
	}
	for b.Loop() {
		must(b, s.Close())
		if _, err := s.Last(b.Context(), ""); err != nil {
			b.Fatal(err)
		}
	}
}
