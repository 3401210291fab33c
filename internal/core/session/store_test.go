package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, opt := range []Options{{}, {DataDir: dir}, {Workspace: dir}, {DataDir: dir, Workspace: dir}, {DataDir: dir, Store: storetest.Disk(t, dir), Workspace: dir, Fsync: "maybe"}} {
		if _, err := Open(opt); err == nil {
			t.Errorf("Open(%+v) worked", opt)
		}
	}
	st := openStore(t, storetest.Disk, dir)
	for _, key := range []string{"", "\xff"} {
		if _, err := st.Acquire(t.Context(), key); err == nil {
			t.Errorf("Acquire(%q) worked", key)
		}
	}
}

func TestAcquireWaitsInOrder(t *testing.T) { storetest.Each(t, testAcquireWaitsInOrder) }

func testAcquireWaitsInOrder(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	const workers, turns = 8, 10
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range turns {
				s, err := st.Acquire(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				err = errors.Join(s.BeginTurn("t", user(fmt.Sprintf("%d/%d", w, i))), s.EndTurn(answer("ok")), s.Release())
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s := acquire(t, st, "k")
	defer s.Release()
	if err := CheckLegal(s.Messages()); err != nil {
		t.Error(err)
	}
	next := map[string]int{}
	for _, r := range s.Messages() {
		if w, i, ok := strings.Cut(r.Content.Text, "/"); ok && r.Role == llm.User {
			if i != fmt.Sprint(next[w]) {
				t.Errorf("worker %s: turn %s, want %d", w, i, next[w])
			}
			next[w]++
		}
	}
	if s.Len() != 2*workers*turns {
		t.Errorf("Len = %d, want %d", s.Len(), 2*workers*turns)
	}
}

func TestAcquireCancelled(t *testing.T) { storetest.Each(t, testAcquireCancelled) }

func testAcquireCancelled(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	s := acquire(t, st, "k")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error)
	go func() {
		_, err := st.Acquire(ctx, "k")
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	must(t, s.Release())
	must(t, acquire(t, st, "k").Release())
}

// Parallel tool calls append from several goroutines.
func TestAppendConcurrently(t *testing.T) { storetest.Each(t, testAppendConcurrently) }

func testAppendConcurrently(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	s := acquire(t, openStore(t, open, dir, func(o *Options) { o.Fsync = FsyncTurn }), "k")
	must(t, s.BeginTurn("t", user("q")))
	var ids []string
	for i := range 16 {
		ids = append(ids, fmt.Sprint(i))
	}
	must(t, s.Append(calls(ids...)))
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			if err := errors.Join(s.Append(result(id, "x")), s.Sync(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, s.EndTurn(answer("done")))
	want := gist(s.Messages())
	must(t, s.Release())
	s = acquire(t, openStore(t, open, dir), "k")
	if err := CheckLegal(s.Messages()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, gist(s.Messages())); diff != "" {
		t.Errorf("after reopen (-want +got):\n%s", diff)
	}
	must(t, s.Release())
}

// Two stores stand for two processes: each sees what the other appended and
// reads no more than that.
func TestOtherProcessAppends(t *testing.T) { storetest.Each(t, testOtherProcessAppends) }

func testOtherProcessAppends(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	a, b := openStore(t, open, dir), openStore(t, open, dir)
	turn := func(st *Store, text string) (read int64) {
		s := acquire(t, st, "k")
		before := s.j.bytesRead
		must(t, s.BeginTurn(text, user(text)))
		must(t, s.EndTurn(answer(text)))
		read = s.j.bytesRead - before
		must(t, s.Release())
		return read
	}
	for i := range 200 {
		turn(a, fmt.Sprint(i))
	}
	turn(b, "b1")
	s := acquire(t, a, "k")
	if got := s.Messages()[s.Len()-1].Content.Text; got != "b1" || s.Len() != 402 {
		t.Errorf("a sees %q at %d, want b1 at 402", got, s.Len())
	}
	read := s.j.bytesRead
	must(t, s.Release())
	if read > 10_000 {
		t.Errorf("a read %d bytes to see one turn of b", read)
	}
	if again := turn(a, "a2"); again != 0 {
		t.Errorf("a read %d bytes although nothing changed", again)
	}
}

// What another program does to a file is seen, whatever it is.
func TestForeignChanges(t *testing.T) {
	t.Parallel()
	line := `{"role":"user","content":"foreign"}` + "\n"
	for _, c := range []struct {
		name   string
		change func(t *testing.T, path string)
		want   []string
	}{
		{"removed", func(t *testing.T, path string) { must(t, os.Remove(path)) }, nil},
		{"replaced", func(t *testing.T, path string) { plant(t, path, []byte(line)) }, []string{"user:foreign"}},
		{"rewritten longer", func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat(line, 40)), 0o600))
		}, strings.Split(strings.Repeat("user:foreign|", 39)+"user:foreign", "|")},
		{"cut to nothing", func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, nil},
		{"appended", func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteString(line)
			must(t, err)
			must(t, f.Close())
		}, []string{"user:q", "assistant:a", "user:foreign"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := openStore(t, storetest.Disk, t.TempDir())
			s := acquire(t, st, "k")
			must(t, s.BeginTurn("t", user("q")))
			must(t, s.EndTurn(answer("a")))
			must(t, s.Release())
			c.change(t, s.logPath())
			s = acquire(t, st, "k")
			if diff := cmp.Diff(c.want, gist(s.Messages())); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			must(t, s.Append(answer("more")))
			must(t, s.Release())
			s = acquire(t, openStore(t, storetest.Disk, filepath.Dir(filepath.Dir(filepath.Dir(st.Dir())))), "k")
			if diff := cmp.Diff(append(c.want, "assistant:more"), gist(s.Messages())); diff != "" {
				t.Errorf("messages after an append (-want +got):\n%s", diff)
			}
			must(t, s.Release())
		})
	}
}

