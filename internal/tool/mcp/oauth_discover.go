package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/nanobot-go/nanobot/internal/base/oauth"
)

// oauthFound is everything that must be known before a login.
type oauthFound struct {
	meta     *oauthex.AuthServerMeta
	resource string // RFC 8707: whom the token is for
	scope    string
}

// errNoLogin says that a server wants none.
var errNoLogin = errors.New("the server answers without a login and names no login server")

// discover asks an MCP server where to log in. It sends no credentials.
func (w *oauthWire) discover(ctx context.Context, server string) (oauthFound, error) {
	hint, refused, err := w.challenge(ctx, server)
	if err != nil {
		return oauthFound{}, err
	}

	res, err := w.resource(ctx, server, hint.metadata)
	if err != nil {
		return oauthFound{}, err
	}
	if res == nil {
		return w.olderServer(ctx, server, hint.scope, refused)
	}

	found := oauthFound{resource: res.Resource, scope: hint.scope}
	if found.scope == "" {
		found.scope = strings.Join(res.ScopesSupported, " ")
	}

	var problems []error
	for _, issuer := range res.AuthorizationServers[:min(len(res.AuthorizationServers), 3)] {
		meta, err := w.metadata(ctx, issuer, false)
		if err == nil && meta == nil {
			err = fmt.Errorf("%s says nothing about itself", oauth.HostOf(issuer))
		}

		if err != nil {
			problems = append(problems, err)
			continue
		}

		found.meta = meta
		return found.offline(w.alone), nil
	}

	return oauthFound{}, errors.Join(problems...)
}

// offline asks for a token that can be renewed where that needs asking.
func (f oauthFound) offline(alone bool) oauthFound {
	const offline = "offline_access"
	if !alone && slices.Contains(f.meta.ScopesSupported, offline) && !slices.Contains(strings.Fields(f.scope), offline) {
		f.scope = strings.TrimSpace(f.scope + " " + offline)
	}
	return f
}

// oauthHint holds what a 401 says about the login.
type oauthHint struct{ metadata, scope string }

// challenge provokes a 401 by asking without a token. The first question opens
// nothing at any kind of MCP server; some of them look at POST only.
func (w *oauthWire) challenge(ctx context.Context, server string) (hint oauthHint, refused bool, err error) {
	for _, q := range []oauth.Request{
		{URL: server, Header: map[string]string{"Accept": "text/event-stream"}},
		{
			URL: server, Body: map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"},
			Header: map[string]string{"Accept": "application/json, text/event-stream"},
		},
	} {
		a, err := w.ask(ctx, q)
		if err != nil {
			return hint, false, err
		}
		if a.Status != http.StatusUnauthorized {
			continue
		}

		// A header that cannot be read is one that says nothing.
		list, _ := oauthex.ParseWWWAuthenticate(a.Header.Values("WWW-Authenticate"))
		for _, c := range list {
			if c.Scheme == "bearer" {
				hint = oauthHint{metadata: c.Params["resource_metadata"], scope: c.Params["scope"]}
			}
		}
		return hint, true, nil
	}
	return hint, false, nil
}

// resource finds the description of the server (RFC 9728), nil if it has none.
// The SDK's function refuses a server on a private network and a resource that
// is a folder above the server, which many hosted servers name.
func (w *oauthWire) resource(ctx context.Context, server, hint string) (*oauthex.ProtectedResourceMetadata, error) {
	u, err := oauthAddress(server)
	if err != nil {
		return nil, err
	}

	const known = "/.well-known/oauth-protected-resource"
	places := []string{oauthAt(u, known+strings.TrimRight(u.EscapedPath(), "/")), oauthAt(u, known)}
	if hint != "" {
		places = slices.Insert(places, 0, hint)
	}

	for i, place := range slices.Compact(places) {
		var r oauthex.ProtectedResourceMetadata
		ok, err := w.document(ctx, place, &r)
		if err != nil && i == 0 && hint != "" {
			return nil, fmt.Errorf("read what the server says about logins: %w", err)
		}
		if err != nil || !ok {
			continue // a server that knows no such page may answer anything
		}
		if !oauthCovers(r.Resource, u) {
			return nil, fmt.Errorf("the server's login is for %q, not for %s", oauth.Clean(r.Resource), u.Redacted())
		}
		if len(r.AuthorizationServers) == 0 {
			return nil, errors.New("the server names no login server")
		}
		return &r, nil
	}

	return nil, nil // none is an answer
}

