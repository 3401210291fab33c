package subject_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
)

type listed struct {
	Sessions []struct {
		Key, Title, Preview  string
		CreatedAt, UpdatedAt string
		Messages             int
		Bytes                int64
		Running              bool
	}
	Total int
}

func TestSessions(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if got := read[listed](t, h, "sessions"); got.Sessions == nil || len(got.Sessions) != 0 {
		t.Errorf("of an empty backend: %+v", got)
	}
	h.say(t, "websocket:a", user("Plan a trip to Rome"), answer("Gladly, the passport is in the drawer."))
	h.say(t, "telegram:5", user("my key is sk-hush-0123456789 and in the drawer"))
	h.busy["websocket:a"] = true
	all := read[listed](t, h, "sessions")
	if all.Total != 2 || len(all.Sessions) != 2 {
		t.Fatalf("all = %+v", all)
	}
	for _, s := range all.Sessions {
		if s.Running != (s.Key == "websocket:a") || s.Bytes == 0 || strings.Contains(s.Preview, "sk-hush") {
			t.Errorf("%+v", s)
		}
	}
	for query, want := range map[string]int{"query=ROME": 1, "query=telegram": 1, "query=nothing": 0, "limit=1": 1, "query=e&limit=0": 2} {
		if got := read[listed](t, h, "sessions?"+query); len(got.Sessions) != want {
			t.Errorf("%s: %d conversations, want %d", query, len(got.Sessions), want)
		}
	}
	if got := read[listed](t, h, "sessions?limit=1"); got.Total != 2 {
		t.Errorf("total of a short list = %d, want 2", got.Total)
	}
	h.Index = newIndex(t, h.DataDir, h.Sessions)
	res, err := h.Index.Search(t.Context(), search.Query{Text: "passport drawer", Wait: true, Everyone: true})
	must(t, err)
	if len(res.Hits) != 2 || res.Hits[1].Session != "telegram:5" || !res.Hits[1].Partial {
		t.Fatalf("the index found %+v, want the other conversation as one that has some of the words", res.Hits)
	}
	if got := read[listed](t, h, "sessions?query=Passport+drawer"); len(got.Sessions) != 1 || got.Sessions[0].Key != "websocket:a" {
		t.Errorf("words of a message find %+v, want their conversation", got.Sessions)
	}
	h.refused(t, "sessions?limit=-1", 400, "limit")
	h.refused(t, "sessions?limit=x", 400, "limit")
}

func TestRename(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.say(t, "websocket:a", user("hi"))
	// It works while somebody else has the conversation.
	s, err := h.Sessions.Acquire(t.Context(), "websocket:a")
	must(t, err)
	out := acts[map[string]string](t, h, "session.rename", `{"key":"websocket:a","title":"  Trip\n to Rome "}`)
	must(t, s.Release())
	if out["title"] != "Trip to Rome" {
		t.Errorf("title = %q", out["title"])
	}
	meta, err := h.Sessions.Metadata(t.Context(), "websocket:a")
	must(t, err)
	if string(meta["title"]) != `"Trip to Rome"` || string(meta["title_user_edited"]) != "true" {
		t.Errorf("metadata = %s", meta)
	}
	if got := read[listed](t, h, "sessions?query=trip"); len(got.Sessions) != 1 || got.Sessions[0].Title != "Trip to Rome" {
		t.Errorf("listed: %+v", got)
	}
	acts[any](t, h, "session.rename", `{"key":"websocket:a","title":""}`)
	meta, err = h.Sessions.Metadata(t.Context(), "websocket:a")
	must(t, err)
	if meta["title"] != nil || meta["title_user_edited"] != nil {
		t.Errorf("metadata after the title is gone = %s", meta)
	}
	h.refuses(t, "session.rename", `{"key":"websocket:none","title":"x"}`, 404, "conversation")
	h.refuses(t, "session.rename", `{"title":"x"}`, 400, "key")
	h.refuses(t, "session.rename", `{"key":"websocket:a","name":"x"}`, 400, "name")
	if _, err := h.Sessions.Metadata(t.Context(), "websocket:none"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a refused name made a conversation: %v", err)
	}
}

