package undo

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// history is a workspace with three turns: one that edited two files, one that ran
// a command, and one that edited a file again. It returns its log.
func history(t *testing.T) (*bench, []byte) {
	t.Helper()
	b := open(t)
	b.write("a", "a before\n")
	b.write("b", "b before\n")
	b.edit("first", "a", func() { b.write("a", "a of the first\n") })
	b.edit("first", "b", func() { b.write("b", "b of the first\n") })
	b.command("second", func() { b.write("c", "c of the second\n"); b.write("b", "b of the second\n") })
	b.edit("third", "a", func() { b.write("a", "a of the third\n") })
	data, err := os.ReadFile(b.log.path())
	must(t, err)
	must(t, b.Close())
	return b, data
}

// A flipped bit never changes what a turn is known to have done: either it is
// known as before, but for a content that is refused, or it is known as damaged.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	b, data := history(t)
	file, err := os.OpenFile(b.log.path(), os.O_RDWR, 0o600)
	must(t, err)
	t.Cleanup(func() { must(t, file.Close()) })
	read := func(content []byte) (*model, int) {
		_, err := file.WriteAt(content, 0)
		must(t, err)
		l := logFile{f: file, model: newModel()}
		damaged, err := l.read(int64(len(content)))
		must(t, err)
		return l.model, len(damaged)
	}
	good, _ := read(data)

	unnoticed := 0
	for i := range data {
		flipped := bytes.Clone(data)
		flipped[i] ^= 1 << (i % 8)
		m, damaged := read(flipped)
		for id, was := range good.turns {
			now := m.turns[id]
			switch {
			case now == nil:
				t.Errorf("bit of byte %d, %q: turn %s is gone", i, around(data, i), id)
			case now.isDamaged():
			case now.session != was.session || !now.at.Equal(was.at) || !sameFiles(now.files, was.files):
				t.Errorf("bit of byte %d, %q: turn %s is another one", i, around(data, i), id)
			}
		}
		for id := range m.turns {
			if good.turns[id] == nil {
				t.Errorf("bit of byte %d, %q: there is a turn %q", i, around(data, i), id)
			}
		}
		if damaged == 0 && !inContent(good, int64(i)) {
			unnoticed++
		}
	}
	// In the name of a checksum, which leaves an entry that has none, or in a newline.
	if most := bytes.Count(data, []byte(`,"`+store.SumKey+`":"`)) * (len(`,"`+store.SumKey+`":"`) + 2); unnoticed > most {
		t.Errorf("%d flipped bits of %d were not noticed, want at most %d", unnoticed, len(data), most)
	}
}

// inContent reports whether a byte of a log is in the content of a file, which has
// a hash.
func inContent(m *model, at int64) bool {
	for _, s := range m.blobs {
		if at >= s.off && at < s.off+s.size {
			return true
		}
	}
	return false
}

func sameFiles(a, b map[string]*fileState) bool {
	return maps.EqualFunc(a, b, func(a, b *fileState) bool {
		same := a.before == b.before && a.kept == b.kept && a.mixed == b.mixed && (a.after == nil) == (b.after == nil)
		return same && (a.after == nil || *a.after == *b.after)
	})
}

// A flipped bit never brings back anything but what was there: the turn that it
// concerns is refused, the others are undone as before.
func TestUndoAfterFlippedBits(t *testing.T) {
	t.Parallel()
	b, data := history(t)
	whole := listing(t, b.ws)
	for i := 0; i < len(data); i += 41 {
		flipped := bytes.Clone(data)
		flipped[i] ^= 1 << (i % 8)
		must(t, os.WriteFile(b.log.path(), flipped, 0o600))

		// From the last turn to the first, as long as nothing is refused, each must
		// leave what was there before it.
		want := []map[string]string{
			{"a": "644 a of the first\n", "b": "644 b of the second\n", "c": "644 c of the second\n"},
			{"a": "644 a of the first\n", "b": "644 b of the first\n"},
			{"a": "644 a before\n", "b": "644 b before\n"},
		}
		before := whole
		for n, id := range []string{"third", "second", "first"} {
			turn, err := b.Find(t.Context(), id)
			must(t, err)
			r, err := b.Undo(t.Context(), id, Choice{})
			must(t, err)
			if len(r.Skipped) > 0 || turn.damaged() {
				for path, content := range listing(t, b.ws) {
					if content != before[path] && (turn.damaged() || content != want[n][path]) {
						t.Errorf("bit of byte %d, %q: refusing %s left %s = %q", i, around(data, i), id, path, content)
					}
				}
				break
			}
			if got := listing(t, b.ws); !maps.Equal(got, want[n]) {
				t.Errorf("bit of byte %d, %q: undoing %s left %v, want %v", i, around(data, i), id, got, want[n])
			}
			before = want[n]
		}
		for path := range listing(t, b.ws) {
			b.remove(path)
		}
		for path, content := range whole {
			b.write(path, strings.TrimPrefix(content, "644 "))
		}
		must(t, b.Close())
	}
}

