package schedule

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

func plain(t *testing.T, open storetest.Open, ws string) *Scheduler {
	t.Helper()
	s, err := Open(Options{Workspace: ws, State: stateOf(t, open, ws), Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stateOf is the folder of the jobs in a test whose files are all in one place.
func stateOf(t *testing.T, open storetest.Open, ws string) store.Store {
	t.Helper()
	return open(t, filepath.Join(ws, "state"))
}

// putJobs replaces the jobs, as a person with an editor does.
func putJobs(t *testing.T, s store.Store, body string) {
	t.Helper()
	if _, err := s.Put(t.Context(), fileJobs, []byte(body), store.Any, false); err != nil {
		t.Fatal(err)
	}
}

// doc is what a document holds.
func doc(t *testing.T, s store.Store, name string) string {
	t.Helper()
	data, v, err := s.Doc(t.Context(), name)
	if err != nil || v == store.Missing {
		t.Fatalf("%s: version %q, %v", s.Where(name), v, err)
	}
	return string(data)
}

// docs counts the documents of a folder.
func docs(t *testing.T, s store.Store, dir string) (n int) {
	t.Helper()
	for _, err := range s.Docs(t.Context(), dir) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func put(t *testing.T, ws, name, body string) string {
	t.Helper()
	path := filepath.Join(ws, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const pythonStore = `{"version":1,"future":{"a":1},"jobs":[
 {"id":"aaaaaaaa","name":"old","enabled":true,"schedule":{"kind":"every","atMs":null,"everyMs":3600000,"expr":null,"tz":null,"later":7},
  "payload":{"kind":"agent_turn","message":"héllo <b>","deliver":true,"channel":"telegram","to":"7","channelMeta":{"x":[1]}},
  "state":{"nextRunAtMs":null,"lastRunAtMs":"","lastStatus":null,"lastError":null,"runHistory":[{"runAtMs":1,"status":"ok","durationMs":2,"error":null,"odd":true}]},
  "createdAtMs":1700000000000,"updatedAtMs":1700000000000.5,"deleteAfterRun":false,"mine":"yes"},
 {"id":"bbbbbbbb","name":"snake","enabled":true,"schedule":{"kind":"at","at_ms":4102444800000},"payload":{"message":"m","session_key":"telegram:9","origin_channel":"telegram","origin_chat_id":"9"},
  "state":{},"created_at_ms":1,"updated_at_ms":1,"delete_after_run":true},
 {"id":"cccccccc","name":5},
 "junk"
]}`

func TestPythonStoreSurvives(t *testing.T) { storetest.Each(t, testPythonStoreSurvives) }

func testPythonStoreSurvives(t *testing.T, open storetest.Open) {
	t.Parallel()
	ws := t.TempDir()
	putJobs(t, stateOf(t, open, ws), pythonStore)
	s := plain(t, open, ws)
	if _, err := s.Update(t.Context(), "aaaaaaaa", Change{Name: new("new")}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(doc(t, s.State, fileJobs)), &got); err != nil {
		t.Fatal(err)
	}
	at := func(path ...any) (v any) {
		v = got
		for _, p := range path {
			switch p := p.(type) {
			case string:
				v = v.(map[string]any)[p]
			case int:
				v = v.([]any)[p]
			}
		}
		return v
	}
	for _, c := range []struct {
		want any
		path []any
	}{
		{1.0, []any{"future", "a"}},
		{"new", []any{"jobs", 0, "name"}},
		{"yes", []any{"jobs", 0, "mine"}},
		{7.0, []any{"jobs", 0, "schedule", "later"}},
		{"héllo <b>", []any{"jobs", 0, "payload", "message"}},
		{1.0, []any{"jobs", 0, "payload", "channelMeta", "x", 0}},
		{true, []any{"jobs", 0, "state", "runHistory", 0, "odd"}},
		{nil, []any{"jobs", 0, "schedule", "expr"}},
		{nil, []any{"jobs", 0, "state", "lastRunAtMs"}},
		{4102444800000.0, []any{"jobs", 1, "schedule", "atMs"}},
		{true, []any{"jobs", 1, "deleteAfterRun"}},
		{5.0, []any{"jobs", 2, "name"}},
		{"junk", []any{"jobs", 3}},
	} {
		if v := at(c.path...); !cmp.Equal(v, c.want) {
			t.Errorf("%v = %v, want %v", c.path, v, c.want)
		}
	}
	j := job(t, s, "bbbbbbbb")
	if j.Payload.Route().SessionKey() != "telegram:9" || j.Session() != "cron:bbbbbbbb" || j.Payload.SessionKey != "telegram:9" {
		t.Errorf("origin route %v, session %q, told in %q", j.Payload.Route(), j.Session(), j.Payload.SessionKey)
	}
	if _, err := s.Remove(t.Context(), "cccccccc"); err != nil {
		t.Errorf("an unreadable entry cannot be removed: %v", err)
	}
}

// Files that people or crashes damaged.
func TestCorruptStore(t *testing.T) {
	t.Parallel()
	t.Run("with a good copy", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		s := plain(t, storetest.Disk, ws)
		j := add(t, s, Draft{Timing: Every(time.Hour)})
		put(t, ws, "state/jobs.json", `{"version":1,"jobs":[{"id":`)
		if got := job(t, s, j.ID); got.Payload.Message != "do it" {
			t.Errorf("job %+v", got)
		}
		if kept, err := filepath.Glob(filepath.Join(ws, "state/jobs.json.corrupt-*")); err != nil || len(kept) != 1 {
			t.Errorf("damaged file kept as %q, %v", kept, err)
		}
		if got := job(t, plain(t, storetest.Disk, ws), j.ID); got.ID != j.ID {
			t.Errorf("the copy was not put in place")
		}
	})
	t.Run("without one", func(t *testing.T) {
		t.Parallel()
		for _, body := range []string{`{`, `[]`, `{"version":1}`, ``, "\x00\x00"} {
			ws := t.TempDir()
			path := put(t, ws, "state/jobs.json", body)
			s := plain(t, storetest.Disk, ws)
			_, err := s.Add(t.Context(), Draft{Message: "m", Timing: Every(time.Hour), Route: home()})
			if _, ok := errors.AsType[*CorruptError](err); !ok {
				t.Errorf("%q: %v, want a CorruptError", body, err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != body {
				t.Errorf("%q was changed to %q, %v", body, data, err)
			}
		}
	})
}

// A start that changes nothing writes nothing; a change reaches both files.
func TestBeginWritesOnlyChanges(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	files := []string{filepath.Join(ws, "state", "jobs.json"), filepath.Join(ws, "state", goodCopy)}
	begin := func(system ...System) (found []os.FileInfo) {
		s, err := Open(Options{Workspace: ws, State: stateOf(t, storetest.Disk, ws), Location: time.UTC, System: system, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, info)
		}
		return found
	}
	dream := System{ID: "dream", Name: "dream", Timing: Every(time.Hour)}
	first, again := begin(dream), begin(dream)
	later := begin()
	for i, path := range files {
		if !os.SameFile(first[i], again[i]) {
			t.Errorf("%s was written again", path)
		}
		if os.SameFile(again[i], later[i]) {
			t.Errorf("%s was not written although a job went away", path)
		}
	}
}

func TestDraftsThatAreRefused(t *testing.T) { storetest.Each(t, testDraftsThatAreRefused) }

func testDraftsThatAreRefused(t *testing.T, open storetest.Open) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name string
		d    Draft
		want string
	}{
		{"no message", Draft{Timing: Every(time.Hour)}, "message is missing"},
		{"long message", Draft{Message: strings.Repeat("ü", maxMessage+1), Timing: Every(time.Hour)}, "at most"},
		{"never", Draft{Message: "m", Timing: Cron("0 0 30 2 *", "")}, "never"},
		{"over", Draft{Message: "m", Timing: Cron("0 0 1 1 * 0 1999", "")}, "never happens again"},
		{"bad expression", Draft{Message: "m", Timing: Cron("often", "")}, "fields"},
		{"bad zone", Draft{Message: "m", Timing: Cron("0 9 * * *", "Mars/Olympus")}, "time zone"},
		{"zone with an interval", Draft{Message: "m", Timing: Timing{Kind: kindEvery, EveryMS: 1e6, TZ: "UTC"}}, "cron expression only"},
		{"too often", Draft{Message: "m", Timing: Every(time.Second)}, "shortest interval is 10s"},
		{"every second", Draft{Message: "m", Timing: Cron("* * * * * *", "")}, "shortest interval is 1m"},
		{"past", Draft{Message: "m", Timing: Once(now.Add(-time.Hour))}, "in the past; it is now"},
		{"policy", Draft{Message: "m", Timing: Every(time.Hour), CatchUp: "maybe"}, "once, skip or tell"},
		{"kind", Draft{Message: "m", Timing: Timing{Kind: "often"}}, "not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := plain(t, open, t.TempDir()).Add(t.Context(), c.d)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestLimitsAndDuplicates(t *testing.T) { storetest.Each(t, testLimitsAndDuplicates) }

func testLimitsAndDuplicates(t *testing.T, open storetest.Open) {
	t.Parallel()
	s, err := Open(Options{State: open(t, t.TempDir()), Limits: Limits{Jobs: 3, JobsPerChat: 2}})
	if err != nil {
		t.Fatal(err)
	}
	first := add(t, s, Draft{Timing: Every(time.Hour)})
	again, err := s.Add(t.Context(), Draft{Timing: Every(time.Hour), Message: " do it ", Route: home()})
	if err != nil || !again.Same || again.Job.ID != first.ID {
		t.Errorf("the same job again: %+v, %v", again, err)
	}
	add(t, s, Draft{Timing: Every(2 * time.Hour)})
	if _, err := s.Add(t.Context(), Draft{Timing: Every(3 * time.Hour), Message: "x", Route: home(), Scope: "guest"}); err == nil {
		t.Error("a third job in one chat")
	}
	other := home()
	other.ChatID = "2"
	add(t, s, Draft{Timing: Every(3 * time.Hour), Route: other})
	other.ChatID = "3"
	if _, err := s.Add(t.Context(), Draft{Timing: Every(3 * time.Hour), Message: "x", Route: other}); err == nil {
		t.Error("a fourth job")
	}
	// Seconds that went by while the model was thinking do not matter.
	s2 := plain(t, open, t.TempDir())
	if j := add(t, s2, Draft{Timing: Once(time.Now().Add(-time.Minute))}); j.State.NextRunAtMS == 0 {
		t.Errorf("a moment a minute ago has no next run: %+v", j.State)
	}
}
