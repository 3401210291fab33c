package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/provider"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
	"github.com/nanobot-go/nanobot/internal/webui"
)

// loginActions sign in at providers and MCP servers.
func (g *Gateway) loginActions() map[string]webui.Action {
	return map[string]webui.Action{
		"settings.provider.oauth_login":    g.signIn,
		"settings.provider.oauth_complete": g.completeSignIn,
		"settings.provider.oauth_logout":   g.signOut,
		"settings.mcp.oauth_start":         g.startLogin,
		"settings.mcp.oauth_complete":      g.completeLogin,
		"settings.mcp.oauth_cancel":        g.cancelLogin,
	}
}

// checkSignIn refuses providers that have no sign-in.
func checkSignIn(name string) error {
	switch {
	case signin.Known(name):
		return nil
	case llmHasKeys(name):
		return webui.Refuse(http.StatusConflict, "%s has keys instead of a sign-in; give one with settings.provider.update", name)
	}
	return webui.Refuse(http.StatusNotFound, "there is no sign-in for %q; there is one for %s", name, strings.Join(signin.Names(), ", "))
}

func llmHasKeys(name string) bool {
	row, ok := llm.LookupRow(providerKey(name))
	return ok && row.Auth == ""
}

// signIn starts a sign-in at a provider.
func (g *Gateway) signIn(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Provider string `json:"provider"`
		Device   bool   `json:"device"` // a code to type on any machine
	}
	if err := webui.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := checkSignIn(in.Provider); err != nil {
		return nil, err
	}
	a, err := g.account(in.Provider)
	if err != nil {
		return nil, err
	}
	return g.begin(ctx, "provider:"+a.Name(), func(ctx context.Context, l *login) error {
		if note := a.Caution(); note != "" {
			l.tell(loginStep{Note: note})
		}
		_, err := a.Login(ctx, signin.Dialog{
			Device: in.Device, Pasted: func() <-chan string { return l.pasted },
			Tell: func(s signin.Step) { l.tell(loginStep{URL: s.URL, Code: s.Code, Paste: s.Paste, Note: s.Note}) },
		})
		if err == nil {
			g.tellLogin(ctx, "Somebody signed in at "+a.Display()+" in the web interface.")
		}
		return err
	})
}

func (g *Gateway) account(name string) (*signin.Account, error) {
	return provider.Account(app.ProviderOptions(g.config(), g.mcpOptions()), name)
}

func (g *Gateway) completeSignIn(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Provider string `json:"provider"`
		Pasted   string `json:"pasted"`
	}
	if err := webui.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := checkSignIn(in.Provider); err != nil {
		return nil, err
	}
	return g.proceed(ctx, "provider:"+signin.ConfigName(in.Provider), in.Pasted)
}

// signOut forgets a sign-in, and gives up one that is under way.
func (g *Gateway) signOut(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Provider string `json:"provider"`
	}
	if err := webui.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := checkSignIn(in.Provider); err != nil {
		return nil, err
	}
	a, err := g.account(in.Provider)
	if err != nil {
		return nil, err
	}
	if err := g.edits.logins.end(ctx, "provider:"+a.Name()); err != nil {
		return nil, err
	}
	removed, err := a.Logout(ctx)
	if err == nil && len(removed) > 0 {
		g.tellLogin(ctx, "Somebody signed out of "+a.Display()+" in the web interface.")
	}
	return map[string]any{"provider": a.Name(), "signed_out": len(removed) > 0}, err
}

func (g *Gateway) tellLogin(ctx context.Context, text string) {
	g.log.InfoContext(ctx, "web interface", "what", text)
	g.tellOwner(ctx, text)
}

