package signin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm/signin"
)

// inProcess answers requests without a network, so that a bubble's clock moves.
type inProcess struct{ h http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	p.h.ServeHTTP(w, r)
	return w.Result(), nil
}

func bubbleWorld(t *testing.T) *world {
	t.Helper()
	f := newFake()
	base := "http://localhost"
	return &world{fake: f, dir: filepath.Join(t.TempDir(), "auth"), url: base, env: env(base), client: &http.Client{Transport: inProcess{f}}}
}

// waits lists how long after the start, and after each other, the polls came.
func waits(start time.Time, polls []time.Time) []time.Duration {
	var out []time.Duration
	for _, p := range polls {
		out = append(out, p.Sub(start))
		start = p
	}
	return out
}

// Row 91: slow_down makes every later wait five seconds longer.
func TestRow91SlowDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		w.pending = []string{"authorization_pending", "slow_down", "authorization_pending", "slow_down"}
		start := time.Now()
		var told signin.Step
		st, err := w.account(t, "github-copilot").Login(t.Context(), signin.Dialog{Notify: func(s signin.Step) { told = s }})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(waits(start, w.polls), []time.Duration{5 * time.Second, 5 * time.Second, 10 * time.Second, 10 * time.Second, 15 * time.Second}); d != "" {
			t.Errorf("waits (-got +want):\n%s", d)
		}
		if told.Code != "WXYZ-1234" || told.URL != "https://github.com/login/device" || told.Paste {
			t.Errorf("told %+v", told)
		}
		if !st.SignedIn || st.Account != "ann" {
			t.Errorf("status = %+v, want ann signed in", st)
		}
		if years := time.Until(st.Expires).Hours() / 24 / 365; years < 9.9 {
			t.Errorf("expires in %.1f years, want ten", years)
		}
	})
}

func TestDeviceCodeEnds(t *testing.T) {
	t.Parallel()
	repeat := func(s string, n int) []string {
		var out []string
		for range n {
			out = append(out, s)
		}
		return out
	}
	tests := []struct {
		name    string
		pending []string
		part    string
		after   time.Duration
	}{
		{"never typed", repeat("authorization_pending", 500), "expired", 900 * time.Second},
		{"expired there", []string{"authorization_pending", "expired_token"}, "expired", 10 * time.Second},
		{"declined", []string{"access_denied"}, "declined", 5 * time.Second},
		{"unknown", []string{"incorrect_client_credentials"}, "about incorrect_client", 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := bubbleWorld(t)
				w.pending = tt.pending
				start := time.Now()
				_, err := w.account(t, "github-copilot").Login(t.Context(), signin.Dialog{})
				authError(t, err, tt.part)
				if d := time.Since(start); d != tt.after {
					t.Errorf("ended after %s, want %s", d, tt.after)
				}
			})
		})
	}
}

// flaky fails the first polls as a bad network does.
type flaky struct {
	h    http.Handler
	left *int
}

func (f flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/login/oauth/access_token" && *f.left > 0 {
		*f.left--
		if *f.left%2 == 0 {
			return nil, errors.New("connection reset")
		}
		w := httptest.NewRecorder()
		w.WriteHeader(502)
		return w.Result(), nil
	}
	return inProcess{f.h}.RoundTrip(r)
}

func TestDeviceCodeSurvivesBadNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		left := 5
		w.client = &http.Client{Transport: flaky{w.fake, &left}}
		if _, err := w.account(t, "github-copilot").Login(t.Context(), signin.Dialog{}); err != nil {
			t.Fatal(err)
		}
		if left != 0 {
			t.Errorf("%d failures left, want all used", left)
		}
	})
}

func TestDeviceCodeStops(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"github-copilot", "openai-codex"} {
		synctest.Test(t, func(t *testing.T) {
			w := bubbleWorld(t)
			w.pending = []string{"authorization_pending", "authorization_pending", "authorization_pending"}
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
			defer cancel()
			start := time.Now()
			_, err := w.account(t, name).Login(ctx, signin.Dialog{Device: true})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 7*time.Second {
				t.Errorf("%s: error = %v after %s, want the caller's deadline after 7s", name, err, time.Since(start))
			}
		})
	}
}

