package signin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/signin"
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// browser plays a person with a browser: the provider gives a code for the
// address that the sign-in shows.
func (w *world) browser(t *testing.T, address string) (redirect string, back url.Values) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for k, want := range map[string]string{
		"response_type": "code", "client_id": "app_EMoamEEZ73f0CkXaXp7hrann", "code_challenge_method": "S256", "originator": "nanobot",
		"id_token_add_organizations": "true", "codex_cli_simplified_flow": "true", "scope": "openid profile email offline_access",
	} {
		if q.Get(k) != want {
			t.Errorf("authorize %s = %q, want %q", k, q.Get(k), want)
		}
	}
	w.mu.Lock()
	w.codes["the-code"] = code{challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri")}
	w.mu.Unlock()
	return q.Get("redirect_uri"), url.Values{"code": {"the-code"}, "state": {q.Get("state")}}
}

// visit opens an address like a browser would and returns status and page.
func visit(t *testing.T, address string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

type loginResult struct {
	st  signin.Status
	err error
}

// begin starts a browser sign-in and returns the address it shows.
func (w *world) begin(t *testing.T, a *signin.Account, d signin.Dialog) (string, <-chan signin.Step, <-chan loginResult) {
	t.Helper()
	steps := make(chan signin.Step, 20)
	d.Notify = func(s signin.Step) { steps <- s }
	done := make(chan loginResult, 1)
	go func() {
		st, err := a.Login(t.Context(), d)
		done <- loginResult{st, err}
	}()
	for {
		select {
		case s := <-steps:
			if s.URL != "" {
				return s.URL, steps, done
			}
		case r := <-done:
			t.Fatalf("ended early: %+v", r)
		}
	}
}

func TestBrowserLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.account(t, "openai-codex")
	address, _, done := w.begin(t, a, signin.Dialog{})
	redirect, back := w.browser(t, address)
	// Row 93: the wrong state is turned away and spoils nothing.
	wrong := url.Values{"code": {"evil"}, "state": {"guess"}}
	if status, _ := visit(t, redirect+"?"+wrong.Encode()); status != http.StatusBadRequest {
		t.Errorf("row 93: wrong state answered %d, want 400", status)
	}
	if status, _ := visit(t, redirect+"?code=evil"); status != http.StatusBadRequest {
		t.Errorf("row 93: no state answered %d, want 400", status)
	}
	if status, _ := visit(t, strings.Replace(redirect, "/auth/callback", "/other", 1)+"?"+back.Encode()); status != http.StatusNotFound {
		t.Errorf("other path answered %d, want 404", status)
	}
	status, page := visit(t, redirect+"?"+back.Encode())
	if status != http.StatusOK || strings.Contains(page, "the-code") {
		t.Errorf("page = %d %q, want 200 without the code", status, page)
	}
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	if !r.st.SignedIn || r.st.Account != "ann@example.com" {
		t.Errorf("status = %+v, want ann signed in", r.st)
	}
	k := w.kept(t)
	if k.Access != w.access || k.Refresh != "refresh-1" || k.AccountID != "acc-1" || k.Keyring {
		t.Errorf("kept %+v", k)
	}
	if left := time.Until(time.UnixMilli(k.Expires)); left < 59*time.Minute || left > time.Hour {
		t.Errorf("expires in %s, want an hour", left)
	}
	if runtime.GOOS != "windows" {
		for path, want := range map[string]os.FileMode{w.dir: 0o700, filepath.Join(w.dir, "openai-codex.json"): 0o600} {
			if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
				t.Errorf("%s: mode %v %v, want %v", path, fi.Mode(), err, want)
			}
		}
	}
	if req, err := sign(t, a, "{}"); err != nil || req.Header.Get("Authorization") != "Bearer "+w.access {
		t.Errorf("signed %v, %v", req.Header, err)
	}
	if n, _ := w.count(); n != 0 {
		t.Errorf("refreshes = %d, want none", n)
	}
	if !w.agents["nanobot/9"] || len(w.agents) != 1 {
		t.Errorf("user agents %v, want ours alone", w.agents)
	}
}

// A code counts once: what comes second is turned away, and a code that the
// provider has seen before is refused.
func TestReplayedCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate = make(chan struct{})
	address, _, done := w.begin(t, w.account(t, "openai-codex"), signin.Dialog{})
	redirect, back := w.browser(t, address)
	if status, _ := visit(t, redirect+"?"+back.Encode()); status != http.StatusOK {
		t.Fatalf("first = %d, want 200", status)
	}
	// The code was redeemed by somebody else meanwhile.
	w.mu.Lock()
	delete(w.codes, "the-code")
	w.mu.Unlock()
	close(w.gate)
	r := <-done
	authError(t, r.err, "used up")
	if strings.Contains(r.err.Error(), "the-code") {
		t.Errorf("error shows the code: %v", r.err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "openai-codex.json")); !os.IsNotExist(err) {
		t.Errorf("a file was left: %v", err)
	}
}

func TestBrowserRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, _, done := w.begin(t, w.account(t, "openai-codex"), signin.Dialog{})
	redirect, back := w.browser(t, address)
	back.Del("code")
	back.Set("error", "access_denied")
	if status, _ := visit(t, redirect+"?"+back.Encode()); status != http.StatusOK {
		t.Errorf("status = %d, want 200", status)
	}
	authError(t, (<-done).err, "access_denied")
}

// A page on the web that names a host of its own for our address gets nothing.
func TestForeignHostRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, _, done := w.begin(t, w.account(t, "openai-codex"), signin.Dialog{Wait: time.Hour})
	redirect, back := w.browser(t, address)
	u, _ := url.Parse(redirect)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, redirect+"?"+back.Encode(), nil)
	req.Host = "evil.example:" + u.Port()
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("status = %d, want 403", resp.StatusCode)
	}
	visit(t, redirect+"?"+back.Encode())
	if r := <-done; r.err != nil {
		t.Error(r.err)
	}
}

func TestPasted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		line func(redirect string, back url.Values) string
		ok   bool
	}{
		{"address", func(r string, b url.Values) string { return "  " + r + "?" + b.Encode() + " " }, true},
		{"quoted", func(r string, b url.Values) string { return `"` + r + "?" + b.Encode() + `"` }, true},
		{"numeric host", func(r string, b url.Values) string {
			return strings.Replace(r, "localhost", "127.0.0.1", 1) + "?" + b.Encode()
		}, true},
		{"query", func(_ string, b url.Values) string { return b.Encode() }, true},
		{"code", func(_ string, b url.Values) string { return b.Get("code") }, true},
		{"code and state", func(_ string, b url.Values) string { return b.Get("code") + "#" + b.Get("state") }, true},
		{"row 93: wrong state", func(r string, _ url.Values) string { return r + "?code=the-code&state=x" }, false},
		{"wrong state after code", func(_ string, b url.Values) string { return b.Get("code") + "#x" }, false},
		{"other host", func(r string, b url.Values) string {
			return strings.Replace(r, "localhost", "evil.example", 1) + "?" + b.Encode()
		}, false},
		{"other scheme", func(r string, b url.Values) string {
			return strings.Replace(r, "http:", "https:", 1) + "?" + b.Encode()
		}, false},
		{"other path", func(r string, b url.Values) string {
			return strings.Replace(r, "/auth/callback", "/x", 1) + "?" + b.Encode()
		}, false},
		{"other port", func(_ string, b url.Values) string { return "http://localhost:1/auth/callback?" + b.Encode() }, false},
		{"words", func(string, url.Values) string { return "what should I paste?" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			lines := make(chan string, 3)
			address, steps, done := w.begin(t, w.account(t, "openai-codex"), signin.Dialog{Pasted: func() <-chan string { return lines }})
			redirect, back := w.browser(t, address)
			lines <- "" // an empty line is no answer
			lines <- tt.line(redirect, back)
			if !tt.ok {
				if s := <-steps; s.Note == "" {
					t.Errorf("step = %+v, want a note", s)
				}
				lines <- redirect + "?" + back.Encode() // the right one is still welcome
			}
			if r := <-done; r.err != nil {
				t.Fatal(r.err)
			}
			if len(steps) > 0 {
				t.Errorf("unexpected step %+v", <-steps)
			}
		})
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.env["NANOBOT_OPENAI_CODEX_CALLBACK_PORT"] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	a := w.account(t, "openai-codex")
	if _, err := a.Login(t.Context(), signin.Dialog{}); err == nil || !strings.Contains(err.Error(), "--device") {
		t.Errorf("error = %v, want the way out", err)
	}
	closed := make(chan string)
	close(closed)
	if _, err := a.Login(t.Context(), signin.Dialog{Pasted: func() <-chan string { return closed }}); err == nil || !strings.Contains(err.Error(), "--device") {
		t.Errorf("error = %v, want the way out", err)
	}
	lines := make(chan string, 1)
	address, _, done := w.begin(t, a, signin.Dialog{Pasted: func() <-chan string { return lines }})
	redirect, back := w.browser(t, address)
	lines <- redirect + "?" + back.Encode()
	if r := <-done; r.err != nil {
		t.Error(r.err)
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep(t, "openai-codex", "a", "r", time.Now().Add(time.Hour))
	a := w.account(t, "openai-codex")
	if _, err := sign(t, a, "{}"); err != nil {
		t.Fatal(err)
	}
	removed, err := a.Logout(t.Context())
	if err != nil || len(removed) != 1 || !strings.HasSuffix(removed[0], "openai-codex.json") {
		t.Errorf("Logout = %q, %v", removed, err)
	}
	_, err = sign(t, a, "{}")
	authError(t, err, "not signed in")
	if removed, err = a.Logout(t.Context()); err != nil || len(removed) != 0 {
		t.Errorf("second Logout = %q, %v; want nothing", removed, err)
	}
	left, _ := os.ReadDir(w.dir)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
