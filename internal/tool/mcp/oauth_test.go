package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
)

// world is an MCP server and a strict authorization server on two origins.
type world struct {
	*testing.T
	file      string // of the accounts
	mcp, auth *httptest.Server

	mu        sync.Mutex
	clients   map[string][]string // id -> redirect addresses
	codes     map[string]url.Values
	refresh   map[string]bool // those that are good
	n         int
	lifetime  int  // seconds of a token
	rotate    bool // a refresh token is good once
	issuer    string
	sendsIss  bool
	iss       string        // what the answer says; "" says nothing
	gate      chan struct{} // a refresh waits for it when set
	arrived   chan struct{} // holds one; a refresh is at the gate
	exchanges atomic.Int32
	refreshes atomic.Int32
	registers atomic.Int32
	edit      func(map[string]any) // of the metadata
	resource  string
	loop      string // where the metadata are, if not here
	scope     string // that the login page is asked for
	noMeta    bool   // neither of the two describes itself
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "auth")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &world{
		T: t, file: filepath.Join(dir, "mcp.json"), clients: map[string][]string{}, codes: map[string]url.Values{}, refresh: map[string]bool{},
		lifetime: 3600, rotate: true, sendsIss: true, scope: "read write offline_access",
	}
	w.auth = httptest.NewServer(http.HandlerFunc(w.serveAuth))
	w.mcp = httptest.NewServer(http.HandlerFunc(w.serveMCP))
	w.issuer, w.iss, w.resource = w.auth.URL, w.auth.URL, w.mcp.URL+"/mcp"
	t.Cleanup(w.auth.Close)
	t.Cleanup(w.mcp.Close)
	return w
}

func (w *world) url() string { return w.mcp.URL + "/mcp" }

