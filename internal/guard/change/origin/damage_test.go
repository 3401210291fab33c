package origin_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// The two copies of the record of a room.
const (
	recordFile = "ws.jsonl"
	copyFile   = "ws.copy.jsonl"
)

// fromOutside are the files of newMarkedRoom that came from outside.
func fromOutside() []string {
	return []string{"page.md", "renamed.md", "copied.md", "again.md", "repo/README.md", "repo/sub/later.md"}
}

// ofTheOwner are its other files.
func ofTheOwner() []string { return []string{"mine.md", "trusted.md"} }

// newMarkedRoom is a room whose record has marks of every kind. It returns the
// content of the record.
func newMarkedRoom(t *testing.T) (*room, []byte) {
	t.Helper()
	r := newRoom(t)
	r.old("mine.md", "mine "+text)
	mark := func(name string) { r.must(r.store.Mark(r.write(name, name+" "+text))) }
	mark("page.md")
	mark("moved.md")
	mark("trusted.md")
	r.must(r.store.Trust(r.path("trusted.md")))
	mark("again.md")
	r.must(r.store.Trust(r.path("again.md")))
	r.must(r.store.Mark(r.path("again.md")))
	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	r.write("repo/README.md", "readme "+text)
	r.write("repo/sub/page.md", "sub "+text)
	r.must(w.Foreign(t.Context()))
	settleClock(t, r.write("repo/sub/later.md", "later "+text))
	r.write("copied.md", "page.md "+text)
	r.must(os.Rename(r.path("moved.md"), r.path("renamed.md")))

	data, err := os.ReadFile(filepath.Join(r.dir, recordFile))
	r.must(err)
	return r, data
}

// damage puts other contents in place of both copies and opens the record again.
func (r *room) damage(record, copied []byte) {
	r.t.Helper()
	for name, data := range map[string][]byte{recordFile: record, copyFile: copied} {
		r.must(os.RemoveAll(filepath.Join(r.dir, name)))
		if data != nil {
			r.must(os.WriteFile(filepath.Join(r.dir, name), data, 0o600))
		}
	}
	r.reopen()
}

// inMemory is damage in a store without files, which takes a thousandth of the
// time. again opens the record once more.
func (r *room) inMemory(record, copied []byte) (s store.Store, again func()) {
	r.t.Helper()
	s = storetest.Memory()(r.t, "origin")
	for name, data := range map[string][]byte{recordFile: record, copyFile: copied} {
		if data != nil {
			_, err := s.Put(r.t.Context(), name, data, store.Missing, false)
			r.must(err)
		}
	}
	again = func() {
		o, err := origin.Open(origin.Options{Store: s, Name: "ws", Root: r.root})
		r.must(err)
		r.store = o
	}
	again()
	return s, again
}

// noticed reports whether a store has damaged lines that were kept aside.
func noticed(t *testing.T, s store.Store) bool {
	t.Helper()
	for _, name := range []string{recordFile, copyFile} {
		info, err := s.Stat(t.Context(), name+".bad")
		if err != nil {
			t.Fatal(err)
		}
		if info.Exists() {
			return true
		}
	}
	return false
}

// flip is data with one flipped bit in the byte at i.
func flip(data []byte, i int) []byte {
	out := bytes.Clone(data)
	out[i] ^= 1 << (i % 8)
	return out
}

// A flipped bit in one of the copies changes nothing: the other one has the line.
func TestFlippedBitInOneCopy(t *testing.T) {
	t.Parallel()
	r, data := newMarkedRoom(t)
	for i := range data {
		one, two := flip(data, i), data
		if i%2 == 0 {
			one, two = two, one
		}
		_, again := r.inMemory(one, two)
		for range 2 { // also after the record was written again
			for _, name := range fromOutside() {
				if !r.store.Foreign(r.path(name)) {
					t.Errorf("bit of byte %d: the mark of %s is lost", i, name)
				}
			}
			for _, name := range ofTheOwner() {
				if r.store.Foreign(r.path(name)) {
					t.Errorf("bit of byte %d: %s counts as from outside", i, name)
				}
			}
			again()
		}
		if t.Failed() {
			return
		}
	}
}