func TestChangedDuringTurn(t *testing.T) {
	t.Parallel()
	st := openStore(t, storetest.Disk, t.TempDir())
	s := acquire(t, st, "k")
	must(t, s.Append(user("q"), answer("a")))
	must(t, s.Release())
	s = acquire(t, st, "k")
	must(t, os.Truncate(s.logPath(), 5))
	if err := s.Append(user("lost?")); err == nil {
		t.Error("appended to a file that is not the one that was read")
	}
	must(t, errors.Join(s.Release()))
}

// An I/O error is an error, never an empty conversation.
func TestUnreadableLogIsNotReplaced(t *testing.T) {
	t.Parallel()
	st := openStore(t, storetest.Disk, t.TempDir())
	path := filepath.Join(st.Dir(), "aw.jsonl")
	must(t, os.MkdirAll(path, 0o700))
	if s, err := st.Acquire(t.Context(), "k"); err == nil {
		t.Errorf("acquired %v although its log is a directory", s)
	}
	if len(st.used) != 0 {
		t.Errorf("a failed Acquire leaves %d slots behind", len(st.used))
	}
	must(t, os.Remove(path))
	must(t, acquire(t, st, "k").Release())
}

func TestUnreadableLinesStay(t *testing.T) { storetest.Each(t, testUnreadableLinesStay) }

func testUnreadableLinesStay(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir)
	const path = "aw.jsonl"
	data := `{"_type":"metadata","key":"k","metadata":null,"last_consolidated":"7","future":{"x":1}}` + "\n" +
		`{"_type":"provider_state","state":{"secret":1}}` + "\n" +
		`{"role":"user","content":"a","cron_job_id":"j","latency_ms":1.5,"media":[{"odd":1}],"_command":"yes"}` + "\n" +
		`garbage` + "\n\n" +
		`{"role":"nobody","content":"x"}` + "\n" +
		`[]` + "\n" +
		`{"role":"assistant","content":null}` + "\n"
	st.plant(t, path, []byte(data))
	s := acquire(t, st, "k")
	if diff := cmp.Diff([]string{"user:a", "assistant:"}, gist(s.Messages())); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if s.LastConsolidated() != 0 || s.j.skipped != 4 {
		t.Errorf("consolidated = %d, skipped = %d; want 0, 4", s.LastConsolidated(), s.j.skipped)
	}
	must(t, s.Append(user("b")))
	must(t, s.SetMeta("x", 1))
	must(t, s.Release())
	got, err := st.text(t, path)
	must(t, err)
	if !strings.HasPrefix(string(got), data) {
		t.Error("old lines changed")
	}
	if !strings.Contains(string(got), `"last_consolidated":0,"future":{"x":1},"_crc":"`) {
		t.Errorf("the unknown key of the metadata line is gone: %s", got)
	}
}

