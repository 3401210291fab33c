package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// OAuthOptions configure an OAuth. Store is required.
type OAuthOptions struct {
	Store  store.Store    // where logins are kept, in auth/mcp.json
	Proxy  string         // explicit proxy; "" takes the environment's
	Allow  []netip.Prefix // private addresses that login servers may have
	Strict bool           // see httpsafe.GuardOptions
	Agent  string         // User-Agent
	// Clients are the operator's own registrations, by the name of the server.
	Clients map[string]Client
	// Known is called with every token before it is used, so that it can be taken
	// out of texts; nil: it is not called.
	Known func(name string, token httpsafe.Secret)
	Now   func() time.Time
	Log   *slog.Logger
}

// OAuth logs in at MCP servers and keeps what they gave: an authorization code
// with PKCE for a public client that registers itself. Login talks with a
// person; Token never does. The origin of an MCP server was written by the
// operator and may be private; every other address comes from a server's
// answer and goes through the guard.
type OAuth struct {
	o     OAuthOptions
	store *oauthStore

	mu       sync.Mutex
	refused  map[string]string                     // server -> the access token it turned down
	reported map[string]string                     // server -> the access token that Known was told
	flights  map[string]*oauth.Source[oauthTokens] // server -> the refresh under way
	granted  map[string]*oauthEntry                // server -> what client credentials gave; never changed in place
}

// Client is an operator's own registration at the login server of an MCP server.
type Client struct {
	ID     string
	Secret httpsafe.Secret
	Scope  string // the only scope to ask for; "" leaves it to the server
	// Alone says that tokens are asked for with the secret (client credentials)
	// instead of a person's login. They are kept in memory only.
	Alone bool
}

var _ Authorizer = (*OAuth)(nil)

// NewOAuth makes an OAuth. It reads nothing yet.
func NewOAuth(o OAuthOptions) (*OAuth, error) {
	if o.Store == nil {
		return nil, errors.New("no store for logins")
	}

	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Agent == "" {
		o.Agent = "nanobot"
	}
	return &OAuth{
		o: o, store: &oauthStore{oauth.Document[*oauthFile]{Store: o.Store, Name: string(datadir.MCPTokens)}},
		refused: map[string]string{}, reported: map[string]string{}, flights: map[string]*oauth.Source[oauthTokens]{}, granted: map[string]*oauthEntry{},
	}, nil
}

// Token implements Authorizer.
func (a *OAuth) Token(ctx context.Context, server, url string) (httpsafe.Secret, error) {
	e, err := a.entry(ctx, server, url)
	if err != nil {
		return httpsafe.Secret{}, err
	}

	switch {
	case e != nil && e.Tokens != nil && a.usable(server, *e.Tokens):
		return a.use(server, *e.Tokens), nil
	case a.o.Clients[server].Alone:
	case e == nil || e.Tokens == nil || e.Tokens.Access == "" && e.Tokens.Refresh == "":
		return httpsafe.Secret{}, loginNeeded(server)
	}

	f := a.flight(server, url)
	t, err := f.Get(ctx, "")
	a.mu.Lock()
	if a.flights[server] == f {
		delete(a.flights, server) // the store has the token, and others may change it there
	}

	a.mu.Unlock()
	if err != nil {
		return httpsafe.Secret{}, err
	}
	return a.use(server, t), nil
}

// entry returns what is known of a server, nil if that is nothing.
func (a *OAuth) entry(ctx context.Context, server, url string) (*oauthEntry, error) {
	if a.o.Clients[server].Alone {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.granted[server], nil
	}
	e, _, err := a.store.read(ctx, server, url)
	return e, err
}

// flight returns the refresh that all callers of a server share.
func (a *OAuth) flight(server, url string) *oauth.Source[oauthTokens] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flights[server] == nil {
		a.flights[server] = oauth.NewSource(oauth.SourceOptions[oauthTokens]{
			Key:   func(t oauthTokens) string { return t.Access },
			Fresh: func(t oauthTokens) bool { return a.usable(server, t) },
			Renew: func(ctx context.Context, _ string) (oauthTokens, error) {
				if a.o.Clients[server].Alone {
					return a.grant(ctx, server, url)
				}
				return a.refresh(ctx, server, url)
			},
			Grace: refreshGrace,
		})
	}

	return a.flights[server]
}

// usable reports whether a token can be sent to a server.
func (a *OAuth) usable(server string, t oauthTokens) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return t.good(a.o.Now()) && t.Access != a.refused[server]
}

