package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/api"
)

func mac(key, text string) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(h, text)
	return "sha256=" + hex.EncodeToString(h.Sum(nil))
}

// A program that has no key of the API but that of one trigger signs what it
// sends, in our form or in that of code forges.
func TestSignedTrigger(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	var now time.Time
	h := open(t, says(), func(o *api.Options) {
		withTriggers(&mu, &got)(o)
		o.TriggerKey = func(id string) []byte { return []byte("key of " + id) }
		now = o.Now()
	})
	at := func(d time.Duration) string { return fmt.Sprint(now.Add(d).Unix()) }
	const body, forge = `{"message":"it failed"}`, `{"action":"opened","issue":{"title":"x"}}`
	ours := func(stamp, signed string) string {
		return "X-Nanobot-Signature: t=" + stamp + "," + mac("key of trg_A", stamp+"."+signed)
	}
	for _, tt := range []struct {
		name, id, header, body string
		want                   int
	}{
		{"ours", "trg_A", ours(at(0), body), body, 202},
		{"a clock that is wrong", "trg_A", ours(at(-4*time.Minute), body), body, 202},
		{"sent again later", "trg_A", ours(at(-6*time.Minute), body), body, 401},
		{"from the future", "trg_A", ours(at(6*time.Minute), body), body, 401},
		{"another time", "trg_A", "X-Nanobot-Signature: t=" + at(time.Second) + "," + mac("key of trg_A", at(0)+"."+body), body, 401},
		{"of a forge", "trg_A", "X-Hub-Signature-256: " + mac("key of trg_A", forge), forge, 202},
		{"other words", "trg_A", "X-Hub-Signature-256: " + mac("key of trg_A", forge), body, 401},
		{"another trigger", "trg_A", "X-Hub-Signature-256: " + mac("key of trg_B", forge), forge, 401},
		{"no hex", "trg_A", "X-Hub-Signature-256: sha256=zz", forge, 401},
		{"no kind", "trg_A", "X-Hub-Signature-256: " + strings.TrimPrefix(mac("key of trg_A", forge), "sha256="), forge, 401},
		{"unknown", "trg_B", "X-Hub-Signature-256: " + mac("key of trg_B", forge), forge, 404},
		{"empty", "trg_A", "X-Hub-Signature-256: " + mac("key of trg_A", " "), " ", 400},
		{"large", "trg_A", "X-Hub-Signature-256: " + mac("key of trg_A", ""), strings.Repeat("x", 600<<10), 413},
		{"not signed", "trg_A", "X-Other: 1", body, 401},
	} {
		name, value, _ := strings.Cut(tt.header, ": ")
		headers := []string{name, value, "Host", "hooks.example.org"} // what a proxy in front of us was called by
		if tt.name == "not signed" {
			headers = []string{"Content-Type", "application/json"} // this one is refused for its key
		}
		status, _, text := h.send(t, http.MethodPost, "/v1/triggers/"+tt.id, tt.body, headers...)
		if status != tt.want {
			t.Errorf("%s: %d, want %d: %s", tt.name, status, tt.want, text)
		}
	}
	want := []string{"untrusted it failed", "untrusted it failed", "untrusted " + forge}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