// Where nothing tells any more what a damaged line said, no mark is lost all the
// same: what had changed until then counts as from outside.
func TestFlippedBitInBothCopies(t *testing.T) {
	t.Parallel()
	r, data := newMarkedRoom(t)
	unnoticed := 0
	for i := range data {
		if i == len(data)-1 {
			break // half a line at the end is one that a process died in before it went on
		}
		one := flip(data, i)
		two := one
		if i%2 == 0 {
			two = nil
		}
		s, again := r.inMemory(one, two)
		for range 2 {
			for _, name := range fromOutside() {
				if !r.store.Foreign(r.path(name)) {
					t.Errorf("bit of byte %d, %q: the mark of %s is lost", i, data[max(0, i-9):min(len(data), i+9)], name)
				}
			}
			if r.store.Example(r.root) == "" {
				t.Errorf("bit of byte %d: a command counts as clean", i)
			}
			again()
		}
		if !noticed(t, s) {
			unnoticed++
		}
		if t.Failed() {
			return
		}
	}
	// In the name of a checksum, which leaves a line that has none, or in a newline,
	// which leaves two lines whose checksums tell where they end.
	lines := bytes.Count(data, []byte{'\n'})
	if most := lines * (len(`,"`+store.SumKey+`":"`) + 2); unnoticed > most {
		t.Errorf("%d flipped bits of %d were not noticed, want at most %d", unnoticed, len(data), most)
	}
}

// After the owner has looked at the files, those count as before; what was moved
// here since does not count as from outside either.
func TestTrustAfterDamage(t *testing.T) {
	t.Parallel()
	r, data := newMarkedRoom(t)
	flipped := flip(data, bytes.Index(data, []byte(`"path":"page.md"`))+9)
	r.damage(flipped, flipped)
	r.want("mine.md", true)
	settleClock(t, r.path("mine.md"))
	r.write("new.md", "new "+text)
	r.want("new.md", false)
	r.must(r.store.Trust(r.path("mine.md")))
	r.want("mine.md", false)
	r.want("page.md", true)
	r.must(r.store.Trust(r.root))
	for _, reopen := range []bool{false, true} {
		if reopen {
			r.reopen()
		}
		r.want("mine.md", false)
		r.want("page.md", false)
	}
	if files := origin.Damaged(r.dir); len(files) != 2 {
		t.Errorf("damaged: %q, want a file for each copy", files)
	}
}

// A command that is running when the line about its beginning is found damaged
// marks what it wrote all the same.
func TestRunningCommandWhoseLineIsDamaged(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.old("mine.md", text)
	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	data, err := os.ReadFile(filepath.Join(r.dir, recordFile))
	r.must(err)
	running := r.store
	flipped := flip(data, bytes.Index(data, []byte(`"pid"`))+1)
	r.damage(flipped, flipped)
	r.want("mine.md", true) // read by another process, which writes the record again
	settleClock(t, r.path("mine.md"))
	r.write("brought.md", "brought "+text)
	r.store = running
	r.must(w.Foreign(t.Context()))
	r.want("brought.md", true)
	r.reopen()
	r.want("brought.md", true)
}

// A version without checksums reads the record, and its records are read.
func TestRecordsOfOtherVersions(t *testing.T) {
	t.Parallel()
	r, data := newMarkedRoom(t)
	var older bytes.Buffer
	for raw := range bytes.Lines(data) {
		var l map[string]any
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Fatalf("an older version cannot read %s: %v", raw, err)
		}
		if _, sealed, ok := store.Unseal(bytes.TrimSuffix(raw, []byte{'\n'})); !sealed || !ok {
			t.Fatalf("no checksum: %s", raw)
		}
		body, _, _ := store.Unseal(bytes.TrimSuffix(raw, []byte{'\n'}))
		older.Write(append(bytes.Clone(body), "}\n"...))
	}
	r.damage(older.Bytes(), older.Bytes())
	for _, name := range fromOutside() {
		r.want(name, true)
	}
	for _, name := range ofTheOwner() {
		r.want(name, false)
	}
	if files := origin.Damaged(r.dir); len(files) > 0 {
		t.Errorf("damaged: %q", files)
	}
}
