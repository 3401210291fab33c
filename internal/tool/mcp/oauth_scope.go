package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
)

// Bounds of the scopes that a server can demand one after the other.
const (
	maxScopes    = 50
	maxScopeText = 2000 // bytes of all together
)

var (
	// errMoreRights says that a login that asks for more may help, errScope that
	// it would not.
	errMoreRights = errors.New("the server wants more rights for this request than the login asked for")
	errScope      = errors.New("the server refuses this request: the rights of the login do not suffice")
)

// joinScopes adds scopes to others, each once. What is not a scope (RFC 6749,
// 3.3) is left out.
func joinScopes(have, more string) string {
	list := strings.Fields(have)
	odd := func(r rune) bool { return r < '!' || r > '~' || r == '"' || r == '\\' }
	for s := range strings.FieldsSeq(more) {
		if !slices.Contains(list, s) && !strings.ContainsFunc(s, odd) {
			list = append(list, s)
		}
	}
	return strings.Join(list, " ")
}

// loginScope returns what a login asks for: what the operator wrote, else what
// the server names for a beginning and what it demanded since.
func (a *OAuth) loginScope(ctx context.Context, server, url, found string) (string, error) {
	if own := a.o.Clients[server].Scope; own != "" {
		return own, nil
	}
	e, err := a.entry(ctx, server, url)
	if err != nil || e == nil {
		return joinScopes(found, ""), err
	}
	return joinScopes(found, e.Wanted), nil
}

// StepUp implements Authorizer. A scope that was asked for already is not asked
// for again, so that a server cannot send a person in circles.
func (a *OAuth) StepUp(ctx context.Context, server, url string, refused httpsafe.Secret, scope string) error {
	c := a.o.Clients[server]
	if c.Alone {
		return a.stepUpAlone(server, refused, scope)
	}

	var out error
	err := a.store.update(ctx, func(f *oauthFile) bool {
		e := f.Servers[server]
		out = nil
		if e == nil || e.Tokens == nil || e.Fingerprint != oauthFingerprint(url) {
			out = loginNeeded(server)
			return false
		}
		if e.Tokens.Access != refused.Reveal() {
			return false // there is another one already
		}

		wanted, err := c.more(e, scope)
		if out = err; err != nil {
			return false
		}

		out = fmt.Errorf("%w: %w", errMoreRights, loginNeeded(server))
		changed := wanted != e.Wanted
		e.Wanted = wanted
		return changed
	})
	return errors.Join(err, out)
}

func (a *OAuth) stepUpAlone(server string, refused httpsafe.Secret, scope string) error {
	a.mu.Lock()
	defer a.mu.Unlock()

	e := a.granted[server]
	if e == nil || e.Tokens.Access != refused.Reveal() {
		return nil
	}

	wanted, err := a.o.Clients[server].more(e, scope)
	if err != nil {
		return err
	}

	next := *e
	next.Wanted = wanted
	a.granted[server], a.refused[server] = &next, refused.Reveal()
	return nil
}

// more returns what to ask for in order to get a scope, too.
func (c Client) more(e *oauthEntry, scope string) (string, error) {
	switch {
	case joinScopes(e.Asked, scope) == joinScopes(e.Asked, ""):
		return "", errScope
	case c.Scope != "":
		return "", fmt.Errorf("%w; the scope is set in the configuration", errScope)
	}

	wanted := joinScopes(e.Wanted, scope)
	if len(strings.Fields(wanted)) > maxScopes || len(wanted) > maxScopeText {
		return "", errScope
	}
	return wanted, nil
}

// grant gets a token with the client's own secret.
func (a *OAuth) grant(ctx context.Context, server, address string) (oauthTokens, error) {
	w, err := a.wire(address)
	if err != nil {
		return oauthTokens{}, err
	}

	w.alone = true
	found, err := w.discover(ctx, address)
	if err != nil {
		return oauthTokens{}, fmt.Errorf("find the login server of %s: %w", server, err)
	}

	c := a.o.Clients[server]
	scope, err := a.loginScope(ctx, server, address, found.scope)
	if err != nil {
		return oauthTokens{}, err
	}

	e := &oauthEntry{
		Client: &oauthClient{ID: c.ID, Secret: c.Secret.Reveal(), Method: tokenMethod(found.meta, basicSecret, postSecret), Given: true},
		At:     &oauthPlace{Issuer: found.meta.Issuer, Token: found.meta.TokenEndpoint, Resource: found.resource},
		Asked:  scope,
	}

	conf := e.config()
	conf.Scopes = strings.Fields(scope)
	tokens, err := w.grant(e, a.o.Now(), func(wire oauth.Wire) (*oauth2.Token, error) {
		return wire.Grant(ctx, conf, url.Values{"resource": {found.resource}})
	})
	if err != nil {
		return tokens, fmt.Errorf("use the client credentials of %s: %w", server, err)
	}

	e.Tokens = &tokens
	a.mu.Lock()
	defer a.mu.Unlock()

	if old := a.granted[server]; old != nil {
		e.Wanted = old.Wanted
	}

	a.granted[server] = e
	return tokens, nil
}