func TestLiveSessionsAreBounded(t *testing.T) { storetest.Each(t, testLiveSessionsAreBounded) }

func testLiveSessionsAreBounded(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir(), func(o *Options) { o.MaxLive = 10 })
	for i := range 1000 {
		s := acquire(t, st, fmt.Sprintf("chat:%d", i))
		must(t, s.Append(user(fmt.Sprint(i))))
		must(t, s.Release())
	}
	if n := len(st.used); n != 10 || st.idle.Len() != 10 {
		t.Errorf("%d slots, %d idle; want 10", n, st.idle.Len())
	}
	for _, i := range []int{0, 500, 999} {
		s := acquire(t, st, fmt.Sprintf("chat:%d", i))
		if len(s.Messages()) != 1 || s.Messages()[0].Content.Text != fmt.Sprint(i) {
			t.Errorf("session %d holds %q", i, gist(s.Messages()))
		}
		must(t, s.Release())
	}
	held := acquire(t, st, "chat:1")
	must(t, st.DropCaches())
	if len(st.used) != 1 || st.idle.Len() != 0 || st.size != 0 {
		t.Errorf("%d slots, %d idle with %d bytes after Unload; want only the one in use", len(st.used), st.idle.Len(), st.size)
	}
	must(t, held.Append(user("more")))
	must(t, held.Release())
	must(t, st.DropCaches())
	if s := acquire(t, st, "chat:1"); len(s.Messages()) != 2 {
		t.Errorf("it holds %q", gist(s.Messages()))
	} else {
		must(t, s.Release())
	}
}

func TestLiveBytesAreBounded(t *testing.T) { storetest.Each(t, testLiveBytesAreBounded) }

func testLiveBytesAreBounded(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir(), func(o *Options) { o.MaxLiveBytes = 100_000 })
	for i := range 50 {
		s := acquire(t, st, fmt.Sprintf("chat:%d", i))
		must(t, s.Append(user(strings.Repeat("x", 10_000))))
		must(t, s.Release())
	}
	var sum int64
	for _, sl := range st.used {
		sum += sl.bytes
	}
	if sum != st.size || sum > 100_000 || sum < 50_000 {
		t.Errorf("idle bytes = %d, accounted %d; want at most 100000 and most of it used", sum, st.size)
	}
}

// Ten thousand stored messages must not be read when the live part is small.
func TestColdLoadReadsOnlyTheLivePart(t *testing.T) {
	storetest.Each(t, testColdLoadReadsOnlyTheLivePart)
}

func testColdLoadReadsOnlyTheLivePart(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir)
	long := fill(t, st, "long", 10_000)
	s := acquire(t, openStore(t, open, dir), "long")
	defer s.Release()
	if s.Len() != 10_000 || len(s.Messages()) != 20 || s.j.skipped != 0 {
		t.Errorf("Len = %d, live = %d, skipped = %d; want 10000, 20, 0", s.Len(), len(s.Messages()), s.j.skipped)
	}
	if s.j.bytesRead > long/20 {
		t.Errorf("read %d of %d bytes", s.j.bytesRead, long)
	}
	if got := s.Messages()[19].Content.Text; got != "answer 4999" {
		t.Errorf("last message = %q", got)
	}
}

// fill stores n messages with the last 20 live and returns the file's size.
func fill(tb testing.TB, st *Store, key string, n int) int64 {
	tb.Helper()
	s := acquire(tb, st, key)
	for i := range n / 2 {
		must(tb, s.BeginTurn(fmt.Sprint(i), user(fmt.Sprintf("question %d", i))))
		if keep := s.Len() - 19; keep > 0 && i > 10 {
			must(tb, s.SetReplay(keep))
		}
		must(tb, s.EndTurn(answer(fmt.Sprintf("answer %d", i))))
	}
	must(tb, s.Release())
	return st.stat(tb, s.slot.j.name).Size
}

