package azure_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/azure"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked is a request that reached the fake service.
type asked struct {
	Path string
	Form url.Values
	Meta string
}

// service plays the sign-in and the metadata service.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

func newService(t *testing.T, answer http.HandlerFunc) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		s.mu.Lock()
		s.asked = append(s.asked, asked{r.URL.Path, r.Form, r.Header.Get("Metadata")})
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

func say(status int, format string, args ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, format, args...)
	}
}

// noWay is a machine on which nothing is configured or installed.
func noWay(t *testing.T) azure.Options {
	t.Helper()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close() // an address where nobody listens
	client, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return azure.Options{
		MetadataURL: gone.URL, Authority: gone.URL, Client: client, MetadataClient: client,
		Getenv:  func(string) string { return "" },
		Command: func(context.Context, string, ...string) ([]byte, error) { return nil, exec.ErrNotFound },
	}
}

func signer(t *testing.T, o azure.Options) wire.Signer {
	t.Helper()
	s, err := azure.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sign returns the credential a request gets.
func sign(t *testing.T, s wire.Signer) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x.example/openai/v1/responses", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Sign(t.Context(), req, nil)
	return req.Header.Get("Authorization"), err
}

func TestSources(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("federated-jwt\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const ok = `{"access_token":"tok-1","expires_in":3600}`
	for _, c := range []struct {
		name   string
		answer string
		change func(o *azure.Options, s *service)
		want   asked
	}{
		{"client secret", ok, func(o *azure.Options, s *service) {
			o.Authority, o.TenantID, o.ClientID, o.ClientSecret = s.URL, "ten", "app", httpsafe.NewSecret("hush-hush")
		}, asked{"/ten/oauth2/v2.0/token", url.Values{
			"grant_type": {"client_credentials"}, "client_id": {"app"}, "client_secret": {"hush-hush"}, "scope": {"https://cognitiveservices.azure.com/.default"},
		}, ""}},
		{"from the environment", ok, func(o *azure.Options, s *service) {
			env := map[string]string{"AZURE_TENANT_ID": "ten", "AZURE_CLIENT_ID": "app", "AZURE_CLIENT_SECRET": "hush-hush", "AZURE_AUTHORITY_HOST": s.URL + "/"}
			o.Authority, o.Getenv = "", func(k string) string { return env[k] }
		}, asked{"/ten/oauth2/v2.0/token", url.Values{
			"grant_type": {"client_credentials"}, "client_id": {"app"}, "client_secret": {"hush-hush"}, "scope": {"https://cognitiveservices.azure.com/.default"},
		}, ""}},
		{"federated token", ok, func(o *azure.Options, s *service) {
			o.Authority, o.TenantID, o.ClientID, o.TokenFile = s.URL, "ten", "app", file
		}, asked{"/ten/oauth2/v2.0/token", url.Values{
			"grant_type": {"client_credentials"}, "client_id": {"app"}, "client_assertion": {"federated-jwt"},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "scope": {"https://cognitiveservices.azure.com/.default"},
		}, ""}},
		{"managed identity", `{"access_token":"tok-1","expires_in":"86399","expires_on":"1900000000","resource":"r"}`, func(o *azure.Options, s *service) {
			o.MetadataURL = s.URL + "/metadata/identity/oauth2/token"
		}, asked{"/metadata/identity/oauth2/token", url.Values{
			"api-version": {"2018-02-01"}, "resource": {"https://cognitiveservices.azure.com"},
		}, "true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, say(200, "%s", c.answer))
			o := noWay(t)
			c.change(&o, s)
			m := signer(t, o)
			for range 3 {
				if got, err := sign(t, m); got != "Bearer tok-1" || err != nil {
					t.Fatalf("credential %q, %v", got, err)
				}
			}
			if d := cmp.Diff([]asked{c.want}, s.requests()); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(time.Hour)
	for name, out := range map[string]string{
		"new": fmt.Sprintf(`{"accessToken":"cli","expiresOn":"2001-01-01 00:00:00.000000","expires_on":%d,"tokenType":"Bearer"}`, soon.Unix()),
		"old": fmt.Sprintf(`{"accessToken":"cli","expiresOn":%q,"tokenType":"Bearer"}`, soon.Format("2006-01-02 15:04:05.000000")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := noWay(t)
			o.TenantID = "ten"
			var calls []string
			o.Command = func(_ context.Context, name string, args ...string) ([]byte, error) {
				calls = append(calls, name+" "+strings.Join(args, " "))
				return []byte(out), nil
			}
			m := signer(t, o)
			for range 2 {
				if got, err := sign(t, m); got != "Bearer cli" || err != nil {
					t.Fatalf("credential %q, %v", got, err)
				}
			}
			want := []string{"az account get-access-token --resource https://cognitiveservices.azure.com --output json --tenant ten"}
			if d := cmp.Diff(want, calls); d != "" {
				t.Errorf("commands (-want +got):\n%s", d)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	secret := func(o *azure.Options, s *service) {
		o.Authority, o.TenantID, o.ClientID, o.ClientSecret = s.URL, "ten", "app", httpsafe.NewSecret("hush-hush")
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		change func(o *azure.Options, s *service)
		kind   llm.Kind
		text   string
	}{
		{"nothing", say(200, ""), func(*azure.Options, *service) {}, llm.Auth, "az login"},
		{"wrong secret", say(401, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret hush-hush\r\nTrace ID: 1"}`), secret, llm.Auth, "AADSTS7000215: Invalid client secret ***"},
		{"busy", say(503, "busy"), secret, llm.ServerError, "HTTP 503: service unavailable"},
		{"not JSON", say(200, "<html>"), secret, llm.Auth, "not JSON"},
		{"no token", say(200, "{}"), secret, llm.Auth, "no token"},
		{"unreachable", nil, func(o *azure.Options, s *service) {
			secret(o, s)
			s.Close()
		}, llm.Connection, "cannot be reached"},
		{"no identity", say(400, `{"error":"invalid_request","error_description":"Identity not found"}`), func(o *azure.Options, s *service) {
			o.MetadataURL = s.URL
		}, llm.Auth, "managed identity: HTTP 400: Identity not found"},
		{"not signed in", nil, func(o *azure.Options, _ *service) {
			o.Command = func(context.Context, string, ...string) ([]byte, error) {
				return nil, &exec.ExitError{Stderr: []byte("ERROR: Please run 'az login'.\nmore")}
			}
		}, llm.Auth, "az command: ERROR: Please run 'az login'."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, c.answer)
			o := noWay(t)
			c.change(&o, s)
			_, err := sign(t, signer(t, o))
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Kind != c.kind || !strings.Contains(e.Message, c.text) || strings.Contains(e.Message, "hush-hush") || strings.Contains(e.Message, "\n") {
				t.Errorf("error = %+v, want %s with %q", err, c.kind, c.text)
			}
		})
	}
}

func TestConcurrentCallsFetchOnce(t *testing.T) {
	t.Parallel()
	s := newService(t, say(200, `{"access_token":"tok-1","expires_in":3600}`))
	o := noWay(t)
	o.MetadataURL = s.URL
	m := signer(t, o)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := sign(t, m); got != "Bearer tok-1" {
				t.Errorf("credential %q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := newService(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"access_token":"tok-%d","expires_in":3600}`, min(n.Add(1), 2))
	})
	o := noWay(t)
	o.MetadataURL = s.URL
	m := signer(t, o)
	if got, _ := sign(t, m); got != "Bearer tok-1" {
		t.Fatalf("credential %q", got)
	}
	var wg sync.WaitGroup
	for range 5 { // all were refused with the same old token
		wg.Go(func() {
			if !m.Refused(t.Context()) {
				t.Error("no new credentials")
			}
		})
	}
	wg.Wait()
	if got, _ := sign(t, m); got != "Bearer tok-2" || n.Load() != 2 {
		t.Errorf("credential %q after %d requests, want tok-2 after 2", got, n.Load())
	}
}

func TestRefusedWithoutNewToken(t *testing.T) {
	t.Parallel()
	s := newService(t, say(200, `{"access_token":"tok-1","expires_in":3600}`))
	o := noWay(t)
	o.MetadataURL = s.URL
	m := signer(t, o)
	if _, err := sign(t, m); err != nil {
		t.Fatal(err)
	}
	if m.Refused(t.Context()) {
		t.Error("the same token again was taken for new credentials")
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	o := noWay(t)
	o.Command = func(ctx context.Context, _ string, _ ...string) ([]byte, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m := signer(t, o)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		<-begun
		stop()
	}()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://x.example", http.NoBody)
	if err := m.Sign(ctx, req, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
	if _, ok := errors.AsType[*llm.Error](m.Sign(ctx, req, nil)); ok {
		t.Error("cancellation became an *llm.Error")
	}
}