func TestDeleteSession(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	here := bus.Route{Channel: "websocket", ChatID: "a"}
	h.say(t, "websocket:a", user("hi"))
	job, err := h.Schedule.Add(t.Context(), schedule.Draft{Message: "Say good morning", Timing: schedule.Cron("0 8 * * *", ""), Route: here})
	must(t, err)
	trg, err := h.Schedule.Triggers.Add(t.Context(), "deploys", bus.Route{Channel: "telegram", ChatID: "5"}, "websocket:a")
	must(t, err)
	other, err := h.Schedule.Add(t.Context(), schedule.Draft{Message: "Elsewhere", Timing: schedule.Cron("0 8 * * *", ""), Route: bus.Route{Channel: "websocket", ChatID: "b"}})
	must(t, err)

	h.busy["websocket:a"] = true
	h.refuses(t, "session.delete", `{"key":"websocket:a","delete_automations":true}`, 409, "stop it first")
	h.busy["websocket:a"] = false
	for _, word := range []string{job.Job.ID, job.Job.Name, trg.ID, "delete_automations"} {
		h.refuses(t, "session.delete", `{"key":"websocket:a"}`, 409, word)
	}
	if _, err := h.Sessions.Metadata(t.Context(), "websocket:a"); err != nil {
		t.Fatalf("after refusals: %v", err)
	}
	out := acts[struct {
		Deleted     bool
		Automations []string `json:"automations_deleted"`
	}](t, h, "session.delete", `{"key":"websocket:a","delete_automations":true}`)
	if !out.Deleted || len(out.Automations) != 2 {
		t.Errorf("deleted: %+v", out)
	}
	if _, err := h.Sessions.Metadata(t.Context(), "websocket:a"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the conversation is still there: %v", err)
	}
	left, err := h.Schedule.List(t.Context())
	must(t, err)
	if len(left) != 1 || left[0].ID != other.Job.ID {
		t.Errorf("jobs left: %+v, want %s only", left, other.Job.ID)
	}
	if left, err := h.Schedule.Triggers.List(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("triggers left: %+v, %v", left, err)
	}
	h.refuses(t, "session.delete", `{"key":"websocket:a"}`, 404, "conversation")
	h.refuses(t, "session.delete", `{}`, 400, "key")

	// The program does more than to move a file.
	away := &archiver{sessions: h.Sessions}
	h.Archive = away
	h.say(t, "websocket:c", user("hi"))
	acts[any](t, h, "session.delete", `{"key":"websocket:c"}`)
	if !slices.Equal(away.deleted, []string{"websocket:c"}) {
		t.Errorf("the program was told to delete %q", away.deleted)
	}
	h.say(t, "websocket:c", user("hi"))
	away.err = &session.BusyError{PID: 7}
	h.refuses(t, "session.delete", `{"key":"websocket:c"}`, 409, "another program")
}

// What is erased is gone from the list, the archive and the disk.
func TestEraseSession(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.say(t, "websocket:a", user("a secret of mine"))
	acts[any](t, h, "session.delete", `{"key":"websocket:a"}`)
	h.say(t, "websocket:a", user("a later secret"))
	h.say(t, "websocket:a.1", user("another conversation"))
	acts[any](t, h, "session.delete", `{"key":"websocket:a.1"}`)

	h.refuses(t, "session.erase", `{}`, 400, "key or id")
	h.refuses(t, "session.erase", `{"key":"websocket:b"}`, 404, "conversation")
	h.refuses(t, "session.erase", `{"id":"nothing.1"}`, 404, "conversation")
	h.busy["websocket:a"] = true
	h.refuses(t, "session.erase", `{"key":"websocket:a"}`, 409, "stop it first")
	h.busy["websocket:a"] = false
	acts[any](t, h, "session.erase", `{"key":"websocket:a"}`)
	if got := filesWith(t, h.Sessions.Dir(), "secret"); len(got) != 0 {
		t.Errorf("these files still have words of the conversation: %q", got)
	}
	archived, err := session.ListArchive(t.Context(), h.Sessions)
	must(t, err)
	if len(archived) != 1 || archived[0].Key != "websocket:a.1" {
		t.Fatalf("in the archive: %+v, want the other conversation alone", archived)
	}

	acts[any](t, h, "session.erase", `{"id":"`+archived[0].ID+`"}`)
	if got := filesWith(t, h.Sessions.Dir(), "another"); len(got) != 0 {
		t.Errorf("these files still have words of the archive: %q", got)
	}
}

// filesWith are the files below a folder that contain a text.
func filesWith(t *testing.T, dir, words string) (found []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), words) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

func TestContext(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.Agent = worker{context: func(string) (any, error) { return nil, errors.ErrUnsupported }}
	h.refused(t, "sessions/websocket:a/context", 501, "shown")
	h.Agent = worker{context: func(key string) (any, error) {
		if key != "websocket:a/b" {
			return nil, session.ErrNotFound
		}
		return json.RawMessage(`{"used":5}`), nil
	}}
	if got := read[map[string]int](t, h, "sessions/websocket%3Aa%2Fb/context"); got["used"] != 5 {
		t.Errorf("context = %v", got)
	}
	h.refused(t, "sessions/websocket:none/context", 404, "conversation")
}

