package settings

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
	"github.com/nanobot-go/nanobot/internal/web"
)

// startLogin starts a login at an MCP server.
func (srv *servers) startLogin(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Name   string `json:"name"`
		Port   int    `json:"port"`      // for the browser to come back to; 0 is any
		Client string `json:"client_id"` // of an OAuth app of one's own
		Secret string `json:"client_secret"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	e, err := srv.entry(in.Name)
	if err != nil {
		return nil, err
	}

	switch {
	case e.Type == mcp.Stdio:
		return nil, web.Refuse(http.StatusConflict, "%s is a program that is started here; it takes keys in its env", in.Name)
	case e.Client.Alone:
		return nil, web.Refuse(http.StatusConflict, "%s uses the client credentials of the configuration and needs no login", in.Name)
	case in.Secret != "" && in.Client == "":
		return nil, web.Refuse(http.StatusBadRequest, "client_secret needs client_id")
	case in.Port < 0 || in.Port > 65535:
		return nil, web.Refuse(http.StatusBadRequest, "port must be between 0 and 65535")
	}

	auth, err := app.MCPLogins(srv.Config(), srv.app)
	if err != nil {
		return nil, err
	}
	return srv.logins.begin(ctx, "mcp:"+in.Name, func(ctx context.Context, l *login) error {
		_, err := auth.Login(ctx, in.Name, e.URL, mcp.LoginOptions{
			Port: in.Port, ClientID: in.Client, ClientSecret: httpsafe.NewSecret(in.Secret),
			ShowAddress: func(address string) { l.publish(loginStep{URL: address, Paste: true}) },
			Notify:      func(text string) { l.publish(loginStep{Note: text}) },
			Pasted:      func() <-chan string { return l.pasted },
		})
		if err != nil {
			return err
		}
		return srv.useLogin(ctx, e)
	})
}

// useLogin lets a server be reached with a login that was just made.
func (srv *servers) useLogin(ctx context.Context, e mcp.Entry) error {
	srv.notifyLogin(ctx, phrase.Later("A person logged in at the MCP server %s in the web interface.", e.Name))
	if e.Auth != mcp.WithLogin { // a login that is not used would be a surprise
		_, err := srv.changeServer(ctx, e.Name, map[string]any{"auth": mcp.WithLogin})
		return err
	}

	a, err := srv.current(ctx)
	if err == nil && a.Servers() != nil {
		a.Servers().Retry(e.Name)
	}
	return err
}

func (srv *servers) completeLogin(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Name   string `json:"name"`
		Pasted string `json:"pasted"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	return srv.logins.proceed(ctx, "mcp:"+in.Name, in.Pasted)
}

func (srv *servers) cancelLogin(ctx context.Context, payload json.RawMessage) (any, error) {
	name, err := serverNamed(payload)
	if err != nil {
		return nil, err
	}
	if srv.logins.get("mcp:"+name) == nil {
		return nil, web.Refuse(http.StatusNotFound, "no login at %q is under way", name)
	}
	return map[string]any{"name": name, "cancelled": true}, srv.logins.stop(ctx, "mcp:"+name)
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
func (srv *servers) readMCPLogins(_ context.Context, r *http.Request) (any, error) {
	l := srv.Config()
	auth, err := app.MCPLogins(l, srv.app)
	if err != nil {
		return nil, err
	}

	want, list := r.URL.Query().Get("name"), []loginState{}
	for _, e := range app.MCPEntries(l) {
		if e.Problem != nil || e.Type == mcp.Stdio || want != "" && want != e.Name {
			continue
		}
		s, err := srv.loginState(auth, e)
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

func (srv *servers) loginState(auth *mcp.OAuth, e mcp.Entry) (loginState, error) {
	st, err := auth.State(e.Name, e.URL)
	if err != nil {
		return loginState{}, err
	}

	s := loginState{Name: e.Name, LoggedIn: st.LoggedIn, Issuer: st.Issuer, Scope: st.Scope, Renews: st.Renews}
	if !st.Expires.IsZero() {
		at := st.Expires.UTC()
		s.Expires = &at
	}

	if l := srv.logins.get("mcp:" + e.Name); l != nil {
		select {
		case <-l.done:
			if l.err != nil {
				s.Error = srv.Secrets.Redact(l.err.Error())
			}
		default:
			step := l.waiting()
			s.Pending = &step
		}
	}

	return s, nil
}
