package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Programs sign in with a secret that the configuration has, or with a token that they
// got for one.

// maxTokens bounds those of one kind that were issued and have not ended.
const maxTokens = 10_000

// Tokens are the ones of one kind that were issued to programs. They live in memory
// only, by their digests. It is safe for concurrent use.
type Tokens struct {
	prefix string

	mu     sync.Mutex
	issued map[[sha256.Size]byte]grant
}

// grant is what a token is good for.
type grant struct {
	end    time.Time
	proven bool // the program that it was given to had proved who it is
}

// NewTokens makes tokens that begin with a prefix, which tells their kind.
func NewTokens(prefix string) *Tokens {
	return &Tokens{prefix: prefix, issued: map[[sha256.Size]byte]grant{}}
}

// Issue makes a token, or none when too many are waiting to be used. Proven says that
// the program that gets it has proved who it is.
func (t *Tokens) Issue(now time.Time, ttl time.Duration, proven bool) (string, bool) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	token := t.prefix + base64.RawURLEncoding.EncodeToString(raw)

	t.mu.Lock()
	defer t.mu.Unlock()

	if len(t.issued) >= maxTokens {
		for k, g := range t.issued {
			if !now.Before(g.end) {
				delete(t.issued, k)
			}
		}
		if len(t.issued) >= maxTokens {
			return "", false
		}
	}

	t.issued[sha256.Sum256([]byte(token))] = grant{end: now.Add(ttl), proven: proven}
	return token, true
}

// Use takes a token out of circulation and reports whether it was good, and whether
// the program that it was issued to had proved who it is.
func (t *Tokens) Use(token string, now time.Time) (proven, ok bool) {
	return t.find(token, now, true)
}

// Good reports whether a token may be used, and used again.
func (t *Tokens) Good(token string, now time.Time) bool {
	_, ok := t.find(token, now, false)
	return ok
}

func (t *Tokens) find(token string, now time.Time, spend bool) (proven, ok bool) {
	if !strings.HasPrefix(token, t.prefix) {
		return false, false
	}

	key := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()

	g, ok := t.issued[key]
	over := !now.Before(g.end)
	if spend || over {
		delete(t.issued, key)
	}
	return g.proven, ok && !over
}

// MinSecret is the length, in bytes, of a secret that cannot be guessed by trying.
const MinSecret = 16

// Strong reports whether a secret cannot be guessed by trying, as one that other
// machines can try must be.
func Strong(secret httpsafe.Secret) bool { return len(secret.Reveal()) >= MinSecret }

// Same compares a secret with what came in a request, in a time that says nothing
// about it. Nothing equals a secret that is not set.
func Same(secret httpsafe.Secret, given string) bool {
	if secret.IsZero() || given == "" {
		return false
	}
	a, b := sha256.Sum256([]byte(secret.Reveal())), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// AnyOf is Same for several secrets. It takes as long for the first as for the last.
func AnyOf(secrets []httpsafe.Secret, given string) bool {
	ok := false
	for _, s := range secrets {
		ok = Same(s, given) || ok
	}
	return ok
}

// Bearer returns the token in the Authorization header of a request, "" if there is none.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
