// Package storetest says what a store.Store promises, as tests that every
// driver must pass: Run for one process after the other, RunKill for processes
// that die.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Open opens the store of a place. Two stores of one place act like two
// processes. The test closes it.
type Open func(tb testing.TB, place string) store.Store

// Run tests a driver.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, test := range map[string]func(*rig){
		"log":                 testLog,
		"log moved":           testMoved,
		"log replaced":        testReplace,
		"log of many writers": testWriters,
		"log of odd bytes":    testOddBytes,
		"appended meanwhile":  testAppendWhileReplaced,
		"replaced at once":    testReplaceTogether,
		"archived at once":    testArchiveTogether,
		"synced meanwhile":    testSyncWhileReplaced,
		"listing":             testList,
		"archive":             testArchive,
		"documents":           testDocs,
		"versions":            testVersions,
		"update":              testUpdate,
		"names":               testNames,
		"locks":               testLocks,
		"waiting for a lock":  testWaitLock,
		"cursor":              testCursor,
		"under a folder":      testUnder,
		"watching":            testWatch,
		"life":                testLife,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := t.TempDir()
			r := &rig{T: t, ctx: t.Context(), open: func() store.Store {
				s := open(t, place)
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				return s
			}}

			r.Store = r.open()
			test(r)
		})
	}
}

type rig struct {
	*testing.T
	store.Store
	ctx  context.Context //nolint:containedctx // of the test
	open func() store.Store
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) want(err, target error) {
	r.Helper()
	if !errors.Is(err, target) {
		r.Fatalf("error %v, want %v", err, target)
	}
}

func (r *rig) log(s store.Store, name string) store.Log {
	r.Helper()
	l, err := s.Log(r.ctx, name)
	r.must(err)
	r.Cleanup(func() { _ = l.Close() })
	return l
}

// text returns the whole log.
func (r *rig) text(l store.Log) string {
	r.Helper()
	info, err := l.Info(r.ctx)
	r.must(err)
	data := make([]byte, info.Size)
	if _, err := l.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		r.Fatal(err)
	}
	return string(data)
}

func (r *rig) holds(l store.Log, want string) {
	r.Helper()
	if got := r.text(l); got != want {
		r.Fatalf("the log holds %.200q, want %.200q", got, want)
	}
}

func testLog(r *rig) {
	l := r.log(r.Store, "a/b/log.jsonl")
	if info, err := l.Info(r.ctx); err != nil || info.Exists() || info.Size != 0 {
		r.Fatalf("a missing log is %+v, %v", info, err)
	}

	r.must(l.Append(r.ctx, 0, []byte("one\n"), false))
	r.must(l.Append(r.ctx, 4, []byte("two\nthree\n"), true))
	r.holds(l, "one\ntwo\nthree\n")
	r.holds(r.log(r.open(), "a/b/log.jsonl"), "one\ntwo\nthree\n")
	r.must(l.Sync(r.ctx))
	if err := l.Append(r.ctx, 14, []byte("half"), false); err == nil {
		r.Fatal("half a line was appended")
	}

	r.must(l.Close())
	r.must(l.Append(r.ctx, 14, []byte("four\n"), false)) // it opens again
	r.holds(l, "one\ntwo\nthree\nfour\n")

	info, err := l.Info(r.ctx)
	r.must(err)
	stat, err := r.Stat(r.ctx, "a/b/log.jsonl")
	r.must(err)
	if info.Size != 19 || info.Name != "a/b/log.jsonl" || !info.Exists() || info.Changed.IsZero() || stat != info {
		r.Fatalf("Info is %+v, Stat %+v", info, stat)
	}

	r.must(r.Remove(r.ctx, "a/b/log.jsonl"))
	r.holds(l, "")
	r.want(l.Append(r.ctx, 19, []byte("x\n"), false), store.ErrMoved)
	r.must(l.Append(r.ctx, 0, []byte("again\n"), false))
	r.holds(r.log(r.open(), "a/b/log.jsonl"), "again\n")
}

