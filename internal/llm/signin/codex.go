package signin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
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

func (c *codex) login(ctx context.Context, d Dialog) (token, error) {
	if d.Device {
		return c.device(ctx, d)
	}
	b := browserFlow{
		w: c.w, port: c.port, path: "/auth/callback",
		authorize: func(redirect, state, challenge string) string {
			q := url.Values{
				"response_type": {"code"}, "client_id": {c.clientID}, "redirect_uri": {redirect},
				"scope": {"openid profile email offline_access"}, "code_challenge": {challenge}, "code_challenge_method": {"S256"},
				"state": {state}, "id_token_add_organizations": {"true"}, "codex_cli_simplified_flow": {"true"}, "originator": {"nanobot"},
			}
			return c.issuer + "/oauth/authorize?" + q.Encode()
		},
	}
	g, err := b.run(ctx, d)
	if err != nil {
		return token{}, err
	}
	return c.redeem(ctx, g)
}

// grant is what a sign-in yields before it is exchanged for a token.
type grant struct{ code, verifier, redirect string }

func (c *codex) redeem(ctx context.Context, g grant) (token, error) {
	a, err := c.w.ask(ctx, question{url: c.issuer + "/oauth/token", secrets: []string{g.code, g.verifier}, form: url.Values{
		"grant_type": {"authorization_code"}, "client_id": {c.clientID}, "code": {g.code}, "code_verifier": {g.verifier}, "redirect_uri": {g.redirect},
	}})
	if err != nil {
		return token{}, err
	}
	if a.status == http.StatusBadRequest || a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
		return token{}, c.w.failed("the sign-in was not accepted, its code may be used up: " + c.w.refused(a).Message)
	}
	return c.accept(a, token{})
}

// accept reads a token from an answer; what it leaves out is kept from old.
func (c *codex) accept(a answer, old token) (token, error) {
	var got struct {
		Access    string `json:"access_token"`
		Refresh   string `json:"refresh_token"`
		ID        string `json:"id_token"`
		ExpiresIn number `json:"expires_in"`
	}
	if err := c.w.decode(a, &got); err != nil {
		return token{}, err
	}
	if got.Access == "" {
		return token{}, &llm.Error{Kind: llm.ServerError, Provider: c.w.name, Message: hostOf(a.q.url) + " gave no token"}
	}
	t := token{
		Access: got.Access, Refresh: cmp.Or(got.Refresh, old.Refresh), Expires: expiry(int64(got.ExpiresIn), got.Access),
		AccountID: cmp.Or(codexAccount(got.ID, got.Access), old.AccountID), Name: old.Name,
	}
	if email, ok := claims(got.ID)["email"].(string); ok {
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
	a, err := c.w.ask(ctx, question{url: c.issuer + "/oauth/token", secrets: []string{old.Refresh}, form: url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}, "client_id": {c.clientID},
	}})
	if err != nil {
		return token{}, err
	}
	if a.status == http.StatusBadRequest || a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
		code := readOAuthError(a.body).code()
		if a.status == http.StatusUnauthorized || slices.Contains([]string{"invalid_grant", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated", "access_denied"}, code) {
			return token{}, c.w.signIn(fmt.Errorf("the sign-in has ended (%s)", c.w.refused(a).Message))
		}
	}
	return c.accept(a, old)
}

// device signs in with a code that is typed in a browser anywhere.
func (c *codex) device(ctx context.Context, d Dialog) (token, error) {
	const life = 15 * time.Minute
	a, err := c.w.ask(ctx, question{url: c.issuer + "/api/accounts/deviceauth/usercode", body: map[string]string{"client_id": c.clientID}})
	if err != nil {
		return token{}, err
	}
	if a.status == http.StatusNotFound {
		return token{}, c.w.failed("sign-in by code is not offered here; allow it in the ChatGPT security settings or sign in without --device")
	}
	var start struct {
		ID       string `json:"device_auth_id"`
		Code     string `json:"user_code"`
		Interval number `json:"interval"`
	}
	if err := c.w.decode(a, &start); err != nil {
		return token{}, fmt.Errorf("ask for a code: %w", err)
	}
	if start.ID == "" || start.Code == "" {
		return token{}, &llm.Error{Kind: llm.ServerError, Provider: c.w.name, Message: hostOf(c.issuer) + " gave no usable code"}
	}
	interval := 5 * time.Second
	if start.Interval > 0 {
		interval = time.Duration(start.Interval) * time.Second
	}
	d.tell(Step{URL: c.issuer + "/codex/device", Code: start.Code})
	q := question{
		url: c.issuer + "/api/accounts/deviceauth/token", secrets: []string{start.ID},
		body: map[string]string{"device_auth_id": start.ID, "user_code": start.Code},
	}
	until := time.Now().Add(life)
	for time.Now().Add(interval).Before(until) {
		if err := httpsafe.Pause(ctx, interval); err != nil {
			return token{}, err
		}
		a, err := c.w.ask(ctx, q)
		switch {
		case err != nil && (ctx.Err() != nil || !transient(err)):
			return token{}, err
		case err != nil || a.status != http.StatusOK:
			continue // every other status means that the code was not typed yet
		}
		var got struct {
			Code     string `json:"authorization_code"`
			Verifier string `json:"code_verifier"`
		}
		if err := c.w.decode(a, &got); err != nil {
			return token{}, err
		}
		return c.redeem(ctx, grant{got.Code, got.Verifier, c.issuer + "/deviceauth/callback"})
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
	h.Set("User-Agent", s.a.wire.agent)
	return nil
}

// Refused implements wire.Signer: read the token again, else refresh it.
func (s codexSigner) Refused(ctx context.Context) bool { return s.a.replace(ctx) == nil }
