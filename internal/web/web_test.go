package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web"
)

// newAPI makes an API that keeps its files in a folder of its own.
func newAPI(t *testing.T, change func(*web.Options), more ...web.Subject) *web.Desk {
	t.Helper()
	o := web.Options{
		Backend: func(context.Context) (web.Backend, error) {
			return web.Backend{}, errors.New("there is no backend")
		},
		Store: disk.Open(t.TempDir(), nil), Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	d, err := web.NewDesk(o.Log, append(more, web.New(o))...)
	must(t, err)
	return d
}

// get reads a path and returns the status and the body.
func get(t *testing.T, d *web.Desk, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, strings.TrimSpace(string(body))
}

// do carries out an action and returns the result, or the status of the refusal.
func do(t *testing.T, d *web.Desk, action, payload string) (string, int) {
	t.Helper()
	out, err := d.Do(t.Context(), action, json.RawMessage(payload))
	if err == nil {
		return string(out), http.StatusOK
	}
	e, ok := errors.AsType[*web.Error](err)
	if !ok {
		t.Fatalf("%s: %v is not a *web.Error", action, err)
	}
	return e.Message, e.Status
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	d := newAPI(t, nil)
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/api/nothing", 404},
		{"GET", "/api/", 404},
		{"POST", "/api/webui/sidebar-state", 405},
		{"DELETE", "/api/nothing", 405},
	} {
		if got, body := get(t, d, c.method, c.path); got != c.want || !json.Valid([]byte(body)) {
			t.Errorf("%s %s = %d %s, want %d and JSON", c.method, c.path, got, body, c.want)
		}
	}
	if _, status := do(t, d, "no.such", `{}`); status != 404 {
		t.Errorf("unknown action = %d, want 404", status)
	}
}

func TestSidebar(t *testing.T) {
	t.Parallel()
	d := newAPI(t, nil)
	if code, body := get(t, d, "GET", "/api/webui/sidebar-state"); code != 200 || body != "{}" {
		t.Fatalf("first = %d %s", code, body)
	}
	for _, bad := range []string{``, `{"state":[]}`, `{"state":null}`, `{"stat":{}}`, `[]`, `{"state":{"a":"` + strings.Repeat("x", 300<<10) + `"}}`} {
		if msg, status := do(t, d, "sidebar.update", bad); status != 400 && status != 413 {
			t.Errorf("%.40s: %d %s", bad, status, msg)
		}
	}
	for bad, want := range map[string]string{
		`[]`: "it cannot be of type array", `{"stat":{}}`: `unknown field "stat"`, `{"state":`: "unexpected EOF",
	} {
		if msg, _ := do(t, d, "sidebar.update", bad); msg != "the payload does not fit: "+want {
			t.Errorf("%s: %s", bad, msg)
		}
	}
	if out, status := do(t, d, "sidebar.update", `{"state":{"pinned":["websocket:a"]}}`); status != 200 || out != `{"pinned":["websocket:a"]}` {
		t.Fatalf("update = %d %s", status, out)
	}
	if code, body := get(t, d, "GET", "/api/webui/sidebar-state"); code != 200 || body != `{"pinned":["websocket:a"]}` {
		t.Errorf("then = %d %s", code, body)
	}
}

// A desk answers for all its subjects, and does not tell clients why something failed.
func TestSubjects(t *testing.T) {
	t.Parallel()
	d := newAPI(t, nil, web.Routes{
		Reads:   map[string]web.Read{"settings": func(context.Context, *http.Request) (any, error) { return map[string]int{"a": 1}, nil }},
		Actions: map[string]web.Action{"broken": func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("secret detail") }},
	})
	if code, body := get(t, d, "GET", "/api/settings"); code != 200 || body != `{"a":1}` {
		t.Errorf("settings = %d %s", code, body)
	}
	if msg, status := do(t, d, "broken", ""); status != 500 || strings.Contains(msg, "secret") {
		t.Errorf("broken = %d %q", status, msg)
	}
}

// A subject cannot take the place of another one.
func TestNameTwice(t *testing.T) {
	t.Parallel()
	one := web.Routes{
		Reads:   map[string]web.Read{"settings": func(context.Context, *http.Request) (any, error) { return nil, nil }},
		Actions: map[string]web.Action{"settings.update": func(context.Context, json.RawMessage) (any, error) { return nil, nil }},
	}
	for name, other := range map[string]web.Routes{
		`the read "settings"`:          {Reads: one.Reads},
		`the action "settings.update"`: {Actions: one.Actions},
	} {
		if _, err := web.NewDesk(slog.New(slog.DiscardHandler), one, other); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s twice: %v", name, err)
		}
	}
}