func testMoved(r *rig) {
	mine, theirs := r.log(r.Store, "x.jsonl"), r.log(r.open(), "x.jsonl")
	r.must(mine.Append(r.ctx, 0, []byte("1\n"), false))
	r.want(theirs.Append(r.ctx, 0, []byte("2\n"), false), store.ErrMoved)
	r.must(theirs.Append(r.ctx, 2, []byte("2\n"), false))
	r.want(mine.Append(r.ctx, 2, []byte("3\n"), true), store.ErrMoved)
	r.want(mine.Append(r.ctx, 100, []byte("3\n"), true), store.ErrMoved)
	r.holds(mine, "1\n2\n")
}

func testReplace(r *rig) {
	mine, theirs := r.log(r.Store, "d/x.jsonl"), r.log(r.open(), "d/x.jsonl")
	r.must(mine.Replace(r.ctx, 0, []byte("new\n")))
	r.holds(theirs, "new\n")
	r.want(theirs.Replace(r.ctx, 0, []byte("x\n")), store.ErrMoved)
	r.want(theirs.Replace(r.ctx, 9, []byte("x\n")), store.ErrMoved)
	r.must(mine.Append(r.ctx, 4, []byte("more\n"), false))
	r.must(theirs.Replace(r.ctx, 9, []byte("other\n")))
	r.want(mine.Append(r.ctx, 9, []byte("lost\n"), false), store.ErrMoved)
	r.holds(mine, "other\n")
	r.must(mine.Append(r.ctx, 6, []byte("kept\n"), false))
	r.must(mine.Replace(r.ctx, -1, nil))
	r.holds(theirs, "")
	r.must(theirs.Append(r.ctx, 0, []byte("end\n"), true))
	r.holds(mine, "end\n")
}

// Whoever is refused reads on and tries again: nothing is lost, nothing is
// written over, no two lines mix.
func testWriters(r *rig) {
	const writers, each = 4, 50
	var wg sync.WaitGroup
	for w := range writers {
		s := r.open()
		wg.Go(func() {
			l, err := s.Log(r.ctx, "w/x.jsonl")
			if err != nil {
				r.Error(err)
				return
			}

			defer l.Close() //nolint:errcheck // nothing waits to be written
			for i := range each {
				line := fmt.Appendf(nil, "%d %d %s\n", w, i, strings.Repeat("x", 10*i))
				for {
					info, err := l.Info(r.ctx)
					if err == nil {
						err = l.Append(r.ctx, info.Size, line, i%10 == 0)
					}

					if err == nil {
						break
					}
					if !errors.Is(err, store.ErrMoved) {
						r.Error(err)
						return
					}
				}
			}
		})
	}

	wg.Wait()
	next := map[int]int{}
	for line := range strings.Lines(r.text(r.log(r.Store, "w/x.jsonl"))) {
		var w, i int
		var rest string
		_, _ = fmt.Sscanf(line, "%d %d %s", &w, &i, &rest) // the first line has no rest
		if i != next[w] || len(rest) != 10*i {
			r.Fatalf("line %.40q of writer %d, want number %d", line, w, next[w])
		}
		next[w]++
	}

	for w := range writers {
		if next[w] != each {
			r.Errorf("writer %d has %d lines, want %d", w, next[w], each)
		}
	}
}

// Of several that replace a log which is not there, one succeeds, and the log
// holds its lines.
func testReplaceTogether(r *rig) {
	for round := range 20 {
		name := fmt.Sprintf("l/together%d.jsonl", round)
		logs := make([]store.Log, 4)
		for i := range logs {
			logs[i] = r.log(r.open(), name)
		}

		results := together(len(logs), func(i int) error {
			return logs[i].Replace(r.ctx, 0, bytes.Repeat(fmt.Appendf(nil, "%d\n", i), 50_000))
		})
		var won []string
		for i, err := range results {
			if err == nil {
				won = append(won, strings.Repeat(fmt.Sprintf("%d\n", i), 50_000))
			} else {
				r.want(err, store.ErrMoved)
			}
		}

		if len(won) != 1 {
			r.Fatalf("round %d: %d of %d replaced the same log", round, len(won), len(results))
		}
		if got := r.text(logs[0]); got != won[0] {
			r.Fatalf("round %d: the log has %d bytes, not those of the one that replaced it", round, len(got))
		}
	}
}