// A long list comes in pages that neither skip nor repeat a conversation, and can
// be narrowed to one platform.
func TestSessionPages(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for i := range 25 {
		h.say(t, fmt.Sprintf("websocket:c%02d", i), user(fmt.Sprint("the first words of number ", i, strings.Repeat(" and more", 20))))
	}
	h.say(t, "telegram:5", user("hi"))
	type page struct {
		listed
		Cursor *string
	}
	seen := map[string]bool{}
	query := "sessions?channel=websocket&limit=10"
	pages := 0
	for next := ""; pages < 5; pages++ {
		p := read[page](t, h, query+next)
		if p.Total != 25 {
			t.Fatalf("total = %d", p.Total)
		}
		for _, s := range p.Sessions {
			if seen[s.Key] || !strings.HasPrefix(s.Title, "the first words of number") || len(s.Title) > 70 {
				t.Errorf("%q comes again, or has the title %q", s.Key, s.Title)
			}
			seen[s.Key] = true
		}
		if p.Cursor == nil {
			break
		}
		if pages == 0 { // what changes between two pages is on no later one
			h.say(t, "websocket:c30", user("new"))
			must(t, h.Sessions.Delete(t.Context(), "websocket:c30"))
		}
		next = "&cursor=" + *p.Cursor
	}
	if len(seen) != 25 || pages != 2 {
		t.Errorf("%d conversations on %d pages", len(seen), pages+1)
	}
	for _, bad := range []string{"x", "%20", "AAAA", "bm8ga2V5"} {
		h.refused(t, "sessions?cursor="+bad, 400, "cursor_invalid")
	}
}

// A conversation can be put away and brought back.
func TestArchive(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.say(t, "websocket:a", user("keep this"), answer("yes"))
	acts[map[string]any](t, h, "session.archive", `{"key":"websocket:a"}`)
	if got := read[listed](t, h, "sessions"); got.Total != 0 {
		t.Fatalf("sessions = %+v", got)
	}
	type put struct {
		Sessions []struct {
			Key, Preview string
			ArchiveID    string `json:"archive_id"`
		}
	}
	away := read[put](t, h, "sessions?archived=1")
	if len(away.Sessions) != 1 || away.Sessions[0].Key != "websocket:a" || away.Sessions[0].Preview != "keep this" {
		t.Fatalf("archive = %+v", away)
	}
	id, _ := json.Marshal(away.Sessions[0].ArchiveID)
	h.say(t, "websocket:a", user("in its place"))
	h.refuses(t, "session.restore", `{"id":`+string(id)+`}`, 409, "under this key")
	must(t, h.Sessions.Delete(t.Context(), "websocket:a"))
	back := acts[struct{ Key string }](t, h, "session.restore", `{"id":`+string(id)+`}`)
	if got := read[listed](t, h, "sessions"); back.Key != "websocket:a" || got.Total != 1 || got.Sessions[0].Messages != 2 {
		t.Errorf("restored %q: %+v", back.Key, got)
	}
	h.refuses(t, "session.restore", `{"id":`+string(id)+`}`, 404, "conversation")
	h.refuses(t, "session.restore", `{"id":"../../x"}`, 404, "conversation")
	h.refuses(t, "session.restore", `{}`, 400, "id")
}

// A conversation is a file that people, or another nanobot, can read.
func TestExport(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	work := calls("c1")
	work.ToolCalls[0].Arguments = "{\"command\":\"echo `sk-hush-0123456789`\\n\"}"
	h.say(t, "websocket:a", user("my key is sk-hush-0123456789"), work, result("c1", "sk-hush-0123456789"), answer("Done."))
	for format, want := range map[string][]string{
		"md":    {"# websocket:a\n", "## You, ", "my key is [redacted:key]\n", "- exec `", "## nanobot, ", "Done."},
		"jsonl": {`{"_type":"metadata"`, `"role":"user","content":"my key is [redacted:key]"`, `"role":"tool"`},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/sessions/websocket:a/export?format="+format, http.NoBody))
		body := w.Body.String()
		for _, s := range want {
			if !strings.Contains(body, s) {
				t.Errorf("%s lacks %q:\n%s", format, s, body)
			}
		}
		if w.Code != 200 || strings.Contains(body, "sk-hush") || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment; filename=") {
			t.Errorf("%s = %d %v\n%s", format, w.Code, w.Header(), body)
		}
		if format == "jsonl" {
			for line := range strings.Lines(body) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		}
	}
	h.refused(t, "sessions/websocket:a/export?format=exe", 400, "export_format")
	h.refused(t, "sessions/websocket:b/export", 404, "session_missing")
}

func TestUnread(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.say(t, "telegram:7", user("hello"))
	for range 2 {
		h.unread.Add(t.Context(), "telegram:7")
	}
	unread := func() int {
		return read[struct{ Sessions []struct{ Unread int } }](t, h, "sessions").Sessions[0].Unread
	}
	if got := unread(); got != 2 {
		t.Errorf("unread: %v", got)
	}
	acts[map[string]any](t, h, "session.seen", `{"key":"telegram:7"}`)
	if got := unread(); got != 0 {
		t.Errorf("after it was seen: %v", got)
	}
	h.refuses(t, "session.seen", `{}`, 400, "key is missing")
}
