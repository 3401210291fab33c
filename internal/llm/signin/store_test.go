package signin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/keyring"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
)

// drawer is a keyring in memory.
type drawer struct {
	held   map[string]string
	limit  int
	broken error
	asked  int
}

func (d *drawer) Get(_ context.Context, service, user string) (string, error) {
	d.asked++
	v, ok := d.held[service+"/"+user]
	if d.broken != nil || !ok {
		return "", errors.Join(errors.New("nothing there"), d.broken)
	}
	return v, nil
}

func (d *drawer) Set(_ context.Context, service, user, value string) error {
	d.asked++
	if d.broken == nil {
		d.held[service+"/"+user] = value
	}
	return d.broken
}

func (d *drawer) Delete(_ context.Context, service, user string) error {
	d.asked++
	delete(d.held, service+"/"+user)
	return d.broken
}

func (d *drawer) Limit() int { return d.limit }

func newDrawer() *drawer { return &drawer{held: map[string]string{}, limit: 1000} }

// options keeps tokens in a folder of the test's own.
func testOptions(t *testing.T, env map[string]string) Options {
	t.Helper()
	root := t.TempDir()
	return Options{
		Store: store.Under(disk.Open(root, nil), "auth"), Home: filepath.Join(root, "home"),
		Getenv: func(k string) string {
			if k == "NANOBOT_NO_KEYRING" {
				return "1"
			}
			return env[k]
		},
	}
}

func testAccount(t *testing.T, name string, o Options, v keyring.System) *Account {
	t.Helper()
	a, err := New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	a.store.vault = v
	return a
}

func someToken() token {
	return token{Access: "the-access", Refresh: "the-refresh", Expires: time.Now().Add(time.Hour).UnixMilli(), AccountID: "acc", Name: "ann"}
}

func TestKeyring(t *testing.T) {
	t.Parallel()
	d := newDrawer()
	a := testAccount(t, "openai-codex", testOptions(t, nil), d)
	want := someToken()
	if err := a.store.save(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(a.store.doc.Where())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(file), "the-access") || strings.Contains(string(file), "the-refresh") {
		t.Errorf("the file holds the token too: %s", file)
	}
	if got, err := a.store.load(t.Context()); err != nil || got != want {
		t.Errorf("load = %+v, %v; want %+v", got, err, want)
	}
	d.asked = 0
	if st := a.Status(); !st.SignedIn || st.Account != "ann" || st.Where != "system keyring" || d.asked != 0 {
		t.Errorf("Status = %+v after %d questions to the keyring; want none", st, d.asked)
	}
	removed, err := a.Logout(t.Context())
	if err != nil || len(removed) != 2 || len(d.held) != 0 {
		t.Errorf("Logout = %q, %v, keyring %v; want both gone", removed, err, d.held)
	}
}

func TestKeyringFallsBack(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*drawer)
	}{
		{"too long", func(d *drawer) { d.limit = 20 }},
		{"broken", func(d *drawer) { d.broken = errors.New("no daemon") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDrawer()
			a := testAccount(t, "openai-codex", testOptions(t, nil), d)
			if err := a.store.save(t.Context(), token{Access: "older", Expires: 1}); err != nil {
				t.Fatal(err)
			}
			tt.change(d)
			want := someToken()
			if err := a.store.save(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			if got, err := a.store.load(t.Context()); err != nil || got != want {
				t.Errorf("load = %+v, %v; want %+v from the file", got, err, want)
			}
			if len(d.held) != 0 {
				t.Errorf("the old token is still in the keyring")
			}
			if fi, err := os.Stat(a.store.doc.Where()); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v; want 0600", fi.Mode(), err)
			}
		})
	}
}

func TestKeyringGone(t *testing.T) {
	t.Parallel()
	d := newDrawer()
	a := testAccount(t, "openai-codex", testOptions(t, nil), d)
	if err := a.store.save(t.Context(), someToken()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(){
		"emptied": func() { clear(d.held) }, "switched off": func() { a.store.vault = nil },
	} {
		change()
		a.tokens.Put(token{})
		err := a.Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), "keyring") || !strings.Contains(err.Error(), "provider login") {
			t.Errorf("%s: error = %v, want the keyring and the way out", name, err)
		}
	}
}

