package signin_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
)

// fake plays every server that a sign-in talks to. It rejects what the real
// ones reject: unknown clients, codes and refresh tokens used twice, a
// verifier that does not fit.
type fake struct {
	mu        sync.Mutex
	codes     map[string]code // given out, not yet redeemed
	refresh   string          // the refresh token that works; "" none does
	access    string          // the access token that works
	issued    int
	refreshes int
	expiresIn int
	pending   []string // answers of the poll before the token
	polls     []time.Time
	exchanges int
	github    string // the GitHub token that works
	endpoint  string // endpoints.api of the exchange
	denied    int    // status of the exchange instead
	agents    map[string]bool
	gate      chan struct{} // holds refreshes up until closed
}

type code struct{ challenge, redirect string }

func newFake() *fake {
	return &fake{codes: map[string]code{}, expiresIn: 3600, github: "gh-good", agents: map[string]bool{}}
}

// jwt makes an unsigned token.
func jwt(claims map[string]any) string {
	part := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]string{"alg": "none"}) + "." + part(claims) + ".sig"
}

func (f *fake) issue() map[string]any {
	f.issued++
	f.access = jwt(map[string]any{"n": f.issued})
	f.refresh = fmt.Sprintf("refresh-%d", f.issued)
	return map[string]any{
		"access_token": f.access, "refresh_token": f.refresh, "expires_in": f.expiresIn,
		"id_token": jwt(map[string]any{
			"email": "ann@example.com", "https://api.openai.com/auth": map[string]any{"chatgpt_account_id": "acc-1"},
		}),
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.agents[r.Header.Get("User-Agent")] = true
	gate := f.gate
	f.mu.Unlock()
	if gate != nil && r.URL.Path == "/oauth/token" {
		<-gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/oauth/token":
		_ = r.ParseForm()
		f.token(r.PostForm, reply)
	case "/api/accounts/deviceauth/usercode":
		reply(200, map[string]any{"device_auth_id": "dev-1", "user_code": "ABCD-EFGH", "interval": "3"})
	case "/api/accounts/deviceauth/token":
		f.polls = append(f.polls, time.Now())
		if len(f.pending) > 0 {
			f.pending = f.pending[1:]
			reply(403, map[string]any{"error": "pending"})
			return
		}
		f.codes["dc"] = code{challenge: "", redirect: "/deviceauth/callback"}
		reply(200, map[string]any{"authorization_code": "dc", "code_verifier": "server-made"})
	case "/login/device/code":
		if r.FormValue("client_id") == "" || r.FormValue("scope") != "read:user" {
			reply(400, map[string]any{"error": "invalid_request"})
			return
		}
		reply(200, map[string]any{
			"device_code": "device-secret", "user_code": "WXYZ-1234", "verification_uri": "https://github.com/login/device",
			"interval": 5, "expires_in": 900,
		})
	case "/login/oauth/access_token":
		f.polls = append(f.polls, time.Now())
		if r.FormValue("device_code") != "device-secret" || r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:device_code" {
			reply(200, map[string]any{"error": "incorrect_device_code"})
			return
		}
		if len(f.pending) > 0 {
			e := f.pending[0]
			f.pending = f.pending[1:]
			reply(200, map[string]any{"error": e, "error_description": "about " + e})
			return
		}
		reply(200, map[string]any{"access_token": f.github})
	case "/user":
		if r.Header.Get("Authorization") != "Bearer "+f.github {
			reply(401, map[string]any{"message": "Bad credentials"})
			return
		}
		reply(200, map[string]any{"login": "ann"})
	case "/copilot_internal/v2/token":
		f.exchange(r, reply)
	default:
		reply(404, map[string]any{"error": "no such place " + r.URL.Path})
	}
}

