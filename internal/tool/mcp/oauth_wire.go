package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
)

// oauthWire talks to one MCP server and the login servers it names.
type oauthWire struct {
	home    string         // origin of the MCP server
	own     oauth.Wire     // for that origin only
	near    *oauth.Wire    // for this machine, if the MCP server is on it
	guarded oauth.Wire     // for everything else
	allow   []netip.Prefix // private addresses that login servers may have
	alone   bool           // no person is sent to a browser
}

func (a *OAuth) wire(server string) (*oauthWire, error) {
	u, err := oauthAddress(server)
	if err != nil {
		return nil, err
	}

	own, err := httpsafe.Client(httpsafe.Options{
		Proxy: a.o.Proxy, Direct: httpsafe.IsLocal(server), HeaderTimeout: oauth.Timeout,
	})
	if err != nil {
		return nil, err
	}

	guarded, err := httpsafe.Guarded(httpsafe.GuardOptions{
		Allow: a.o.Allow, Strict: a.o.Strict, Proxy: a.o.Proxy, EnvProxy: a.o.Proxy == "", Timeout: oauth.Timeout,
	})
	if err != nil {
		return nil, err
	}

	w := &oauthWire{
		home: oauthOrigin(u), own: oauth.Wire{Client: own, Agent: a.o.Agent}, guarded: oauth.Wire{Client: guarded, Agent: a.o.Agent}, allow: a.o.Allow,
	}
	if oauth.Loopback(u.Hostname()) {
		here := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		client, err := httpsafe.Guarded(httpsafe.GuardOptions{Allow: here, Timeout: oauth.Timeout})
		if err != nil {
			return nil, err
		}
		w.near = &oauth.Wire{Client: client, Agent: a.o.Agent}
		w.allow = append(here, w.allow...)
	}

	return w, nil
}

// page checks the address of a login page. Only the browser opens it, so no
// guard sees it: a page on a private network must be one that the operator's
// settings allow.
func (w *oauthWire) page(raw string) error {
	u, err := oauthAddress(raw)
	if err != nil || oauthOrigin(u) == w.home {
		return err
	}

	ip, err := netip.ParseAddr(u.Hostname())
	ip = ip.Unmap()
	switch {
	case err == nil && ip.IsGlobalUnicast() && !ip.IsPrivate(), err != nil && !httpsafe.IsLocal(raw):
		return nil
	case err != nil: // a name of this machine
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}

	if !slices.ContainsFunc(w.allow, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return fmt.Errorf("its login page at %s is on a private network", u.Host)
	}
	return nil
}

// oauthAddress reads an address that tokens or codes may travel to: https, or
// http on this machine or a private network, where the operator or the guard
// has a say.
func oauthAddress(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errors.New("the address is not a URL")
	case u.User != nil:
		return nil, fmt.Errorf("the address at %s holds a password", u.Host)
	case u.Scheme == "https", u.Scheme == "http" && httpsafe.IsLocal(raw):
		return u, nil
	}

	return nil, fmt.Errorf("%s://%s is not encrypted, and logins are not sent in the clear", u.Scheme, u.Host)
}

func oauthOrigin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// to calls with the client for an address.
func (w *oauthWire) to(address string, call func(oauth.Wire) error) error {
	u, err := oauthAddress(address)
	if err != nil {
		return err
	}

	wire := w.guarded
	switch {
	case oauthOrigin(u) == w.home:
		wire = w.own
	case w.near != nil && oauth.Loopback(u.Hostname()):
		wire = *w.near
	}

	err = call(wire)
	if _, broken := errors.AsType[*url.Error](err); broken {
		return fmt.Errorf("ask %s: %w", u.Host, httpsafe.WithoutURL(err))
	}
	return err
}

// ask sends a request. An error means that there was no answer.
func (w *oauthWire) ask(ctx context.Context, r oauth.Request) (a oauth.Answer, err error) {
	err = w.to(r.URL, func(wire oauth.Wire) error {
		a, err = wire.Do(ctx, r)
		return err
	})
	return a, err
}

// How a client shows its secret to a token endpoint.
const (
	basicSecret = "client_secret_basic"
	postSecret  = "client_secret_post"
)

// tokenMethod returns the first of some methods that a token endpoint knows, and the
// first of all if it does not say.
func tokenMethod(m *oauthex.AuthServerMeta, methods ...string) string {
	for _, name := range methods {
		if slices.Contains(m.TokenEndpointAuthMethodsSupported, name) {
			return name
		}
	}
	return methods[0]
}

