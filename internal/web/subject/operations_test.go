package subject_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/auth"
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
	reads, actions := subject.NewOperations(subject.Operations{
		Status: func(context.Context) any { return map[string]string{"version": "1"} },
		Reload: func(context.Context) error { return d.reload }, Restart: func() { d.told <- "restart" },
		Backup: func(context.Context) (string, error) {
			dir := filepath.Join(d.dir, "b")
			must(t, os.Mkdir(dir, 0o700))
			return filepath.Join(dir, "b.tar.gz"), os.WriteFile(filepath.Join(dir, "b.tar.gz"), []byte("backup"), 0o600)
		},
		Checks: d.checks, LogFile: func() string { return filepath.Join(d.dir, "gateway.log") },
		Redact: func(s string) string { return strings.ReplaceAll(s, "sk-hush", "[redacted]") },
		Life:   func() context.Context { return t.Context() }, Go: func(f func()) { d.work.Go(f) },
		Publish: func(topic string) { d.told <- topic },
	})
	d.Desk = newAPI(t, nil, web.Routes{Reads: reads, Actions: actions})
	return d
}

type fakeChecks struct {
	found []subject.Finding
	fixed []string
}

func (c *fakeChecks) Run(_ context.Context, network bool, found func(subject.Finding)) {
	for _, f := range c.found {
		f.Detail += fmt.Sprint(" ", network)
		found(f)
	}
}

func (c *fakeChecks) Fix(_ context.Context, id string, _ []string) (bool, error) {
	if id == "stuck" {
		return false, errors.New("not permitted")
	}
	c.fixed = append(c.fixed, id)
	return true, nil
}

func (c *fakeChecks) Bundle(context.Context) (string, error) { return "", errors.New("no room") }

type logPage struct {
	Lines []struct {
		ID, At, Level, Message string
		Attrs                  [][2]string
	}
	Before string
}

func (d *desk) log(t *testing.T, query string) (p logPage) {
	t.Helper()
	code, body := get(t, d.Desk, "/api/log"+query)
	if code != 200 {
		t.Fatalf("log%s = %d %.200s", query, code, body)
	}
	must(t, json.Unmarshal([]byte(body), &p))
	return p
}

// Every line is found once, the newest first, across files that are put aside
// between two pages.
func TestLogPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if p := d.log(t, ""); len(p.Lines) != 0 || p.Before != "" {
		t.Errorf("no log: %+v", p)
	}
	name := filepath.Join(d.dir, "gateway.log")
	write := func(file string, from, to int) {
		var b strings.Builder
		for i := from; i < to; i++ {
			level := []string{"DEBUG", "INFO", "WARN", "ERROR"}[i%4]
			fmt.Fprintf(&b, `{"time":"2026-05-04T12:%02d:%02d.%09dZ","level":%q,"msg":"line %d","session":"websocket:%d","err":"key sk-hush %s"}`+"\n", i/60%60, i%60, i, level, i, i%3, strings.Repeat("x", i%300))
		}
		must(t, os.WriteFile(file, []byte(b.String()), 0o600))
	}
	write(name+".1", 0, 700)
	write(name, 700, 1000)
	p := d.log(t, "")
	if len(p.Lines) != 200 || p.Lines[0].Message != "line 999" || p.Lines[0].Level != "error" || p.Before == "" {
		t.Fatalf("first page: %d lines, %+v", len(p.Lines), p.Lines[0])
	}
	if s := fmt.Sprint(p.Lines[0].Attrs); strings.Contains(s, "sk-hush") || !strings.Contains(s, "[redacted]") || !strings.Contains(s, "websocket:0") {
		t.Errorf("attributes: %s", s)
	}
	must(t, os.Rename(name+".1", name+".2"))
	must(t, os.Rename(name, name+".1"))
	write(name, 2000, 2010)
	seen, n := map[string]bool{}, 0
	for {
		for _, l := range p.Lines {
			if want := fmt.Sprint("line ", 999-n); l.Message != want || seen[l.ID] {
				t.Fatalf("%s at %s, want %s", l.Message, l.ID, want)
			}
			seen[l.ID] = true
			n++
		}
		if p.Before == "" {
			break
		}
		p = d.log(t, "?before="+p.Before)
	}
	if n != 1000 {
		t.Errorf("%d lines, want 1000", n)
	}
	if p := d.log(t, "?level=error&session=websocket:1&q=LINE+7"); len(p.Lines) == 0 || p.Lines[0].Message != "line 799" {
		t.Errorf("filtered: %+v", p.Lines)
	}
	for _, bad := range []string{"?level=loud", "?q=" + strings.Repeat("x", 201)} {
		if code, body := get(t, d.Desk, "/api/log"+bad); code != 400 {
			t.Errorf("%.30s = %d %s", bad, code, body)
		}
	}
	for _, gone := range []string{"?before=zz-5", "?before=x", "?before=-1"} {
		if code, body := get(t, d.Desk, "/api/log"+gone); code != 410 {
			t.Errorf("%s = %d %s", gone, code, body)
		}
	}
}