// No line is lost while others put the same lines in place of a log.
func testAppendWhileReplaced(r *rig) {
	const writers, lines = 3, 500
	logs := make([]store.Log, writers+1)
	for i := range logs {
		logs[i] = r.log(r.open(), "l/x.jsonl")
	}

	for _, err := range together(len(logs), func(i int) error {
		for n := range lines {
			for {
				var err error
				if i < writers {
					err = add(r.ctx, logs[i], fmt.Sprintf("%d-%d", i, n), false)
				} else {
					err = rewrite(r.ctx, logs[i])
				}

				if err == nil {
					break
				}
				if !errors.Is(err, store.ErrMoved) {
					return err
				}
			}
		}
		return nil
	}) {
		r.must(err)
	}

	got := strings.Fields(r.text(r.log(r.open(), "l/x.jsonl")))
	if len(got) != writers*lines {
		r.Errorf("the log has %d lines, want %d", len(got), writers*lines)
	}
	ordered(r.T, got)
}

// rewrite puts the lines of a log in place of themselves.
func rewrite(ctx context.Context, l store.Log) error {
	lines, size, err := read(ctx, l)
	if err != nil || size == 0 {
		return err
	}
	return l.Replace(ctx, size, []byte(strings.Join(lines, "\n")+"\n"))
}

// Several may archive the same part of a log.
func testArchiveTogether(r *rig) {
	l := r.log(r.Store, "s/x.jsonl")
	part := strings.Repeat("line\n", 50_000)
	r.must(l.Append(r.ctx, 0, []byte(part+"more\n"), false))

	for round := range 20 {
		as := fmt.Sprintf("s/archive/x.%d.jsonl", round)
		for _, err := range together(4, func(int) error { return r.Archive(r.ctx, "s/x.jsonl", as, int64(len(part))) }) {
			r.must(err)
		}
		if got := r.text(r.log(r.open(), as)); got != part {
			r.Fatalf("round %d: the archive has %d bytes, want %d", round, len(got), len(part))
		}
	}
}

// Sync does not fail because the log is replaced meanwhile.
func testSyncWhileReplaced(r *rig) {
	l := r.log(r.Store, "l/x.jsonl")
	r.must(l.Append(r.ctx, 0, []byte("1\n"), false))
	for _, err := range together(2, func(i int) error {
		var err error
		for range 200 {
			if i == 0 {
				err = errors.Join(err, l.Sync(r.ctx))
			} else {
				err = errors.Join(err, l.Replace(r.ctx, -1, []byte("1\n")))
			}
		}

		return err
	}) {
		r.must(err)
	}
}

// together does something n times at once.
func together(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errs
}

func testOddBytes(r *rig) {
	l := r.log(r.Store, "odd.jsonl")
	line := append(bytes.Repeat([]byte("\x00\xff\xfe\r"), 1<<20), '\n') // 4 MiB
	r.must(l.Append(r.ctx, 0, line, false))
	r.must(l.Append(r.ctx, int64(len(line)), []byte("\n\n"), true))
	r.holds(r.log(r.open(), "odd.jsonl"), string(line)+"\n\n")
	_, err := r.Put(r.ctx, "odd.json", line, store.Missing, true)
	r.must(err)
	data, _, err := r.open().Doc(r.ctx, "odd.json")
	r.must(err)
	if !bytes.Equal(data, line) {
		r.Error("a document came back as something else")
	}
}

func names(r *rig, seq iter.Seq2[store.Info, error]) string {
	r.Helper()
	var out []string
	for i, err := range seq {
		r.must(err)
		if !i.Exists() || i.Changed.IsZero() {
			r.Errorf("%+v", i)
		}
		out = append(out, fmt.Sprintf("%s:%d", i.Name, i.Size))
	}

	return strings.Join(out, " ")
}

