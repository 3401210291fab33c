package origin

import (
	"fmt"
	"path/filepath"
	"testing"
)

func BenchmarkFollow(b *testing.B) {
	s := benchStore(b)
	for b.Loop() {
		if err := s.follow(); err != nil { b.Fatal(err) }
	}
}

func BenchmarkAppend(b *testing.B) {
	s := benchStore(b)
	for b.Loop() {
		if err := s.append(line{Op: opDrop, ID: "x"}); err != nil { b.Fatal(err) }
	}
}

func benchStore(b *testing.B) *Store {
	s, err := Open(Options{Dir: filepath.Join(b.TempDir(), "origin"), Name: "w", Root: b.TempDir()})
	if err != nil { b.Fatal(err) }
	if err := s.follow(); err != nil { b.Fatal(err) }
	for i := range 200 {
		if err := s.append(line{Op: opMark, Path: fmt.Sprint(i), Size: 1}); err != nil { b.Fatal(err) }
	}
	return s
}
