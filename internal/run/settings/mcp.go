package settings

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
	"github.com/nanobot-go/nanobot/internal/web"
)

// servers are MCP servers.
type servers struct {
	*editor

	logins  *logins
	current func(ctx context.Context) (*app.App, error) // the agent in use
	app     app.Options                                 // what connections need
}

// Routes implements web.Subject.
func (srv *servers) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{
			"settings/mcp-presets":      srv.readMCP,
			"settings/mcp-oauth/status": srv.readMCPLogins,
			"settings/mcp-log":          srv.readLog,
		},
		Actions: map[string]web.Action{
			"settings.mcp.enable":         web.Changing(srv.switchServer(map[string]any{"disabled": nil, "enabled": nil}), web.TopicMCP, web.TopicSettings),
			"settings.mcp.disable":        web.Changing(srv.switchServer(map[string]any{"disabled": true, "enabled": nil}), web.TopicMCP, web.TopicSettings),
			"settings.mcp.remove":         web.Changing(srv.removeServer, web.TopicMCP, web.TopicSettings),
			"settings.mcp.custom":         web.Changing(srv.setServer, web.TopicMCP, web.TopicSettings),
			"settings.mcp.import":         web.Changing(srv.importServers, web.TopicMCP, web.TopicSettings),
			"settings.mcp.import_cursor":  web.Changing(srv.importLink, web.TopicMCP, web.TopicSettings),
			"settings.mcp.test":           web.Changing(srv.tryServer, web.TopicMCP, web.TopicSettings),
			"settings.mcp.reconnect":      web.Changing(srv.reconnectServer, web.TopicMCP, web.TopicSettings),
			"settings.mcp.tools":          web.Changing(srv.serverTools, web.TopicMCP, web.TopicSettings),
			"settings.mcp.accept":         web.Changing(srv.acceptServer, web.TopicMCP, web.TopicSettings),
			"settings.mcp.oauth_start":    web.Changing(srv.startLogin, web.TopicMCP, web.TopicSettings),
			"settings.mcp.oauth_complete": web.Changing(srv.completeLogin, web.TopicMCP, web.TopicSettings),
			"settings.mcp.oauth_cancel":   web.Changing(srv.cancelLogin, web.TopicMCP, web.TopicSettings),
		},
	}
}

// serverState is an MCP server as far as the running agent knows it.
type serverState struct {
	mcp.Summary
	Enabled bool      `json:"enabled"`
	Names   []string  `json:"tool_names"`
	Held    []string  `json:"held,omitempty"` // withheld because their definition changed
	New     int       `json:"unaccepted"`     // definitions that the owner has not accepted
	Since   time.Time `json:"since,omitzero"` // of the state
	// Settings are those of the file, credentials hidden.
	Settings json.RawMessage `json:"settings,omitempty"`
}

func (srv *servers) readMCP(ctx context.Context, _ *http.Request) (any, error) {
	a, err := srv.current(ctx)
	if err != nil {
		return nil, err
	}

	auth, err := app.MCPLogins(a.Config, srv.app)
	if err != nil {
		return nil, err
	}

	var live []mcp.Status
	if a.Servers() != nil {
		live = a.Servers().Status()
	}

	list := []serverState{}
	shown, err := shownSections(a.Config)
	if err != nil {
		return nil, err
	}

	entries := app.MCPEntries(a.Config)
	for i, state := range mcp.Summaries(app.MCPEntries(a.Config), auth) { // in the same order
		if state.Transport == mcp.Stdio {
			state.Target = entries[i].Command // an argument may be a credential
		}

		s := serverState{Summary: state, Names: []string{}, Enabled: state.State != string(mcp.Off), Settings: shown.Tools.Servers[state.Name]}
		for _, st := range live {
			if st.Name == s.Name {
				s.Live(st)
				s.Names = append(s.Names, a.Servers().Names(s.Name)...)
				s.Held = st.Held
				s.Since = st.Since.UTC()
				s.New = st.New
			}
		}

		list = append(list, s)
	}

	return map[string]any{"servers": list}, nil
}

func noServer(name string) error {
	return web.Refuse(http.StatusNotFound, "there is no MCP server %q", name)
}

// serverNamed reads a payload that is only a name.
func serverNamed(payload json.RawMessage) (string, error) {
	var in struct {
		Name string `json:"name"`
	}
	return in.Name, web.Decode(payload, &in)
}

// entry returns a configured server that makes sense.
func (srv *servers) entry(name string) (mcp.Entry, error) {
	for _, e := range app.MCPEntries(srv.Config()) {
		if e.Name == name && e.Problem != nil {
			return e, web.Refuse(http.StatusUnprocessableEntity, "tools.mcpServers.%s: %v", name, e.Problem)
		}
		if e.Name == name {
			return e, nil
		}
	}
	return mcp.Entry{}, noServer(name)
}