func around(data []byte, i int) []byte { return data[max(0, i-12):min(len(data), i+12)] }

// What is damaged stays known after the log was written again: to people by its
// file, to undo by the turn.
func TestDamageIsKept(t *testing.T) {
	t.Parallel()
	b, data := history(t)
	at := bytes.Index(data, []byte(`"p":"a","b"`))
	data[at+5] ^= 1
	must(t, os.WriteFile(b.log.path(), data, 0o600))
	for range 2 {
		first, err := b.Find(t.Context(), "first")
		must(t, err)
		if !first.damaged() {
			t.Errorf("the turn is not damaged: %+v", first)
		}
		third, err := b.Find(t.Context(), "third")
		must(t, err)
		if third.damaged() {
			t.Error("a turn with a whole record is damaged")
		}
		must(t, b.Close())
	}
	r := b.undo("first", true)
	if len(r.Restored) > 0 || len(r.Skipped) == 0 || !slices.Contains(r.Gaps, whyDamaged) {
		t.Errorf("report = %+v", r)
	}
	if text := r.Text(t.Context(), ""); !strings.Contains(text, "the record of this turn is damaged") {
		t.Errorf("the person reads %q", text)
	}
	if Damaged(b.Dir) == "" {
		t.Error("what is damaged is not kept")
	}
}

// A content that is not what it was is not put back.
func TestDamagedContent(t *testing.T) {
	t.Parallel()
	b, data := history(t)
	data[bytes.Index(data, []byte("a before"))] ^= 1
	must(t, os.WriteFile(b.log.path(), data, 0o600))
	b.undo("third", false)
	b.undo("second", false)
	r := b.undo("first", false)
	if len(r.Skipped) != 1 || r.Skipped[0].Path != "a" || r.Skipped[0].Why != errDamaged.Error() {
		t.Errorf("report = %+v", r)
	}
}

// The content of a file is not taken for entries, also behind a damaged one.
func TestContentThatLooksLikeALog(t *testing.T) {
	t.Parallel()
	b, data := history(t)
	forged := bytes.ReplaceAll(data, []byte("before"), []byte("forged"))
	must(t, os.RemoveAll(b.log.path()))
	b.write("a", string(forged))
	b.edit("real", "a", func() { b.write("a", "changed") })
	must(t, b.Close())
	log, err := os.ReadFile(b.log.path())
	must(t, err)
	log[bytes.Index(log, []byte(`"op":"blob"`))] ^= 1
	must(t, os.WriteFile(b.log.path(), log, 0o600))
	turns, err := b.Turns(t.Context(), "")
	must(t, err)
	if len(turns) != 1 || turns[0].ID != "real" {
		t.Errorf("turns = %+v", turns)
	}
}

// Logs of versions without checksums are read, and such versions read this log.
func TestLogsOfOtherVersions(t *testing.T) {
	t.Parallel()
	b, data := history(t)
	var older bytes.Buffer
	for rest := data; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte{'\n'})
		var rec record
		must(t, json.Unmarshal(line, &rec))
		body, sealed, ok := store.Unseal(line)
		if !sealed || !ok {
			t.Fatalf("no checksum: %s", line)
		}
		plain := bytes.Clone(body)
		for _, key := range []string{"pos", "sum"} {
			if i := bytes.Index(plain, []byte(`,"`+key+`":`)); i >= 0 {
				end := i + 1 + bytes.IndexByte(plain[i+1:], ',')
				plain = slices.Concat(plain[:i], plain[end:])
			}
		}
		older.Write(append(plain, "}\n"...))
		older.Write(after[:rec.N])
		rest = after[rec.N:]
	}
	must(t, os.WriteFile(b.log.path(), older.Bytes(), 0o600))
	for _, id := range []string{"third", "second", "first"} {
		if r := b.undo(id, false); len(r.Skipped) > 0 {
			t.Errorf("undoing %s: %+v", id, r)
		}
	}
	if got := listing(t, b.ws); got["a"] != "644 a before\n" || got["b"] != "644 b before\n" || got["c"] != "" {
		t.Errorf("files = %v", got)
	}
}
