package subject_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// desk is the operations of a gateway that does not run.
type desk struct {
	*web.Desk
	dir    string
	checks *fakeChecks
	work   sync.WaitGroup
	told   chan string
	reload error
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{dir: t.TempDir(), checks: &fakeChecks{}, told: make(chan string, 100)}
	log := subject.Log{File: func() string { return filepath.Join(d.dir, "gateway.log") }, Secrets: newSecrets(t)}
	operations := subject.Operations{
		Status:  func(context.Context) any { return map[string]string{"version": "1"} },
		Reload:  func(context.Context) error { return d.reload },
		Restart: func() { d.told <- "restart" },
		Backup: func(context.Context) (string, error) {
			dir := filepath.Join(d.dir, "b")
			must(t, os.Mkdir(dir, 0o700))
			return filepath.Join(dir, "b.tar.gz"), os.WriteFile(filepath.Join(dir, "b.tar.gz"), []byte("backup"), 0o600)
		},
		Log: log,
	}
	checkup := &subject.Checkup{
		Checks: d.checks, Secrets: log.Secrets, Life: t.Context, Go: d.work.Go, Feed: feed(func(topic string) { d.told <- topic }),
	}
	d.Desk = newSubject(t, log, operations, checkup).Desk
	return d
}

// feed is told which topics have changed.
type feed func(topic string)

func (f feed) Publish(topic string, _ any) { f(topic) }

func TestOperations(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if code, body := get(t, d.Desk, "/api/status"); code != 200 || !strings.Contains(body, `"gateway":{"version":"1"}`) || !strings.Contains(body, "memory_bytes") {
		t.Errorf("status = %d %s", code, body)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/backup", http.NoBody))
	if w.Code != 200 || w.Body.String() != "backup" || !strings.Contains(w.Header().Get("Content-Disposition"), "b.tar.gz") {
		t.Errorf("backup = %d %s", w.Code, w.Body)
	}
	if left, _ := os.ReadDir(d.dir); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if code, body := get(t, d.Desk, "/api/doctor/bundle"); code != 500 || strings.Contains(body, "no room") {
		t.Errorf("bundle = %d %s", code, body)
	}
	if _, status := do(t, d.Desk, "gateway.reload", ""); status != 200 {
		t.Errorf("reload = %d", status)
	}
	d.reload = errors.New("line 3: no such key")
	if msg, status := do(t, d.Desk, "gateway.reload", ""); status != 422 || !strings.Contains(msg, "line 3") {
		t.Errorf("reload = %d %s", status, msg)
	}
	if _, status := do(t, d.Desk, "gateway.restart", ""); status != 200 || <-d.told != "restart" {
		t.Errorf("restart = %d", status)
	}
}
