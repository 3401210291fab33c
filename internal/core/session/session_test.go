package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
)

func clock() time.Time { return time.Date(2026, 4, 14, 20, 49, 51, 526861000, time.Local) }

// openStore opens a store in dir with settings that suit tests.
func openStore(tb testing.TB, open storetest.Open, dir string, change ...func(*Options)) *Store {
	tb.Helper()
	ws := filepath.Join(dir, "workspace")
	if err := os.MkdirAll(ws, 0o755); err != nil {
		tb.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	opt := Options{DataDir: data, Store: open(tb, data), Workspace: ws, Fsync: FsyncNever, Now: clock}
	for _, c := range change {
		c(&opt)
	}
	st, err := Open(opt)
	if err != nil {
		tb.Fatal(err)
	}
	return st
}

// fresh is the same store as another process would open it, without the
// reading of the workspace's id, which takes longer than many a test.
func (st *Store) fresh(tb testing.TB, open storetest.Open) *Store {
	tb.Helper()
	state := store.Under(open(tb, st.opt.DataDir), dirRoot, st.place.ID)
	return &Store{opt: st.opt, place: st.place, dir: st.dir, state: state, used: map[string]*slot{}}
}

// text is what a log holds.
func (st *Store) text(t *testing.T, name string) ([]byte, error) {
	t.Helper()
	data, _, err := st.state.Doc(t.Context(), name)
	return data, err
}

// plant puts a log there that another program may have written.
func (st *Store) plant(t *testing.T, name string, data []byte) {
	t.Helper()
	l, err := st.state.Log(t.Context(), name)
	must(t, err)
	must(t, errors.Join(l.Replace(t.Context(), -1, data), l.Close()))
}

// logs are the names of all logs.
func logs(t *testing.T, st *Store) (names []string) {
	t.Helper()
	for _, dir := range []string{dirArchive, ""} {
		for info, err := range st.state.Logs(t.Context(), dir) {
			must(t, err)
			names = append(names, info.Name)
		}
	}
	return names
}

func (st *Store) stat(tb testing.TB, name string) store.Info {
	tb.Helper()
	info, err := st.state.Stat(tb.Context(), name)
	must(tb, err)
	return info
}

func acquire(tb testing.TB, st *Store, key string) *Session {
	tb.Helper()
	s, err := st.Acquire(tb.Context(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func user(text string) Record {
	return Record{Message: llm.Message{Role: llm.User, Content: llm.Text(text)}}
}

func answer(text string) Record {
	return Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(text)}}
}

func calls(ids ...string) Record {
	r := Record{Message: llm.Message{Role: llm.Assistant}}
	for _, id := range ids {
		r.ToolCalls = append(r.ToolCalls, llm.ToolCall{ID: id, Name: "tool_" + id, Arguments: `{"a":"<b>"}`})
	}
	return r
}

func result(id, text string) Record {
	return Record{Message: llm.Message{Role: llm.ToolRole, ToolCallID: id, Name: "tool_" + id, Content: llm.Text(text)}}
}

// gist is a record in a form that is easy to compare and to read.
func gist(recs []Record) []string {
	var out []string
	for _, r := range recs {
		g := string(r.Role) + ":" + r.Content.String()
		for _, c := range r.ToolCalls {
			g += " call " + c.ID
		}
		if r.Role == llm.ToolRole {
			g = "result " + r.ToolCallID + ":" + r.Content.String()
		}
		if r.Interrupted {
			g += " (interrupted)"
		}
		out = append(out, g)
	}
	return out
}

func TestTurnSurvivesReopen(t *testing.T) { storetest.Each(t, testTurnSurvivesReopen) }

func testTurnSurvivesReopen(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	s := acquire(t, openStore(t, open, dir), "cli:direct")
	u := user("hello <world> & 世界\n")
	u.InboundID, u.Media, u.SenderID = "tg:1", []string{"/a b.png"}, "me"
	u.Runtime = &RuntimeContext{Version: 1, Sources: []string{"clock"}, Suffix: "x"}
	must(t, s.BeginTurn("t1", u))
	must(t, s.Append(calls("a", "b")))
	must(t, s.Append(result("a", "1"), result("b", "2")))
	must(t, s.SetMeta("title", "A & B"))
	must(t, s.EndTurn(answer("done")))
	want := s.Messages()
	must(t, s.Release())

	st := openStore(t, open, dir)
	s = acquire(t, st, "cli:direct")
	if diff := cmp.Diff(want, s.Messages(), cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
		t.Errorf("messages after reopen (-want +got):\n%s", diff)
	}
	if s.Len() != 5 || s.OpenTurn() != nil {
		t.Errorf("Len = %d, OpenTurn = %v; want 5, nil", s.Len(), s.OpenTurn())
	}
	if got := s.Messages()[1].TurnID; got != "t1" {
		t.Errorf("turn id = %q, want t1", got)
	}
	var title string
	if !s.Meta("title", &title) || title != "A & B" {
		t.Errorf("title = %q", title)
	}
	if !s.SeenInbound("tg:1") || s.SeenInbound("tg:2") || s.SeenInbound("") {
		t.Error("SeenInbound is wrong")
	}
	must(t, s.Release())
	must(t, st.Close())
}

// The bytes in the file are a promise to other programs.
func TestLineFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, storetest.Disk, dir)
	s := acquire(t, st, "cli:direct")
	must(t, s.BeginTurn("t1", user("a<b")))
	must(t, s.EndTurn(answer("ok")))
	must(t, s.Release())
	data, err := os.ReadFile(filepath.Join(st.Dir(), "Y2xpOmRpcmVjdA.jsonl"))
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("lines = %d, want 4:\n%s", len(lines), data)
	}
	for i, want := range map[int]string{
		0: `{"_type":"metadata","key":"cli:direct","created_at":"2026-04-14T20:49:51.526861","updated_at":"2026-04-14T20:49:51.526861","metadata":{"_replay":{"index":0,"offset":0,"count":0,"at":0},"open_turn":{"id":"t1","started_at":"2026-04-14T20:49:51.526861","pid":` + fmt.Sprint(os.Getpid()) + `}},"last_consolidated":0}`,
		1: `{"role":"user","content":"a<b","timestamp":"2026-04-14T20:49:51.526861","ts":` + fmt.Sprint(clock().UnixMilli()) + `,"turn_id":"t1"}`,
	} {
		sum := fmt.Sprintf(`,"_crc":"%08x"}`, crc32.Checksum([]byte(strings.TrimSuffix(want, "}")), crc32.MakeTable(crc32.Castagnoli)))
		if want = strings.TrimSuffix(want, "}") + sum; lines[i] != want {
			t.Errorf("line %d:\n got %s\nwant %s", i, lines[i], want)
		}
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %s", l)
		}
	}
	must(t, st.Close())
	left, err := filepath.Glob(filepath.Join(st.Dir(), "*"))
	must(t, err)
	left = slices.DeleteFunc(left, func(name string) bool { return filepath.Base(name) == ".locks" })
	if len(left) != 3 {
		t.Errorf("files left: %v, want only the log and the markers", left)
	}
}

func TestReleasedSession(t *testing.T) { storetest.Each(t, testReleasedSession) }

func testReleasedSession(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := acquire(t, openStore(t, open, t.TempDir()), "k")
	must(t, s.Release())
	must(t, s.Release())
	if err := s.Append(user("x")); err == nil {
		t.Error("Append after Release worked")
	}
	if err := s.Sync(t.Context()); err == nil {
		t.Error("Sync after Release worked")
	}
}
