package settings

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
	"github.com/nanobot-go/nanobot/internal/web"
)

// acceptServer takes the definitions of a server as looked at by the owner. The
// digest is the one that settings.mcp.test showed them with: a server that gives
// others now is refused.
func (srv *servers) acceptServer(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Name   string `json:"name"`
		Digest string `json:"digest"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.Digest == "" {
		return nil, web.Refuse(http.StatusBadRequest, "digest is missing: look at the tools with settings.mcp.test first")
	}

	e, err := srv.entry(in.Name)
	if err != nil {
		return nil, err
	}

	t, err := app.AcceptMCP(ctx, srv.Config(), srv.app, e, in.Digest)
	switch {
	case err != nil:
		return nil, err
	case !t.OK:
		return nil, web.Refuse(http.StatusBadGateway, "%s does not work: %s", in.Name, srv.Secrets.Redact(t.Error))
	case t.Digest != in.Digest:
		return nil, web.Refuse(http.StatusConflict, "%s offers other tools than those that were shown; look at them again", in.Name)
	}

	srv.Log.InfoContext(ctx, "the definitions of an MCP server were accepted in the web interface", "server", in.Name, "tools", len(t.Tools))
	srv.Notify(ctx, phrase.Later("The tools of the MCP server %s were accepted in the web interface.", in.Name))
	a, err := srv.current(ctx)
	if err == nil && a.Servers() != nil {
		a.Servers().Relist(in.Name)
	}
	return map[string]any{"name": in.Name, "accepted": len(t.Tools)}, err
}

// readLog returns the end of what a program of ?name=NAME wrote to standard error.
func (srv *servers) readLog(ctx context.Context, r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	a, err := srv.current(ctx)
	if err != nil {
		return nil, err
	}

	var live []mcp.Status
	if a.Servers() != nil {
		live = a.Servers().Status()
	}

	for _, s := range live {
		if s.Name == name {
			return map[string]any{"name": name, "log": srv.Secrets.Redact(s.Log)}, nil
		}
	}
	return nil, noServer(name)
}

// shown holds what the configuration says about channels and MCP servers.
type shown struct {
	Channels map[string]json.RawMessage `json:"channels"`
	Tools    struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	} `json:"tools"`
}

// shownSections returns those that are set, credentials hidden.
func shownSections(l *config.Loaded) (out shown, err error) {
	err = json.Unmarshal(l.Show(true), &out)
	return out, err
}
