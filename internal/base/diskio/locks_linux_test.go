package diskio_test

import (
	"fmt"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Two names of one process may share a range of the lock file: letting go of
// one must not let others have the second.
func TestLocksThatShareARange(t *testing.T) {
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
	twin := ""
	for i := 0; twin == "" && i < 100000; i++ {
		if name := fmt.Sprint("other", i); b.Try(name) != nil {
			twin = name
		}
	}
	if twin == "" {
		t.Fatal("no two names share a range; the test needs one pair")
	}
	if err := a.Try(twin); err != nil { // held twice now, under two names
		t.Fatal(err)
	}
	for i := range n {
		if err := a.Release(fmt.Sprint("name", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Try(twin); err == nil {
		t.Error("a lock that is still held was given to somebody else")
	}
	if err := a.Release(twin); err != nil {
		t.Fatal(err)
	}
	if err := b.Try(twin); err != nil {
		t.Errorf("not free at the end: %v", err)
	}
}