// Invalidate implements Authorizer.
func (a *OAuth) Invalidate(server string, refused httpsafe.Secret) {
	if refused.IsZero() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[server] = refused.Reveal()
}

func loginNeeded(server string) error {
	return fmt.Errorf("%w: nanobot mcp login %s", errLoginNeeded, server)
}

// refreshGrace is how long a refresh goes on after its caller gave up: the
// server may have used up the old token already, and only its answer has the
// new one.
const refreshGrace = 5 * time.Second

// refresh gets a new token with the refresh token, unless another process did
// that while we waited for it.
func (a *OAuth) refresh(ctx context.Context, server, url string) (oauthTokens, error) {
	unlock, err := a.store.lockServer(ctx, server)
	if err != nil {
		return oauthTokens{}, err
	}

	defer unlock()
	e, gen, err := a.store.read(ctx, server, url)
	if err != nil {
		return oauthTokens{}, err
	}
	if e == nil || e.Tokens == nil {
		return oauthTokens{}, loginNeeded(server)
	}
	if a.usable(server, *e.Tokens) {
		return *e.Tokens, nil
	}
	if e.Tokens.Refresh == "" || e.Client == nil || e.Client.ID == "" {
		return oauthTokens{}, loginNeeded(server)
	}

	w, err := a.wire(url)
	if err != nil {
		return oauthTokens{}, err
	}

	if e.At == nil {
		d, err := w.discover(ctx, url)
		if err != nil {
			return oauthTokens{}, fmt.Errorf("renew the login at %s: %w", server, err)
		}
		e.At = &oauthPlace{Issuer: d.meta.Issuer, Token: d.meta.TokenEndpoint, Resource: d.resource}
	}

	fresh, err := w.refresh(ctx, e, a.o.Now())
	if errors.Is(err, errGrantRefused) {
		if cerr := a.store.drop(ctx, server, gen, e.Tokens.Refresh); cerr != nil {
			return oauthTokens{}, cerr
		}
		return oauthTokens{}, fmt.Errorf("%w (%w)", loginNeeded(server), err)
	}

	if err != nil {
		return oauthTokens{}, fmt.Errorf("renew the login at %s: %w", server, err)
	}

	kept, err := a.store.renew(ctx, server, oauthRenewal{generation: gen, used: e.Tokens.Refresh, tokens: fresh, at: e.At})
	if err != nil {
		return oauthTokens{}, err
	}
	if !kept { // the owner logged out or in meanwhile: that counts
		return oauthTokens{}, loginNeeded(server)
	}

	a.o.Log.DebugContext(ctx, "mcp login renewed", "server", server)
	return fresh, nil
}

// use returns a token that goes on the wire, made known before.
func (a *OAuth) use(server string, t oauthTokens) httpsafe.Secret {
	a.mu.Lock()
	news := a.o.Known != nil && a.reported[server] != t.Access
	a.reported[server] = t.Access
	a.mu.Unlock()

	if news {
		a.o.Known("mcp."+server+".access_token", httpsafe.NewSecret(t.Access))
		if t.Refresh != "" {
			a.o.Known("mcp."+server+".refresh_token", httpsafe.NewSecret(t.Refresh))
		}
	}
	return httpsafe.NewSecret(t.Access)
}

// LoginState holds what is known about a login without using it.
type LoginState struct {
	LoggedIn bool
	Issuer   string    // who gave the tokens, "" if unknown
	Scope    string    // what was granted, "" if unknown
	Expires  time.Time // of the current token, zero if unknown
	Renews   bool      // a new token can be had without a person
}

// State tells about the login at a server. It makes no requests.
func (a *OAuth) State(server, url string) (LoginState, error) {
	if a.o.Clients[server].Alone {
		return LoginState{LoggedIn: true, Renews: true}, nil
	}

	e, _, err := a.store.read(context.Background(), server, url)
	if err != nil || e == nil || e.Tokens == nil {
		return LoginState{}, err
	}

	st := LoginState{LoggedIn: true, Scope: e.Tokens.Scope, Renews: e.Tokens.Refresh != ""}
	if e.Tokens.ExpiresAt > 0 {
		st.Expires = time.Unix(e.Tokens.ExpiresAt, 0)
	}
	if e.At != nil {
		st.Issuer = e.At.Issuer
	}
	return st, nil
}

// Logout forgets the login and the registration at a server and reports
// whether there was any. A login or a refresh that is under way elsewhere can
// not bring it back.
func (a *OAuth) Logout(ctx context.Context, server string) (bool, error) {
	return a.store.remove(ctx, server)
}
