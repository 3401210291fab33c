package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
)

// LoginOptions are the choices of a login.
type LoginOptions struct {
	// ShowAddress shows the address to open in a browser; required.
	ShowAddress func(address string)
	// Pasted starts to deliver lines that a person types, in case the browser
	// runs on another machine and cannot come back to this one. nil: there is
	// no person who can type.
	Pasted func() <-chan string
	// Notify shows that a pasted line is of no use, and why.
	Notify func(text string)
	// Port for the browser to come back to. 0 takes the one of the last login
	// if it is free, else any: a server knows us by that address, and another
	// one means to register again.
	Port int
	// ClientID and ClientSecret are for servers where programs cannot register
	// themselves.
	ClientID     string
	ClientSecret httpsafe.Secret
	// Wait is how long the person may take; 0 means 300 s.
	Wait time.Duration
}

// oauthCallback is the path at which the browser ends.
const oauthCallback = "/auth/mcp/callback"

// Login sends a person to the login server of an MCP server and keeps the
// tokens it gives. Only a command that a person typed may call it.
func (a *OAuth) Login(ctx context.Context, server, address string, o LoginOptions) (LoginState, error) {
	if o.Wait <= 0 {
		o.Wait = 300 * time.Second
	}

	ctx, cancel := context.WithTimeoutCause(ctx, o.Wait, fmt.Errorf("the login was not completed within %s; start again", o.Wait))
	defer cancel()
	err := a.login(ctx, server, address, o)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}

	if err != nil {
		return LoginState{}, err
	}
	return a.State(server, address)
}

// oauthFlow is one login on its way.
type oauthFlow struct {
	oauthFound
	wire  *oauthWire
	store *oauthStore
	claim oauthClaim
	entry *oauthEntry // what will be kept
}

func (a *OAuth) login(ctx context.Context, server, address string, o LoginOptions) error {
	w, err := a.wire(address)
	if err != nil {
		return err
	}

	f := &oauthFlow{wire: w, store: a.store}
	if f.oauthFound, err = w.discover(ctx, address); err != nil {
		return err
	}
	if f.claim, err = a.store.begin(ctx, server, address); err != nil {
		return err
	}

	l, port, err := listenForBrowser(ctx, o.Port, f.claim.redirect)
	if err != nil {
		return err
	}

	back := oauth.NewCallback("127.0.0.1", port, oauthCallback)
	back.Issuer, back.Named = f.meta.Issuer, f.meta.AuthorizationResponseIssParameterSupported
	defer back.Serve(ctx, l...)()
	f.entry = &oauthEntry{
		Redirect: back.Redirect(),
		At:       &oauthPlace{Issuer: f.meta.Issuer, Token: f.meta.TokenEndpoint, Resource: f.resource},
	}
	if own := a.o.Clients[server]; o.ClientID == "" {
		o.ClientID, o.ClientSecret = own.ID, own.Secret
	}

	if f.scope, err = a.loginScope(ctx, server, address, f.scope); err != nil {
		return err
	}
	if err := f.client(ctx, o); err != nil {
		return err
	}

	verifier := oauth2.GenerateVerifier()
	o.ShowAddress(f.authorize(back.State(), verifier))
	code, err := back.Wait(ctx, o.Pasted, o.Notify)
	if err != nil {
		return err
	}

	tokens, err := w.exchange(ctx, f.entry, code, verifier, a.o.Now())
	if r, ok := errors.AsType[*oauth.RefusedError](err); ok && r.Code == "invalid_client" {
		// The server forgot us: the next login registers again.
		return errors.Join(err, f.save(ctx, func(e *oauthEntry) { e.Client, e.Redirect = nil, "" }))
	}
	if err != nil {
		return err
	}

	if tokens.Scope == "" {
		tokens.Scope = f.scope
	}

	if err := f.save(ctx, func(e *oauthEntry) {
		e.Tokens = &tokens
		e.Client = f.entry.Client
		e.Redirect = f.entry.Redirect
		e.At = f.entry.At
		e.Asked = f.scope
	}); err != nil {
		return err
	}

	a.mu.Lock()
	delete(a.refused, server)
	a.mu.Unlock()
	return nil
}

func (f *oauthFlow) save(ctx context.Context, change func(*oauthEntry)) error {
	return f.store.commit(ctx, f.claim, change)
}

// client finds the registration to use: the operator's, the one of the last
// login if it was made for the same address of ours and the same issuer, else
// a new one.
func (f *oauthFlow) client(ctx context.Context, o LoginOptions) error {
	if o.ClientID != "" {
		f.entry.Client = &oauthClient{
			ID: o.ClientID, Secret: o.ClientSecret.Reveal(), Method: tokenMethod(f.meta, basicSecret, postSecret), Redirect: []string{f.entry.Redirect}, Given: true,
		}
		return nil
	}

	old, _, err := f.store.read(ctx, f.claim.server, f.claim.url)
	if err != nil {
		return err
	}

	if old != nil && old.Client != nil && old.Client.ID != "" && old.Redirect == f.entry.Redirect &&
		(old.At == nil || old.At.Issuer == f.meta.Issuer) {
		f.entry.Client = old.Client
		return nil
	}

	if f.entry.Client, err = f.wire.register(ctx, f.meta, f.entry.Redirect, f.scope); err != nil {
		return err
	}
	// Kept before the person acts, so that a login that is given up does not
	// register again the next time. Tokens that are there belong to the old
	// registration and stay together with it until there are new ones.
	return f.save(ctx, func(e *oauthEntry) {
		if e.Tokens == nil {
			e.Client = f.entry.Client
			e.Redirect = f.entry.Redirect
			e.At = f.entry.At
		}
	})
}

// authorize returns the address to open.
func (f *oauthFlow) authorize(state, verifier string) string {
	c := f.entry.config()
	c.Endpoint.AuthURL, c.Scopes = f.meta.AuthorizationEndpoint, strings.Fields(f.scope)
	opts := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", f.resource)}
	if slices.Contains(c.Scopes, "offline_access") {
		opts = append(opts, oauth2.ApprovalForce) // OpenID servers give no refresh token without
	}
	return c.AuthCodeURL(state, opts...)
}

// listenForBrowser opens the port the browser comes back to: the given one,
// else that of the last login if it is free, else any.
func listenForBrowser(ctx context.Context, port int, last string) ([]net.Listener, int, error) {
	if u, err := url.Parse(last); port == 0 && err == nil && u.Hostname() == "127.0.0.1" && u.Port() != "" {
		if n, err := strconv.Atoi(u.Port()); err == nil {
			if ls, used, err := oauth.Listen(ctx, n, false); err == nil {
				return ls, used, nil
			}
		}
	}
	return oauth.Listen(ctx, port, false)
}