func (f *fake) token(form url.Values, reply func(int, any)) {
	if form.Get("client_id") != "app_EMoamEEZ73f0CkXaXp7hrann" {
		reply(401, map[string]any{"error": "invalid_client"})
		return
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		c, ok := f.codes[form.Get("code")]
		delete(f.codes, form.Get("code"))
		if !ok || !strings.HasSuffix(form.Get("redirect_uri"), c.redirect) || c.challenge != "" && c.challenge != challengeOf(form.Get("code_verifier")) {
			reply(400, map[string]any{"error": "invalid_grant", "error_description": "code " + form.Get("code") + " is not valid"})
			return
		}
		reply(200, f.issue())
	case "refresh_token":
		f.refreshes++
		if f.refresh == "" || form.Get("refresh_token") != f.refresh {
			reply(401, map[string]any{"error": map[string]any{"code": "refresh_token_reused", "message": "refresh token " + form.Get("refresh_token") + " was already used"}})
			return
		}
		reply(200, f.issue())
	default:
		reply(400, map[string]any{"error": "unsupported_grant_type"})
	}
}

func (f *fake) exchange(r *http.Request, reply func(int, any)) {
	f.exchanges++
	switch {
	case r.Header.Get("Authorization") != "token "+f.github:
		reply(401, map[string]any{"message": "Bad credentials"})
	case r.Header.Get("Editor-Version") == "" || r.Header.Get("Editor-Plugin-Version") == "":
		reply(400, map[string]any{"message": "who are you"})
	case f.denied != 0:
		reply(f.denied, map[string]any{"message": "no access to Copilot"})
	default:
		v := map[string]any{"token": fmt.Sprintf("pass-%d", f.exchanges), "expires_at": time.Now().Add(25 * time.Minute).Unix()}
		if f.endpoint != "" {
			v["endpoints"] = map[string]string{"api": f.endpoint}
		}
		reply(200, v)
	}
}

func (f *fake) count() (refreshes, exchanges int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refreshes, f.exchanges
}

// env points every address at one server.
func env(base string) map[string]string {
	return map[string]string{
		"NANOBOT_NO_KEYRING":                 "1",
		"NANOBOT_OPENAI_CODEX_AUTH_URL":      base,
		"NANOBOT_OPENAI_CODEX_BASE_URL":      base + "/backend-api",
		"NANOBOT_OPENAI_CODEX_CALLBACK_PORT": "0",
		"NANOBOT_GITHUB_DEVICE_CODE_URL":     base + "/login/device/code",
		"NANOBOT_GITHUB_ACCESS_TOKEN_URL":    base + "/login/oauth/access_token",
		"NANOBOT_GITHUB_USER_URL":            base + "/user",
		"NANOBOT_COPILOT_TOKEN_URL":          base + "/copilot_internal/v2/token",
	}
}

// world is a fake provider and a folder of tokens.
type world struct {
	*fake
	dir, url string
	env      map[string]string
	client   *http.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	f := newFake()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return &world{fake: f, dir: filepath.Join(t.TempDir(), "auth"), url: s.URL, env: env(s.URL), client: s.Client()}
}

func (w *world) account(t *testing.T, name string) *signin.Account {
	t.Helper()
	a, err := signin.New(name, w.options())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// folderStore is the store of a folder of tokens, as the program opens it.
func folderStore(dir string) store.Store {
	return store.Under(disk.Open(filepath.Dir(dir), nil), filepath.Base(dir))
}

func (w *world) options() signin.Options {
	return signin.Options{
		Store: folderStore(w.dir), Client: w.client, Version: "9", Getenv: func(k string) string { return w.env[k] }, Home: w.env["HOME"],
	}
}

// keep writes a token file, as an earlier sign-in would have.
func (w *world) keep(t *testing.T, name, access, refresh string, expires time.Time) {
	t.Helper()
	b, _ := json.Marshal(map[string]any{"access": access, "refresh": refresh, "expires": expires.UnixMilli(), "account_id": "acc-1"})
	w.write(t, name, string(b))
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, name+".json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// kept reads the token file of Codex.
func (w *world) kept(t *testing.T) (v struct {
	Access, Refresh string
	Expires         int64
	AccountID       string `json:"account_id"`
	Name            string
	Keyring         bool
},
) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, "openai-codex.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// sign returns the headers and the address that a signer gives a request.
func sign(t *testing.T, a *signin.Account, body string) (*http.Request, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.BaseURL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req, a.Signer().Sign(t.Context(), req, []byte(body))
}
