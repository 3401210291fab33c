package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".workspace") && d.Name() != ".locks" && filepath.Ext(path) != ".lock" {
			rel, rerr := filepath.Rel(dir, path)
			names, err = append(names, filepath.ToSlash(rel)), rerr
		}
		return err
	}))
	slices.Sort(names)
	return names
}

func TestClear(t *testing.T) { storetest.Each(t, testClear) }

func testClear(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir)
	for i := range 3 {
		s := acquire(t, st, "k")
		u := user(fmt.Sprint(i))
		u.InboundID = fmt.Sprint("in", i)
		must(t, s.BeginTurn("t", u))
		must(t, s.SetMeta("_nanobot_model_preset", "fast"))
		must(t, s.SetMeta(keySummary, "old talk"))
		old := gist(s.Messages())
		must(t, s.Clear())
		if len(s.Messages()) != 0 || s.Len() != 0 || s.OpenTurn() != nil || len(old) != 1 {
			t.Errorf("after Clear: %q, Len %d, open %v", gist(s.Messages()), s.Len(), s.OpenTurn())
		}
		must(t, s.Release())
	}
	want := []string{"archive/aw.1.jsonl", "archive/aw.2.jsonl", "archive/aw.3.jsonl", "aw.jsonl"}
	if diff := cmp.Diff(want, logs(t, st)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	s := acquire(t, openStore(t, open, dir), "k")
	var v string
	if !s.Meta("_nanobot_model_preset", &v) || v != "fast" || s.Meta(keySummary, &v) {
		t.Error("the wrong metadata survived")
	}
	if !s.SeenInbound("in0") || !s.SeenInbound("in2") {
		t.Error("a message that was cleared would be taken again")
	}
	must(t, s.BeginTurn("t", user("new")))
	must(t, s.EndTurn(answer("a")))
	must(t, s.Release())
	data, err := st.text(t, "archive/aw.1.jsonl")
	must(t, err)
	if !bytes.Contains(data, []byte(`"content":"0"`)) {
		t.Errorf("archive 1 = %s", data)
	}
}