// register makes us known to an authorization server as a public client.
func (w *oauthWire) register(ctx context.Context, m *oauthex.AuthServerMeta, redirect, scope string) (*oauthClient, error) {
	if m.RegistrationEndpoint == "" {
		return nil, fmt.Errorf("%s lets no program register itself; make an OAuth app there with the redirect address %s and log in with --client-id",
			oauth.HostOf(m.Issuer), redirect)
	}

	var got *oauthex.ClientRegistrationResponse
	err := w.to(m.RegistrationEndpoint, func(wire oauth.Wire) error {
		return wire.Call(func(c *http.Client) (err error) {
			got, err = oauthex.RegisterClient(ctx, m.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
				ClientName:              "nanobot",
				RedirectURIs:            []string{redirect},
				ApplicationType:         "native",
				GrantTypes:              []string{"authorization_code", "refresh_token"},
				ResponseTypes:           []string{"code"},
				TokenEndpointAuthMethod: tokenMethod(m, "none", basicSecret, postSecret),
				Scope:                   scope,
			}, c)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	return &oauthClient{ID: got.ClientID, Secret: got.ClientSecret, Method: got.TokenEndpointAuthMethod, Redirect: got.RedirectURIs}, nil
}

// config returns how an authorization server knows us.
func (e *oauthEntry) config() *oauth2.Config {
	style, secret := oauth2.AuthStyleInParams, e.Client.Secret
	switch {
	case e.Client.Method == "none":
		secret = ""
	case secret != "" && e.Client.Method != postSecret:
		style = oauth2.AuthStyleInHeader // the default of RFC 7591
	}
	return &oauth2.Config{
		ClientID:     e.Client.ID,
		ClientSecret: secret,
		Endpoint:     oauth2.Endpoint{TokenURL: e.At.Token, AuthStyle: style},
		RedirectURL:  e.Redirect,
	}
}

// exchange turns a code into tokens.
func (w *oauthWire) exchange(ctx context.Context, e *oauthEntry, code, verifier string, now time.Time) (oauthTokens, error) {
	t, err := w.grant(e, now, func(wire oauth.Wire) (*oauth2.Token, error) {
		return wire.Exchange(ctx, e.config(), code, oauth2.VerifierOption(verifier), oauth2.SetAuthURLParam("resource", e.At.Resource))
	})
	if err != nil {
		return t, fmt.Errorf("exchange the code: %w", err)
	}
	return t, nil
}

// errGrantRefused says that a refresh token is not good any more.
var errGrantRefused = errors.New("the login was ended by the server")

// refresh turns a refresh token into tokens.
func (w *oauthWire) refresh(ctx context.Context, e *oauthEntry, now time.Time) (oauthTokens, error) {
	t, err := w.grant(e, now, func(wire oauth.Wire) (*oauth2.Token, error) {
		return wire.Refresh(ctx, e.config(), e.Tokens.Refresh, url.Values{"resource": {e.At.Resource}})
	})
	if r, ok := errors.AsType[*oauth.RefusedError](err); ok {
		switch r.Code {
		case "invalid_grant", "invalid_client", "unauthorized_client":
			return t, fmt.Errorf("%w: %w", errGrantRefused, err)
		}
	}

	if t.Scope == "" {
		t.Scope = e.Tokens.Scope
	}
	return t, err
}

func (w *oauthWire) grant(e *oauthEntry, now time.Time, ask func(oauth.Wire) (*oauth2.Token, error)) (oauthTokens, error) {
	var got *oauth2.Token
	err := w.to(e.At.Token, func(wire oauth.Wire) (err error) {
		got, err = ask(wire)
		return err
	})
	switch {
	case err != nil:
		return oauthTokens{}, err
	case strings.ContainsAny(got.AccessToken, "\r\n\x00"):
		return oauthTokens{}, errors.New("the login server gave no token")
	case got.TokenType != "" && !strings.EqualFold(got.TokenType, "bearer"):
		return oauthTokens{}, fmt.Errorf("the login server gave a token of type %q, only bearer can be used", oauth.Clean(got.TokenType))
	}

	t := oauthTokens{Access: got.AccessToken, Type: got.TokenType, Refresh: got.RefreshToken}
	t.Scope, _ = got.Extra("scope").(string)
	if life := oauth.Life(got); life > 0 {
		t.ExpiresIn = int64(life.Seconds())
		t.ExpiresAt = now.Unix() + t.ExpiresIn
	}
	return t, nil
}
