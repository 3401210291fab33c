package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/oauth"
)

// oauthFile is the format of the file that holds all logins.
type oauthFile struct {
	Version int                    `json:"version"`
	Servers map[string]*oauthEntry `json:"servers"`
	// Generations change when a login is removed, so that whoever read it
	// before cannot write it back.
	Generations map[string]string `json:"generations"`
}

// oauthEntry holds what is kept of one server. It counts only for the address
// it was made for.
type oauthEntry struct {
	Fingerprint string `json:"server_fingerprint"`
	// Lease belongs to the login that began last; an older one may not write.
	Lease    string       `json:"write_lease,omitempty"`
	Tokens   *oauthTokens `json:"tokens,omitempty"`
	Client   *oauthClient `json:"client_info,omitempty"`
	Redirect string       `json:"redirect_uri,omitempty"`
	At       *oauthPlace  `json:"authorization_server,omitempty"`
	// Asked is the scope with which the tokens were asked for, Wanted what the
	// MCP server demanded since, which the next login asks for, too.
	Asked  string `json:"scope_asked,omitempty"`
	Wanted string `json:"scope_wanted,omitempty"`
}

// oauthTokens is a token answer with the moment it ends.
type oauthTokens struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type,omitempty"`
	ExpiresIn int64  `json:"expires_in,omitempty"` // seconds, when it was given
	ExpiresAt int64  `json:"expires_at,omitempty"` // seconds since 1970; 0: not known
	Refresh   string `json:"refresh_token,omitempty"`
	Scope     string `json:"scope,omitempty"`
}

// good reports whether the token can be sent. One that is about to end cannot,
// so that it does not end on the way.
func (t *oauthTokens) good(now time.Time) bool {
	if t.Access == "" {
		return false
	}
	margin := time.Minute
	if t.ExpiresIn > 0 {
		margin = min(margin, time.Duration(t.ExpiresIn)*time.Second/4)
	}
	return t.ExpiresAt == 0 || time.Unix(t.ExpiresAt, 0).Sub(now) > margin
}

// oauthClient is our registration.
type oauthClient struct {
	ID       string   `json:"client_id"`
	Secret   string   `json:"client_secret,omitempty"`
	Method   string   `json:"token_endpoint_auth_method,omitempty"`
	Redirect []string `json:"redirect_uris,omitempty"`
	// Given says that the operator brought the id along.
	Given bool `json:"given,omitempty"`
}

// oauthPlace holds what a refresh needs to know of the authorization server.
type oauthPlace struct {
	Issuer   string `json:"issuer"`
	Token    string `json:"token_endpoint"`
	Resource string `json:"resource"`
}

// oauthStore reads and changes the document of all logins as a whole.
type oauthStore struct{ doc oauth.Document[*oauthFile] }

// oauthLockWait bounds the wait for another process.
const oauthLockWait = 15 * time.Second

func oauthFingerprint(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:])
}

// check makes a document that was read usable.
func (s *oauthStore) check(f *oauthFile) (*oauthFile, error) {
	if f == nil {
		f = &oauthFile{Version: 1}
	}

	if f.Version > 1 {
		return nil, fmt.Errorf("the logins in %s were written by a newer version", s.doc.Where())
	}

	if f.Servers == nil {
		f.Servers = map[string]*oauthEntry{}
	}
	if f.Generations == nil {
		f.Generations = map[string]string{}
	}
	return f, nil
}

// read returns the entry of a server, nil without one for this address, and
// its generation.
func (s *oauthStore) read(ctx context.Context, server, url string) (*oauthEntry, string, error) {
	f, _, err := s.doc.Load(ctx)
	if err == nil {
		f, err = s.check(f)
	}

	if err != nil {
		return nil, "", fmt.Errorf("read logins: %w", err)
	}

	e := f.Servers[server]
	if e == nil || e.Fingerprint != oauthFingerprint(url) {
		return nil, f.Generations[server], nil
	}
	return e, f.Generations[server], nil
}

