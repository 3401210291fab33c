// Package mcptest has an MCP server for tests of what uses one: Server starts it on
// a loopback address, with a login if it is locked, and Browse is the person who
// logs in.
package mcptest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// Token is the token that a login at a Server yields.
const Token = "tok-of-the-server"

// Server returns the address of an MCP server with two tools. A locked one wants a
// login, at itself.
func Server(t *testing.T, locked bool) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := func(v any) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(v); err != nil {
				t.Error(err)
			}
		}
		switch r.URL.Path {
		case "/register":
			w.WriteHeader(http.StatusCreated)
			reply(map[string]any{"client_id": "c"})
		case "/authorize":
			q := r.URL.Query()
			http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"x"}, "state": {q.Get("state")}}.Encode(), http.StatusFound) //nolint:gosec // a test
		case "/token":
			reply(map[string]any{"access_token": Token, "token_type": "bearer", "expires_in": 3600, "refresh_token": "r"})
		case "/mcp":
			if locked && r.Header.Get("Authorization") != "Bearer "+Token {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}

			var in struct {
				ID     json.RawMessage
				Method string
			}
			if json.NewDecoder(r.Body).Decode(&in) != nil || in.ID == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}

			var result any = map[string]any{}
			switch in.Method {
			case "initialize":
				result = map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "s", "version": "1"}}
			case "tools/list":
				schema := map[string]any{"type": "object"}
				result = map[string]any{"tools": []any{map[string]any{"name": "look", "inputSchema": schema}, map[string]any{"name": "touch", "inputSchema": schema}}}
			}

			reply(map[string]any{"jsonrpc": "2.0", "id": in.ID, "result": result})

		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))

	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

// Browse opens an address as a browser would.
func Browse(t *testing.T, address string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}

	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Error(err)
		return
	}

	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
