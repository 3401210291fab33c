package provider

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// mute is a server that takes a request and never answers, or says one thing
// and then falls silent.
type mute struct{ word string }

func (m mute) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.word == "" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	pr, pw := io.Pipe()
	ctx := r.Context()
	go func() {
		if _, err := io.WriteString(pw, m.word); err == nil {
			<-ctx.Done()
		}
		pw.CloseWithError(ctx.Err())
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: pr, Request: r}, nil
}

func modelsOf(t *testing.T, text string) *Models {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(config.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	return &Models{loaded: l, log: slog.New(slog.DiscardHandler), getenv: func(string) string { return "" }}
}

// TestSilenceOnEveryWire gives each protocol a server that says nothing, or
// nothing after the first byte, and measures when the driver gives up.
func TestSilenceOnEveryWire(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour // the patience of the test
	for name, c := range map[string]struct {
		text        string
		first, idle time.Duration
	}{
		"defaults":            {`{}`, 120 * time.Second, 90 * time.Second},
		"no limit":            {`{"agents":{"defaults":{"limits":{"streamIdleTimeoutS":0}}}}`, day, day},
		"no limit at first":   {`{"agents":{"defaults":{"limits":{"firstByteTimeoutS":0}}}}`, day, 90 * time.Second},
		"longer silence":      {`{"agents":{"defaults":{"limits":{"streamIdleTimeoutS":400}}}}`, 400 * time.Second, 400 * time.Second},
		"first byte":          {`{"agents":{"defaults":{"limits":{"firstByteTimeoutS":7}}}}`, 7 * time.Second, 90 * time.Second},
		"first byte of one":   {`{"providers":{"p":{"firstByteTimeoutS":8,"streamIdleTimeoutS":3}}}`, 8 * time.Second, 3 * time.Second},
		"no limit at the end": {`{"agents":{"defaults":{"limits":{"firstByteTimeoutS":7,"streamIdleTimeoutS":0}}}}`, 7 * time.Second, day},
	} {
		for _, w := range []catalog.Wire{catalog.ChatWire, catalog.ResponsesWire, catalog.AnthropicWire, catalog.BedrockWire} {
			t.Run(name+" "+string(w), func(t *testing.T) {
				t.Parallel()
				m := modelsOf(t, c.text)
				p := m.loaded.Config.Providers["p"]
				p.Region = "us-east-1"
				for word, want := range map[string]time.Duration{"": c.first, ": hi\n": c.idle} {
					synctest.Test(t, func(t *testing.T) {
						first, idle := m.silence(p)
						model, err := m.speak(w, catalog.Choice{Name: "p", Base: "https://example.com/v1", Key: httpsafe.NewSecret("key-of-a-test")}, wireOptions{
							provider: p, client: &http.Client{Transport: mute{word}}, first: first, idle: idle,
						})
						if err != nil {
							t.Fatal(err)
						}

						ctx, cancel := context.WithTimeout(t.Context(), day)
						defer cancel()
						begin := time.Now()
						_, err = llm.Collect(ctx, model, llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.User, Content: llm.Content{Text: "hi"}}}})
						if took := time.Since(begin); took != want {
							t.Errorf("after %q: %v passed, want %v (%v)", word, took, want, err)
						}
						if e, ok := errors.AsType[*llm.Error](err); want != day && (!ok || e.Kind != llm.Timeout) {
							t.Errorf("after %q: %v, want a timeout", word, err)
						}
					})
				}
			})
		}
	}
}