func testList(r *rig) {
	if got := names(r, r.Logs(r.ctx, "d")) + names(r, r.Docs(r.ctx, "d")); got != "" {
		r.Errorf("a missing folder has %q", got)
	}

	for _, name := range []string{"d/b.jsonl", "d/a.jsonl", "d/sub/c.jsonl"} {
		r.must(r.log(r.Store, name).Append(r.ctx, 0, []byte("1\n"), false))
	}

	for _, name := range []string{"d/2.json", "d/1.json", "d/1.json.damaged-1", "d/sub/3.json"} {
		_, err := r.Put(r.ctx, name, []byte("{}"), store.Any, false)
		r.must(err)
	}

	release, err := r.Lock(r.ctx, "d/some.lock")
	r.must(err)
	r.must(r.log(r.Store, "top.jsonl").Append(r.ctx, 0, []byte("1\n"), false))
	if got := names(r, r.Logs(r.ctx, "")); got != "top.jsonl:2" {
		r.Errorf("logs at the top: %q", got)
	}
	if got := names(r, r.open().Logs(r.ctx, "d")); got != "d/a.jsonl:2 d/b.jsonl:2" {
		r.Errorf("logs: %q", got)
	}
	if got := names(r, r.open().Docs(r.ctx, "d")); got != "d/1.json:2 d/2.json:2" {
		r.Errorf("documents: %q", got)
	}
	r.must(release())
}

func testArchive(r *rig) {
	l := r.log(r.Store, "s/x.jsonl")
	r.must(l.Append(r.ctx, 0, []byte("1\n2\n3\n"), false))
	r.must(r.Archive(r.ctx, "s/x.jsonl", "s/archive/x.1.jsonl", 6))
	r.must(r.Archive(r.ctx, "s/x.jsonl", "s/archive/x.1.jsonl", 6)) // again, after a crash
	r.want(r.Archive(r.ctx, "s/x.jsonl", "s/archive/x.1.jsonl", 4), store.ErrExists)
	r.must(r.Archive(r.ctx, "s/x.jsonl", "s/archive/x.2.jsonl", 4))
	r.must(r.Archive(r.ctx, "s/x.jsonl", "s/archive/x.2.jsonl", 4))
	r.want(r.Archive(r.ctx, "s/x.jsonl", "s/archive/x.3.jsonl", 8), store.ErrMoved)
	r.must(l.Replace(r.ctx, 6, []byte("a\nb\nc\n")))
	r.want(r.Archive(r.ctx, "s/x.jsonl", "s/archive/x.1.jsonl", 6), store.ErrExists)
	r.must(l.Append(r.ctx, 6, []byte("more\n"), false))
	r.holds(r.log(r.open(), "s/archive/x.1.jsonl"), "1\n2\n3\n")
	r.holds(r.log(r.open(), "s/archive/x.2.jsonl"), "1\n2\n")
	r.must(r.Remove(r.ctx, "s/x.jsonl"))
	r.holds(r.log(r.open(), "s/archive/x.1.jsonl"), "1\n2\n3\n")
	if err := r.Archive(r.ctx, "s/none.jsonl", "s/archive/n.jsonl", 0); err == nil {
		r.Error("a log that is not there was archived")
	}
}

func testDocs(r *rig) {
	data, v, err := r.Doc(r.ctx, "d/x.json")
	if err != nil || data != nil || v != store.Missing {
		r.Fatalf("a missing document is %q, %q, %v", data, v, err)
	}
	if i, err := r.Stat(r.ctx, "d/x.json"); err != nil || i.Exists() {
		r.Errorf("Stat of a missing document: %+v, %v", i, err)
	}

	one, err := r.Put(r.ctx, "d/x.json", []byte("one"), store.Missing, true)
	r.must(err)
	data, v, err = r.open().Doc(r.ctx, "d/x.json")
	if err != nil || string(data) != "one" || v != one || one == store.Missing || one == store.Any {
		r.Fatalf("%q, %q, %v; Put said %q", data, v, err, one)
	}

	_, err = r.Put(r.ctx, "d/empty.json", nil, store.Any, false)
	r.must(err)
	if data, v, err := r.Doc(r.ctx, "d/empty.json"); err != nil || len(data) > 0 || v == store.Missing {
		r.Errorf("an empty document is %q, %q, %v", data, v, err)
	}
	if i, err := r.Stat(r.ctx, "d/x.json"); err != nil || i.Size != 3 || i.Name != "d/x.json" {
		r.Errorf("Stat: %+v, %v", i, err)
	}

	r.must(r.Remove(r.ctx, "d/x.json"))
	r.must(r.Remove(r.ctx, "d/x.json"))
	if _, v, err := r.open().Doc(r.ctx, "d/x.json"); err != nil || v != store.Missing {
		r.Errorf("a removed document has the version %q, %v", v, err)
	}
	if r.Where("d/x.json") == "" {
		r.Error("Where does not say where it is")
	}
}