// changeServer edits a server that is configured.
func (srv *servers) changeServer(ctx context.Context, name string, patch any) (edited, error) {
	return srv.change(ctx, edit{make: func(now *config.Loaded) (any, error) {
		if _, ok := now.Config.Tools.MCPServers[name]; !ok {
			return nil, noServer(name)
		}
		return under(patch, "tools", "mcpServers", name), nil
	}})
}

func (srv *servers) switchServer(patch map[string]any) web.Change {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		name, err := serverNamed(payload)
		if err != nil {
			return nil, err
		}
		return srv.changeServer(ctx, name, patch)
	}
}

// removeServer forgets a server and the login at it.
func (srv *servers) removeServer(ctx context.Context, payload json.RawMessage) (any, error) {
	name, err := serverNamed(payload)
	if err != nil {
		return nil, err
	}

	done, err := srv.changeServer(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	if len(done.Changed) == 0 {
		return nil, web.Refuse(http.StatusConflict, "MCP server %q is not in the file; it comes from the environment", name)
	}

	auth, err := app.MCPLogins(srv.Config(), srv.app)
	if err != nil {
		return nil, err
	}

	found, err := auth.Logout(context.WithoutCancel(ctx), name) // the server is gone already
	return struct {
		edited
		Logout bool `json:"login_forgotten"`
	}{done, found}, err
}

// setServer adds a server, or replaces one.
func (srv *servers) setServer(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		named
		Replace bool `json:"replace"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := isObject(in.Settings, "settings"); err != nil {
		return nil, err
	}
	if err := serverName(in.Name); err != nil {
		return nil, err
	}

	warnings := []string{}
	done, err := srv.change(ctx, edit{
		make: func(now *config.Loaded) (any, error) {
			old, there := now.Config.Tools.MCPServers[in.Name]
			if there && !in.Replace {
				return nil, web.Refuse(http.StatusConflict, "there is an MCP server %q already; replace it with \"replace\": true", in.Name)
			}
			return under(replacing(old.JSON(), in.Settings), "tools", "mcpServers", in.Name), nil
		},
		check: func(next *config.Loaded) error {
			_, found, err := mcp.ParseServer(in.Name, next.Config.Tools.MCPServers[in.Name].JSON())
			if err != nil {
				return web.Refuse(http.StatusUnprocessableEntity, "tools.mcpServers.%s: %v", in.Name, err)
			}

			warnings = warnings[:0]
			for _, w := range found {
				if strings.HasPrefix(w.Text, "not known") {
					return web.Refuse(http.StatusBadRequest, "%s", w)
				}
				warnings = append(warnings, w.String())
			}
			return nil
		},
	})
	return struct {
		edited
		Warnings []string `json:"warnings"`
	}{done, warnings}, err
}

func serverName(name string) error {
	if !plainName(name) || strings.Contains(name, ".") {
		return web.Refuse(http.StatusBadRequest, "%q cannot be a name: letters, digits, - and _, at most 40", name)
	}
	return nil
}

// replacing returns a merge patch that leaves nothing of an object but hidden
// values that the new one repeats.
func replacing(old, fresh json.RawMessage) any {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(fresh, &is) != nil || is == nil {
		return fresh
	}

	out := make(map[string]any, len(is))
	if json.Unmarshal(old, &was) == nil {
		for name := range was {
			out[name] = nil
		}
	}

	for name, v := range is {
		out[name] = replacing(was[name], v)
	}
	return out
}

// skipped is a server that was not imported.
type skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// importServers takes servers in the form that other programs keep them in.
func (srv *servers) importServers(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		Replace bool                       `json:"replace"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	return srv.importParsed(ctx, in.Servers, in.Replace)
}

// importLink takes the server of an address such as web pages offer to add one
// to an editor: cursor://.../mcp/install?name=NAME&config=BASE64.
func (srv *servers) importLink(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Link    string `json:"link"`
		Replace bool   `json:"replace"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	bad := web.Refuse(http.StatusBadRequest, "link must be an address with name and config, such as cursor://anysphere.cursor-deeplink/mcp/install?name=NAME&config=...")
	u, err := url.Parse(strings.TrimSpace(in.Link))
	if err != nil {
		return nil, bad
	}

	text := strings.NewReplacer("-", "+", "_", "/", " ", "+", "=", "").Replace(u.Query().Get("config"))
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || u.Query().Get("name") == "" || !json.Valid(raw) {
		return nil, bad
	}
	return srv.importParsed(ctx, map[string]json.RawMessage{u.Query().Get("name"): splitCommand(raw)}, in.Replace)
}

// splitCommand makes words of a command that holds its arguments.
func splitCommand(raw json.RawMessage) json.RawMessage {
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return raw
	}

	command, _ := m["command"].(string)
	words := strings.Fields(command)
	if m["args"] != nil || len(words) < 2 {
		return raw
	}

	m["command"], m["args"] = words[0], words[1:]
	if b, err := json.Marshal(m); err == nil {
		return b
	}
	return raw
}

// importParsed adds those servers that make sense and are not there yet.
func (srv *servers) importParsed(ctx context.Context, servers map[string]json.RawMessage, replace bool) (any, error) {
	if len(servers) == 0 {
		return nil, web.Refuse(http.StatusBadRequest, "mcpServers must be an object with servers by name")
	}

	var taken []string
	var left []skipped
	done, err := srv.change(ctx, edit{make: func(now *config.Loaded) (any, error) {
		taken, left = []string{}, []skipped{}
		patch := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			raw := servers[name]
			old, there := now.Config.Tools.MCPServers[name]
			reason := ""
			if err := serverName(name); err != nil {
				reason = err.Error()
			} else if _, _, err := mcp.ParseServer(name, raw); err != nil && !bytes.Contains(raw, []byte("${")) { // references are not looked up here
				reason = err.Error()
			} else if there && !replace {
				reason = "there is one already"
			}

			if reason != "" {
				left = append(left, skipped{name, reason})
				continue
			}

			taken = append(taken, name)
			patch[name] = replacing(old.JSON(), raw)
		}

		return under(patch, "tools", "mcpServers"), nil
	}})
	return struct {
		edited
		Imported []string  `json:"imported"`
		Skipped  []skipped `json:"skipped"`
	}{done, taken, left}, err
}

// tryServer connects to a server and lists what it offers.
func (srv *servers) tryServer(ctx context.Context, payload json.RawMessage) (any, error) {
	name, err := serverNamed(payload)
	if err != nil {
		return nil, err
	}
	e, err := srv.entry(name)
	if err != nil {
		return nil, err
	}
	return srv.try(ctx, e)
}

// try is app.TryMCP without the arguments of a program, since one may be a
// credential.
func (srv *servers) try(ctx context.Context, e mcp.Entry) (mcp.Trial, error) {
	t, err := app.TryMCP(ctx, srv.Config(), srv.app, e)
	if e.Type == mcp.Stdio {
		t.Hint = strings.ReplaceAll(t.Hint, t.Target, e.Command+" ...")
		t.Target = e.Command
	}

	t.Error, t.Log = srv.Secrets.Redact(t.Error), srv.Secrets.Redact(t.Log)
	for i := range t.Odd {
		t.Odd[i] = srv.Secrets.Redact(t.Odd[i])
	}
	return t, err
}

// reconnectServer lets a server that waits be tried again at once.
func (srv *servers) reconnectServer(ctx context.Context, payload json.RawMessage) (any, error) {
	name, err := serverNamed(payload)
	if err != nil {
		return nil, err
	}

	e, err := srv.entry(name)
	if err != nil {
		return nil, err
	}
	if e.Disabled {
		return nil, web.Refuse(http.StatusConflict, "MCP server %q is switched off", name)
	}

	a, err := srv.current(ctx)
	if err != nil {
		return nil, err
	}

	if a.Servers() != nil {
		a.Servers().Retry(name)
		for _, s := range a.Servers().Status() {
			if s.Name == name {
				return map[string]any{"name": name, "state": s.State}, nil
			}
		}
	}

	return nil, noServer(name)
}

// serverTools says which tools of a server the agent gets, or lists all that
// there are.
func (srv *servers) serverTools(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Name  string    `json:"name"`
		Tools *[]string `json:"enabled_tools"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.Tools != nil {
		return srv.changeServer(ctx, in.Name, map[string]any{"enabledTools": append([]string{}, *in.Tools...)})
	}

	e, err := srv.entry(in.Name)
	if err != nil {
		return nil, err
	}

	enabled := append([]string{}, e.EnabledTools...)
	e.EnabledTools = []string{"*"}
	t, err := srv.try(ctx, e)
	if err != nil {
		return nil, err
	}
	if !t.OK {
		return nil, web.Refuse(http.StatusBadGateway, "%s does not work: %s", in.Name, strings.TrimSpace(t.Error+"\n"+t.Hint))
	}
	return map[string]any{"name": in.Name, "tools": t.Tools, "enabled_tools": enabled}, nil
}
