package api_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// TestHealthHangs: a check that hangs is an answer, soon, and does not pile up.
func TestHealthHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		release := make(chan struct{})
		a, err := api.New(api.Options{Health: func(context.Context) api.Report {
			begun.Add(1)
			<-release
			return api.Report{}
		}})
		if err != nil {
			t.Fatal(err)
		}
		ask := func() (int, time.Duration) {
			before := time.Now()
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
			return w.Code, time.Since(before)
		}
		for i, want := range []time.Duration{api.HealthWait, 0, 0} {
			if code, took := ask(); code != 503 || took != want {
				t.Errorf("ask %d: %d after %s, want 503 after %s", i, code, took, want)
			}
		}
		if n := begun.Load(); n != 1 {
			t.Errorf("%d checks under way", n)
		}
		close(release)
		synctest.Wait()
		if code, _ := ask(); code != 200 {
			t.Errorf("after it went on: %d", code)
		}
	})
}

// TestPing: a long silence is filled every 15 seconds, and the first ping
// opens the stream.
func TestPing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, err := api.New(api.Options{Token: httpsafe.NewSecret(token), Ask: func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error] {
			return func(yield func(bus.Outbound, error) bool) {
				time.Sleep(50 * time.Second)
				yield(bus.Outbound{Kind: bus.Final, Text: "at last", Turn: &bus.Turn{}}, nil)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		const comment = ": ping\n\n"
		for _, c := range []struct{ path, body, ping, end string }{
			{"/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"x"}]}`, comment, "data: [DONE]\n\n"},
			{"/v1/responses", `{"stream":true,"input":"x"}`, comment, "\n\n"},
			{"/v1/messages", `{"stream":true,"messages":[{"role":"user","content":"x"}]}`, "event: ping\ndata: {\"type\": \"ping\"}\n\n", "\n\n"},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, strings.NewReader(c.body))
			r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			w := &limited{ResponseRecorder: httptest.NewRecorder()}
			a.Handler().ServeHTTP(w, r)
			got, begins := strings.CutPrefix(w.Body.String(), strings.Repeat(c.ping, 3))
			if w.set != 3+strings.Count(got, "data: ") || !w.last.IsZero() {
				t.Errorf("%s: %d limits on writing, at the end %s", c.path, w.set, w.last)
			}
			if !begins || strings.Contains(got, c.ping) || !strings.HasSuffix(got, c.end) || !strings.Contains(got, "at last") {
				t.Errorf("%s: %d\n%s", c.path, w.Code, w.Body)
			}
		}
	})
}

// limited notes the limits on writing.
type limited struct {
	*httptest.ResponseRecorder

	set  int
	last time.Time
}

func (l *limited) SetWriteDeadline(t time.Time) error {
	if l.last = t; !t.IsZero() {
		l.set++
	}
	return nil
}