func (w *world) oauth() *OAuth {
	w.Helper()
	a, err := NewOAuth(OAuthOptions{Store: disk.Open(filepath.Dir(filepath.Dir(w.file)), nil), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		w.Fatal(err)
	}
	return a
}

func (w *world) serveMCP(rw http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Authorization") != "" && r.URL.Path != "/mcp":
		w.Errorf("a token was sent to %s", r.URL.Path)
	case strings.HasPrefix(r.URL.Path, "/.well-known/") && w.noMeta:
		rw.WriteHeader(http.StatusNotFound)
	case r.URL.Path == "/meta":
		writeJSON(rw, map[string]any{"resource": w.resource, "authorization_servers": []string{w.issuer}, "scopes_supported": []string{"read", "write"}})
	case r.URL.Path == "/mcp" && !w.noMeta:
		rw.Header().Set("WWW-Authenticate", `Bearer realm="x", resource_metadata="`+w.mcp.URL+`/meta"`)
		rw.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/mcp":
		rw.WriteHeader(http.StatusUnauthorized)
	case w.noMeta: // the old way: its own authorization server
		w.serveAuth(rw, r)
	default:
		rw.WriteHeader(http.StatusNotFound)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

func (w *world) serveAuth(rw http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		if w.loop != "" {
			http.Redirect(rw, r, w.loop+r.URL.Path, http.StatusFound)
			return
		}
		m := map[string]any{
			"issuer": w.issuer, "authorization_endpoint": w.auth.URL + "/authorize?tenant=1", "token_endpoint": w.auth.URL + "/token",
			"registration_endpoint": w.auth.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
			"authorization_response_iss_parameter_supported": w.sendsIss, "scopes_supported": []string{"read", "offline_access"},
		}
		if w.edit != nil {
			w.edit(m)
		}
		writeJSON(rw, m)
	case "/register":
		w.register(rw, r)
	case "/authorize":
		w.authorize(rw, r)
	case "/token":
		w.token(rw, r)
	default:
		rw.WriteHeader(http.StatusNotFound)
	}
}

func (w *world) register(rw http.ResponseWriter, r *http.Request) {
	w.registers.Add(1)
	var in struct {
		Name     string   `json:"client_name"`
		Redirect []string `json:"redirect_uris"`
		Method   string   `json:"token_endpoint_auth_method"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Name != "nanobot" || in.Method != "none" || len(in.Redirect) != 1 {
		w.Errorf("registration %+v", in)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	id := fmt.Sprintf("client-%d", w.n)
	w.clients[id] = in.Redirect
	rw.WriteHeader(http.StatusCreated)
	writeJSON(rw, map[string]any{"client_id": id, "redirect_uris": in.Redirect, "token_endpoint_auth_method": "none"})
}

// authorize is a login page whose user always agrees.
func (w *world) authorize(rw http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.mu.Lock()
	defer w.mu.Unlock()
	ok := slices.Contains(w.clients[q.Get("client_id")], q.Get("redirect_uri")) && q.Get("response_type") == "code" &&
		q.Get("code_challenge_method") == "S256" && len(q.Get("code_challenge")) == 43 && len(q.Get("state")) >= 20
	if !w.noMeta {
		ok = ok && q.Get("resource") == w.resource && q.Get("tenant") == "1" && q.Get("scope") == w.scope
	}
	if !ok {
		w.Errorf("authorization request %v", q)
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	w.n++
	code := fmt.Sprintf("code-%d", w.n)
	w.codes[code] = q
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	if w.iss != "" {
		back.Set("iss", w.iss)
	}
	http.Redirect(rw, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (w *world) token(rw http.ResponseWriter, r *http.Request) {
	refuse := func(code string) {
		rw.WriteHeader(http.StatusBadRequest)
		writeJSON(rw, map[string]any{"error": code, "error_description": "no: " + r.FormValue("refresh_token") + r.FormValue("code")})
	}
	if r.FormValue("resource") == "" || r.FormValue("client_secret") != "" {
		w.Errorf("token request %v", r.Form)
	}
	switch r.FormValue("grant_type") {
	case "authorization_code":
		w.exchanges.Add(1)
		w.mu.Lock()
		q := w.codes[r.FormValue("code")]
		delete(w.codes, r.FormValue("code"))
		w.mu.Unlock()
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if q == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") || r.FormValue("redirect_uri") != q.Get("redirect_uri") ||
			r.FormValue("client_id") != q.Get("client_id") || r.FormValue("resource") != q.Get("resource") {
			refuse("invalid_grant")
			return
		}
	case "refresh_token":
		w.refreshes.Add(1)
		if w.gate != nil {
			w.arrived <- struct{}{}
			<-w.gate
		}
		w.mu.Lock()
		good := w.refresh[r.FormValue("refresh_token")]
		if w.rotate {
			delete(w.refresh, r.FormValue("refresh_token"))
		}
		w.mu.Unlock()
		if !good {
			refuse("invalid_grant")
			return
		}
	case "client_credentials":
		if id, secret, ok := r.BasicAuth(); !ok || id != "robot" || secret != "robot+secret" { // encoded, as RFC 6749 has it
			refuse("invalid_client")
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.n++
		writeJSON(rw, map[string]any{"access_token": fmt.Sprintf("robot-%d %s", w.n, r.FormValue("scope")), "token_type": "Bearer", "expires_in": w.lifetime})
		return
	default:
		w.Errorf("grant type %q", r.FormValue("grant_type"))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	next := fmt.Sprintf("refresh-%d", w.n)
	w.refresh[next] = true
	writeJSON(rw, map[string]any{
		"access_token": fmt.Sprintf("access-%d", w.n), "token_type": "Bearer", "expires_in": w.lifetime, "refresh_token": next, "scope": "read write",
	})
}

// browse opens an address like a browser and returns the status it ends with.
func (w *world) browse(address string) int {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, address, nil)
	if err != nil {
		w.Error(err)
		return 0
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		w.Error(err)
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		w.Error(err)
	}
	return resp.StatusCode
}

// login logs in with a browser that goes where it is told.
func (w *world) login(a *OAuth) (LoginState, error) {
	w.Helper()
	return w.loginBy(a, func(address string) { w.browse(address) })
}

// loginBy logs in while open runs with the address of the login page.
func (w *world) loginBy(a *OAuth, open func(address string)) (LoginState, error) {
	w.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	return a.Login(w.Context(), "s", w.url(), LoginOptions{ShowAddress: func(address string) {
		wg.Go(func() { open(address) })
	}})
}

// loggedIn are accounts with a login.
func (w *world) loggedIn() *OAuth {
	w.Helper()
	a := w.oauth()
	if _, err := w.login(a); err != nil {
		w.Fatal(err)
	}
	return a
}

// refused are accounts with a login whose token tok was refused.
func (w *world) refused() (a *OAuth, tok httpsafe.Secret) {
	w.Helper()
	a = w.loggedIn()
	tok, err := a.Token(w.Context(), "s", w.url())
	if err != nil {
		w.Fatal(err)
	}
	a.Invalidate("s", tok)
	return a, tok
}

// holdRefresh lets refreshes wait at the gate.
func (w *world) holdRefresh() { w.gate, w.arrived = make(chan struct{}), make(chan struct{}, 1) }

func (w *world) store() oauthFile {
	w.Helper()
	b, err := os.ReadFile(w.file)
	if err != nil {
		w.Fatal(err)
	}
	var f oauthFile
	if err := json.Unmarshal(b, &f); err != nil {
		w.Fatal(err)
	}
	return f
}

func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.file = filepath.Join(t.TempDir(), "auth", "mcp.json")
	a := w.oauth()
	if _, err := a.Token(t.Context(), "s", w.url()); !errors.Is(err, errLoginNeeded) || !strings.Contains(err.Error(), "nanobot mcp login s") {
		t.Errorf("without a login: %v", err)
	}
	if n := w.registers.Load(); n != 0 {
		t.Errorf("the background registered %d times", n)
	}
	st, err := w.login(a)
	if err != nil {
		t.Fatal(err)
	}
	if !st.LoggedIn || !st.Renews || st.Issuer != w.issuer || st.Scope != "read write" || time.Until(st.Expires) < 50*time.Minute {
		t.Errorf("state %+v", st)
	}
	for path, want := range map[string]os.FileMode{w.file: 0o600, filepath.Dir(w.file): 0o700} {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Mode().Perm(); got != want && os.PathSeparator == '/' {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
	got, err := w.oauth().Token(t.Context(), "s", w.url()) // another process
	if err != nil || !strings.HasPrefix(got.Reveal(), "access-") {
		t.Errorf("token %q, error %v", got.Reveal(), err)
	}
	// The entry is good for this address only.
	if _, err := a.Token(t.Context(), "s", w.url()+"/other"); !errors.Is(err, errLoginNeeded) {
		t.Errorf("another address: %v", err)
	}
	f := w.store()
	e := f.Servers["s"]
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(w.url())))
	if f.Version != 1 || e.Fingerprint != sum || e.Lease == "" || f.Generations["s"] == "" || !strings.HasSuffix(e.Redirect, oauthCallback) {
		t.Errorf("store %+v, entry %+v", f, e)
	}
	// A second login finds the registration again: the same port is used, unless
	// another program took it meanwhile.
	for range 5 {
		port, before := w.store().Servers["s"].Redirect, w.registers.Load()
		if _, err := w.login(a); err != nil {
			t.Fatal(err)
		}
		if w.store().Servers["s"].Redirect != port {
			continue
		}
		if n := w.registers.Load(); n != before {
			t.Errorf("%d registrations, want %d", n, before)
		}
		return
	}
	t.Error("five logins used six ports, want one port again")
}

// Tokens are told before they are used, once each.
func TestTokensAreKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.oauth()
	var known []string
	a.o.Known = func(name string, s httpsafe.Secret) {
		known = append(known, name+"="+strings.TrimRight(s.Reveal(), "0123456789"))
	}
	if _, err := w.login(a); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		tok, err := a.Token(t.Context(), "s", w.url())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Token(t.Context(), "s", w.url()); err != nil {
			t.Fatal(err)
		}
		a.Invalidate("s", tok)
	}
	want := []string{"mcp.s.access_token=access-", "mcp.s.refresh_token=refresh-"}
	if diff := cmp.Diff(slices.Repeat(want, 3), known); diff != "" {
		t.Errorf("known (-want +got):\n%s", diff)
	}
}

// A server of the first protocol version is its own login server and may
// describe nothing.
func TestLoginOldServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noMeta, w.iss, w.resource = true, "", w.url()
	if st, err := w.loggedIn().State("s", w.url()); err != nil || st.Issuer != w.mcp.URL {
		t.Errorf("state %+v, error %v, want the issuer %s", st, err, w.mcp.URL)
	}
}

// The address of the way back changes: another registration is needed.
// A guessed issuer may have a path, but must not be on another origin.
func TestGuessedIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wire, err := w.oauth().wire(w.url())
	if err != nil {
		t.Fatal(err)
	}
	for issuer, ok := range map[string]bool{w.auth.URL: true, w.auth.URL + "/oauth": true, w.mcp.URL: false, "https://evil.example": false} {
		w.issuer = issuer
		if _, err := wire.metadata(t.Context(), w.auth.URL, true); (err == nil) != ok {
			t.Errorf("metadata of the issuer %s: %v", issuer, err)
		}
	}
}

func TestRedirectChangeDropsClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.loggedIn()
	before := w.store().Servers["s"]
	u, err := url.Parse(before.Redirect)
	if err != nil {
		t.Fatal(err)
	}
	busy, _, err := listenForBrowser(t.Context(), 0, "http://"+u.Host) // takes the port away
	if err != nil {
		t.Fatal(err)
	}
	defer busy[0].Close()
	if _, err := w.login(a); err != nil {
		t.Fatal(err)
	}
	after := w.store().Servers["s"]
	if after.Redirect == before.Redirect || after.Client.ID == before.Client.ID {
		t.Errorf("redirect %s with client %s, before %s with %s", after.Redirect, after.Client.ID, before.Redirect, before.Client.ID)
	}
}

// Row 114: an answer with a wrong or missing state is turned away and spoils
// nothing; a second answer comes too late; a code is used once.
func TestCallbackStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st, err := w.loginBy(w.oauth(), func(address string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Error(err)
			return
		}
		q := u.Query()
		back := q.Get("redirect_uri")
		for name, c := range map[string]struct {
			address string
			want    int
		}{
			"no state":     {back + "?code=x&iss=" + w.iss, 400},
			"wrong state":  {back + "?code=x&state=" + strings.Repeat("A", len(q.Get("state"))) + "&iss=" + w.iss, 400},
			"empty state":  {back + "?code=x&state=", 400},
			"prefix":       {back + "?code=x&state=" + q.Get("state")[:10], 400},
			"wrong path":   {strings.TrimSuffix(back, "callback") + "?code=x&state=" + q.Get("state"), 404},
			"other host":   {strings.Replace(back, "127.0.0.1", "localhost", 1) + "?code=x&state=" + q.Get("state"), 403},
			"error, no st": {back + "?error=access_denied", 400},
		} {
			if got := w.browse(c.address); got != c.want {
				t.Errorf("%s: status %d, want %d", name, got, c.want)
			}
		}
		if got := w.browse(address); got != http.StatusOK {
			t.Errorf("the right one: status %d", got)
		}
	})
	if err != nil || !st.LoggedIn {
		t.Errorf("state %+v, error %v", st, err)
	}
	if n := w.exchanges.Load(); n != 1 {
		t.Errorf("%d codes were exchanged, want 1", n)
	}
}

// Row 114: a code that somebody used before us is refused by the server and
// leaves no login.
func TestReplayedCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.oauth()
	_, err := w.loginBy(a, func(address string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Error(err)
			return
		}
		q := u.Query()
		w.browse(q.Get("redirect_uri") + "?" + url.Values{"code": {"code-used"}, "state": {q.Get("state")}, "iss": {w.iss}}.Encode())
	})
	if err == nil || !strings.Contains(err.Error(), "exchange the code") || strings.Contains(err.Error(), "code-used") {
		t.Errorf("error %v, want one of the exchange that does not tell the code", err)
	}
	if _, err := a.Token(t.Context(), "s", w.url()); !errors.Is(err, errLoginNeeded) {
		t.Errorf("after it: %v", err)
	}
}

// Row 114: the answer of another issuer, or of none where it must be named,
// never gets to the exchange.
func TestIssuerMixUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, iss string
		sends     bool
		want      string
	}{
		{"another", "https://evil.example", true, "another login server"},
		{"another, unannounced", "https://evil.example", false, "another login server"},
		{"missing", "", true, "does not say"},
		{"missing, unannounced", "", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.iss, w.sendsIss = tt.iss, tt.sends
			_, err := w.login(w.oauth())
			if tt.want == "" {
				if err != nil {
					t.Errorf("error %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if n := w.exchanges.Load(); n != 0 {
				t.Errorf("the code was sent %d times", n)
			}
		})
	}
}

// What a server says about logins is checked before anything is opened.
func TestDiscoveryRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*world)
		want   string
	}{
		{"metadata of another issuer", func(w *world) { w.edit = func(m map[string]any) { m["issuer"] = "https://evil.example" } }, "says that it is"},
		{"no PKCE", func(w *world) { w.edit = func(m map[string]any) { delete(m, "code_challenge_methods_supported") } }, "PKCE"},
		{"plain PKCE", func(w *world) {
			w.edit = func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} }
		}, "PKCE"},
		{"unencrypted token endpoint", func(w *world) { w.edit = func(m map[string]any) { m["token_endpoint"] = "http://example.com/token" } }, "not encrypted"},
		{"script as login page", func(w *world) {
			w.edit = func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }
		}, "not a URL"},
		{"no login page", func(w *world) {
			w.edit = func(m map[string]any) { delete(m, "authorization_endpoint"); delete(m, "registration_endpoint") }
		}, "not a URL"},
		{"resource of another server", func(w *world) { w.resource = "https://victim.example/mcp" }, "not for"},
		{"resource beside ours", func(w *world) { w.resource = w.mcp.URL + "/mcp2" }, "not for"},
		{"private login server", func(w *world) { w.issuer = "http://10.1.2.3" }, "private"},
		{"redirect loop", func(w *world) { w.loop = w.auth.URL }, "redirects"},
		{"redirect to a private address", func(w *world) { w.loop = "http://10.1.2.3" }, "private"},
		{"huge metadata", func(w *world) { w.edit = func(m map[string]any) { m["x"] = strings.Repeat("x", 2<<20) } }, "says nothing about itself"},
		{"login page on a private network", func(w *world) {
			w.edit = func(m map[string]any) { m["authorization_endpoint"] = "http://192.168.1.1/reboot" }
		}, "private network"},
		{"metadata service", func(w *world) { w.issuer = "http://169.254.169.254/latest" }, "not encrypted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.change(w)
			_, err := w.oauth().Login(t.Context(), "s", w.url(), LoginOptions{
				ShowAddress: func(address string) { t.Errorf("it opens %s", address) },
			})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// A server may name its whole origin as the resource, as many hosted ones do,
// and an operator's server may be on a private network. The SDK's functions
// for discovery refuse both.
func TestDiscoveryAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.resource = w.mcp.URL
	if _, err := w.login(w.oauth()); err != nil {
		t.Errorf("resource above the server: %v", err)
	}
	const lan = "http://192.168.1.5:8123"
	m := &oauthex.AuthServerMeta{
		Issuer: lan, AuthorizationEndpoint: lan + "/authorize", TokenEndpoint: lan + "/token", CodeChallengeMethodsSupported: []string{"S256"},
	}
	own, err := w.oauth().wire(lan + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	if err := own.checkMetadata(m, lan); err != nil {
		t.Errorf("private network: %v", err)
	}
}

// Without an exception only the operator's own origin may be private, and other
// ports of this machine if the operator's server is on it.
func TestLoginServerIsGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, err := NewOAuth(OAuthOptions{Store: disk.Open(filepath.Dir(filepath.Dir(w.file)), nil)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.login(a); err != nil {
		t.Errorf("both on this machine: %v", err)
	}

	for home, blocked := range map[string][]string{
		"https://mcp.example/mcp":   {w.auth.URL, strings.Replace(w.auth.URL, "127.0.0.1", "localhost", 1), "https://10.1.2.3", "https://[::1]:1"},
		"http://192.168.1.5/mcp":    {w.auth.URL, "http://192.168.1.6"},
		"http://localhost:1/mcp":    {"http://192.168.1.6", "https://169.254.169.254", "https://10.1.2.3"},
		"http://127.0.0.1:1/mcp":    {"https://[fd00::1]"},
		"http://sub.localhost:1/me": {w.auth.URL},
	} {
		wire, err := a.wire(home)
		if err != nil {
			t.Fatal(err)
		}
		for _, issuer := range blocked {
			m, err := wire.metadata(t.Context(), issuer, false)
			if _, refused := errors.AsType[*httpsafe.BlockedError](err); !refused {
				t.Errorf("a server at %s names %s: %v, %v; want a refusal of the guard", home, issuer, m, err)
			}
		}
	}
}

// A login page that only the browser opens is no way around the guard.
func TestLoginPageIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, err := NewOAuth(OAuthOptions{Store: disk.Open(t.TempDir(), nil), Allow: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		home, page string
		ok         bool
	}{
		{"https://mcp.example/mcp", "https://login.example/authorize", true},
		{"https://mcp.example/mcp", "http://192.168.1.1/reboot", false},
		{"https://mcp.example/mcp", "https://192.168.1.1/reboot", false},
		{"https://mcp.example/mcp", "https://localhost/authorize", false},
		{"https://mcp.example/mcp", "https://[::ffff:10.0.0.1]/authorize", false},
		{"https://mcp.example/mcp", "https://169.254.169.254/latest", false},
		{"https://mcp.example/mcp", "https://0.0.0.0/authorize", false},
		{"https://mcp.example/mcp", "https://8.8.8.8/authorize", true},
		{"https://mcp.example/mcp", "https://10.9.1.1/authorize", true},
		{"https://mcp.example/mcp", "javascript:alert(1)", false},
		{"https://mcp.example/mcp", "javascript://login.example/%0aalert(1)", false},
		{"https://mcp.example/mcp", "file:///etc/passwd", false},
		{"https://mcp.example/mcp", "https://user:pass@login.example/", false},
		{"https://mcp.example/mcp", "http://login.example/authorize", false},
		{"http://192.168.1.5/mcp", "http://192.168.1.5/authorize", true},
		{"http://192.168.1.5/mcp", "http://192.168.1.6/authorize", false},
		{w.url(), w.auth.URL + "/authorize", true},
		{w.url(), "http://192.168.1.6/authorize", false},
	} {
		wire, err := a.wire(tt.home)
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.page(tt.page); (err == nil) != tt.ok {
			t.Errorf("a server at %s, login page %s: %v", tt.home, tt.page, err)
		}
	}
}

// Ten callers with an expired token share one refresh, also with another
// process; a refused token is renewed once.
func TestRefreshOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now()
	clock := func() time.Time { return now }
	a, b := w.oauth(), w.oauth()
	if _, err := w.login(a); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	a.o.Now, b.o.Now = clock, clock
	get := func(accounts ...*OAuth) map[string]int {
		var mu sync.Mutex
		var wg sync.WaitGroup
		got := map[string]int{}
		for i := range 10 {
			wg.Go(func() {
				s, err := accounts[i%len(accounts)].Token(t.Context(), "s", w.url())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				got[s.Reveal()]++
				mu.Unlock()
			})
		}
		wg.Wait()
		return got
	}
	first := get(a, b)
	if len(first) != 1 || w.refreshes.Load() != 1 {
		t.Errorf("%d refreshes gave %v, want 1 token", w.refreshes.Load(), first)
	}
	for token := range first {
		for range 10 {
			a.Invalidate("s", httpsafe.NewSecret(token))
		}
	}
	second := get(a)
	if len(second) != 1 || w.refreshes.Load() != 2 {
		t.Errorf("%d refreshes gave %v, want another token", w.refreshes.Load(), second)
	}
	for token := range first {
		a.Invalidate("s", httpsafe.NewSecret(token)) // a late one about the old token
		if second[token] != 0 {
			t.Error("the refused token came back")
		}
	}
	if third := get(a); w.refreshes.Load() != 2 || len(third) != 1 {
		t.Errorf("a late refusal of an old token led to %d refreshes", w.refreshes.Load())
	}
}

// A refresh token that is not good any more means to log in again, and the
// server is not asked twice.
func TestRefreshRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.refused()
	clear(w.refresh)
	for range 3 {
		if _, err := a.Token(t.Context(), "s", w.url()); !errors.Is(err, errLoginNeeded) || strings.Contains(err.Error(), "refresh-") {
			t.Errorf("error %v, want %v without the token", err, errLoginNeeded)
		}
	}
	if n := w.refreshes.Load(); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
	if e := w.store().Servers["s"]; e.Client == nil || e.Tokens != nil {
		t.Errorf("entry %+v, want the registration and no tokens", e)
	}
}

// A caller that gives up does not spoil the refresh for the others.
func TestRefreshOutlivesCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, tok := w.refused()
	w.holdRefresh()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = a.Token(ctx, "s", w.url()) })
	<-w.arrived
	cancel()
	wg.Go(func() {
		if got, err := a.Token(t.Context(), "s", w.url()); err != nil || got.Reveal() == tok.Reveal() {
			t.Errorf("the second caller got %q, %v", got.Reveal(), err)
		}
	})
	close(w.gate)
	wg.Wait()
	if n := w.refreshes.Load(); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
}

// What was deleted stays deleted, whatever was under way.
func TestLogoutWins(t *testing.T) {
	t.Parallel()
	t.Run("refresh", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		a, _ := w.refused()
		w.holdRefresh()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Token(t.Context(), "s", w.url()); !errors.Is(err, errLoginNeeded) {
				t.Errorf("refresh during a logout: %v", err)
			}
		})
		<-w.arrived
		if found, err := w.oauth().Logout(t.Context(), "s"); err != nil || !found {
			t.Errorf("logout: %v, %v", found, err)
		}
		close(w.gate)
		wg.Wait()
		if e := w.store().Servers["s"]; e != nil {
			t.Errorf("the login came back: %+v", e)
		}
	})
	t.Run("login", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		a := w.oauth()
		_, err := w.loginBy(a, func(address string) {
			if _, err := a.Logout(t.Context(), "s"); err != nil {
				t.Error(err)
			}
			w.browse(address)
		})
		if !errors.Is(err, errSuperseded) {
			t.Errorf("error %v, want %v", err, errSuperseded)
		}
		if e := w.store().Servers["s"]; e != nil {
			t.Errorf("the login came back: %+v", e)
		}
	})
	t.Run("login during a refresh", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		a, _ := w.refused()
		w.holdRefresh()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = a.Token(t.Context(), "s", w.url()) })
		<-w.arrived
		if _, err := w.login(w.oauth()); err != nil {
			t.Error(err)
		}
		want := w.store().Servers["s"].Tokens.Access
		close(w.gate)
		wg.Wait()
		if got := w.store().Servers["s"].Tokens.Access; got != want {
			t.Errorf("token %s was written over %s", got, want)
		}
	})
	t.Run("newer login", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		a := w.oauth()
		_, err := w.loginBy(a, func(address string) {
			if _, err := w.login(w.oauth()); err != nil {
				t.Error(err)
			}
			w.browse(address)
		})
		if !errors.Is(err, errSuperseded) {
			t.Errorf("error %v, want %v", err, errSuperseded)
		}
		if _, err := a.Token(t.Context(), "s", w.url()); err != nil {
			t.Errorf("the newer login does not count: %v", err)
		}
	})
}

// A person whose browser is elsewhere pastes the address it ended at.
func TestLoginPasted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lines := make(chan string)
	var wg sync.WaitGroup
	defer wg.Wait()
	var notes []string
	st, err := w.oauth().Login(t.Context(), "s", w.url(), LoginOptions{
		Pasted: func() <-chan string { return lines },
		Notify: func(text string) { notes = append(notes, text) },
		ShowAddress: func(address string) {
			wg.Go(func() {
				c := &http.Client{
					Transport:     &http.Transport{DisableKeepAlives: true},
					CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
				for _, line := range []string{"", "hello", "http://evil.example/?code=x", "?code=x&state=y", " <" + resp.Header.Get("Location") + "> "} {
					lines <- line
				}
			})
		},
	})
	if err != nil || !st.LoggedIn {
		t.Errorf("state %+v, error %v", st, err)
	}
	if len(notes) != 3 {
		t.Errorf("notes %q, want 3", notes)
	}
}

// A login that nobody finishes ends.
func TestLoginTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.oauth().Login(t.Context(), "s", w.url(), LoginOptions{ShowAddress: func(string) {}, Wait: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "the login was not completed within") {
		t.Errorf("error %v", err)
	}
}

// A file of the Python generation has no login server in it: it is found
// again, and its token is used until it is refused.
func TestForeignStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refresh["refresh-old"] = true
	text := `{"version":1,"servers":{"s":{"server_fingerprint":"` + oauthFingerprint(w.url()) + `","write_lease":"l",
		"tokens":{"access_token":"old","token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-old"},
		"client_info":{"client_id":"c","redirect_uris":["http://127.0.0.1/auth/mcp/callback"]},"redirect_uri":"http://127.0.0.1/auth/mcp/callback"}},"generations":{"s":"g"}}`
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := w.oauth()
	tok, err := a.Token(t.Context(), "s", w.url())
	if err != nil || tok.Reveal() != "old" {
		t.Errorf("token %q, error %v, want old", tok.Reveal(), err)
	}
	a.Invalidate("s", tok)
	if tok, err = a.Token(t.Context(), "s", w.url()); err != nil || !strings.HasPrefix(tok.Reveal(), "access-") {
		t.Errorf("token %q, error %v, want a new one", tok.Reveal(), err)
	}
	if n := w.registers.Load(); n != 0 {
		t.Errorf("the background registered %d times", n)
	}
}

// A file that cannot be read is neither used nor overwritten.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{", `{"version":2}`} {
		w := newWorld(t)
		if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := w.oauth()
		if _, err := a.Token(t.Context(), "s", w.url()); err == nil || errors.Is(err, errLoginNeeded) {
			t.Errorf("token of %q: %v", text, err)
		}
		if _, err := w.login(a); err == nil {
			t.Errorf("login over %q", text)
		}
		if got, err := os.ReadFile(w.file); err != nil || string(got) != text {
			t.Errorf("the file is %q now (%v)", got, err)
		}
	}
}
