package signin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/nanobot-go/nanobot/internal/base/oauth"
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

	a, err := c.w.ask(ctx, oauth.Request{URL: c.userURL, Header: map[string]string{"Authorization": "Bearer " + access}})
	if err != nil {
		return token{}, err
	}

	var user struct {
		Login string `json:"login"`
	}
	if err := c.w.decode(ctx, a, &user); err != nil {
		return token{}, fmt.Errorf("ask who signed in: %w", err)
	}
	// GitHub does not say when its token ends; it is refused when it has.
	return token{Access: access, AccountID: user.Login, Expires: time.Now().AddDate(10, 0, 0).UnixMilli()}, nil
}

// device signs in at GitHub with a code that the person types in a browser,
// and returns GitHub's token.
func (c *copilot) device(ctx context.Context, d Dialog) (string, error) {
	conf := &oauth2.Config{
		ClientID: c.clientID,
		Endpoint: oauth2.Endpoint{DeviceAuthURL: c.deviceURL, TokenURL: c.accessURL, AuthStyle: oauth2.AuthStyleInParams},
		Scopes:   []string{"read:user"},
	}

	shown := false
	t, err := c.w.Device(ctx, conf, func(da *oauth2.DeviceAuthResponse) error {
		if da.DeviceCode == "" || da.UserCode == "" || private(da.VerificationURI) != nil {
			return errNoCode
		}
		shown = true
		d.notify(Step{URL: da.VerificationURI, Code: da.UserCode})
		return nil
	}, func(err error) bool { return transient(c.w.explain(ctx, c.accessURL, err)) })

	r, refused := errors.AsType[*oauth.RefusedError](err)
	switch {
	case err == nil:
		return t.AccessToken, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, errNoCode):
		return "", &llm.Error{Kind: llm.ServerError, Provider: c.w.name, Message: oauth.HostOf(c.deviceURL) + " gave no usable code"}
	case !shown:
		return "", fmt.Errorf("ask for a code: %w", c.w.explain(ctx, c.deviceURL, err))
	case !refused || r.Code == "":
		return "", c.w.explain(ctx, c.accessURL, err)
	case r.Code == "expired_token":
		return "", c.w.failed("the code expired before it was typed; start again")
	case r.Code == "access_denied":
		return "", c.w.failed("the sign-in was declined in the browser")
	}

	return "", c.w.failed("the sign-in was refused: " + r.Text)
}

var errNoCode = errors.New("no usable code")

// refresh cannot be done: a token that GitHub refuses is gone.
func (c *copilot) refresh(context.Context, token) (token, error) {
	return token{}, c.w.signIn(fmt.Errorf("GitHub does not accept the sign-in any more"))
}

func (c *copilot) signer(a *Account) wire.Signer {
	c.once.Do(func() {
		c.sign = &copilotSigner{c: c, a: a}
		c.sign.passes = oauth.NewSource(oauth.SourceOptions[pass]{
			Key: func(p pass) string { return p.token }, Fresh: pass.fresh, Renew: c.sign.buy, OverlapWait: renewalOverlap,
		})
	})
	return c.sign
}

// pass is the token that the API takes.
type pass struct {
	token string
	ends  time.Time
	api   *url.URL // where this account's requests go, nil if it was not said
}

func (p pass) fresh() bool { return p.token != "" && time.Until(p.ends) > margin }

// exchange buys a pass for GitHub's token.
func (c *copilot) exchange(ctx context.Context, github string) (pass, error) {
	a, err := c.w.ask(ctx, oauth.Request{
		URL:    c.exchangeURL,
		Header: map[string]string{"Authorization": "token " + github, "Editor-Version": c.editor, "Editor-Plugin-Version": c.plug},
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
	switch err := c.w.decode(ctx, a, &got); {
	case a.Status == http.StatusUnauthorized:
		return pass{}, errRevoked
	case a.Status == http.StatusForbidden, a.Status == http.StatusNotFound:
		return pass{}, &llm.Error{Kind: llm.Permission, Provider: c.w.name, Status: a.Status, Message: "this GitHub account may not use Copilot: " + err.Error(), Err: err}
	case err != nil:
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
	c      *copilot
	a      *Account
	passes *oauth.Source[pass]
}

var _ wire.Signer = (*copilotSigner)(nil)

// Sign implements wire.Signer.
func (s *copilotSigner) Sign(ctx context.Context, req *http.Request, body []byte) error {
	if err := mayCarry(req, s.c.w.name); err != nil {
		return err
	}

	p, err := s.passes.Get(ctx, "")
	if err != nil {
		return err
	}

	if p.api != nil && req.URL.Host == oauth.HostOf(s.c.baseURL) {
		u := *req.URL
		u.Scheme, u.Host = p.api.Scheme, p.api.Host
		u.Path = strings.TrimRight(p.api.Path, "/") + u.Path
		req.URL, req.Host = &u, ""
	}

	h := req.Header
	h.Set("Authorization", "Bearer "+p.token)
	h.Set("User-Agent", s.c.w.Agent)
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
func (s *copilotSigner) buy(ctx context.Context, _ string) (pass, error) {
	t, err := s.a.token(ctx)
	if err != nil {
		return pass{}, err
	}

	p, err := s.c.exchange(ctx, t.Access)
	if err != errRevoked { //nolint:errorlint // made above, never wrapped
		return p, err
	}
	if err := s.a.tokens.Replace(ctx); err != nil {
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
func (s *copilotSigner) Refused(ctx context.Context) bool { return s.passes.Replace(ctx) == nil }

// mayCarry refuses to put a token on a request that is not encrypted.
func mayCarry(req *http.Request, provider string) error {
	if err := private(req.URL.String()); err != nil {
		return &llm.Error{Kind: llm.Configuration, Provider: provider, Message: "base URL " + err.Error(), Err: err}
	}
	return nil
}