// A crash between linking and renaming leaves one file with two names.
func TestClearAfterCrash(t *testing.T) {
	t.Parallel()
	st := openStore(t, storetest.Disk, t.TempDir())
	s := acquire(t, st, "k")
	must(t, s.Append(user("a")))
	must(t, s.Release())
	must(t, st.state.Archive(t.Context(), s.slot.j.name, "archive/aw.1.jsonl", s.slot.j.size))
	must(t, os.WriteFile(s.logPath()+suffixTemp, []byte("half"), 0o600))
	st = openStore(t, storetest.Disk, filepath.Dir(filepath.Dir(filepath.Dir(st.Dir()))))
	s = acquire(t, st, "k")
	if s.Len() != 1 {
		t.Errorf("Len = %d, want 1: the old file wins", s.Len())
	}
	must(t, s.Clear())
	must(t, s.Release())
	if diff := cmp.Diff([]string{"archive/aw.1.jsonl", "aw.jsonl"}, files(t, st.Dir())); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestCompact(t *testing.T) { storetest.Each(t, testCompact) }

func testCompact(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir, func(o *Options) { o.CompactBytes = 4000 })
	const path = "aw.jsonl"
	foreign := `{"role":"user","content":"foreign","cron_job_id":"keep me","ts":1}`
	st.plant(t, path, []byte(foreign+"\n"+`{"role":"assistant","content":"ok"}`+"\nunreadable\n"))
	s := acquire(t, st, "k")
	for i := range 20 {
		must(t, s.BeginTurn("t", user(fmt.Sprint(i))))
		must(t, s.EndTurn(answer(fmt.Sprint(i))))
	}
	must(t, s.SetLastConsolidated(10))
	must(t, s.SaveMeta())
	before, err := st.text(t, path)
	must(t, err)

	// Nothing is dead: nothing happens.
	must(t, s.Compact())
	if now, err := st.text(t, path); err != nil || !bytes.Equal(now, before) {
		t.Errorf("a log without dead weight was rewritten (%v)", err)
	}
	must(t, s.SetReplay(38))
	want := gist(s.Messages())
	must(t, s.Release()) // compacts
	if diff := cmp.Diff([]string{"archive/aw.1.jsonl", "aw.jsonl"}, logs(t, st)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	archived, err := st.text(t, "archive/aw.1.jsonl")
	must(t, err)
	if !bytes.HasPrefix(before, archived) || !bytes.HasPrefix(archived, []byte(foreign+"\n")) {
		t.Error("the archive is not the beginning of the old log")
	}
	for range 2 {
		if diff := cmp.Diff(want, gist(s.reacquire(t, st).Messages())); diff != "" {
			t.Errorf("live part (-want +got):\n%s", diff)
		}
		st = openStore(t, open, dir)
	}
	s = acquire(t, openStore(t, open, dir), "k")
	if s.Len() != 4 || s.LastConsolidated() != 0 || s.j.bytesRead == 0 {
		t.Errorf("Len = %d, consolidated = %d; want 4, 0", s.Len(), s.LastConsolidated())
	}
	must(t, s.BeginTurn("t", user("next")))
	must(t, s.EndTurn(answer("next")))
	must(t, s.Release())
	s = acquire(t, openStore(t, open, dir), "k")
	if diff := cmp.Diff(append(want, "user:next", "assistant:next"), gist(s.Messages())); diff != "" {
		t.Errorf("after the next turn (-want +got):\n%s", diff)
	}
	must(t, s.Release())
}

// reacquire looks at the session through st and lets go again.
func (s *Session) reacquire(t *testing.T, st *Store) *Session {
	t.Helper()
	again := acquire(t, st, s.slot.key)
	view := &Session{j: again.j, slot: again.slot}
	must(t, again.Release())
	return view
}

// Lines that cannot be read keep their place in the live part.
func TestCompactKeepsUnreadableLines(t *testing.T) {
	storetest.Each(t, testCompactKeepsUnreadableLines)
}

func testCompactKeepsUnreadableLines(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	const path = "aw.jsonl"
	st.plant(t, path, []byte(`{"role":"user","content":"1"}`+"\n"+`{"role":"user","content":"2"}`+"\nbad\n"+
		`{"_type":"provider_state","state":1}`+"\n"+`{"role":"assistant","content":"3","odd":"<>"}`+"\n"))
	s := acquire(t, st, "k")
	must(t, s.SetReplay(1))
	must(t, s.Compact())
	must(t, s.SetReplay(1))
	must(t, s.Release())
	s = acquire(t, st.fresh(t, open), "k")
	if diff := cmp.Diff([]string{"assistant:3"}, gist(s.Messages())); diff != "" || s.Len() != 2 {
		t.Errorf("Len = %d, live (-want +got):\n%s", s.Len(), diff)
	}
	must(t, s.Release())
	data, err := st.text(t, path)
	must(t, err)
	for _, want := range []string{"\nbad\n", `{"_type":"provider_state","state":1}`, `{"role":"assistant","content":"3","odd":"<>"}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is gone from\n%s", want, data)
		}
	}
}

// Compaction killed after the archive was written does it again to the same name.
func TestCompactAfterCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, storetest.Disk, dir)
	s := acquire(t, st, "k")
	must(t, s.Append(user("a"), answer("b"), user("c"), answer("d")))
	must(t, s.SetReplay(2))
	must(t, s.SaveMeta())
	must(t, s.archive(s.j.offsets[0]))
	must(t, os.WriteFile(s.logPath()+suffixTemp, []byte("half"), 0o600))
	must(t, s.Release())
	s = acquire(t, openStore(t, storetest.Disk, dir), "k")
	if diff := cmp.Diff([]string{"archive/aw.1.jsonl", "aw.jsonl"}, files(t, st.Dir())); diff != "" {
		t.Errorf("files before (-want +got):\n%s", diff)
	}
	must(t, s.Compact())
	must(t, s.Append(user("e")))
	must(t, s.Release())
	if diff := cmp.Diff([]string{"archive/aw.1.jsonl", "aw.jsonl"}, files(t, st.Dir())); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	s = acquire(t, openStore(t, storetest.Disk, dir), "k")
	if diff := cmp.Diff([]string{"user:c", "assistant:d", "user:e"}, gist(s.Messages())); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	must(t, s.Release())
}

func TestDelete(t *testing.T) { storetest.Each(t, testDelete) }

func testDelete(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	s := acquire(t, st, "k")
	must(t, s.Append(user("a")))
	must(t, s.Release())
	must(t, st.Delete(t.Context(), "k"))
	if err := st.Delete(t.Context(), "k"); !errors.Is(err, ErrNotFound) {
		t.Errorf("second Delete: %v, want ErrNotFound", err)
	}
	if diff := cmp.Diff([]string{"archive/aw.1.jsonl"}, logs(t, st)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	s = acquire(t, st, "k")
	if s.Len() != 0 {
		t.Errorf("Len = %d, want 0", s.Len())
	}
	must(t, s.Append(user("b")))
	must(t, s.Release())
	must(t, st.Delete(t.Context(), "k"))
	if n := len(logs(t, st)); n != 2 {
		t.Errorf("%d files, want two archives", n)
	}
}

func TestListReadExport(t *testing.T) { storetest.Each(t, testListReadExport) }

func testListReadExport(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	now := clock()
	st := openStore(t, open, dir, func(o *Options) { o.Now = func() time.Time { return now } })
	old, err := fileName("slack:1")
	must(t, err)
	st.plant(t, old+suffixLog, []byte(
		`{"_type": "metadata", "key": "slack:1", "created_at": "2020-01-01T00:00:00", "updated_at": "2020-01-02T00:00:00", "metadata": {}, "last_consolidated": 0}`+"\n"+
			`{"role": "user", "content": "old"}`+"\n"))
	for i, key := range []string{"cli:direct", "telegram:42", strings.Repeat("long key ", 60)} {
		now = now.AddDate(0, 0, 1)
		s := acquire(t, st, key)
		u := user(fmt.Sprintf("  question\n%d %s", i, strings.Repeat("é", 200)) + "\n\n[ctx]")
		u.Runtime = &RuntimeContext{Version: 1, Suffix: "[ctx]"}
		must(t, s.BeginTurn("t", u))
		if i != 1 {
			must(t, s.EndTurn(answer("a")))
		}
		must(t, s.SetMeta("title", fmt.Sprint("title ", i)))
		must(t, s.Release())
	}
	if n, err := st.Count(t.Context()); err != nil || n != 4 {
		t.Errorf("Count = %d, %v, want 4", n, err)
	}
	infos, err := st.List(t.Context())
	must(t, err)
	type row struct {
		Key      string
		Messages int
		Title    string
		Open     bool
	}
	var got []row
	for _, i := range infos {
		got = append(got, row{i.Key, i.Messages, i.Title, i.OpenTurn})
	}
	want := []row{
		{strings.Repeat("long key ", 60), 2, "title 2", false},
		{"telegram:42", 1, "title 1", true},
		{"cli:direct", 2, "title 0", false},
		{"slack:1", 1, "", false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("List (-want +got):\n%s", diff)
	}
	if p := infos[2].Preview; p != "question 0 "+strings.Repeat("é", 109) {
		t.Errorf("preview = %q", p)
	}

	for _, key := range []string{"cli:direct", strings.Repeat("long key ", 60), "slack:1"} {
		var out bytes.Buffer
		must(t, st.Export(t.Context(), key, &out))
		n := 0
		for r, err := range st.Records(t.Context(), key) {
			must(t, err)
			if n++; r.Role == "" {
				t.Error("empty record")
			}
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != n+1 || !mayBeMetadata([]byte(lines[0])) || strings.Contains(lines[0], "_replay") {
			t.Errorf("export of %q:\n%s", key, out.String())
		}
	}
	for _, key := range []string{"nobody", "\xff"} {
		for _, err := range st.Read(t.Context(), key) {
			if err == nil {
				t.Errorf("Read(%q) found something", key)
			}
		}
	}
	if err := st.Export(t.Context(), "nobody", &bytes.Buffer{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Export: %v, want ErrNotFound", err)
	}
}

// Locks leave no file per session behind, and a cached session does not keep
// another store out.
func TestLocksLeaveNoLitter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := storetest.Disk(t, dir)
	st, err := Open(Options{DataDir: dir, Store: state, Workspace: t.TempDir(), Fsync: FsyncNever, MaxLive: 4})
	must(t, err)
	for i := range 40 {
		s := acquire(t, st, string(rune('a'+i)))
		must(t, s.Append(user("x")))
		must(t, s.Release())
	}
	other, err := Open(Options{DataDir: dir, Store: state, Workspace: st.opt.Workspace, Fsync: FsyncNever})
	must(t, err)
	last := string(rune('a' + 39))
	for _, store := range []*Store{other, st, other} {
		s := acquire(t, store, last)
		must(t, s.Append(user("y")))
		must(t, s.Release())
	}
	must(t, st.Close())
	s := acquire(t, other, last)
	if s.Len() != 4 {
		t.Errorf("Len = %d, want 4", s.Len())
	}
	must(t, s.Release())
	must(t, other.Close())
	must(t, state.Close())
	locks, err := filepath.Glob(filepath.Join(st.Dir(), "*.lock"))
	must(t, err)
	if len(locks) != 0 {
		t.Errorf("left behind: %v", locks)
	}
}
