package auth_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// A token is used once or until its end, and says whether who has it had proved who
// they are. One of another kind is not good.
func TestTokens(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	tokens := auth.NewTokens("one_")
	issue := func(proven bool) string {
		t.Helper()
		token, ok := tokens.Issue(now, time.Minute, proven)
		if !ok {
			t.Fatal("no token was issued")
		}
		return token
	}

	once := issue(true)
	if proven, ok := tokens.Use(once, now); !proven || !ok {
		t.Errorf("Use = %v, %v, want a good token of a program that proved itself", proven, ok)
	}
	if _, ok := tokens.Use(once, now); ok || tokens.Good(once, now) {
		t.Error("a used token is good again")
	}
	if proven, ok := tokens.Use(issue(false), now); proven || !ok {
		t.Errorf("Use = %v, %v, want a good token of a program that proved nothing", proven, ok)
	}

	again := issue(true)
	if !tokens.Good(again, now) || !tokens.Good(again, now.Add(time.Minute-1)) {
		t.Error("a token is not good until its end")
	}
	if auth.NewTokens("two_").Good(again, now) || tokens.Good("two_x", now) || tokens.Good("", now) {
		t.Error("a token of another kind is good")
	}
	if tokens.Good(again, now.Add(time.Minute)) || auth.Waiting(tokens) != 0 {
		t.Errorf("a token is good after its end; %d wait", auth.Waiting(tokens))
	}
}

// Tokens that are not used are bounded, until those that ended make room.
func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	tokens := auth.NewTokens("one_")
	for range auth.MaxTokens {
		if _, ok := tokens.Issue(now, time.Minute, true); !ok {
			t.Fatal("refused too early")
		}
	}
	if _, ok := tokens.Issue(now, time.Minute, true); ok {
		t.Error("one more than the bound was issued")
	}
	if _, ok := tokens.Issue(now.Add(time.Minute), time.Minute, true); !ok || auth.Waiting(tokens) != 1 {
		t.Errorf("what has ended leaves no room: %v, %d wait", ok, auth.Waiting(tokens))
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	secret, other := httpsafe.NewSecret("a-secret-of-ours"), httpsafe.NewSecret("another-secret")
	for _, c := range []struct {
		name  string
		of    httpsafe.Secret
		given string
		want  bool
	}{
		{"the secret", secret, "a-secret-of-ours", true},
		{"its beginning", secret, "a-secret", false},
		{"another", secret, "another-secret", false},
		{"nothing", secret, "", false},
		{"nothing for a secret that is not set", httpsafe.Secret{}, "", false},
		{"anything for a secret that is not set", httpsafe.Secret{}, "x", false},
	} {
		if got := auth.Same(c.of, c.given); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	both := []httpsafe.Secret{secret, other}
	if !auth.AnyOf(both, "a-secret-of-ours") || !auth.AnyOf(both, "another-secret") || auth.AnyOf(both, "x") || auth.AnyOf(nil, "") {
		t.Error("AnyOf does not tell its secrets from others")
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer  abc ": "abc", "Basic abc": "", "abc": "", "": "", "Bearer": "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Authorization", header)
		if got := auth.Bearer(r); got != want {
			t.Errorf("Bearer of %q = %q, want %q", header, got, want)
		}
	}
}

func TestListenerToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, where, err := auth.ListenerToken(t.Context(), "", disk.Open(dir, nil))
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := auth.ListenerToken(t.Context(), "", disk.Open(dir, nil))
	if err != nil || first.Reveal() != second.Reveal() || len(first.Reveal()) < 32 {
		t.Errorf("tokens %q and %q, error %v, want one long token", first.Reveal(), second.Reveal(), err)
	}
	if fi, err := os.Stat(where); err != nil || os.PathSeparator == '/' && fi.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", where, fi.Mode(), err)
	}
}