func TestDamagedStore(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "torn": `{"access":"abc`, "list": "[]", "no token": `{"refresh":"r"}`, "binary": "\x00\x01", "wrong kinds": `{"access":5}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := testAccount(t, "openai-codex", testOptions(t, nil), nil)
			if err := errors.Join(os.MkdirAll(filepath.Dir(a.store.doc.Where()), 0o755), os.WriteFile(a.store.doc.Where(), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			err := a.Check(t.Context())
			if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "provider login openai-codex") {
				t.Errorf("error = %v, want damaged and the way out", err)
			}
			if st := a.Status(); st.SignedIn || st.Problem == "" {
				t.Errorf("Status = %+v, want a problem", st)
			}
			if b, err := os.ReadFile(a.store.doc.Where()); err != nil || string(b) != text {
				t.Errorf("the file was changed to %q, %v", b, err)
			}
			if err := a.store.save(t.Context(), someToken()); err != nil {
				t.Fatal(err)
			}
			if err := a.Check(t.Context()); err != nil {
				t.Errorf("after signing in again: %v", err)
			}
			if fi, err := os.Stat(filepath.Dir(a.store.doc.Where())); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o700 {
				t.Errorf("folder mode %v, %v; want 0700", fi.Mode(), err)
			}
		})
	}
}

// put writes a file below the home folder.
func put(t *testing.T, path string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestPythonImport(t *testing.T) {
	t.Parallel()
	type file = map[string]any
	later := time.Now().Add(time.Hour).UnixMilli()
	tests := []struct {
		name, provider string
		override       bool
		application    string
		file           string
		content        file
		want           string // access token, "" if nothing is taken over
	}{
		{"codex", "openai-codex", false, "oauth-cli-kit", "codex.json", file{"access": "a", "refresh": "r", "expires": later, "account_id": "x"}, "a"},
		{"copilot", "github-copilot", false, "nanobot", "github-copilot.json", file{"access": "g", "refresh": "", "expires": later, "account_id": "ann"}, "g"},
		{"moved", "openai-codex", true, "", "", file{"access": "a", "refresh": "r", "expires": later}, "a"},
		{"moved, of the other provider", "github-copilot", true, "", "", file{"access": "a", "refresh": "r", "expires": later}, ""},
		{"damaged", "openai-codex", false, "oauth-cli-kit", "codex.json", file{"access": 5}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{}
			o := testOptions(t, env)
			path := filepath.Join(pythonFolder(o, tt.application), tt.file)
			if tt.override {
				path = filepath.Join(t.TempDir(), "moved.json")
				env["OAUTH_CLI_KIT_TOKEN_PATH"] = path
			}
			put(t, path, tt.content)
			before, _ := os.ReadFile(path)
			a := testAccount(t, tt.provider, o, nil)
			if st := a.Status(); st.SignedIn != (tt.want != "") {
				t.Errorf("Status before = %+v", st)
			}
			err := a.Check(t.Context())
			if tt.want == "" {
				if !errors.Is(err, errNotSignedIn) {
					t.Errorf("error = %v, want ErrNotSignedIn", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := a.store.load(t.Context()); err != nil || got.Access != tt.want {
				t.Errorf("kept %+v, %v; want our own copy", got, err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Errorf("the other program's file was changed to %s", after)
			}
			// Once: what was taken over may be used up there by now.
			if err := os.Rename(a.store.doc.Where(), a.store.doc.Where()+".aside"); err != nil {
				t.Fatal(err)
			}
			if err := testAccount(t, tt.provider, o, nil).Check(t.Context()); !errors.Is(err, errNotSignedIn) {
				t.Errorf("second import: %v, want ErrNotSignedIn", err)
			}
			if err := os.Rename(a.store.doc.Where()+".aside", a.store.doc.Where()); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Logout(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := testAccount(t, tt.provider, o, nil).Check(t.Context()); !errors.Is(err, errNotSignedIn) {
				t.Errorf("after Logout: %v, want ErrNotSignedIn", err)
			}
		})
	}
}

// The Codex CLI's token is borrowed while it lasts. Its refresh token is never
// read, because using it would sign the CLI out.
func TestCodexCLIBorrowed(t *testing.T) {
	t.Parallel()
	o := testOptions(t, nil)
	path := filepath.Join(o.Home, ".codex", "auth.json")
	put(t, path, map[string]any{"tokens": map[string]any{"access_token": "cli", "refresh_token": "cli-refresh", "account_id": "acc"}})
	a := testAccount(t, "openai-codex", o, nil)
	got, err := a.token(t.Context())
	if err != nil || got.Access != "cli" || got.AccountID != "acc" || got.Refresh != "" {
		t.Errorf("token = %+v, %v; want the CLI's without refresh", got, err)
	}
	if _, err := os.Stat(a.store.doc.Where()); !os.IsNotExist(err) {
		t.Errorf("a copy was kept: %v", err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := testAccount(t, "openai-codex", o, nil).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("error = %v, want expired", err)
	}
	if removed, err := a.Logout(t.Context()); err != nil || len(removed) == 0 {
		t.Errorf("Logout = %q, %v", removed, err)
	}
	if st := a.Status(); st.SignedIn {
		t.Errorf("Status after Logout = %+v", st)
	}
}

func TestLockWaits(t *testing.T) {
	t.Parallel()
	a := testAccount(t, "openai-codex", testOptions(t, nil), nil)
	unlock, err := a.store.alone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.store.alone(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
	unlock()
	again, err := a.store.alone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestAccountName(t *testing.T) {
	t.Parallel()
	for _, jwt := range []string{"", "a.b.c", "a.b", "e30.e30.x", "e30.!!!.x"} {
		if c := claims(jwt); len(c) != 0 {
			t.Errorf("claims(%q) = %v, want none", jwt, c)
		}
	}
	if _, err := New("anthropic", Options{}); err == nil || !strings.Contains(err.Error(), "openai-codex") {
		t.Errorf("error = %v, want the names there are", err)
	}
	for _, name := range []string{"openai_codex", "openai-codex", "OpenAI-Codex", "codex", "copilot"} {
		if !Known(name) {
			t.Errorf("Known(%q) = false", name)
		}
	}
}