// update changes the logins unless change reports that there is nothing to do.
func (s *oauthStore) update(ctx context.Context, change func(*oauthFile) bool) error {
	return s.doc.Update(ctx, oauthLockWait, func(f **oauthFile) (bool, error) {
		var err error
		if *f, err = s.check(*f); err != nil {
			return false, err
		}
		return change(*f), nil
	})
}

// lockServer keeps other processes from refreshing the same login: refresh
// tokens are often good for one use only. The document itself stays free.
func (s *oauthStore) lockServer(ctx context.Context, server string) (unlock func(), err error) {
	return s.doc.Lock(ctx, s.doc.Name+"."+oauthFingerprint(server)[:12]+".lock", oauthLockWait)
}

// oauthClaim is the right to write the outcome of one login.
type oauthClaim struct {
	server, url, generation, lease string
	redirect                       string // of the last login
}

// begin claims a server for a login. Logins that began before lose theirs.
func (s *oauthStore) begin(ctx context.Context, server, url string) (oauthClaim, error) {
	c := oauthClaim{server: server, url: url, lease: oauth.Random()}
	err := s.update(ctx, func(f *oauthFile) bool {
		e := f.Servers[server]
		if e == nil || e.Fingerprint != oauthFingerprint(url) {
			e = &oauthEntry{Fingerprint: oauthFingerprint(url)}
			f.Servers[server] = e
		}
		if f.Generations[server] == "" {
			f.Generations[server] = oauth.Random()
		}

		e.Lease = c.lease
		c.generation = f.Generations[server]
		c.redirect = e.Redirect
		return true
	})
	return c, err
}

// errSuperseded ends a login whose outcome is not wanted any more.
var errSuperseded = errors.New("another login or a logout came in between; nothing was kept")

// commit writes the outcome of a login.
func (s *oauthStore) commit(ctx context.Context, c oauthClaim, change func(*oauthEntry)) error {
	kept := false
	err := s.update(ctx, func(f *oauthFile) bool {
		kept = false
		e := f.Servers[c.server]
		if e == nil || e.Lease != c.lease || e.Fingerprint != oauthFingerprint(c.url) || f.Generations[c.server] != c.generation {
			return false
		}
		change(e)
		kept = true
		return true
	})
	if err == nil && !kept {
		err = errSuperseded
	}
	return err
}

// oauthRenewal is the outcome of a refresh.
type oauthRenewal struct {
	generation, used string
	tokens           oauthTokens
	at               *oauthPlace
}

// renew replaces the tokens that were used for a refresh and reports whether
// they were still there.
func (s *oauthStore) renew(ctx context.Context, server string, r oauthRenewal) (kept bool, err error) {
	err = s.update(ctx, func(f *oauthFile) bool {
		kept = false
		e := f.Servers[server]
		if e == nil || e.Tokens == nil || e.Tokens.Refresh != r.used || f.Generations[server] != r.generation {
			return false
		}
		e.Tokens, e.At = &r.tokens, r.at
		kept = true
		return true
	})
	return kept, err
}

// drop forgets tokens that the authorization server does not know any more.
func (s *oauthStore) drop(ctx context.Context, server, generation, used string) error {
	return s.update(ctx, func(f *oauthFile) bool {
		e := f.Servers[server]
		if e == nil || e.Tokens == nil || e.Tokens.Refresh != used || f.Generations[server] != generation {
			return false
		}
		e.Tokens = nil
		return true
	})
}

// remove forgets a server and reports whether there were tokens or a
// registration.
func (s *oauthStore) remove(ctx context.Context, server string) (found bool, err error) {
	if _, found, err := s.doc.Load(ctx); err != nil || !found {
		return false, err
	}

	err = s.update(ctx, func(f *oauthFile) bool {
		e := f.Servers[server]
		found = e != nil && (e.Tokens != nil || e.Client != nil)
		delete(f.Servers, server)
		f.Generations[server] = oauth.Random()
		return true
	})
	return found, err
}
