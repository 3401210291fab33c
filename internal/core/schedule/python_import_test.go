package schedule

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	dreamJob = `{"id":"dream","name":"dream","enabled":true,"schedule":{"kind":"every","everyMs":1},"payload":{"kind":"system_event"},"state":{}}`
	goneJob  = `{"id":"gone","name":"g","enabled":true,"schedule":{"kind":"every","everyMs":99999},"payload":{"message":"m"},"state":{}}`
)

func oldStore(jobs ...string) string {
	return `{"version":1,"jobs":[` + strings.Join(jobs, ",") + `]}`
}

func ids(t *testing.T, s *Scheduler) string {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range all {
		out = append(out, all[i].ID)
	}
	return strings.Join(out, " ")
}

// Jobs, and what processes of the original had appended to be done, are taken
// over once.
func TestTakeOver(t *testing.T) { storetest.Each(t, testTakeOver) }

func testTakeOver(t *testing.T, open storetest.Open) {
	t.Parallel()
	ws := t.TempDir()
	put(t, ws, oldJobs, oldStore(dreamJob, goneJob))
	put(t, ws, oldActions, `{"action":"add","params":{"id":"new1","name":"n","enabled":true,"schedule":{"kind":"every","every_ms":60000},"payload":{"message":"m","deliver":true},"state":{"next_run_at_ms":5},"created_at_ms":1,"delete_after_run":false}}
{"action":"del","params":{"job_id":"gone"}}
{"action":"del","params":{"job_id":"nobody"}}
{"action":"del","params":{"job_id":"dream"}}
{"action":"update","params":{"id":"dream","payload":{"message":"taken over"}}}
{"action":"explode"}
not json
`)
	put(t, ws, oldTriggers, `{"version":1,"triggers":[{"id":"trg_AB23CD45","name":"b","enabled":true,"channel":"c","chatId":"1","sessionKey":"c:1"}],"x_new":1}`)
	put(t, ws, oldInbox+"/1-tdl_a.json", `{"version":1,"delivery":{"id":"tdl_a","triggerId":"trg_AB23CD45","content":"hello"}}`)
	put(t, ws, oldProcessing+"/2-tdl_b.json", `{"version":1,"delivery":{"id":"tdl_b","triggerId":"trg_AB23CD45","content":"hello"}}`)
	put(t, ws, oldInbox+"/3-bad.json", `{`)

	s := plain(t, open, ws)
	got, err := s.TakeOver(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if got.Jobs != 1 || got.Triggers != 1 || got.Deliveries != 2 || len(got.Left) != 1 {
		t.Errorf("taken: %+v", got)
	}
	if got := ids(t, s); !strings.Contains(got, "new1") || !strings.Contains(got, "dream") || strings.Contains(got, "gone") {
		t.Errorf("jobs %q", got)
	}
	if j := job(t, s, "dream"); !j.Protected() || j.Payload.Message != "" {
		t.Errorf("a system job was changed: %+v", j.Payload)
	}
	for _, name := range []string{"1-tdl_a.json", "2-tdl_b.json"} {
		if data := doc(t, s.State, inbox+"/"+name); strings.Contains(data, `"trusted":true`) {
			t.Errorf("%s: %s; nothing says who wrote it", name, data)
		}
	}

	put(t, ws, oldJobs, oldStore(goneJob))
	if again, err := s.TakeOver(t.Context(), ""); err != nil || again.Jobs != 0 {
		t.Errorf("taken again: %+v %v", again, err)
	}
}

func TestTakeOverDamaged(t *testing.T) { storetest.Each(t, testTakeOverDamaged) }

func testTakeOverDamaged(t *testing.T, open storetest.Open) {
	t.Parallel()
	for name, c := range map[string]struct {
		good string
		want string // a job
	}{"with a good copy": {oldStore(goneJob), "gone"}, "without": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			put(t, ws, oldJobs, `{"jobs":[{"id"`)
			if c.good != "" {
				put(t, ws, oldGoodCopy, c.good)
			}
			s := plain(t, open, ws)
			got, err := s.TakeOver(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.List(t.Context())
			_, damaged := errors.AsType[*CorruptError](err)
			switch {
			case c.want != "" && (err != nil || len(all) != 1 || got.Jobs != 1):
				t.Errorf("%+v, %v, %v", got, all, err)
			case c.want == "" && (!damaged || len(got.Left) != 1):
				t.Errorf("%+v, %v: nobody is told", got, err)
			}
		})
	}
}

// Versions before the first kept the jobs with the configuration.
func TestTakeOverElsewhere(t *testing.T) { storetest.Each(t, testTakeOverElsewhere) }

func testTakeOverElsewhere(t *testing.T, open storetest.Open) {
	t.Parallel()
	ws := t.TempDir()
	file := put(t, ws, "data/cron/jobs.json", oldStore(goneJob))
	s := plain(t, open, ws)
	if got, err := s.TakeOver(t.Context(), file); err != nil || got.Jobs != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another workspace would take it, too: %v", err)
	}
}

