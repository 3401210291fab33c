package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A scope that a server demands is asked for by the next login, once.
func TestStepUpAsksTheNextLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.loggedIn()
	token := func() httpsafe.Secret {
		t.Helper()
		tok, err := a.Token(t.Context(), "s", w.url())
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	first := token()
	if err := a.StepUp(t.Context(), "s", w.url(), first, "read write"); errors.Is(err, errLoginNeeded) || !errors.Is(err, errScope) {
		t.Errorf("a scope that the login has: %v", err)
	}
	if err := a.StepUp(t.Context(), "s", w.url(), first, "read admin"); !errors.Is(err, errLoginNeeded) || !errors.Is(err, errMoreRights) {
		t.Errorf("a new scope: %v", err)
	}
	if got := token(); got != first {
		t.Error("the old login cannot be used for other requests")
	}

	w.scope = "read write offline_access admin"
	if _, err := w.login(a); err != nil {
		t.Fatal(err)
	}
	if err := a.StepUp(t.Context(), "s", w.url(), first, "admin"); err != nil {
		t.Errorf("a late refusal of the old token: %v", err)
	}
	if err := a.StepUp(t.Context(), "s", w.url(), token(), "admin"); errors.Is(err, errLoginNeeded) || !errors.Is(err, errScope) {
		t.Errorf("the server asks for the same again: %v", err)
	}
	if _, err := w.login(a); err != nil {
		t.Errorf("a later login asks for another scope: %v", err)
	}
}

// A server cannot fill the store or the login page.
func TestScopesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.loggedIn()
	tok, err := a.Token(t.Context(), "s", w.url())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.StepUp(t.Context(), "s", w.url(), tok, strings.Repeat("x", 3000)); !errors.Is(err, errScope) {
		t.Errorf("a long scope: %v", err)
	}
	for i := range 100 {
		err := a.StepUp(t.Context(), "s", w.url(), tok, fmt.Sprintf("s%d \"q\" a\\b \x01 é", i))
		if want := i < maxScopes; errors.Is(err, errLoginNeeded) != want || errors.Is(err, errScope) == want {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	wanted := strings.Fields(w.store().Servers["s"].Wanted)
	if len(wanted) != maxScopes || wanted[0] != "s0" || wanted[maxScopes-1] != "s49" {
		t.Errorf("%d scopes are wanted: %q", len(wanted), wanted)
	}
}

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.edit = func(m map[string]any) { // such a server needs no login page
		delete(m, "authorization_endpoint")
		delete(m, "code_challenge_methods_supported")
	}
	open := func(c Client) *OAuth {
		t.Helper()
		c.ID, c.Alone = "robot", true
		a, err := NewOAuth(OAuthOptions{Store: disk.Open(filepath.Dir(filepath.Dir(w.file)), nil), Clients: map[string]Client{"s": c}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := open(Client{Secret: httpsafe.NewSecret("robot secret")})
	get := func() string {
		t.Helper()
		tok, err := a.Token(t.Context(), "s", w.url())
		if err != nil {
			t.Fatal(err)
		}
		_, scope, _ := strings.Cut(tok.Reveal(), " ")
		return scope
	}
	if scope := get(); scope != "read write" {
		t.Errorf("scope %q", scope)
	}
	first, err := a.Token(t.Context(), "s", w.url())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.StepUp(t.Context(), "s", w.url(), first, "admin"); err != nil {
		t.Errorf("step up: %v", err)
	}
	if scope := get(); scope != "read write admin" {
		t.Errorf("scope after a step up %q", scope)
	}
	second, err := a.Token(t.Context(), "s", w.url())
	if err != nil || second == first {
		t.Errorf("the token is kept: %v, %v", second == first, err)
	}
	if err := a.StepUp(t.Context(), "s", w.url(), second, "admin"); !errors.Is(err, errScope) {
		t.Errorf("the same again: %v", err)
	}
	a.Invalidate("s", second)
	if third, err := a.Token(t.Context(), "s", w.url()); err != nil || third == second {
		t.Errorf("a refused token is used again: %v", err)
	}
	if _, err := os.Stat(w.file); err == nil {
		t.Error("the token is on the disk")
	}

	a = open(Client{Secret: httpsafe.NewSecret("robot secret"), Scope: "read"})
	if scope := get(); scope != "read" {
		t.Errorf("configured scope: %q", scope)
	}
	tok, err := a.Token(t.Context(), "s", w.url())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.StepUp(t.Context(), "s", w.url(), tok, "admin"); !errors.Is(err, errScope) {
		t.Errorf("beyond the configured scope: %v", err)
	}

	a = open(Client{Secret: httpsafe.NewSecret("wrong secret")})
	if _, err := a.Token(t.Context(), "s", w.url()); err == nil || errors.Is(err, errLoginNeeded) || strings.Contains(err.Error(), "wrong secret") || !strings.Contains(err.Error(), "client credentials of s: HTTP 400") {
		t.Errorf("a wrong secret: %v", err)
	}
}

// A call that needs a wider scope is repeated once with it, or says that a login
// is needed. The connection and other calls go on.
func TestStepUpOfACall(t *testing.T) {
	t.Parallel()
	good := sdkServer()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return good }, nil)
	var mu sync.Mutex
	var refused, greeted int
	counts := func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return refused, greeted
	}
	srv := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client gave up
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		lacks := bytes.Contains(body, []byte(`secret`)) && r.Header.Get("Authorization") != "Bearer wide"
		mu.Lock()
		if bytes.Contains(body, []byte(`"initialize"`)) {
			greeted++
		}
		if lacks {
			refused++
		}
		mu.Unlock()
		if lacks {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="mcp:all"`)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		h.ServeHTTP(w, r)
	}))
	auth := &tokens{token: "narrow"}
	s := webServer("srv", StreamableHTTP, srv.URL)
	s.Auth = WithLogin
	r := start(t, func(o *Options, _ *timing) { o.Auth = auth }, s)
	if got := r.names(); len(got) == 0 {
		t.Fatal("there are no tools")
	}
	_, before := counts()

	res := r.run(t.Context(), "mcp_srv_echo", `{"text":"secret"}`)
	if got := res.Content.String(); res.Code != tool.Unsupported || !strings.Contains(got, "more rights") || !strings.Contains(got, "nanobot mcp login srv") || strings.Contains(got, "mcp:all") {
		t.Errorf("without a wider token: %q code %q", got, res.Code)
	}
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"other"}`); res.Content.String() != "you said other" {
		t.Errorf("another call: %q", res.Content.String())
	}
	if n, greetings := counts(); n != 1 || greetings != before {
		t.Errorf("%d refusals, want 1; %d new connections", n, greetings-before)
	}

	auth.mu.Lock()
	auth.wider = "still narrow"
	auth.mu.Unlock()
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"secret"}`); !strings.Contains(res.Content.String(), "does not have the rights") {
		t.Errorf("a server that is never content: %q", res.Content.String())
	}
	if n, _ := counts(); n != 3 {
		t.Errorf("%d refusals, want 3: one repetition", n)
	}

	auth.mu.Lock()
	auth.wider = "wide"
	auth.mu.Unlock()
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"secret"}`); res.Content.String() != "you said secret" {
		t.Errorf("with a wider token: %q", res.Content.String())
	}
	auth.mu.Lock()
	defer auth.mu.Unlock()
	if !slices.Equal(auth.scopes, []string{"mcp:all", "mcp:all", "mcp:all"}) {
		t.Errorf("scopes %q", auth.scopes)
	}
}
