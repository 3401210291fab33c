//go:build !windows

package diskio

import (
	"os"
	"path/filepath"
	"testing"
)

// Whoever opened the lock file before its owner removed it locks an inode that
// has no name any more; that must not count as holding the lock.
func TestLockOfRemovedFileIsVoid(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	for _, replaced := range []bool{false, true} {
		owner, err := TryLock(path)
		if err != nil {
			t.Fatal(err)
		}
		late, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := owner.Unlock(); err != nil {
			t.Fatal(err)
		}
		if replaced {
			if owner, err = TryLock(path); err != nil {
				t.Fatal(err)
			}
		}
		if ok, err := lockFile(late); !ok || err != nil {
			t.Errorf("replaced %v: lockFile = %v, %v; want the nameless inode to be lockable", replaced, ok, err)
		}
		if same, err := stillNamed(late, path); same || err != nil {
			t.Errorf("replaced %v: stillNamed = %v, %v; want false", replaced, same, err)
		}
		if err := late.Close(); err != nil {
			t.Error(err)
		}
		if replaced {
			if err := owner.Unlock(); err != nil {
				t.Error(err)
			}
		}
	}
}