func testVersions(r *rig) {
	one, err := r.Put(r.ctx, "x.json", []byte("1"), store.Missing, false)
	r.must(err)
	_, err = r.Put(r.ctx, "x.json", []byte("2"), store.Missing, true)
	r.want(err, store.ErrChanged)
	two, err := r.open().Put(r.ctx, "x.json", []byte("2"), one, true)
	r.must(err)
	_, err = r.Put(r.ctx, "x.json", []byte("3"), one, true)
	r.want(err, store.ErrChanged)
	_, err = r.Put(r.ctx, "y.json", []byte("3"), one, true)
	r.want(err, store.ErrChanged)
	same, err := r.Put(r.ctx, "x.json", []byte("2"), two, true)
	r.must(err)
	if same != two {
		r.Errorf("the same content has the versions %q and %q", two, same)
	}

	_, err = r.Put(r.ctx, "x.json", []byte("4"), store.Any, true)
	r.must(err)
	if data, _, err := r.Doc(r.ctx, "x.json"); err != nil || string(data) != "4" {
		r.Errorf("%q, %v", data, err)
	}
}

func testUpdate(r *rig) {
	const writers, each = 4, 20
	var wg sync.WaitGroup
	for range writers {
		s := r.open()
		wg.Go(func() {
			for range each {
				err := store.Update(r.ctx, s, "d/n.json", func(old []byte) ([]byte, error) {
					n := 0
					_, _ = fmt.Sscan(string(old), &n) // a missing one is 0
					return fmt.Append(nil, n+1), nil
				})
				if err != nil {
					r.Error(err)
				}
			}
		})
	}

	wg.Wait()
	if data, _, err := r.Doc(r.ctx, "d/n.json"); err != nil || string(data) != fmt.Sprint(writers*each) {
		r.Errorf("%q, %v; want %d", data, err, writers*each)
	}

	refused := errors.New("no")
	r.want(store.Update(r.ctx, r.Store, "d/n.json", func([]byte) ([]byte, error) { return nil, refused }), refused)
	r.must(store.Update(r.ctx, r.Store, "d/m.json", func([]byte) ([]byte, error) { return nil, nil }))
	if i, err := r.Stat(r.ctx, "d/m.json"); err != nil || i.Exists() {
		r.Errorf("%+v, %v", i, err)
	}

	aside, err := store.SaveDamaged(r.ctx, r.Store, "d/n.json", []byte("{"), time.Unix(0, 0))
	r.must(err)
	if data, _, err := r.Doc(r.ctx, aside); err != nil || string(data) != "{" || aside != "d/n.json.damaged-19700101-000000" {
		r.Errorf("%s holds %q, %v", aside, data, err)
	}
}

func testNames(r *rig) {
	for _, name := range []string{"", "..", "../x", "a/../../x", "/etc/x", "a\x00b"} {
		if _, err := r.Log(r.ctx, name); err == nil && name != "" {
			r.Errorf("Log takes %q", name)
		}
		if _, err := r.Put(r.ctx, name, []byte("x"), store.Any, false); err == nil {
			r.Errorf("Put takes %q", name)
		}
		if _, _, err := r.Doc(r.ctx, name); err == nil {
			r.Errorf("Doc takes %q", name)
		}
		if _, err := r.Lock(r.ctx, name); err == nil && name != "" {
			r.Errorf("Lock takes %q", name)
		}
	}
	for _, name := range []string{"ü/ö.json", "a b/%41;~.json", strings.Repeat("n", 120) + ".json"} {
		_, err := r.Put(r.ctx, name, []byte(name), store.Missing, false)
		r.must(err)
		if data, _, err := r.open().Doc(r.ctx, name); err != nil || string(data) != name {
			r.Errorf("%q holds %q, %v", name, data, err)
		}
	}
}

