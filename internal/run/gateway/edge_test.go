package gateway_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// models asks for the list of models with a key and returns the status.
func models(t *testing.T, h http.Handler, key string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/v1/models", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// The API can be switched off, and health goes on answering.
func TestNoAPI(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	const key = "a-key-of-the-api-4c19"
	h.configure(strings.Replace(withKey(key), `"port": 0`, `"port": 0, "api": false`, 1))
	h.start()
	<-h.party.joined
	handler := h.g.Handler()
	if got := models(t, handler, key); got != http.StatusNotFound {
		t.Errorf("status %d without the API, want 404", got)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/livez", nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d of /livez", w.Code)
	}
	h.configure(withKey(key))
	h.must(h.g.Reload(t.Context()))
	if got := models(t, handler, key); got != http.StatusOK {
		t.Errorf("status %d with it", got)
	}
	h.must(h.end())
}

func withKey(key string) string {
	return strings.Replace(partyConfig, `{"agents"`, `{"api": {"apiKey": "`+key+`"}, "agents"`, 1)
}

// A key that was taken out of the configuration opens nothing any more, and
// what is new in it does not get into the log.
func TestKeysFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	const first, second = "first-key-8d1f7e0a", "second-key-5c92b3d4"
	h := newHost(t, echo(t))
	h.configure(withKey(first))
	var log lockedText
	o := h.options()
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	h.startWith(o)
	<-h.party.joined
	api := h.g.Handler()
	if got := models(t, api, first); got != http.StatusOK {
		t.Fatalf("status %d with the first key", got)
	}
	h.configure(withKey(second))
	h.must(h.g.Reload(t.Context()))
	if got := models(t, api, first); got != http.StatusUnauthorized {
		t.Errorf("status %d with the key that is gone", got)
	}
	if got := models(t, api, second); got != http.StatusOK {
		t.Errorf("status %d with the new key", got)
	}
	const third = "third-key-77aa01bc"
	h.configure(strings.Replace(withKey(second), `"allowFrom"`, `"nosuch-`+third+`": 1, "token": "`+third+`", "allowFrom"`, 1))
	h.must(h.g.Reload(t.Context()))
	h.must(h.end())
	if said := log.String(); !strings.Contains(said, "nosuch-") || strings.Contains(said, third) {
		t.Errorf("log: %s", said)
	}
}

// Where others can reach us a key must be hard to guess.
func TestWeakKeyOffLoopback(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{"abc": http.StatusNotFound, "": http.StatusNotFound, "long-enough-1b7d90fe": http.StatusOK} {
		h := newHost(t, echo(t))
		h.configure(withKey(key))
		o := h.options()
		o.Listen = "0.0.0.0:0"
		g, err := gateway.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := models(t, g.Handler(), key); got != want {
			t.Errorf("key %q: status %d, want %d", key, got, want)
		}
		h.must(g.Close())
	}
}

// lockedText is a log that several goroutines write.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startWith is start with other options.
func (h *host) startWith(o gateway.Options) {
	h.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	g, err := gateway.New(ctx, o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.g, h.stop, h.done = g, stop, make(chan error, 1)
	up := make(chan struct{})
	go func() { h.done <- g.Run(ctx, func() { close(up) }) }()
	<-up
	h.t.Cleanup(func() { h.stop() })
}

// A configuration file that is a link is read again when what it leads to
// changes, or when it leads elsewhere, as in a cluster.
func TestLinkedConfiguration(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	elsewhere := t.TempDir()
	const first, second, third = "first-key-8d1f7e0a", "second-key-5c92b3d4", "third-key-77aa01bc"
	put := func(name, key string) string {
		path := filepath.Join(elsewhere, name)
		h.must(os.MkdirAll(filepath.Dir(path), 0o700))
		h.must(os.WriteFile(path, []byte(withKey(key)), 0o600))
		return path
	}
	link := filepath.Join(h.dir, "config.json")
	h.must(os.Remove(link))
	if err := os.Symlink(put("a/nanobot.json", first), link); err != nil {
		t.Skip("no links here")
	}
	h.start()
	<-h.party.joined
	h.uses(first)
	for _, key := range []string{second, first, second} { // the first may be seen because watching begins
		put("a/nanobot.json", key)
		h.uses(key)
	}
	h.must(os.Symlink(put("b/nanobot.json", third), link+".new"))
	h.must(os.Rename(link+".new", link))
	h.uses(third)
	h.must(h.end())
}

// A configuration that is changed while the gateway starts is not missed.
func TestChangeDuringStart(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	const first, second = "first-key-8d1f7e0a", "second-key-5c92b3d4"
	h.configure(withKey(first))
	ctx, stop := context.WithCancel(t.Context())
	g, err := gateway.New(ctx, h.options())
	h.must(err)
	h.g, h.stop, h.done = g, stop, make(chan error, 1)
	h.configure(withKey(second))
	go func() { h.done <- g.Run(ctx, nil) }()
	h.uses(second)
	h.must(h.end())
}

// A file that is emptied before it is written is no configuration.
func TestConfigurationBeingWritten(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	const first, second = "first-key-8d1f7e0a", "second-key-5c92b3d4"
	h.configure(withKey(first))
	log, o := &lockedText{}, h.options()
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.startWith(o)
	h.uses(first)
	for i, away := range []func(){func() { h.configure("") }, func() { h.must(os.Remove(filepath.Join(h.dir, "config.json"))) }} {
		away()
		for strings.Count(log.String(), "just being written") <= i {
			<-time.After(time.Millisecond)
		}
		if got := models(t, h.g.Handler(), first); got != http.StatusOK {
			t.Errorf("status %d with the key of the file that is not there", got)
		}
	}
	h.configure(withKey(second))
	h.uses(second)
	h.must(h.end())
}

// uses waits until a key of the API is in use.
func (h *host) uses(key string) {
	h.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Minute); models(h.t, h.g.Handler(), key) != http.StatusOK; {
		select {
		case <-tick.C:
		case <-end:
			h.t.Fatalf("%s is not in use", key)
		}
	}
}
