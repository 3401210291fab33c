package app_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

const fine = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"fine\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// What a provider can do wrong gives one short message that names it, says
// what happened and what to try; the message of the user is kept and the
// session goes on.
func TestProviderTrouble(t *testing.T) {
	t.Parallel()
	status := func(code int, typ, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typ)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    []string // parts of the text, lower case
	}{
		{"wrong key", status(401, "application/json", `{"error":{"message":"Incorrect API key provided: sk-abcdefghijklmnop","code":"invalid_api_key"}}`), []string{"work", "rejected the api key", "config explain"}},
		{"wrong model", status(404, "application/json", `{"error":{"message":"The model m does not exist","code":"model_not_found"}}`), []string{"work", "work/m", "--model"}},
		{"no credit", status(402, "application/json", `{"error":{"message":"Insufficient balance"}}`), []string{"work", "credit", "--model"}},
		{"wrong address", status(404, "text/html", "<html><body><h1>Not Found</h1></body></html>"), []string{"work"}},
		{"proxy login page", status(200, "text/html", "<html><title>Sign in to the network</title></html>"), []string{"work", "continue"}},
		{"empty body", status(200, "application/json", ""), []string{"work"}},
		{"error in a good answer", status(200, "application/json", `{"error":{"code":402,"message":"out of credits"}}`), []string{"work", "credit"}},
		{"filter", status(400, "application/json", `{"error":{"message":"blocked by policy","code":"content_filter"}}`), []string{"filter"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			trouble := true
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if trouble {
					c.handler(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, fine)
			}))
			t.Cleanup(srv.Close)
			first, second := converse(t, srv.URL, func() { trouble = false })
			low := strings.ToLower(first)
			for _, part := range c.want {
				if !strings.Contains(low, part) {
					t.Errorf("%q does not contain %q", first, part)
				}
			}
			for _, secret := range []string{"sk-abcdefghijklmnop", "test-key", "<html", "goroutine"} {
				if strings.Contains(first, secret) {
					t.Errorf("%q shows %q", first, secret)
				}
			}
			if len(first) > 700 || strings.Count(first, "\n") > 4 {
				t.Errorf("not short: %q", first)
			}
			if second != "fine" {
				t.Errorf("afterwards the session answers %q", second)
			}
		})
	}
}

// Answers that break off are asked for again; what was cut never counts as one.
func TestBrokenTransferIsRetried(t *testing.T) {
	t.Parallel()
	for name, breakOff := range map[string]http.HandlerFunc{
		"truncated gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			var b strings.Builder
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, fine)
			_ = z.Close()
			_, _ = io.WriteString(w, b.String()[:b.Len()/2])
		},
		"closed early": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half an\"}}]}\n\n")
		},
		"stalled": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"slow\"}}]}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls++; calls == 1 {
					breakOff(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, fine)
			}))
			t.Cleanup(srv.Close)
			first, second := converse(t, srv.URL, func() {})
			if first != "fine" || second != "fine" {
				t.Errorf("answers %q and %q", first, second)
			}
		})
	}
}

// converse asks twice in one session and returns both final texts.
func converse(t *testing.T, url string, between func()) (first, second string) {
	t.Helper()
	a, err := open(t, fmt.Sprintf(`{"agents":{"defaults":{"model":"work/m","provider":"work","limits":{"streamIdleTimeoutS":1}}},
		"providers":{"work":{"apiBase":%q,"apiKey":"test-key"}}}`, url+"/v1"))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	first = final(t, a, "first question")
	between()
	return first, final(t, a, "second question")
}

func final(t *testing.T, a *app.App, text string) string {
	t.Helper()
	return finalOf(t, a, text).Text
}

// finalOf is the answer with all that comes with it.
func finalOf(t *testing.T, a *app.App, text string) bus.Outbound {
	t.Helper()
	for out, err := range a.Agent.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "test", ChatID: "1"}, Text: text, WantsStream: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if out.Kind == bus.Final {
			return out
		}
	}
	t.Fatal("no answer")
	return bus.Outbound{}
}

// serve runs the agent until the test is over.
func serve(t *testing.T, a *app.App) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a.Agent.Open(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; _ = a.Close() })
}