func testLocks(r *rig) {
	for _, name := range []string{"d/x.lock", "d/x", "d/.lock"} {
		other := r.open()
		release, err := r.Lock(r.ctx, name)
		r.must(err)

		for who, s := range map[string]store.Store{"the same": r.Store, "another": other} {
			if _, err := s.Lock(r.ctx, name); !locked(err) {
				r.Errorf("%s: %s store: %v", name, who, err)
			}
		}

		r.must(release())
		r.must(release()) // a second time does nothing
		again, err := other.Lock(r.ctx, name)
		r.must(err)
		if _, err := r.Lock(r.ctx, name); !locked(err) {
			r.Errorf("%s is not locked: %v", name, err)
		}
		r.must(again())
	}

	if _, held := store.Holder(r.ctx, r.Store, "d/none.lock"); held {
		r.Error("a lock that was never taken is held")
	}

	release, err := r.Lock(r.ctx, "d/x.lock")
	r.must(err)
	if pid, held := store.Holder(r.ctx, r.open(), "d/x.lock"); !held || pid != os.Getpid() {
		r.Errorf("the lock is held by %d, %v", pid, held)
	}

	r.must(release())
	if _, held := store.Holder(r.ctx, r.open(), "d/x.lock"); held {
		r.Error("a lock that was released is held")
	}

	var all []func() error
	for i := range 200 {
		release, err := r.Lock(r.ctx, fmt.Sprintf("many/%d", i))
		r.must(err)
		all = append(all, release)
	}

	for _, release := range all {
		r.must(release())
	}
}

func locked(err error) bool { _, ok := errors.AsType[*store.LockedError](err); return ok }

func testWaitLock(r *rig) {
	release, err := r.Lock(r.ctx, "x.lock")
	r.must(err)
	if _, err := store.WaitLock(r.ctx, r.open(), "x.lock", time.Millisecond); !locked(err) {
		r.Errorf("%v, want a LockedError", err)
	}

	ended, cancel := context.WithCancelCause(r.ctx)
	why := errors.New("enough")
	cancel(why)
	if _, err := store.WaitLock(ended, r.open(), "x.lock", time.Hour); !locked(err) || !errors.Is(err, why) {
		r.Errorf("%v, want the cause and a LockedError", err)
	}

	got := make(chan error)
	go func() {
		release, err := store.WaitLock(r.ctx, r.open(), "x.lock", time.Hour)
		if err == nil {
			err = release()
		}
		got <- err
	}()

	r.must(release())
	r.must(<-got)
}

func testCursor(r *rig) {
	mine, theirs := r.log(r.Store, "x.jsonl"), r.log(r.open(), "x.jsonl")
	var c store.Cursor
	look := func(want store.Change, size int64) {
		r.Helper()
		info, got, err := c.Inspect(r.ctx, mine)
		if err != nil || got != want || info.Size != size {
			r.Fatalf("Look: %v, %+v, %v; want %v and %d bytes", got, info, err, want, size)
		}

		saved := store.Cursor{At: c.At, Tail: c.Tail}
		if _, got, err := saved.Resume(r.ctx, mine); err != nil || (got == store.Another) != (want == store.Another) {
			r.Fatalf("Resume: %v, %v; Look says %v", got, err, want)
		}

		r.must(c.Reached(mine, info))
		if _, again, err := c.Inspect(r.ctx, mine); err != nil || again != store.Same {
			r.Fatalf("a second Look: %v, %v", again, err)
		}
	}

	look(store.Same, 0)
	r.must(theirs.Append(r.ctx, 0, []byte("one\n"), false))
	info, _, err := c.Inspect(r.ctx, mine)
	r.must(err)
	r.must(c.Reached(mine, info))
	r.must(theirs.Append(r.ctx, 4, []byte("two\n"), false))
	look(store.Grown, 8)
	r.must(mine.Append(r.ctx, 8, []byte("three\n"), false))
	look(store.Grown, 14)
	r.must(theirs.Replace(r.ctx, 14, []byte("a longer text than before\n")))
	look(store.Another, 26)
	r.must(theirs.Replace(r.ctx, 26, []byte("short\n")))
	look(store.Another, 6)
	r.must(r.Remove(r.ctx, "x.jsonl"))
	look(store.Another, 0)
	var lines []string
	r.must(theirs.Append(r.ctx, 0, []byte("1\n\n3\n"), false))
	r.text(mine)

	for line, err := range store.Lines(mine, 2, 5) {
		r.must(err)
		lines = append(lines, fmt.Sprintf("%d:%s", line.Offset, line.Bytes))
	}

	if got := strings.Join(lines, " "); got != "2: 3:3" {
		r.Errorf("lines: %q", got)
	}
}

