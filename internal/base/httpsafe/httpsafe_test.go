package httpsafe_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const value = "sk-test-not-a-real-key"
	s := httpsafe.NewSecret(value)
	holder := struct {
		Key  httpsafe.Secret
		Keys []httpsafe.Secret
		Map  map[string]httpsafe.Secret
	}{s, []httpsafe.Secret{s}, map[string]httpsafe.Secret{"a": s}}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", s, &s, holder)
	}
	b, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "secret", s, "holder", holder)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "secret", s, "holder", holder)
	if strings.Contains(out.String(), value) || strings.Contains(out.String(), fmt.Sprintf("%x", value)) {
		t.Errorf("the secret shows: %s", out.String())
	}
	if s.Reveal() != value || s.IsZero() || !(httpsafe.Secret{}).IsZero() {
		t.Error("Reveal or IsZero is wrong")
	}
}

func TestSecretReadsJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{`"x"`: "x", `null`: "", `""`: ""} {
		var s httpsafe.Secret
		if err := json.Unmarshal([]byte(in), &s); err != nil || s.Reveal() != want {
			t.Errorf("%s: %q, %v", in, s.Reveal(), err)
		}
	}
}

func TestRedirectsStayAtHome(t *testing.T) {
	t.Parallel()
	var leaked string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked = r.Header.Get("X-Api-Key") }))
	defer other.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		case "/near":
			http.Redirect(w, r, "/ok", http.StatusTemporaryRedirect)
		default:
			_, _ = io.WriteString(w, "fine")
		}
	}))
	defer home.Close()
	client, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for path, ok := range map[string]bool{"/near": true, "/away": false, "/loop": false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, home.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", "test-key")
		resp, err := client.Do(req)
		if (err == nil) != ok {
			t.Errorf("%s: err = %v, want success %v", path, err, ok)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
	if leaked != "" {
		t.Error("the key travelled to another origin")
	}
}

func TestProxyMustBeAURL(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"nonsense", "://", "http://"} {
		if _, err := httpsafe.Client(httpsafe.Options{Proxy: p}); err == nil || strings.Contains(err.Error(), p) {
			t.Errorf("proxy %q: %v, want an error that does not repeat it", p, err)
		}
	}
}

func TestIsLocal(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"http://localhost:11434/v1": true, "http://127.0.0.1/v1": true, "http://[::1]:1234": true, "http://192.168.1.5:8000/v1": true,
		"http://host.docker.internal:1234": true, "https://api.example.com/v1": false, "http://8.8.8.8/": false, "::": false,
	} {
		if got := httpsafe.IsLocal(url); got != want {
			t.Errorf("IsLocal(%q) = %v", url, got)
		}
	}
}
