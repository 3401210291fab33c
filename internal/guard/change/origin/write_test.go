package origin_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// save lets the program replace a file, as a page or a dream does.
func (r *room) save(name, content string, from ...string) {
	r.t.Helper()
	w := origin.Written{Path: r.path(name), Data: []byte(content)}
	for _, f := range from {
		w.From = append(w.From, []byte(f))
	}
	r.must(r.store.Write([]origin.Written{w}, func() error {
		r.must(os.RemoveAll(r.path(name))) // the new file is another inode
		r.write(name, content)
		return nil
	}))
}

// markElsewhere makes a stranger's file in another workspace of the data folder.
func (r *room) markElsewhere(content string) {
	r.t.Helper()
	root := r.t.TempDir()
	other, err := origin.Open(origin.Options{Store: disk.Open(r.dir, nil), Name: "other", Root: root})
	r.must(err)
	path := filepath.Join(root, "page.md")
	r.must(os.WriteFile(path, []byte(content), 0o600))
	r.must(other.Mark(path))
}

// mark makes a file that came from outside.
func (r *room) mark(name, content string) {
	r.t.Helper()
	r.must(r.store.Mark(r.write(name, content)))
}

// What the program writes takes with it where it comes from.
func TestWrite(t *testing.T) {
	t.Parallel()
	stranger := "words of a stranger, " + text
	own := "words of the owner, " + text
	for name, row := range map[string]struct {
		story   func(r *room)
		foreign bool
	}{
		"a new file is the owner's":         {func(r *room) { r.save("a.md", own) }, false},
		"a change of the owner's file":      {func(r *room) { r.old("a.md", text); r.save("a.md", own) }, false},
		"a change of a stranger's file":     {func(r *room) { r.mark("a.md", stranger); r.save("a.md", stranger+own) }, true},
		"other words in a stranger's file":  {func(r *room) { r.mark("a.md", stranger); r.save("a.md", own) }, true},
		"a stranger's words in a new file":  {func(r *room) { r.mark("b.md", stranger); r.save("a.md", stranger) }, true},
		"made of a stranger's words":        {func(r *room) { r.mark("b.md", stranger); r.save("a.md", own, "x", stranger) }, true},
		"made of the owner's words":         {func(r *room) { r.mark("b.md", stranger); r.save("a.md", own, "x", text) }, false},
		"a stranger's words that are known": {func(r *room) { r.mark("b.md", stranger); r.must(os.Remove(r.path("b.md"))); r.save("a.md", stranger) }, true},
		"words that the owner trusted": {func(r *room) {
			r.mark("b.md", stranger)
			r.must(r.store.Trust(r.path("b.md")))
			r.save("a.md", stranger)
		}, false},
		"a stranger's file that the owner renamed": {func(r *room) {
			r.mark("b.md", stranger)
			r.must(os.Rename(r.path("b.md"), r.path("a.md")))
			r.save("a.md", stranger+own)
		}, true},
		"an earlier version of the owner's file": {func(r *room) {
			r.mark("a.md", stranger)
			r.must(r.store.Copying(r.path("a.md"), []byte(stranger)))
			r.write("a.md", own)
			r.must(r.store.Wrote(r.path("a.md")))
			r.save("a.md", text, text, own)
		}, false},
		"made of an earlier version that was a stranger's": {func(r *room) {
			// The mark has no content, as that of a call that was not ended.
			r.must(r.store.Expect(r.write("a.md", stranger)))
			r.must(r.store.Copying(r.path("a.md"), []byte(stranger)))
			r.write("a.md", own)
			r.must(r.store.Wrote(r.path("a.md")))
			r.want("a.md", false)
			r.save("a.md", own+"one more line\n", own, stranger)
		}, true},
		"words of another workspace that the owner trusted here": {func(r *room) {
			r.markElsewhere(stranger)
			r.must(r.store.Trust(r.write("b.md", stranger)))
			r.save("a.md", stranger)
		}, false},
		"words of another workspace": {func(r *room) {
			r.markElsewhere(stranger)
			r.save("a.md", own, stranger)
		}, true},
		"words that were changed in a stranger's file, and then moved": {func(r *room) {
			r.mark("b.md", stranger)
			r.save("b.md", stranger+own)
			r.must(os.Rename(r.path("b.md"), r.path("a.md")))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			row.story(r)
			r.want("a.md", row.foreign)
			r.reopen() // another process
			r.want("a.md", row.foreign)
		})
	}
}