// A crash in a turn with much output must not make the next load read it all.
func TestMetadataComesOften(t *testing.T) { storetest.Each(t, testMetadataComesOften) }

func testMetadataComesOften(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir)
	fill(t, st, "k", 1000)
	s := acquire(t, st, "k")
	must(t, s.BeginTurn("t", user("go")))
	for i := range 40 {
		id := fmt.Sprint(i)
		must(t, s.Append(calls(id)))
		must(t, s.Append(result(id, strings.Repeat("x", 100_000))))
	}
	must(t, s.Release())
	s = acquire(t, openStore(t, open, dir), "k")
	if s.Len() != 1081 || len(s.Messages()) != 20+81 || s.OpenTurn() == nil {
		t.Errorf("Len = %d, live = %d, open = %v", s.Len(), len(s.Messages()), s.OpenTurn())
	}
	must(t, s.Release())
}

func TestAppendCostDoesNotGrow(t *testing.T) { storetest.Each(t, testAppendCostDoesNotGrow) }

func testAppendCostDoesNotGrow(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	size := func() int64 { return st.stat(t, "aw.jsonl").Size }
	turn := func() {
		s := acquire(t, st, "k")
		must(t, s.BeginTurn("t", user("same")))
		must(t, s.EndTurn(answer("same")))
		must(t, s.Release())
	}
	turn()
	first := size()
	for range 200 {
		turn()
	}
	before := size()
	turn()
	if last := size() - before; last > first+100 {
		t.Errorf("turn 202 appended %d bytes, the first %d", last, first)
	}
}

func TestSetReplay(t *testing.T) { storetest.Each(t, testSetReplay) }

func testSetReplay(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir)
	s := acquire(t, st, "k")
	for i := range 3 {
		u := user(fmt.Sprint(i))
		u.InboundID = fmt.Sprint("in", i)
		must(t, s.BeginTurn("t", u))
		must(t, s.EndTurn(answer("a")))
	}
	old := s.Messages()
	must(t, s.SetReplay(4))
	for _, bad := range []int{-1, 3, 7} {
		if s.SetReplay(bad) == nil {
			t.Errorf("SetReplay(%d) worked", bad)
		}
	}
	if len(old) != 6 || old[0].Content.Text != "0" {
		t.Error("a slice handed out before changed")
	}
	must(t, s.SetLastConsolidated(2))
	must(t, s.Release())
	s = acquire(t, openStore(t, open, dir), "k")
	if diff := cmp.Diff([]string{"user:2", "assistant:a"}, gist(s.Messages())); diff != "" || s.Len() != 6 || s.LastConsolidated() != 2 {
		t.Errorf("Len = %d, consolidated = %d, live (-want +got):\n%s", s.Len(), s.LastConsolidated(), diff)
	}
	for i := range 3 {
		if !s.SeenInbound(fmt.Sprint("in", i)) {
			t.Errorf("in%d was forgotten", i)
		}
	}
	must(t, s.SetReplay(6))
	must(t, s.Release())
	s = acquire(t, openStore(t, open, dir), "k")
	if len(s.Messages()) != 0 || s.Len() != 6 || !s.SeenInbound("in0") {
		t.Errorf("live = %d, Len = %d; want 0, 6", len(s.Messages()), s.Len())
	}
	must(t, s.BeginTurn("t", user("new")))
	must(t, s.EndTurn(answer("b")))
	must(t, s.Release())
	s = acquire(t, openStore(t, open, dir), "k")
	if diff := cmp.Diff([]string{"user:new", "assistant:b"}, gist(s.Messages())); diff != "" || s.Len() != 8 {
		t.Errorf("Len = %d, live (-want +got):\n%s", s.Len(), diff)
	}
	must(t, s.Release())
}

func TestOpaquePartsStayOnOneLine(t *testing.T) { storetest.Each(t, testOpaquePartsStayOnOneLine) }