func testUnder(r *rig) {
	part := store.Under(r.Store, "sessions", "id")
	r.must(r.log(part, "x.jsonl").Append(r.ctx, 0, []byte("1\n"), false))
	r.holds(r.log(r.Store, "sessions/id/x.jsonl"), "1\n")
	v, err := part.Put(r.ctx, "d.json", []byte("doc"), store.Missing, false)
	r.must(err)
	if data, now, err := r.Doc(r.ctx, "sessions/id/d.json"); err != nil || string(data) != "doc" || now != v {
		r.Errorf("%q, %v", data, err)
	}
	if got := names(r, part.Logs(r.ctx, "")) + " " + names(r, part.Docs(r.ctx, "")); got != "x.jsonl:2 d.json:3" {
		r.Errorf("listed: %q", got)
	}

	r.must(part.Archive(r.ctx, "x.jsonl", "archive/x.jsonl", 2))
	if got := names(r, part.Logs(r.ctx, "archive")); got != "archive/x.jsonl:2" {
		r.Errorf("listed: %q", got)
	}
	if i, err := part.Stat(r.ctx, "d.json"); err != nil || i.Name != "d.json" || i.Size != 3 {
		r.Errorf("%+v, %v", i, err)
	}

	release, err := part.Lock(r.ctx, "l.lock")
	r.must(err)
	if _, err := r.open().Lock(r.ctx, "sessions/id/l.lock"); !locked(err) {
		r.Errorf("%v", err)
	}

	r.must(release())
	r.must(part.Remove(r.ctx, "d.json"))
	if part.Where("d.json") != r.Where("sessions/id/d.json") {
		r.Error(part.Where("d.json"))
	}

	r.must(part.Close())
	if _, v, err := part.Doc(r.ctx, "d.json"); err != nil || v != store.Missing {
		r.Errorf("%q, %v", v, err)
	}
}

func testWatch(r *rig) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	heard, done := make(chan struct{}, 1000), make(chan error, 1)
	part := store.Under(r.Store, "cron")
	go func() { done <- part.Watch(ctx, []string{"", "inbox"}, func() { heard <- struct{}{} }) }()
	<-heard

	for _, name := range []string{"cron/jobs.json", "cron/inbox/1.json"} {
		for len(heard) > 0 {
			<-heard
		}
		_, err := r.open().Put(r.ctx, name, []byte("{}"), store.Any, true)
		r.must(err)
		<-heard
	}

	cancel()
	r.must(<-done)
}

func testLife(r *rig) {
	r.must(r.Wake(r.ctx, time.Now().Add(time.Hour)))
	r.must(r.Wake(r.ctx, time.Time{}))
	if !r.Fresh() {
		r.Error("a store that was just opened is not fresh")
	}

	select {
	case <-r.Lost():
		r.Error("a store that was just opened is lost")
	default:
	}

	held, err := r.Lock(r.ctx, "held")
	r.must(err)
	r.must(r.Close())
	r.must(r.Close())
	again, err := r.open().Lock(r.ctx, "held")
	r.must(err)
	r.must(again())
	_ = held
}