// A request looks at a bounded part of a log however long it, or a line of it, is.
func TestLogIsLarge(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	name := filepath.Join(d.dir, "gateway.log")
	f, err := os.Create(name)
	must(t, err)
	_, err = f.WriteString("time=2026-05-04T12:00:00.000Z level=INFO msg=\"the first \\u202e line\" session=a b=1\n")
	must(t, err)
	_, err = f.Seek(1<<30, 0) // a hole: one line of a gigabyte
	must(t, err)
	_, err = f.WriteString("\nno format at all, but long enough to be one\n")
	must(t, err)
	must(t, f.Close())
	p := d.log(t, "")
	if len(p.Lines) != 1 || p.Lines[0].Message != "no format at all, but long enough to be one" || p.Before == "" {
		t.Fatalf("page: %+v", p)
	}
	for range 5 {
		before := p.Before
		if p = d.log(t, "?before="+before); p.Before == before {
			t.Fatal("the cursor does not move")
		}
	}
	_, offset, _ := strings.Cut(p.Before, "-")
	if at, err := strconv.Atoi(offset); err != nil || at < 1<<30-6*5<<20 {
		t.Errorf("six pages reach back to %s", p.Before)
	}
	must(t, os.Truncate(name, 83))
	if p := d.log(t, ""); len(p.Lines) != 1 || p.Lines[0].Message != "the first \u202e line" || p.Lines[0].Level != "info" || fmt.Sprint(p.Lines[0].Attrs) != "[[session a] [b 1]]" {
		t.Errorf("text: %+v", p.Lines)
	}
}

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

