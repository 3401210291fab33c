package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// LoginOptions are the choices of a login.
type LoginOptions struct {
	// Tell shows the address to open in a browser; required.
	Tell func(address string)
	// Pasted starts to deliver lines that a person types, in case the browser
	// runs on another machine and cannot come back to this one. nil: nobody
	// can type.
	Pasted func() <-chan string
	// Note tells that a pasted line is of no use, and why.
	Note func(text string)
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
	ctx, cancel := context.WithTimeoutCause(ctx, o.Wait, fmt.Errorf("nobody logged in within %s; start again", o.Wait))
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
	entry oauthEntry // what will be kept
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
	l, err := listenForBrowser(ctx, o.Port, f.claim.redirect)
	if err != nil {
		return err
	}
	back := newReturning(l, f.meta)
	defer httpsafe.ServeReturn(ctx, back, l)()
	f.entry = oauthEntry{
		Redirect: back.redirect,
		At:       &oauthPlace{Issuer: f.meta.Issuer, Token: f.meta.TokenEndpoint, Resource: f.resource},
	}
	if err := f.client(ctx, o); err != nil {
		return err
	}
	verifier := oauthRandom()
	o.Tell(f.authorize(f.entry, back.state, verifier))
	code, err := back.wait(ctx, o)
	if err != nil {
		return err
	}
	tokens, err := w.exchange(ctx, f.entry, code, verifier, a.o.Now())
	if o, ok := errors.AsType[*oauthError](err); ok && o.body.Code == "invalid_client" {
		// The server forgot us: the next login registers again.
		return errors.Join(err, f.keep(ctx, func(e *oauthEntry) { e.Client, e.Redirect = nil, "" }))
	}
	if err != nil {
		return err
	}
	if tokens.Scope == "" {
		tokens.Scope = f.scope
	}
	if err := f.keep(ctx, func(e *oauthEntry) {
		e.Tokens, e.Client, e.Redirect, e.At = &tokens, f.entry.Client, f.entry.Redirect, f.entry.At
	}); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.refused, server)
	a.mu.Unlock()
	return nil
}

func (f *oauthFlow) keep(ctx context.Context, change func(*oauthEntry)) error {
	return f.store.commit(ctx, f.claim, change)
}

// client finds the registration to use: the operator's, the one of the last
// login if it was made for the same address of ours and the same issuer, else
// a new one.
func (f *oauthFlow) client(ctx context.Context, o LoginOptions) error {
	if o.ClientID != "" {
		f.entry.Client = &oauthClient{ID: o.ClientID, Secret: o.ClientSecret.Reveal(), Redirect: []string{f.entry.Redirect}, Given: true}
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
	return f.keep(ctx, func(e *oauthEntry) {
		if e.Tokens == nil {
			e.Client, e.Redirect, e.At = f.entry.Client, f.entry.Redirect, f.entry.At
		}
	})
}

// authorize is the address to open.
func (f oauthFound) authorize(e oauthEntry, state, verifier string) string {
	u, err := url.Parse(f.meta.AuthorizationEndpoint)
	if err != nil {
		return "" // cannot happen: it was checked
	}
	sum := sha256.Sum256([]byte(verifier))
	q := u.Query()
	for k, v := range map[string]string{
		"response_type": "code", "client_id": e.Client.ID, "redirect_uri": e.Redirect, "state": state, "resource": e.At.Resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256", "scope": f.scope,
	} {
		if v != "" {
			q.Set(k, v)
		}
	}
	if strings.Contains(" "+f.scope+" ", " offline_access ") {
		q.Set("prompt", "consent") // OpenID servers give no refresh token without
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// listenForBrowser opens the port the browser comes back to, on this machine
// only.
func listenForBrowser(ctx context.Context, port int, last string) (net.Listener, error) {
	var lc net.ListenConfig
	at := func(port string) (net.Listener, error) {
		return lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	}
	if port > 0 {
		l, err := at(strconv.Itoa(port))
		if err != nil {
			return nil, fmt.Errorf("the browser cannot come back: %w", err)
		}
		return l, nil
	}
	if u, err := url.Parse(last); err == nil && u.Hostname() == "127.0.0.1" && u.Port() != "" {
		if l, err := at(u.Port()); err == nil {
			return l, nil
		}
	}
	l, err := at("0")
	if err != nil {
		return nil, fmt.Errorf("the browser cannot come back: %w", err)
	}
	return l, nil
}