// A command that runs while the program writes is not its author, and makes
// nothing the owner's that was not.
func TestWriteWhileACommandRuns(t *testing.T) {
	t.Parallel()
	stranger := "words of a stranger, " + text
	own := "words of the owner, " + text
	for name, row := range map[string]struct {
		before  func(r *room)
		during  func(r *room)
		foreign bool
	}{
		"a new file": {nil, func(r *room) { r.save("a.md", own) }, false},
		"the owner's file": {
			func(r *room) { r.old("a.md", text) },
			func(r *room) { r.save("a.md", own) }, false,
		},
		"a stranger's file": {
			func(r *room) { r.mark("a.md", stranger) },
			func(r *room) { r.save("a.md", own) }, true,
		},
		"a stranger's words": {
			func(r *room) { r.mark("b.md", stranger) },
			func(r *room) { r.save("a.md", stranger) }, true,
		},
		"a file that the command wrote": {nil, func(r *room) {
			r.write("a.md", stranger)
			r.save("a.md", stranger+own)
		}, true},
		"a file that the command replaces": {nil, func(r *room) {
			r.save("a.md", own)
			r.write("a.md", stranger)
		}, true},
		"the whole of a marked file": {
			func(r *room) { r.mark("a.md", stranger) },
			func(r *room) {
				w := origin.Written{Path: r.path("a.md"), Data: []byte(own), Whole: true}
				r.must(r.store.Write([]origin.Written{w}, func() error { r.write("a.md", own); return nil }))
			}, true,
		},
		"twice": {nil, func(r *room) {
			r.save("a.md", own)
			r.save("a.md", own+own)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			if row.before != nil {
				row.before(r)
			}
			var outside atomic.Bool // it turns out when the command ends
			w, err := r.store.Begin(origin.Running{Outside: outside.Load})
			r.must(err)
			row.during(r)
			outside.Store(true)
			r.want("a.md", row.foreign)
			r.must(w.Foreign(t.Context()))
			r.want("a.md", row.foreign)
			r.reopen()
			r.want("a.md", row.foreign)
		})
	}
}

// What the program writes is its own as soon as it is there.
func TestWriteIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	_, err := r.store.Begin(origin.Running{})
	r.must(err)
	r.must(r.store.Write([]origin.Written{{Path: r.path("a.md"), Data: []byte(text)}}, func() error {
		r.write("a.md", text)
		r.want("a.md", false)
		return nil
	}))
}

// A command that starts while the program writes is not taken for its author.
func TestWriteAsACommandStarts(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	var w *origin.Window
	r.must(r.store.Write([]origin.Written{{Path: r.path("a.md"), Data: []byte(text)}}, func() (err error) {
		w, err = r.store.Begin(origin.Running{})
		r.write("a.md", text)
		return err
	}))
	r.want("a.md", false)
	r.must(w.Foreign(t.Context()))
	r.want("a.md", false)
}

// A content from outside is marked before it is there, and the owner's content is
// not marked because a write failed.
func TestWriteThatFails(t *testing.T) {
	t.Parallel()
	stranger := "words of a stranger, " + text
	r := newRoom(t)
	r.mark("b.md", stranger)
	r.old("a.md", text)
	full := errors.New("the disk is full")
	err := r.store.Write([]origin.Written{{Path: r.path("a.md"), Data: []byte(stranger)}}, func() error {
		r.want("a.md", true)
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("Write returned %v", err)
	}
	r.write("copy.md", text)
	r.want("copy.md", false) // the owner's content is not known as from outside
}

// The owner's file stays the owner's if a write fails while a command runs.
func TestWriteThatFailsWhileACommandRuns(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	r.save("a.md", text)
	full := errors.New("the disk is full")
	err = r.store.Write([]origin.Written{{Path: r.path("a.md"), Data: []byte(text + text)}}, func() error { return full })
	if !errors.Is(err, full) {
		t.Errorf("Write returned %v", err)
	}
	r.want("a.md", false)
	r.must(w.Foreign(t.Context()))
	r.want("a.md", false)
}

// Without a record nothing is written.
func TestWriteWithoutARecord(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.must(os.WriteFile(r.dir, nil, 0o600)) // where the folder of the record would be
	err := r.store.Write([]origin.Written{{Path: r.path("a.md"), Data: []byte(text)}}, func() error {
		t.Error("the file was written")
		return nil
	})
	if err == nil {
		t.Error("there is no error")
	}
}

// A content that replaces a file as a whole does not get what the file was, but
// it does not end a mark either.
func TestWriteOfAWholeFile(t *testing.T) {
	t.Parallel()
	stranger := "words of a stranger, " + text
	whole := func(r *room, name, content string) {
		w := origin.Written{Path: r.path(name), Data: []byte(content), Whole: true}
		r.must(r.store.Write([]origin.Written{w}, func() error { r.must(os.RemoveAll(r.path(name))); r.write(name, content); return nil }))
	}
	r := newRoom(t)
	r.mark("b.md", stranger)
	r.must(os.Rename(r.path("b.md"), r.path("renamed.md")))
	r.mark("marked.md", "another "+stranger)
	whole(r, "renamed.md", text)
	whole(r, "marked.md", text+"more\n")
	r.want("renamed.md", false)
	r.want("marked.md", true)
	r.write("copy.md", text+"more\n")
	r.want("copy.md", false) // the content is not a stranger's
}
