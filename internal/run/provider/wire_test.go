package provider

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

// refusing is a server that keeps requests, and refuses them while they hold a word.
type refusing struct {
	word, error string
	requests    []*http.Request
	bodies      []string
}

func (s *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	status, answer := http.StatusInternalServerError, "{}"
	if s.word != "" && strings.Contains(string(body), s.word) {
		status, answer = http.StatusBadRequest, `{"type":"error","error":{"type":"invalid_request_error","message":`+string(text.AppendJSON(nil, s.error))+`}}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

func spoken(t *testing.T, w catalog.Wire, settings, model, effort string, s *refusing) {
	t.Helper()
	m := modelsOf(t, `{"providers":{"p":`+settings+`}}`)
	p := m.loaded.Config.Providers["p"]
	p.Region = "us-east-1"
	c := catalog.Choice{Name: "p", Base: "https://example.com/v1", Key: httpsafe.NewSecret("key-of-a-test")}
	c.Row.Caching = true
	driver, err := m.speak(w, c, wireOptions{provider: p, client: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	warm := 0.5
	_, err = llm.Collect(t.Context(), driver, llm.Request{
		Model: model, System: "sys", MaxTokens: 100, Effort: effort, Temperature: &warm, Messages: []llm.Message{{Role: llm.User, Content: llm.Text("hi")}},
	})
	if err == nil {
		t.Fatal("the server answers nothing")
	}
}

// TestExtrasOnEveryWire: what a user adds to requests arrives, whatever the protocol.
func TestExtrasOnEveryWire(t *testing.T) {
	t.Parallel()
	const settings = `{"extraBody":{"service_tier":"flex","metadata":{"user_id":"u"}},"extraQuery":{"api-version":"7"},"extraHeaders":{"X-Team":"blue"}}`
	for _, w := range []catalog.Wire{catalog.ChatWire, catalog.ResponsesWire, catalog.AnthropicWire, catalog.BedrockWire} {
		s := &refusing{}
		spoken(t, w, settings, "claude-sonnet-4-6", "", s)
		if len(s.requests) == 0 {
			t.Fatalf("%s: nothing was sent", w)
		}
		r := s.requests[0]
		if got := r.URL.Query().Get("api-version"); got != "7" {
			t.Errorf("%s: the query is %q", w, r.URL.RawQuery)
		}
		if r.Header.Get("X-Team") != "blue" {
			t.Errorf("%s: the headers are %v", w, r.Header)
		}
		var body bytes.Buffer
		if err := json.Compact(&body, []byte(s.bodies[0])); err != nil {
			t.Errorf("%s: %v in %s", w, err, s.bodies[0])
		}
		for _, part := range []string{`"service_tier":"flex"`, `"metadata":{"user_id":"u"}`} {
			if !strings.Contains(body.String(), part) {
				t.Errorf("%s: no %s in %s", w, part, body.String())
			}
		}
	}
}

func TestBetasAndCacheTTL(t *testing.T) {
	t.Parallel()
	const settings = `{"claude":{"betas":["one-2026","two-2026"],"cacheTtl":"1h"}}`
	for _, w := range []catalog.Wire{catalog.ChatWire, catalog.AnthropicWire, catalog.BedrockWire} {
		s := &refusing{}
		spoken(t, w, settings, "anthropic/claude-sonnet-4-6", "", s)
		sent := strings.Join(s.requests[0].Header["Anthropic-Beta"], "") + s.bodies[0]
		for _, want := range []string{"one-2026", "two-2026", `"ttl":"1h"`} {
			if !strings.Contains(sent, want) {
				t.Errorf("%s: no %s in %s", w, want, sent)
			}
		}
	}
}

// TestRefusedFieldsOfClaude: a 400 that names a field we have added is answered with
// a request without it, once.
func TestRefusedFieldsOfClaude(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ model, effort, word, error string }{
		"temperature":   {"claude-sonnet-4-6", "", `"temperature"`, "temperature: Extra inputs are not permitted"},
		"effort":        {"claude-opus-4-7", "high", `"output_config"`, "output_config.effort: Extra inputs are not permitted"},
		"thinking":      {"some-other-model", "high", `"thinking"`, "thinking is not supported on this model"},
		"cache":         {"claude-sonnet-4-6", "", `"cache_control"`, "system.0.cache_control: Extra inputs are not permitted"},
		"life of cache": {"claude-sonnet-4-6", "", `"ttl"`, "system.0.cache_control.ttl: Extra inputs are not permitted"},
		"stream":        {"claude-sonnet-4-6", "", `"stream"`, "stream: Extra inputs are not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &refusing{word: c.word, error: c.error}
			spoken(t, catalog.AnthropicWire, `{"claude":{"cacheTtl":"1h"}}`, c.model, c.effort, s)
			if len(s.bodies) != 2 || !strings.Contains(s.bodies[0], c.word) || strings.Contains(s.bodies[1], c.word) {
				t.Errorf("sent %d requests: %s", len(s.bodies), strings.Join(s.bodies, "\n"))
			}
		})
	}

	s := &refusing{word: `"temperature"`, error: "temperature: Extra inputs are not permitted"}
	spoken(t, catalog.AnthropicWire, `{"extraBody":{"temperature":1}}`, "claude-sonnet-4-6", "", s)
	if len(s.bodies) != 2 {
		t.Errorf("a field of the user's own was negotiated %d times", len(s.bodies)-1)
	}
}
