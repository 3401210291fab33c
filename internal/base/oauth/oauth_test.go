package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/oauth2"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at is a login server and a way to it.
func at(t *testing.T, h http.HandlerFunc) (Wire, *oauth2.Config) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return Wire{Client: c, Agent: "nanobot/9"}, &oauth2.Config{
		ClientID:     "app",
		ClientSecret: "client-secret",
		Endpoint:     oauth2.Endpoint{TokenURL: s.URL + "/token", AuthStyle: oauth2.AuthStyleInHeader},
	}
}

// What was sent does not come back in an error, whatever the server says, and
// an error is one short line.
func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	w, c := at(t, func(rw http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		rw.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(rw, `{"error":"invalid_grant","error_description":"\u202eno: %s %s %s %s\nTrace ID 1"}`,
			secret, r.FormValue("refresh_token"), r.FormValue("code"), r.FormValue("code_verifier")+strings.Repeat("x", 5000))
	})
	_, refresh := w.Refresh(t.Context(), c, "refresh-token", nil)
	_, exchange := w.Exchange(t.Context(), c, "the-code", oauth2.VerifierOption("the-verifier"))
	for _, err := range []error{refresh, exchange} {
		r, ok := errors.AsType[*RefusedError](err)
		if !ok || r.Code != "invalid_grant" || r.Status != http.StatusBadRequest || !r.Said {
			t.Fatalf("error %v, want a refusal", err)
		}
		for _, part := range []string{"client-secret", "refresh-token", "the-code", "the-verifier", "\n", "\u202e", "Trace"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("error %q holds %q", err, part)
			}
		}
		if len(err.Error()) > 400 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
	}
}

// Answers of any form and size end in a token or a bounded error.
func TestTokenAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind, body string
		status           int
		want             string // of the error; "" for a token
	}{
		{"JSON", "application/json", `{"access_token":"tok","expires_in":3600}`, 200, ""},
		{"seconds as text", "application/json", `{"access_token":"tok","expires_in":"3600"}`, 200, ""},
		{"JSON without a type", "text/plain", `{"access_token":"tok","expires_in":3600}`, 200, ""},
		{"form", "application/x-www-form-urlencoded", "access_token=tok&expires_in=3600", 200, ""},
		{"error with 200", "application/json", `{"error":"bad_verification_code"}`, 200, "bad_verification_code"},
		{"error object", "application/json", `{"error":{"code":"c","message":"used twice"}}`, 401, "used twice"},
		{"no token", "application/json", `{}`, 200, "no token"},
		{"page", "text/html", "<html>", 200, "not JSON"},
		{"gateway", "text/html", "<html>", 502, "bad gateway"},
		{"huge", "application/json", `{"access_token":"` + strings.Repeat("x", 10<<20) + `"}`, 200, "not JSON"},
		{"nested", "application/json", strings.Repeat(`{"error":`, 50_000), 400, "bad request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, c := at(t, func(rw http.ResponseWriter, r *http.Request) {
				if r.UserAgent() != "nanobot/9" || r.Header.Get("Accept") != "application/json" {
					t.Errorf("headers %v", r.Header)
				}
				rw.Header().Set("Content-Type", tt.kind)
				rw.WriteHeader(tt.status)
				_, _ = rw.Write([]byte(tt.body)) // the client may stop reading
			})
			got, err := w.Refresh(t.Context(), c, "refresh-token", url.Values{"resource": {"r"}})
			if tt.want == "" {
				if err != nil || got.AccessToken != "tok" || got.RefreshToken != "refresh-token" || Life(got).Seconds() != 3600 {
					t.Errorf("token %+v, error %v", got, err)
				}
				return
			}
			r, ok := errors.AsType[*RefusedError](err)
			if !ok || !strings.Contains(err.Error(), tt.want) || len(r.Body) > maxAnswer || len(err.Error()) > 400 {
				t.Errorf("error %.400v, want %q", err, tt.want)
			}
		})
	}
}

// The client's policy for redirects counts for what the library sends, too: a
// refresh token does not follow one to another origin.
func TestTokenDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server got %q", r.FormValue("refresh_token"))
	}))
	defer other.Close()
	w, c := at(t, func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, other.URL, http.StatusTemporaryRedirect)
	})
	if got, err := w.Refresh(t.Context(), c, "refresh-token", nil); err == nil {
		t.Errorf("token %+v", got)
	}
}

// A browser may come back only once, and only with GET.
func TestCallbackOnce(t *testing.T) {
	t.Parallel()
	c := NewCallback("localhost", 1455, "/auth/callback")
	visit := func(method, host, query string) int {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://"+host+"/auth/callback?"+query, nil))
		return w.Code
	}
	right := "state=" + c.State() + "&code="
	for i, got := range []struct{ status, want int }{
		{visit(http.MethodPost, "localhost:1455", right+"p"), http.StatusMethodNotAllowed},
		{visit(http.MethodGet, "localhost:1455", "state=x&code=y"), http.StatusBadRequest},
		{visit(http.MethodGet, "evil.example:1455", right+"e"), http.StatusForbidden},
		{visit(http.MethodGet, "127.0.0.1:1455", right+"first"), http.StatusOK},
		{visit(http.MethodGet, "localhost:1455", right+"second"), http.StatusGone},
	} {
		if got.status != got.want {
			t.Errorf("visit %d = %d, want %d", i, got.status, got.want)
		}
	}
	if code, err := c.Wait(t.Context(), nil, nil); code != "first" || err != nil {
		t.Errorf("code %q, error %v, want first", code, err)
	}
}

// Many callers share one renewal; one that gives up ends neither the renewal
// of the others nor their wait.
func TestSourceSharesRenewal(t *testing.T) {
	t.Parallel()
	var renewals atomic.Int32
	begun, gate := make(chan struct{}, 1), make(chan struct{})
	s := NewSource(SourceOptions[string]{
		Key:   func(v string) string { return v },
		Fresh: func(v string) bool { return v != "" },
		Renew: func(ctx context.Context, refused string) (string, error) {
			n := renewals.Add(1)
			if n == 1 {
				begun <- struct{}{}
				<-gate
				<-ctx.Done()
				return "", ctx.Err()
			}
			return fmt.Sprintf("%s>token-%d", refused, n), nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Get(ctx, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that gave up got %v", err)
		}
	})
	<-begun
	for range 10 {
		wg.Go(func() {
			if got, err := s.Get(t.Context(), ""); got != ">token-2" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	cancel()
	close(gate)
	wg.Wait()
	if err := s.Replace(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := s.Get(t.Context(), ""); got != ">token-2>token-3" || err != nil || renewals.Load() != 3 {
		t.Errorf("got %q, %v after %d renewals", got, err, renewals.Load())
	}
}
