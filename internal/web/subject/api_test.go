package subject_test

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

	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// newAPI makes an API that keeps its files in a folder of its own.
func newAPI(t *testing.T, change func(*subject.Options), more ...web.Subject) *web.Desk {
	t.Helper()
	o := subject.Options{
		Backend: func(context.Context) (subject.Backend, error) {
			return subject.Backend{}, errors.New("there is no backend")
		},
		Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	d, err := web.NewDesk(o.Log, append(more, subject.New(o))...)
	must(t, err)
	return d
}

// get reads a path and returns the status and the body.
func get(t *testing.T, d *web.Desk, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
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

// A refusal names itself and its values, over HTTP and as an error.
func TestRefusalDetail(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	code, body := get(t, h.Desk, "/api/sessions?limit="+strings.Repeat("é", 2000))
	var got struct {
		Error struct {
			Status        int
			Code, Message string
			Params        map[string]any
		}
	}
	must(t, json.Unmarshal([]byte(body), &got))
	value, _ := got.Error.Params["value"].(string)
	if code != 400 || got.Error.Status != 400 || got.Error.Code != "not_a_number" || got.Error.Params["field"] != "limit" || len(value) != 1000 {
		t.Errorf("refusal = %d %.300s", code, body)
	}
	if _, body := get(t, h.Desk, "/api/sessions/websocket:none/webui-thread"); !strings.Contains(body, `"code":"session_missing"`) {
		t.Errorf("no such conversation: %s", body)
	}
}