// No link is followed, wherever it stands.
func TestTakeOverFollowsNoLink(t *testing.T) {
	t.Parallel()
	for _, link := range []string{"cron", oldJobs, oldActions, oldGoodCopy, "triggers", oldTriggers, oldInbox, oldProcessing} {
		t.Run(strings.ReplaceAll(link, "/", " "), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ws := filepath.Join(dir, "ws")
			for name, body := range map[string]string{
				oldJobs: oldStore(goneJob), oldGoodCopy: oldStore(goneJob),
				oldActions:                `{"action":"add","params":` + goneJob + "}\n",
				oldTriggers:               `{"version":1,"triggers":[{"id":"trg_AB23CD45","name":"b","enabled":true}]}`,
				oldInbox + "/a.json":      `{"version":1,"delivery":{"id":"tdl_a","triggerId":"trg_AB23CD45","content":"hello"}}`,
				oldProcessing + "/b.json": `{"version":1,"delivery":{"id":"tdl_b","triggerId":"trg_AB23CD45","content":"hello"}}`,
			} {
				put(t, dir, "elsewhere/"+name, body)
			}
			path := filepath.Join(ws, filepath.FromSlash(link))
			if strings.HasPrefix(link, "triggers/") && link != oldTriggers {
				put(t, ws, oldTriggers, `{"version":1,"triggers":[]}`)
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(dir, "elsewhere", filepath.FromSlash(link)), path); err != nil {
				t.Skip("no symbolic links here:", err)
			}
			s := plain(t, storetest.Disk, ws)
			got, err := s.TakeOver(t.Context(), "")
			if err != nil || got.Jobs+got.Triggers+got.Deliveries > 0 {
				t.Errorf("taken through a link: %+v %v", got, err)
			}
			if jobs := ids(t, s); jobs != "" {
				t.Errorf("jobs %q", jobs)
			}
		})
	}
}

func addJob(t *testing.T, s *Scheduler, message string) {
	t.Helper()
	_, err := s.Add(t.Context(), Draft{Message: message, Timing: Every(time.Hour), Route: bus.Route{Channel: "c", ChatID: "1"}})
	if err != nil {
		t.Fatal(err)
	}
}

// The workspace has a copy of the jobs. What somebody else writes there is not
// read, and not overwritten either, until a person takes it.
func TestMirror(t *testing.T) { storetest.Each(t, testMirror) }

func testMirror(t *testing.T, open storetest.Open) {
	t.Parallel()
	ws := t.TempDir()
	s := plain(t, open, ws)
	file := filepath.Join(ws, filepath.FromSlash(oldJobs))
	equal := func() {
		t.Helper()
		copied, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if own := doc(t, s.State, fileJobs); own != string(copied) {
			t.Errorf("the copy differs: %s", copied)
		}
	}
	addJob(t, s, "first")
	equal()
	addJob(t, s, "second")
	equal()
	if left, state, err := s.Unimported(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("our own copy is new: %v %q %v", left, state, err)
	}

	forged := oldStore(goneJob)
	put(t, ws, oldJobs, forged)
	addJob(t, s, "third")
	if got, _ := os.ReadFile(file); string(got) != forged {
		t.Errorf("what somebody wrote is lost: %s", got)
	}
	if got := ids(t, s); strings.Contains(got, "gone") || len(strings.Fields(got)) != 3 {
		t.Errorf("jobs %q", got)
	}

	left, state, err := s.Unimported(t.Context())
	if err != nil || len(left) != 1 || left[0].ID != "gone" {
		t.Fatalf("not imported: %v %v", left, err)
	}
	put(t, ws, oldJobs, oldStore(strings.ReplaceAll(goneJob, "gone", "swapped")))
	if n, err := s.Import(t.Context(), state); err == nil || n != 0 {
		t.Errorf("something else was taken than was shown: %d %v", n, err)
	}
	put(t, ws, oldJobs, forged)
	if n, err := s.Import(t.Context(), state); err != nil || n != 1 {
		t.Errorf("take: %d %v", n, err)
	}
	if got := ids(t, s); !strings.Contains(got, "gone") {
		t.Errorf("jobs %q", got)
	}
	equal()
}

// A link in the place of the copy, or on the way to it, leads nowhere.
func TestMirrorFollowsNoLink(t *testing.T) {
	t.Parallel()
	for _, link := range []string{"cron", oldJobs} {
		dir := t.TempDir()
		ws := filepath.Join(dir, "ws")
		canary := put(t, dir, "elsewhere/cron/jobs.json", "canary")
		path := filepath.Join(ws, filepath.FromSlash(link))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "elsewhere", filepath.FromSlash(link)), path); err != nil {
			t.Skip("no symbolic links here:", err)
		}
		s := plain(t, storetest.Disk, ws)
		addJob(t, s, "first")
		if got, _ := os.ReadFile(canary); string(got) != "canary" {
			t.Errorf("%s was followed: %s", link, got)
		}
		if entries, _ := os.ReadDir(filepath.Dir(canary)); len(entries) != 1 {
			t.Errorf("%s: files were made there: %v", link, entries)
		}
	}
}
