package gitstore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What lies in a repository may be damaged or made to do harm.
func FuzzParse(f *testing.F) {
	var e staged
	e.name = "memory/MEMORY.md"
	f.Add(formatIndex([]staged{e, {name: "SOUL.md", flags: flagMore}}))
	f.Add([]byte("\x03\x04\x91\x00\x02\x02hi"))
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <b> 1 +0100\n\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if entries, ok := parseIndex(data); ok {
			again, ok := parseIndex(formatIndex(entries))
			if !ok || len(again) != len(entries) {
				t.Errorf("index of %d entries does not survive", len(entries))
			}
		}
		_, _ = applyDelta([]byte("abc"), data)
		_, _ = parseCommit(hash{}, string(data))
	})
}

func TestIndexRoundTrip(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("SOUL.md", "x\n")
	b.write("USER.md", "y\n")
	b.commit("one")
	b.git("status")
	data, err := os.ReadFile(filepath.Join(b.private, "index"))
	must(t, err)
	entries, ok := parseIndex(data)
	if !ok || len(entries) != 2 {
		t.Fatalf("git's index: %d entries, %v", len(entries), ok)
	}
	if again, ok := parseIndex(formatIndex(entries)); !ok || len(again) != 2 || again[1] != entries[1] {
		t.Errorf("round trip = %+v, %v", again, ok)
	}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x40
		if _, ok := parseIndex(bad); ok {
			t.Fatalf("byte %d may be wrong", i)
		}
	}
}

// A damaged repository is an error, and no file of the work tree changes.
func TestDamagedObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("SOUL.md", "one\n")
	b.commit("one")
	b.write("SOUL.md", "two\n")
	b.commit("two")
	must(t, filepath.WalkDir(filepath.Join(b.private, "objects"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			return os.WriteFile(p, []byte("x\x9c\x4b\xca"), 0o600)
		}
		return err
	}))
	_, err := b.Restore(t.Context(), "HEAD")
	if !errors.Is(err, errCorrupt) {
		t.Errorf("restore = %v", err)
	}
	if _, err := b.Log(t.Context(), 3); !errors.Is(err, errCorrupt) {
		t.Errorf("log = %v", err)
	}
	if got := b.text("SOUL.md"); got != "two\n" {
		t.Errorf("SOUL.md = %q", got)
	}
}
