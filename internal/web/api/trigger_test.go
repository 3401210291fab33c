package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

var errNone, errOff, errLong, errDisk = errors.New("none"), errors.New("off"), errors.New("long"), errors.New("disk full at /secret/place")

// withTriggers serves one trigger and remembers what came for it.
func withTriggers(mu *sync.Mutex, got *[]string) func(*api.Options) {
	return func(o *api.Options) {
		o.Token = httpsafe.NewSecret("0123456789abcdef")
		o.Fault = func(err error) (int, string) {
			switch {
			case errors.Is(err, errNone):
				return http.StatusNotFound, "There is none."
			case errors.Is(err, errOff):
				return http.StatusConflict, "It is off."
			case errors.Is(err, errLong):
				return http.StatusRequestEntityTooLarge, "It is long."
			}
			return 0, ""
		}
		o.Trigger = func(_ context.Context, id, message string, untrusted bool) (string, error) {
			fails := map[string]error{"off": errOff, "long": errLong, "disk": errDisk, "trg_A": nil}
			err, known := fails[id]
			if !known {
				return "", errNone
			}
			if err != nil {
				return "", err
			}
			mu.Lock()
			defer mu.Unlock()
			word := "trusted"
			if untrusted {
				word = "untrusted"
			}
			*got = append(*got, word+" "+message)
			return "tdl_1", nil
		}
	}
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	h := open(t, says(), withTriggers(&mu, &got))
	const key = "Bearer 0123456789abcdef"
	for _, tt := range []struct {
		name, method, path, body, key string
		want                          int
		code                          string
	}{
		{"taken", "POST", "/v1/triggers/trg_A", `{"message":"it failed"}`, key, 202, ""},
		{"own words", "POST", "/v1/triggers/trg_A", `{"message":"mine","untrusted":false}`, key, 202, ""},
		{"no key", "POST", "/v1/triggers/trg_A", `{"message":"x"}`, "", 401, "invalid_api_key"},
		{"wrong key", "POST", "/v1/triggers/trg_A", `{"message":"x"}`, "Bearer 0123456789abcdeg", 401, "invalid_api_key"},
		{"unknown", "POST", "/v1/triggers/trg_B", `{"message":"x"}`, key, 404, "trigger_not_found"},
		{"no id", "POST", "/v1/triggers/", `{"message":"x"}`, key, 404, "unknown_url"},
		{"deeper", "POST", "/v1/triggers/trg_A/x", `{"message":"x"}`, key, 404, "unknown_url"},
		{"method", "GET", "/v1/triggers/trg_A", "", key, 404, "unknown_url"},
		{"off", "POST", "/v1/triggers/off", `{"message":"x"}`, key, 409, "trigger_disabled"},
		{"long", "POST", "/v1/triggers/long", `{"message":"x"}`, key, 413, "request_too_large"},
		{"huge", "POST", "/v1/triggers/trg_A", `{"message":"` + strings.Repeat("x", 3<<20) + `"}`, key, 413, "request_too_large"},
		{"disk", "POST", "/v1/triggers/disk", `{"message":"x"}`, key, 500, "internal_error"},
		{"empty", "POST", "/v1/triggers/trg_A", `{"message":" \n"}`, key, 400, "invalid_request"},
		{"no message", "POST", "/v1/triggers/trg_A", `{"text":"x"}`, key, 400, "invalid_request"},
		{"no text", "POST", "/v1/triggers/trg_A", `{"message":7}`, key, 400, "invalid_request"},
		{"broken", "POST", "/v1/triggers/trg_A", `{"message":`, key, 400, "invalid_request"},
		{"no object", "POST", "/v1/triggers/trg_A", `"x"`, key, 400, "invalid_request"},
	} {
		status, _, body := h.send(t, tt.method, tt.path, tt.body, "Content-Type", "application/json", "Authorization", tt.key)
		if status != tt.want {
			t.Errorf("%s: status %d, want %d: %.200s", tt.name, status, tt.want, body)
		}
		if status == http.StatusAccepted {
			if diff := cmp.Diff(map[string]any{"id": "tdl_1", "object": "trigger.delivery", "trigger": "trg_A"}, parse(t, body)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
			continue
		}
		fault, _ := parse(t, body)["error"].(map[string]any)
		if fault["code"] != tt.code || strings.Contains(body, "/secret/place") {
			t.Errorf("%s: code %v, want %s: %s", tt.name, fault["code"], tt.code, body)
		}
	}
	if status, _, body := h.send(t, "POST", "/v1/triggers/trg_A", "x", "Content-Type", "text/plain", "Authorization", key); status != http.StatusUnsupportedMediaType {
		t.Errorf("text: %d %s", status, body)
	}
	if status, _, body := h.post(t, "/v1/triggers/trg_A", `{"message":"x"}`, "Authorization", key, "Origin", "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("a page: %d %s", status, body)
	}
	if diff := cmp.Diff([]string{"untrusted it failed", "trusted mine"}, got); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}

// Where there are no triggers, there is no such path.
func TestNoTriggers(t *testing.T) {
	t.Parallel()
	h := open(t, says())
	if status, _, body := h.post(t, "/v1/triggers/trg_A", `{"message":"x"}`); status != http.StatusNotFound || !strings.Contains(body, "unknown_url") {
		t.Errorf("%d %s", status, body)
	}
}