func testOpaquePartsStayOnOneLine(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	s := acquire(t, openStore(t, open, dir), "k")
	r := answer("x")
	r.Thinking = []json.RawMessage{json.RawMessage("{\n \"signature\" : \"<&>\"\n}")}
	must(t, s.Append(r))
	bad := answer("y")
	bad.ReasoningDetails = []byte("{broken")
	if s.Append(user("z"), bad) == nil {
		t.Error("a broken record was stored")
	}
	if s.Len() != 1 {
		t.Errorf("Len = %d, want 1: a refused batch leaves nothing behind", s.Len())
	}
	must(t, s.Release())
	s = acquire(t, openStore(t, open, dir), "k")
	if s.Len() != 1 || string(s.Messages()[0].Thinking[0]) != `{"signature":"<&>"}` {
		t.Errorf("messages = %+v", s.Messages())
	}
	must(t, s.Release())
}

func TestMetaKeysOfTheLog(t *testing.T) { storetest.Each(t, testMetaKeysOfTheLog) }

func testMetaKeysOfTheLog(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := acquire(t, openStore(t, open, t.TempDir()), "k")
	defer s.Release()
	for _, k := range []string{keyOpenTurn, keyReplay, keyInbound} {
		if s.SetMeta(k, 1) == nil {
			t.Errorf("SetMeta(%q) worked", k)
		}
	}
	must(t, s.SetMeta("a", json.RawMessage("{\n\"x\": \"<\"}")))
	if got := string(s.j.meta.values["a"]); got != `{"x":"<"}` {
		t.Errorf("stored %s, want it on one line and unescaped", got)
	}
	must(t, s.SetMeta("a", nil))
	var v any
	if s.Meta("a", &v) {
		t.Error("a removed value is still there")
	}
}

func TestNewSessionMakesNoFile(t *testing.T) { storetest.Each(t, testNewSessionMakesNoFile) }

func testNewSessionMakesNoFile(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	s := acquire(t, st, "k")
	if _, err := s.Recover(nil); err != nil {
		t.Error(err)
	}
	must(t, s.Clear())
	must(t, s.Release())
	if info := st.stat(t, "aw.jsonl"); info.Exists() {
		t.Errorf("%+v, want no log", info)
	}
}

// What another process dropped from the live part is dropped here, too.
func TestOtherProcessSetsReplay(t *testing.T) { storetest.Each(t, testOtherProcessSetsReplay) }

func testOtherProcessSetsReplay(t *testing.T, open storetest.Open) {
	t.Parallel()
	a := openStore(t, open, t.TempDir())
	b := a.fresh(t, open)
	s := acquire(t, a, "k")
	must(t, s.Append(user("1"), answer("2"), user("3"), answer("4")))
	must(t, s.Release())
	s = acquire(t, b, "k")
	must(t, s.SetReplay(2))
	must(t, s.Append(user("5")))
	must(t, s.Release())
	s = acquire(t, a, "k")
	if diff := cmp.Diff([]string{"user:3", "assistant:4", "user:5"}, gist(s.Messages())); diff != "" || s.Len() != 5 {
		t.Errorf("Len = %d, live (-want +got):\n%s", s.Len(), diff)
	}
	must(t, s.Release())
}

// A line that went bad makes the stored positions doubtful: everything that
// can be read counts then, and nothing readable is hidden.
func TestDamageInTheLivePart(t *testing.T) { storetest.Each(t, testDamageInTheLivePart) }

func testDamageInTheLivePart(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	s := acquire(t, st, "k")
	must(t, s.Append(user("1"), answer("2"), user("3"), answer("4")))
	must(t, s.SetReplay(2))
	must(t, s.Release())
	data, err := st.text(t, s.slot.j.name)
	must(t, err)
	st.plant(t, s.slot.j.name, []byte(strings.Replace(string(data), `"content":"3"`, `"content":<3>`, 1)))
	for range 2 {
		s = acquire(t, st.fresh(t, open), "k")
		if diff := cmp.Diff([]string{"user:1", "assistant:2", "assistant:4"}, gist(s.Messages())); diff != "" || s.Len() != 3 {
			t.Errorf("Len = %d, live (-want +got):\n%s", s.Len(), diff)
		}
		must(t, s.SetMeta("x", 1))
		must(t, s.Release())
	}
}