// Codex has a code of its own for machines without a browser.
func TestCodexDevice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		w.pending = []string{"x", "x"}
		start := time.Now()
		var told signin.Step
		st, err := w.account(t, "openai-codex").Login(t.Context(), signin.Dialog{Device: true, Notify: func(s signin.Step) { told = s }})
		if err != nil || st.Account != "ann@example.com" {
			t.Fatalf("Login = %+v, %v", st, err)
		}
		if told.Code != "ABCD-EFGH" || told.URL != w.url+"/codex/device" {
			t.Errorf("told %+v", told)
		}
		if d := cmp.Diff(waits(start, w.polls), []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}); d != "" {
			t.Errorf("waits (-got +want):\n%s", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		w.pending = make([]string, 1000)
		start := time.Now()
		_, err := w.account(t, "openai-codex").Login(t.Context(), signin.Dialog{Device: true})
		authError(t, err, "expired")
		if d := time.Since(start); d < 14*time.Minute || d > 15*time.Minute {
			t.Errorf("ended after %s, want 15 minutes", d)
		}
	})
}

// Tokens are renewed a minute before they end and not earlier.
func TestRenewedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		w.refresh, w.expiresIn = "refresh-0", 600
		w.keep(t, "openai-codex", "first", "refresh-0", time.Now().Add(10*time.Minute))
		a := w.account(t, "openai-codex")
		for _, step := range []struct {
			wait      time.Duration
			refreshes int
		}{{0, 0}, {539 * time.Second, 0}, {time.Second, 1}, {539 * time.Second, 1}, {time.Second, 2}} {
			time.Sleep(step.wait)
			if _, err := sign(t, a, "{}"); err != nil {
				t.Fatal(err)
			}
			if n, _ := w.count(); n != step.refreshes {
				t.Errorf("after another %s: %d refreshes, want %d", step.wait, n, step.refreshes)
			}
		}
	})
}

func TestCopilotPassRenewedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		w.keep(t, "github-copilot", "gh-good", "", time.Now().AddDate(1, 0, 0))
		a := w.account(t, "github-copilot")
		for _, step := range []struct {
			wait      time.Duration
			exchanges int
		}{{0, 1}, {24*time.Minute - time.Second, 1}, {time.Second, 2}} {
			time.Sleep(step.wait)
			if _, err := sign(t, a, "{}"); err != nil {
				t.Fatal(err)
			}
			if _, n := w.count(); n != step.exchanges {
				t.Errorf("after another %s: %d exchanges, want %d", step.wait, n, step.exchanges)
			}
		}
	})
}

// A refusal long after a renewal means the new token.
func TestRefusedAgainLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		w.refresh = "refresh-0"
		w.keep(t, "openai-codex", "revoked", "refresh-0", time.Now().Add(time.Hour))
		a := w.account(t, "openai-codex")
		if _, err := sign(t, a, "{}"); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait      time.Duration
			refreshes int
		}{{0, 1}, {29 * time.Second, 1}, {time.Second, 2}} {
			time.Sleep(step.wait)
			if !a.Signer().Refused(t.Context()) {
				t.Error("Refused = false, want another try")
			}
			if n, _ := w.count(); n != step.refreshes {
				t.Errorf("after another %s: %d refreshes, want %d", step.wait, n, step.refreshes)
			}
		}
	})
}

// hung never answers.
type hung struct{}

func (hung) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A provider that hangs holds nobody up for long, and least of all somebody
// who gave up.
func TestHungProvider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ limit, want time.Duration }{
		"patient": {time.Hour, 20 * time.Second}, "gave up": {2 * time.Second, 7 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := bubbleWorld(t)
			w.client = &http.Client{Transport: hung{}}
			w.keep(t, "openai-codex", "old", "r", time.Now().Add(-time.Hour))
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			start := time.Now()
			err := w.account(t, "openai-codex").Check(ctx)
			if err == nil || time.Since(start) != c.want {
				t.Errorf("%s: error = %v after %s, want one after %s", name, err, time.Since(start), c.want)
			}
		})
	}
}