// Each finding is told at once, and only what was shown is changed.
func TestDoctor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.checks.found = []subject.Finding{
		{ID: "config", State: "ok", Detail: "with sk-hush"},
		{ID: "files", State: "fail", Changes: []string{"chmod 0600 a"}},
		{ID: "stuck", State: "fail", Changes: []string{"mkdir b"}},
	}
	if _, status := do(t, d.Desk, "doctor.run", `{"network":true}`); status != 200 {
		t.Fatalf("run = %d", status)
	}
	for range 4 { // three findings and the end
		if topic := <-d.told; topic != "doctor" {
			t.Errorf("told %s", topic)
		}
	}
	d.work.Wait()
	if code, body := get(t, d.Desk, "/api/doctor"); code != 200 || !strings.Contains(body, "[redacted] true") || !strings.Contains(body, `"running":false`) {
		t.Errorf("doctor = %d %s", code, body)
	}
	for _, c := range []struct {
		payload string
		want    int
	}{
		{`{"id":"config","changes":[]}`, 409},
		{`{"id":"files","changes":["chmod 0777 a"]}`, 409},
		{`{"id":"files","changes":["chmod 0600 a"]}`, 200},
		{`{"id":"files","changes":["chmod 0600 a"]}`, 409},
		{`{"id":"stuck","changes":["mkdir b"]}`, 422},
	} {
		if msg, status := do(t, d.Desk, "doctor.fix", c.payload); status != c.want {
			t.Errorf("%s = %d %s, want %d", c.payload, status, msg, c.want)
		}
	}
	if len(d.checks.fixed) != 1 {
		t.Errorf("fixed %v", d.checks.fixed)
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	public, changed := "", 0
	a := auth.New(auth.Options{
		Store: disk.Open(t.TempDir(), nil), Log: slog.New(slog.DiscardHandler), Now: noon,
		Site: func() auth.Site { return auth.Site{Session: time.Hour} }, Changed: func() { changed++ },
	})
	devices := subject.Devices{Auth: a, Public: func() string { return public }}
	d := newAPI(t, nil, web.Routes{Reads: devices.Reads(), Actions: devices.Actions()})
	login := func(body string) (out map[string]any) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webui/login", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Login(w, r)
		must(t, json.Unmarshal(w.Body.Bytes(), &out))
		return out
	}
	for _, c := range []struct{ action, state string }{{"device.deny", "denied"}, {"device.approve", "in"}} {
		asked := login(`{"device":true}`)
		digits, _ := asked["digits"].(string)
		if code, body := get(t, d, "/api/devices"); code != 200 || !strings.Contains(body, digits) {
			t.Errorf("devices = %d %s", code, body)
		}
		if _, status := do(t, d, c.action, `{"digits":"`+digits+`"}`); status != 200 {
			t.Errorf("%s = %d", c.action, status)
		}
		if _, status := do(t, d, "device.approve", `{"digits":"`+digits+`"}`); status != 404 {
			t.Errorf("a second answer = %d", status)
		}
		if got := login(`{"poll":"` + asked["poll"].(string) + `"}`); got["state"] != c.state {
			t.Errorf("%s: %v", c.action, got)
		}
	}
	var list struct{ Devices []auth.Device }
	_, body := get(t, d, "/api/devices")
	must(t, json.Unmarshal([]byte(body), &list))
	if len(list.Devices) != 1 || strings.Contains(body, "hash") {
		t.Fatalf("devices: %s", body)
	}
	if _, status := do(t, d, "device.revoke", `{"id":"`+list.Devices[0].ID+`"}`); status != 200 {
		t.Errorf("revoke = %d", status)
	}
	if _, status := do(t, d, "device.revoke", `{"id":"`+list.Devices[0].ID+`"}`); status != 404 {
		t.Errorf("revoke again = %d", status)
	}
	if changed != 6 { // two requests, two answers, one sign-in, one sign-out
		t.Errorf("%d changes were told", changed)
	}

	for base, want := range map[string]int{
		"http://127.0.0.1:1/": 409, "http://localhost/": 409, "http://[::1]/": 409, "javascript:alert(1)": 400, "": 400, "http://a:b@c/": 400, "http://192.168.1.5:18790/a/": 200,
	} {
		if msg, status := do(t, d, "device.link", `{"base":"`+base+`"}`); status != want {
			t.Errorf("link for %s = %d %s", base, status, msg)
		}
	}
	public = "https://bot.example/agent/"
	out, _ := do(t, d, "device.link", `{"base":"http://127.0.0.1/"}`)
	var link struct{ Link, Image string }
	must(t, json.Unmarshal([]byte(out), &link))
	code, ok := strings.CutPrefix(link.Link, "https://bot.example/agent/#/in/")
	if !ok || !strings.HasPrefix(link.Image, "data:image/png;base64,") {
		t.Fatalf("link: %s", out)
	}
	if got := login(`{"code":"` + code + `"}`); got["state"] != "in" {
		t.Errorf("the link: %v", got)
	}
}
