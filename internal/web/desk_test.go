package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/web"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func newDesk(t *testing.T, subjects ...web.Subject) *web.Desk {
	t.Helper()
	d, err := web.NewDesk(slog.New(slog.DiscardHandler), subjects...)
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
	out, _, err := d.Do(t.Context(), action, json.RawMessage(payload))
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
	d := newDesk(t)
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/api/nothing", 404},
		{"GET", "/api/", 404},
		{"POST", "/api/settings", 405},
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

// A desk answers for all its subjects, and does not tell clients why something failed.
func TestSubjects(t *testing.T) {
	t.Parallel()
	d := newDesk(t, web.Routes{
		Reads:   map[string]web.Read{"settings": func(context.Context, *http.Request) (any, error) { return map[string]int{"a": 1}, nil }},
		Actions: map[string]web.Action{"broken": web.Changing(func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("secret detail") })},
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
		Actions: map[string]web.Action{"settings.update": web.Changing(func(context.Context, json.RawMessage) (any, error) { return nil, nil })},
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

// An action says which topics it changed, unless it failed.
func TestChanged(t *testing.T) {
	t.Parallel()
	var failure error
	d := newDesk(t, web.Routes{Actions: map[string]web.Action{
		"job.run":     web.Changing(func(context.Context, json.RawMessage) (any, error) { return 7, failure }, web.TopicAutomations, web.TopicSessions),
		"job.preview": web.Changing(func(context.Context, json.RawMessage) (any, error) { return 8, nil }),
		"job.odd":     web.Changing(func(context.Context, json.RawMessage) (any, error) { return func() {}, nil }, web.TopicAutomations), // not JSON
	}})
	changed := func(action string) []string {
		_, topics, _ := d.Do(t.Context(), action, nil)
		return topics
	}
	if got := changed("job.run"); !slices.Equal(got, []string{"automations", "sessions"}) {
		t.Errorf("an action with two topics changes %v", got)
	}
	if got := changed("job.preview"); len(got) > 0 {
		t.Errorf("an action without topics changes %v", got)
	}
	failure = errors.New("no")
	for _, action := range []string{"job.run", "job.odd", "job.unknown"} {
		if got := changed(action); len(got) > 0 {
			t.Errorf("%s failed and changes %v", action, got)
		}
	}
}
