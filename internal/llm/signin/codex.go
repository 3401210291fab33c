package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// codex signs in with a ChatGPT account. Its refresh tokens work once.
type codex struct {
	w        *client
	clientID string
	issuer   string
	baseURL  string
	port     int // where the browser comes back; 0 is any
}

// codexPort is the only port that the default client may come back to.
const codexPort = 1455

func newCodex(w *client, o Options) (flow, error) {
	c := &codex{w: w, clientID: cmp.Or(o.Getenv("NANOBOT_OPENAI_CODEX_CLIENT_ID"), "app_EMoamEEZ73f0CkXaXp7hrann"), port: codexPort}
	var err error
	if c.issuer, err = override(o.Getenv, "NANOBOT_OPENAI_CODEX_AUTH_URL", "https://auth.openai.com"); err != nil {
		return nil, err
	}
	if c.baseURL, err = override(o.Getenv, "NANOBOT_OPENAI_CODEX_BASE_URL", "https://chatgpt.com/backend-api"); err != nil {
		return nil, err
	}

	if v := o.Getenv("NANOBOT_OPENAI_CODEX_CALLBACK_PORT"); v != "" {
		if c.port, err = strconv.Atoi(v); err != nil || c.port < 0 || c.port > 65535 {
			return nil, fmt.Errorf("NANOBOT_OPENAI_CODEX_CALLBACK_PORT: %q is not a port", v)
		}
	}
	return c, nil
}

func (c *codex) base() string { return c.baseURL }

// config returns how the provider knows us.
func (c *codex) config(redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: c.clientID,
		Endpoint: oauth2.Endpoint{
			AuthURL:   c.issuer + "/oauth/authorize",
			TokenURL:  c.issuer + "/oauth/token",
			AuthStyle: oauth2.AuthStyleInParams,
		},
		RedirectURL: redirect,
		Scopes:      []string{"openid", "profile", "email", "offline_access"},
	}
}

// login signs in with a browser that comes back to this machine with a code,
// or with a code that is typed in a browser anywhere.
func (c *codex) login(ctx context.Context, d Dialog) (token, error) {
	if d.Device {
		return c.device(ctx, d)
	}

	ls, port, err := oauth.Listen(ctx, c.port, true)
	if err != nil {
		if d.Pasted == nil || c.port == 0 {
			return token{}, &llm.Error{
				Kind: llm.Connection, Provider: c.w.name, Err: err,
				Message: fmt.Sprintf("%v; end the program that uses port %d, or sign in with --device", err, c.port),
			}
		}
		d.notify(Step{Note: fmt.Sprintf("Port %d cannot be used, so the browser cannot come back by itself.", c.port)})
	}

	back := oauth.NewCallback("localhost", port, "/auth/callback")
	back.BareCode = true
	defer back.Serve(ctx, ls...)()
	conf, verifier := c.config(back.Redirect()), oauth2.GenerateVerifier()
	d.notify(Step{Paste: d.Pasted != nil, URL: conf.AuthCodeURL(
		back.State(), oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("id_token_add_organizations", "true"),
		oauth2.SetAuthURLParam("codex_cli_simplified_flow", "true"), oauth2.SetAuthURLParam("originator", "nanobot"),
	)})

	limit := cmp.Or(max(d.Wait, 0), 2*time.Minute)
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	code, err := back.Wait(wait, d.Pasted, func(note string) { d.notify(Step{Note: note, Paste: true}) })
	switch {
	case err == nil:
		return c.redeem(ctx, conf, code, verifier)
	case ctx.Err() != nil:
		return token{}, ctx.Err()
	case wait.Err() != nil:
		return token{}, c.w.failed(fmt.Sprintf("the sign-in was not completed within %s; start again", limit))
	case errors.Is(err, oauth.ErrNotBack):
		return token{}, c.w.failed(err.Error() + "; sign in with --device")
	}

	return token{}, c.w.failed(err.Error())
}

func (c *codex) redeem(ctx context.Context, conf *oauth2.Config, code, verifier string) (token, error) {
	t, err := c.w.Exchange(ctx, conf, code, oauth2.VerifierOption(verifier))
	if r, ok := rejected(err); ok {
		return token{}, c.w.failed("the sign-in was not accepted, its code may be used up: " + r.Text)
	}
	if err != nil {
		return token{}, c.w.explain(ctx, conf.Endpoint.TokenURL, err)
	}
	return c.accept(t, token{})
}

// accept reads a token; what it leaves out is kept from old.
func (c *codex) accept(got *oauth2.Token, old token) (token, error) {
	id, _ := got.Extra("id_token").(string)
	t := token{
		Access: got.AccessToken, Refresh: cmp.Or(got.RefreshToken, old.Refresh), Expires: expiry(got),
		AccountID: cmp.Or(codexAccount(id, got.AccessToken), old.AccountID), Name: old.Name,
	}
	if email, ok := claims(id)["email"].(string); ok {
		t.Name = email
	}

	if t.AccountID == "" {
		return token{}, c.w.failed("the account has no ChatGPT subscription that Codex can use")
	}
	return t, nil
}

