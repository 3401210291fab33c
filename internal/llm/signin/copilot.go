package signin

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// copilot signs in at GitHub by a device code. GitHub's token lives for years
// and buys, at another address, the short-lived token that the API takes.
type copilot struct {
	w                                  *client
	clientID                           string
	deviceURL, accessURL, userURL      string
	exchangeURL, baseURL, editor, plug string
	fixedBase                          bool // the user chose the address

	once sync.Once
	sign *copilotSigner
}

func newCopilot(w *client, o Options) (flow, error) {
	c := &copilot{w: w, clientID: o.Getenv("NANOBOT_GITHUB_COPILOT_CLIENT_ID"), editor: "vscode/1.99.0", plug: "copilot-chat/0.26.0"}
	if c.clientID == "" {
		c.clientID = "Iv1.b507a08c87ecfe98"
	}
	c.fixedBase = o.BaseURL != "" || o.Getenv("NANOBOT_COPILOT_BASE_URL") != ""
	for _, v := range []struct {
		into            *string
		name, otherwise string
	}{
		{&c.deviceURL, "NANOBOT_GITHUB_DEVICE_CODE_URL", "https://github.com/login/device/code"},
		{&c.accessURL, "NANOBOT_GITHUB_ACCESS_TOKEN_URL", "https://github.com/login/oauth/access_token"},
		{&c.userURL, "NANOBOT_GITHUB_USER_URL", "https://api.github.com/user"},
		{&c.exchangeURL, "NANOBOT_COPILOT_TOKEN_URL", "https://api.github.com/copilot_internal/v2/token"},
		{&c.baseURL, "NANOBOT_COPILOT_BASE_URL", "https://api.githubcopilot.com"},
	} {
		var err error
		if *v.into, err = override(o.Getenv, v.name, v.otherwise); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *copilot) base() string { return c.baseURL }

func (c *copilot) login(ctx context.Context, d Dialog) (token, error) {
	access, err := c.device(ctx, d)
	if err != nil {
		return token{}, err
	}
	a, err := c.w.ask(ctx, question{
		method: http.MethodGet, url: c.userURL, header: map[string]string{"Authorization": "Bearer " + access}, secrets: []string{access},
	})
	if err != nil {
		return token{}, err
	}
	var user struct {
		Login string `json:"login"`
	}
	if err := c.w.decode(a, &user); err != nil {
		return token{}, fmt.Errorf("ask who signed in: %w", err)
	}
	// GitHub does not say when its token ends; it is refused when it has.
	return token{Access: access, AccountID: user.Login, Expires: time.Now().AddDate(10, 0, 0).UnixMilli()}, nil
}

// refresh cannot be done: a token that GitHub refuses is gone.
func (c *copilot) refresh(context.Context, token) (token, error) {
	return token{}, c.w.signIn(fmt.Errorf("GitHub does not accept the sign-in any more"))
}

func (c *copilot) signer(a *Account) wire.Signer {
	c.once.Do(func() { c.sign = &copilotSigner{c: c, a: a} })
	return c.sign
}

// pass is what the API takes.
type pass struct {
	token string
	ends  time.Time
	api   *url.URL // where this account's requests go, nil if it was not said
}

func (p pass) fresh() bool { return p.token != "" && time.Until(p.ends) > margin }

// exchange buys a pass for GitHub's token.
func (c *copilot) exchange(ctx context.Context, github string) (pass, error) {
	a, err := c.w.ask(ctx, question{
		method: http.MethodGet, url: c.exchangeURL, secrets: []string{github},
		header: map[string]string{"Authorization": "token " + github, "Editor-Version": c.editor, "Editor-Plugin-Version": c.plug},
	})
	if err != nil {
		return pass{}, err
	}
	var got struct {
		Token     string `json:"token"`
		ExpiresAt number `json:"expires_at"`
		RefreshIn number `json:"refresh_in"`
		Endpoints struct {
			API string `json:"api"`
		} `json:"endpoints"`
	}
	switch a.status {
	case http.StatusUnauthorized:
		return pass{}, errRevoked
	case http.StatusForbidden, http.StatusNotFound:
		e := c.w.refused(a)
		e.Kind, e.Message = llm.Permission, "this GitHub account may not use Copilot: "+e.Message
		return pass{}, e
	}
	if err := c.w.decode(a, &got); err != nil {
		return pass{}, err
	}
	if got.Token == "" {
		return pass{}, &llm.Error{Kind: llm.ServerError, Provider: c.w.name, Message: "GitHub gave no Copilot token"}
	}
	p := pass{token: got.Token}
	switch {
	case got.ExpiresAt > 0:
		p.ends = time.Unix(int64(got.ExpiresAt), 0)
	case got.RefreshIn > 0:
		p.ends = time.Now().Add(time.Duration(got.RefreshIn) * time.Second)
	default:
		p.ends = time.Now().Add(1500 * time.Second)
	}
	if api := got.Endpoints.API; api != "" && !c.fixedBase && private(api) == nil {
		p.api, _ = url.Parse(api) // private has parsed it
	}
	return p, nil
}

var errRevoked = fmt.Errorf("GitHub refuses the sign-in")

// copilotSigner signs requests to the Copilot API.
type copilotSigner struct {
	c *copilot
	a *Account

	passes cell[pass]

	mu      sync.Mutex
	changed time.Time
}

var _ wire.Signer = (*copilotSigner)(nil)

// Sign implements wire.Signer.
func (s *copilotSigner) Sign(ctx context.Context, req *http.Request, body []byte) error {
	if err := mayCarry(req, s.c.w.name); err != nil {
		return err
	}
	p, err := s.passes.get(ctx, pass.fresh, s.buy)
	if err != nil {
		return err
	}
	if p.api != nil && req.URL.Host == hostOf(s.c.baseURL) {
		u := *req.URL
		u.Scheme, u.Host = p.api.Scheme, p.api.Host
		u.Path = strings.TrimRight(p.api.Path, "/") + u.Path
		req.URL, req.Host = &u, ""
	}
	h := req.Header
	h.Set("Authorization", "Bearer "+p.token)
	h.Set("User-Agent", s.c.w.agent)
	h.Set("Editor-Version", s.c.editor)
	h.Set("Editor-Plugin-Version", s.c.plug)
	h.Set("Copilot-Integration-Id", "vscode-chat")
	h.Set("X-Initiator", initiator(body))
	if bytes.Contains(body, []byte(`"type":"image_url"`)) || bytes.Contains(body, []byte(`"type":"input_image"`)) {
		h.Set("Copilot-Vision-Request", "true")
	}
	return nil
}

// initiator says who caused a request: the user, or the agent that goes on
// after a tool. Plans count the former. The order of the roles can be read off
// the bytes, because quotes inside of texts are escaped.
func initiator(body []byte) string {
	last := func(patterns ...string) int {
		at := -1
		for _, p := range patterns {
			at = max(at, bytes.LastIndex(body, []byte(p)))
		}
		return at
	}
	if last(`"role":"assistant"`, `"role":"tool"`, `"type":"function_call"`, `"type":"function_call_output"`) > last(`"role":"user"`) {
		return "agent"
	}
	return "user"
}

// buy gets a pass, with another process's newer GitHub token if ours is refused.
func (s *copilotSigner) buy(ctx context.Context) (pass, error) {
	t, err := s.a.token(ctx)
	if err != nil {
		return pass{}, err
	}
	p, err := s.c.exchange(ctx, t.Access)
	if err != errRevoked { //nolint:errorlint // made above, never wrapped
		return p, err
	}
	if err := s.a.replace(ctx); err != nil {
		return pass{}, err
	}
	if t, err = s.a.token(ctx); err != nil {
		return pass{}, err
	}
	if p, err = s.c.exchange(ctx, t.Access); err == errRevoked { //nolint:errorlint // made above, never wrapped
		err = s.c.w.signIn(err)
	}
	return p, err
}

// Refused implements wire.Signer: the pass is dropped and a new one bought.
func (s *copilotSigner) Refused(ctx context.Context) bool {
	s.mu.Lock()
	recent := !s.changed.IsZero() && time.Since(s.changed) < settled
	s.mu.Unlock()
	if recent {
		return true
	}
	refused := s.passes.peek().token
	_, err := s.passes.get(ctx, func(p pass) bool { return p.fresh() && p.token != refused }, s.buy)
	if err == nil {
		s.mu.Lock()
		s.changed = time.Now()
		s.mu.Unlock()
	}
	return err == nil
}

// mayCarry refuses to put a token on a request that is not encrypted.
func mayCarry(req *http.Request, provider string) error {
	if err := private(req.URL.String()); err != nil {
		return &llm.Error{Kind: llm.Configuration, Provider: provider, Message: "base URL " + err.Error(), Err: err}
	}
	return nil
}