// startLogin starts a login at an MCP server.
func (g *Gateway) startLogin(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Name   string `json:"name"`
		Port   int    `json:"port"`      // for the browser to come back to; 0 is any
		Client string `json:"client_id"` // of an OAuth app of one's own
		Secret string `json:"client_secret"`
	}
	if err := webui.Decode(payload, &in); err != nil {
		return nil, err
	}
	e, err := g.entry(in.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case e.Type == mcp.Stdio:
		return nil, webui.Refuse(http.StatusConflict, "%s is a program that is started here; it takes keys in its env", in.Name)
	case in.Secret != "" && in.Client == "":
		return nil, webui.Refuse(http.StatusBadRequest, "client_secret needs client_id")
	case in.Port < 0 || in.Port > 65535:
		return nil, webui.Refuse(http.StatusBadRequest, "port must be between 0 and 65535")
	}
	auth, err := app.MCPLogins(g.config(), g.mcpOptions())
	if err != nil {
		return nil, err
	}
	return g.begin(ctx, "mcp:"+in.Name, func(ctx context.Context, l *login) error {
		_, err := auth.Login(ctx, in.Name, e.URL, mcp.LoginOptions{
			Port: in.Port, ClientID: in.Client, ClientSecret: httpsafe.NewSecret(in.Secret),
			Tell:   func(address string) { l.tell(loginStep{URL: address, Paste: true}) },
			Note:   func(text string) { l.tell(loginStep{Note: text}) },
			Pasted: func() <-chan string { return l.pasted },
		})
		if err != nil {
			return err
		}
		return g.useLogin(ctx, e)
	})
}

// useLogin lets a server be reached with a login that was just made.
func (g *Gateway) useLogin(ctx context.Context, e mcp.Entry) error {
	g.tellLogin(ctx, "Somebody logged in at the MCP server "+e.Name+" in the web interface.")
	if e.Auth != "oauth" { // a login that is not used would be a surprise
		_, err := g.changeServer(ctx, e.Name, map[string]any{"auth": "oauth"})
		return err
	}
	a, err := g.current(ctx)
	if err == nil && a.Servers() != nil {
		a.Servers().Retry(e.Name)
	}
	return err
}

func (g *Gateway) completeLogin(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Name   string `json:"name"`
		Pasted string `json:"pasted"`
	}
	if err := webui.Decode(payload, &in); err != nil {
		return nil, err
	}
	return g.proceed(ctx, "mcp:"+in.Name, in.Pasted)
}

func (g *Gateway) cancelLogin(ctx context.Context, payload json.RawMessage) (any, error) {
	name, err := serverNamed(payload)
	if err != nil {
		return nil, err
	}
	if g.edits.logins.get("mcp:"+name) == nil {
		return nil, webui.Refuse(http.StatusNotFound, "no login at %q is under way", name)
	}
	return map[string]any{"name": name, "cancelled": true}, g.edits.logins.end(ctx, "mcp:"+name)
}

// loginState is the login at an MCP server.
type loginState struct {
	Name     string     `json:"name"`
	LoggedIn bool       `json:"logged_in"`
	Issuer   string     `json:"issuer,omitempty"`
	Scope    string     `json:"scope,omitempty"`
	Expires  *time.Time `json:"expires_at,omitempty"`
	Renews   bool       `json:"renews"`
	Pending  *loginStep `json:"pending,omitempty"` // a login that waits for a person
	Error    string     `json:"error,omitempty"`   // why the last one did not work, until it is asked for
}

// readMCPLogins tells about logins at MCP servers, or at ?name=NAME.
func (g *Gateway) readMCPLogins(_ context.Context, r *http.Request) (any, error) {
	l := g.config()
	auth, err := app.MCPLogins(l, g.mcpOptions())
	if err != nil {
		return nil, err
	}
	want, list := r.URL.Query().Get("name"), []loginState{}
	for _, e := range app.MCPEntries(l) {
		if e.Problem != nil || e.Type == mcp.Stdio || want != "" && want != e.Name {
			continue
		}
		s, err := g.loginState(auth, e)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if _, ok := l.Config.Tools.MCPServers[want]; want != "" && !ok {
		return nil, noServer(want)
	}
	return map[string]any{"servers": list}, nil
}

func (g *Gateway) loginState(auth *mcp.OAuth, e mcp.Entry) (loginState, error) {
	st, err := auth.State(e.Name, e.URL)
	if err != nil {
		return loginState{}, err
	}
	s := loginState{Name: e.Name, LoggedIn: st.LoggedIn, Issuer: st.Issuer, Scope: st.Scope, Renews: st.Renews}
	if !st.Expires.IsZero() {
		at := st.Expires.UTC()
		s.Expires = &at
	}
	if l := g.edits.logins.get("mcp:" + e.Name); l != nil {
		select {
		case <-l.done:
			if l.err != nil {
				s.Error = g.secrets.Redact(l.err.Error())
			}
		default:
			step := l.waiting()
			s.Pending = &step
		}
	}
	return s, nil
}