// codexAccount finds the account in the first token that names one.
func codexAccount(tokens ...string) string {
	for _, t := range tokens {
		auth, _ := claims(t)["https://api.openai.com/auth"].(map[string]any)
		if id, ok := auth["chatgpt_account_id"].(string); ok && id != "" {
			return id
		}
	}
	return ""
}

func (c *codex) refresh(ctx context.Context, old token) (token, error) {
	if old.Refresh == "" {
		return token{}, c.w.signIn(fmt.Errorf("the sign-in has expired"))
	}

	conf := c.config("")
	conf.Scopes = nil
	t, err := c.w.Refresh(ctx, conf, old.Refresh, nil)
	if r, ok := rejected(err); ok && (r.Status == http.StatusUnauthorized ||
		slices.Contains([]string{"invalid_grant", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated", "access_denied"}, r.Code)) {
		return token{}, c.w.signIn(fmt.Errorf("the sign-in has ended (%s)", r.Text))
	}
	if err != nil {
		return token{}, c.w.explain(ctx, conf.Endpoint.TokenURL, err)
	}
	return c.accept(t, old)
}

// device signs in with a code that is typed in a browser anywhere. The provider
// has an exchange of its own for that, not the one of RFC 8628.
func (c *codex) device(ctx context.Context, d Dialog) (token, error) {
	const life = 15 * time.Minute
	a, err := c.w.ask(ctx, oauth.Request{URL: c.issuer + "/api/accounts/deviceauth/usercode", Body: map[string]string{"client_id": c.clientID}})
	if err != nil {
		return token{}, err
	}
	if a.Status == http.StatusNotFound {
		return token{}, c.w.failed("sign-in by code is not offered here; allow it in the ChatGPT security settings or sign in without --device")
	}

	var start struct {
		ID       string `json:"device_auth_id"`
		Code     string `json:"user_code"`
		Interval number `json:"interval"`
	}
	if err := c.w.decode(ctx, a, &start); err != nil {
		return token{}, fmt.Errorf("ask for a code: %w", err)
	}
	if start.ID == "" || start.Code == "" {
		return token{}, &llm.Error{Kind: llm.ServerError, Provider: c.w.name, Message: oauth.HostOf(c.issuer) + " gave no usable code"}
	}

	interval := 5 * time.Second
	if start.Interval > 0 {
		interval = time.Duration(start.Interval) * time.Second
	}

	d.notify(Step{URL: c.issuer + "/codex/device", Code: start.Code})
	poll := oauth.Request{
		URL:  c.issuer + "/api/accounts/deviceauth/token",
		Body: map[string]string{"device_auth_id": start.ID, "user_code": start.Code},
		Hide: []string{start.ID},
	}

	until := time.Now().Add(life)
	for time.Now().Add(interval).Before(until) {
		if err := wait.For(ctx, interval); err != nil {
			return token{}, err
		}

		a, err := c.w.ask(ctx, poll)
		switch {
		case err != nil && (ctx.Err() != nil || !transient(err)):
			return token{}, err
		case err != nil || a.Status != http.StatusOK:
			continue // every other status means that the code was not typed yet
		}

		var got struct {
			Code     string `json:"authorization_code"`
			Verifier string `json:"code_verifier"`
		}
		if err := c.w.decode(ctx, a, &got); err != nil {
			return token{}, err
		}
		return c.redeem(ctx, c.config(c.issuer+"/deviceauth/callback"), got.Code, got.Verifier)
	}

	return token{}, c.w.failed("the code expired before it was typed; start again")
}

func (c *codex) signer(a *Account) wire.Signer { return codexSigner{a} }

// codexSigner signs requests to the ChatGPT backend.
type codexSigner struct{ a *Account }

var _ wire.Signer = codexSigner{}

// Sign implements wire.Signer.
func (s codexSigner) Sign(ctx context.Context, req *http.Request, _ []byte) error {
	if err := mayCarry(req, s.a.brand.name); err != nil {
		return err
	}

	t, err := s.a.token(ctx)
	if err != nil {
		return err
	}

	h := req.Header
	h.Set("Authorization", "Bearer "+t.Access)
	h.Set("Chatgpt-Account-Id", t.AccountID)
	h.Set("Openai-Beta", "responses=experimental")
	h.Set("Originator", "nanobot")
	h.Set("User-Agent", s.a.wire.Agent)
	return nil
}

// Refused implements wire.Signer: read the token again, else refresh it.
func (s codexSigner) Refused(ctx context.Context) bool { return s.a.tokens.Replace(ctx) == nil }
