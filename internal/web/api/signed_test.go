package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/api"
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
		o.Nonces = api.NewNonces(disk.Open(t.TempDir(), nil), "run/nonces")
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
		{"sent twice", "trg_A", ours(at(0), body), body, 409},
		{"sent twice, in capitals", "trg_A", "X-Nanobot-Signature: t=" + at(0) + ",sha256=" + strings.ToUpper(strings.TrimPrefix(mac("key of trg_A", at(0)+"."+body), "sha256=")), body, 409},
		{"sent twice, the time with a zero", "trg_A", "X-Nanobot-Signature: t=0" + at(0) + "," + mac("key of trg_A", at(0)+"."+body), body, 409},
		{"of a forge", "trg_A", "X-Hub-Signature-256: " + mac("key of trg_A", forge), forge, 202},
		{"of a forge, twice", "trg_A", "X-Hub-Signature-256: " + mac("key of trg_A", forge), forge, 409},
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

// What was taken stays taken: by another process, after a restart, and after a
// crash in the middle of a line; at once by many it is taken by one.
func TestNonces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "run", "nonces")
	open := func() *api.Nonces { return api.NewNonces(disk.Open(dir, nil), "run/nonces") }
	now := time.Unix(1700000000, 0)
	take := func(n *api.Nonces, name string, at time.Time) bool {
		t.Helper()
		fresh, err := n.Take(t.Context(), name, now.Add(5*time.Minute), at)
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}
	one, two := open(), open()
	if !take(one, "a", now) || take(two, "a", now) || !take(two, "b", now) || take(one, "b", now) {
		t.Error("two processes do not share what they saw")
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("17000")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	three := open()
	if !take(three, "c", now) || take(open(), "c", now) || take(three, "a", now) {
		t.Error("a torn line costs more than itself")
	}
	if !take(one, "a", now.Add(6*time.Minute)) {
		t.Error("a nonce is kept for longer than it is needed")
	}

	var wins atomic.Int32
	var work sync.WaitGroup
	for range 16 {
		work.Go(func() {
			if fresh, err := open().Take(t.Context(), "race", now.Add(time.Minute), now); err == nil && fresh {
				wins.Add(1)
			}
		})
	}
	if work.Wait(); wins.Load() != 1 {
		t.Errorf("%d of 16 took one nonce", wins.Load())
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if fresh, err := one.Take(t.Context(), "d", now, now); err == nil || fresh {
		t.Error("a nonce that cannot be kept was taken")
	}
}
