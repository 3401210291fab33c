package diskio_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

func TestLocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := diskio.NewLocks(dir), diskio.NewLocks(dir)
	if err := a.Try("one"); err != nil {
		t.Fatal(err)
	}
	err := b.Try("one")
	if e, ok := errors.AsType[*diskio.LockedError](err); !ok || e.PID != os.Getpid() {
		t.Errorf("second owner: %v, want a LockedError with our pid", err)
	}
	if err := b.Try("two"); err != nil {
		t.Errorf("another name: %v", err)
	}
	for range 3 { // a name can be taken again and again
		if err := a.Release("one"); err != nil {
			t.Fatal(err)
		}
		if err := b.Try("one"); err != nil {
			t.Errorf("after release: %v", err)
		}
		if err := a.Try("one"); err == nil {
			t.Error("both hold it")
		}
		if err := b.Release("one"); err != nil {
			t.Fatal(err)
		}
		if err := a.Try("one"); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Try("one"); err != nil {
		t.Errorf("after Close: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// Holding many names, some of which may share a range, then letting go of
// each, leaves every name free.
func TestManyLocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := diskio.NewLocks(dir), diskio.NewLocks(dir)
	defer a.Close()
	defer b.Close()
	const n = 3000
	for i := range n {
		if err := a.Try(fmt.Sprint("name", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if err := b.Try(fmt.Sprint("name", i)); err == nil {
			t.Fatalf("name%d is held twice", i)
		}
	}
	for i := range n {
		if err := a.Release(fmt.Sprint("name", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if err := b.Try(fmt.Sprint("name", i)); err != nil {
			t.Fatalf("name%d is not free: %v", i, err)
		}
	}
}
