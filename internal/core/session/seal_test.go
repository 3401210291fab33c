package session

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// sealedLog is a conversation of two turns on disk.
func sealedLog(t *testing.T) (st *Store, path string) {
	t.Helper()
	st = openStore(t, storetest.Disk, t.TempDir())
	s := acquire(t, st, "cli:direct")
	must(t, s.BeginTurn("t1", user("where is the key")))
	must(t, s.EndTurn(answer("under the mat")))
	must(t, s.BeginTurn("t2", user("which mat")))
	must(t, s.EndTurn(answer("the red one")))
	must(t, s.Release())
	return st, filepath.Join(st.Dir(), "Y2xpOmRpcmVjdA.jsonl")
}

func shownBy(t *testing.T, st *Store) (out []string) {
	t.Helper()
	for r, err := range st.Records(t.Context(), "cli:direct") {
		must(t, err)
		out = append(out, string(r.Role)+": "+r.Content.String())
	}
	return out
}

// Every flipped bit of a log is noticed, and what is shown of the line says so.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	st, path := sealedLog(t)
	data := st.Workspace().Data
	whole, err := os.ReadFile(path)
	must(t, err)
	if d, err := Damaged(t.Context(), data); err != nil || d != nil {
		t.Fatalf("damaged before anything happened: %v, %v", d, err)
	}
	unnoticed := 0
	for i := range whole {
		rotten := bytes.Clone(whole)
		rotten[i] ^= 1 << (i % 8)
		if !bytes.Contains(rotten, []byte(`,"`+store.SumKey+`":"`)) {
			t.Fatal("the log has no checksums")
		}
		must(t, os.WriteFile(path, rotten, 0o600))
		d, err := Damaged(t.Context(), data)
		must(t, err)
		if len(d) == 0 {
			unnoticed++ // in the name of the checksum, or the newline at the end
		}
	}
	// A flip within the name of the checksum leaves a line that has none, with all its content.
	if lines := bytes.Count(whole, []byte{'\n'}); unnoticed > lines*len(`,"`+store.SumKey+`":"`)+1 {
		t.Errorf("%d of %d flipped bits went unnoticed in %d lines", unnoticed, len(whole), lines)
	}
}

func TestDamagedMessageIsShown(t *testing.T) {
	t.Parallel()
	st, path := sealedLog(t)
	whole, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(whole, []byte("under the mat"), []byte("under the cat"), 1), 0o600))
	got := strings.Join(shownBy(t, st.fresh(t, storetest.Disk)), "\n")
	for _, want := range []string{"user: where is the key", "assistant: " + damagedNote + "under the cat", "user: which mat", "assistant: the red one"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in what is shown:\n%s", want, got)
		}
	}
	d, err := Damaged(t.Context(), st.Workspace().Data)
	if err != nil || len(d) != 1 || d[0].File != path || len(d[0].Lines) != 1 {
		t.Errorf("Damaged = %+v, %v", d, err)
	}
}

// What is replaced on purpose is not damage, and what was damaged before stays so.
func TestScrubKeepsChecksums(t *testing.T) {
	t.Parallel()
	st, path := sealedLog(t)
	whole, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(whole, []byte("which mat"), []byte("which cat"), 1), 0o600))
	changed, err := Scrub(t.Context(), path, map[string]string{"mat": "***", "cat": "***"})
	if err != nil || !changed {
		t.Fatalf("Scrub: %v, %v", changed, err)
	}
	d, err := Damaged(t.Context(), st.Workspace().Data)
	if err != nil || len(d) != 1 || len(d[0].Lines) != 1 {
		t.Errorf("Damaged = %+v, %v; want the line that was damaged before", d, err)
	}
}