// oauthCovers reports whether a resource is the server or a folder above it on
// the same origin. Anything else could be the resource of another server.
func oauthCovers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Host == "" || oauthOrigin(r) != oauthOrigin(server) || r.Fragment != "" {
		return false
	}
	have, want := strings.TrimRight(server.EscapedPath(), "/")+"/", strings.TrimRight(r.EscapedPath(), "/")+"/"
	return strings.HasPrefix(have, want)
}

// olderServer takes the MCP server for its own login server, as the first
// version of the protocol had it.
func (w *oauthWire) olderServer(ctx context.Context, server, scope string, refused bool) (oauthFound, error) {
	u, err := oauthAddress(server)
	if err != nil {
		return oauthFound{}, err
	}

	issuer := strings.TrimSuffix(oauthAt(u, "/"), "/")
	meta, err := w.metadata(ctx, issuer, true)
	if err != nil {
		return oauthFound{}, err
	}

	if meta == nil {
		if !refused {
			return oauthFound{}, errNoLogin
		}
		meta = &oauthex.AuthServerMeta{
			Issuer:                issuer,
			AuthorizationEndpoint: issuer + "/authorize",
			TokenEndpoint:         issuer + "/token",
			RegistrationEndpoint:  issuer + "/register",
		}
	}

	res := *u
	res.Fragment = ""
	return oauthFound{meta: meta, resource: res.String(), scope: scope}.offline(w.alone), nil
}

// metadata asks an authorization server about itself (RFC 8414, or OpenID
// discovery), nil if it does not say. The SDK's function refuses one on a
// private network and takes plain for PKCE. An issuer that we guessed may have
// another path: what its own origin says about itself is not a mix-up.
func (w *oauthWire) metadata(ctx context.Context, issuer string, guessed bool) (*oauthex.AuthServerMeta, error) {
	u, err := oauthAddress(issuer)
	if err != nil {
		return nil, err
	}

	path := strings.TrimRight(u.EscapedPath(), "/")
	places := []string{
		oauthAt(u, "/.well-known/oauth-authorization-server"+path), oauthAt(u, "/.well-known/openid-configuration"+path),
		oauthAt(u, path+"/.well-known/openid-configuration"),
	}
	for _, place := range slices.Compact(places) {
		var m oauthex.AuthServerMeta
		ok, err := w.document(ctx, place, &m)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}

		if named, err := url.Parse(m.Issuer); guessed && err == nil && oauthOrigin(named) == oauthOrigin(u) {
			issuer = m.Issuer
		}
		return &m, w.checkMetadata(&m, issuer)
	}

	return nil, nil // none is an answer
}

// checkMetadata refuses what a mixed-up or careless server says (RFC 8414, 3.3).
func (w *oauthWire) checkMetadata(m *oauthex.AuthServerMeta, issuer string) error {
	if strings.TrimRight(m.Issuer, "/") != strings.TrimRight(issuer, "/") {
		return fmt.Errorf("the login server at %s says that it is %q", oauth.HostOf(issuer), oauth.Clean(m.Issuer))
	}

	places := []string{m.TokenEndpoint}
	if !w.alone {
		if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
			return fmt.Errorf("the login server at %s does not offer PKCE, without which a code could be stolen", oauth.HostOf(issuer))
		}
		if err := w.page(m.AuthorizationEndpoint); err != nil {
			return fmt.Errorf("the login server at %s: %w", oauth.HostOf(issuer), err)
		}
	}

	if m.RegistrationEndpoint != "" {
		places = append(places, m.RegistrationEndpoint)
	}

	for _, place := range places {
		if _, err := oauthAddress(place); err != nil {
			return fmt.Errorf("the login server at %s: %w", oauth.HostOf(issuer), err)
		}
	}
	return nil
}

// document reads a JSON page. ok is false if there is no such page.
func (w *oauthWire) document(ctx context.Context, place string, v any) (ok bool, err error) {
	a, err := w.ask(ctx, oauth.Request{URL: place})
	if err != nil {
		return false, err
	}
	if a.Status >= 500 {
		return false, fmt.Errorf("%s answered with status %d", oauth.HostOf(place), a.Status)
	}
	return a.Status == http.StatusOK && json.Unmarshal(a.Body, v) == nil, nil
}

// oauthAt returns a page on the origin of u.
func oauthAt(u *url.URL, path string) string { return u.Scheme + "://" + u.Host + path }
