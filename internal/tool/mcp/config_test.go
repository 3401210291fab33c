package mcp

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

func TestParseServer(t *testing.T) {
	t.Parallel()
	all := []string{"*"}
	for _, c := range []struct {
		name, in string
		want     Server
		warns    []string
	}{
		{
			"claude desktop", `{"command": "npx", "args": ["-y", "x"], "env": {"KEY": "v"}}`,
			Server{Type: Stdio, Command: "npx", Args: []string{"-y", "x"}, Env: map[string]httpsafe.Secret{"KEY": httpsafe.NewSecret("v")}, ToolTimeout: 30 * time.Second, EnabledTools: all},
			nil,
		},
		{"url is streamable", `{"url": "https://h/mcp"}`, Server{Type: StreamableHTTP, URL: "https://h/mcp", ToolTimeout: 30 * time.Second, EnabledTools: all}, nil},
		{"url of sse", `{"url": "https://h/sse/?k=v"}`, Server{Type: transportSSE, URL: "https://h/sse/?k=v", ToolTimeout: 30 * time.Second, EnabledTools: all}, nil},
		{"type wins", `{"type": "streamable_http", "url": "https://h/sse"}`, Server{Type: StreamableHTTP, URL: "https://h/sse", ToolTimeout: 30 * time.Second, EnabledTools: all}, nil},
		{"http is streamable", `{"type": "http", "url": "https://h/"}`, Server{Type: StreamableHTTP, URL: "https://h/", ToolTimeout: 30 * time.Second, EnabledTools: all}, nil},
		{
			"snake case", `{"command": "x", "tool_timeout": 1.5, "enabled_tools": [], "enabled_resources": ["a"], "enabled_prompts": ["*"]}`,
			Server{Type: Stdio, Command: "x", ToolTimeout: 1500 * time.Millisecond, EnabledTools: []string{}, EnabledResources: []string{"a"}, EnabledPrompts: all},
			nil,
		},
		{
			"both spellings", `{"command": "x", "enabledTools": ["a"], "enabled_tools": ["b"]}`,
			Server{Type: Stdio, Command: "x", ToolTimeout: 30 * time.Second, EnabledTools: []string{"a"}},
			[]string{"enabled_tools: ignored, because enabledTools is set too"},
		},
		{
			"unknown keys", `{"command": "x", "comand": "y", "zzz": 1, "autoApprove": ["a"], "description": "d", "comment": "c"}`,
			Server{Type: Stdio, Command: "x", ToolTimeout: 30 * time.Second, EnabledTools: all},
			[]string{"autoApprove: ignored; approvals are set in tools.approval", "comand: not known, ignored; did you mean command?", "zzz: not known, ignored"},
		},
		{
			"hosts", `{"command": "x", "sandbox": true, "allowedHosts": ["api.example.com", "https://no"]}`,
			Server{Type: Stdio, Command: "x", ToolTimeout: 30 * time.Second, EnabledTools: all, Sandbox: true, AllowedHosts: []string{"api.example.com", "https://no"}},
			[]string{`allowedHosts: ignored: "https://no": write a host name such as example.com, without a scheme or a path`},
		},
		{
			"hosts of a program outside", `{"command": "x", "allowed_hosts": ["api.example.com"]}`,
			Server{Type: Stdio, Command: "x", ToolTimeout: 30 * time.Second, EnabledTools: all, AllowedHosts: []string{"api.example.com"}},
			[]string{"allowedHosts: without effect, because the server does not run in the sandbox"},
		},
		{
			"client credentials", `{"url": "https://h/mcp", "auth": "clientCredentials", "client_id": "i", "clientSecret": "s", "scope": "a b"}`,
			Server{Type: StreamableHTTP, URL: "https://h/mcp", Auth: withClient, Client: Client{ID: "i", Secret: httpsafe.NewSecret("s"), Scope: "a b", Alone: true}, ToolTimeout: 30 * time.Second, EnabledTools: all},
			nil,
		},
		{
			"client without auth", `{"url": "https://h/mcp", "clientId": "i"}`,
			Server{Type: StreamableHTTP, URL: "https://h/mcp", Client: Client{ID: "i"}, ToolTimeout: 30 * time.Second, EnabledTools: all},
			[]string{`clientId: without effect, because auth is not set to "oauth" or "client_credentials"`},
		},
		{"disabled", `{"command": "x", "disabled": true}`, Server{Type: Stdio, Command: "x", ToolTimeout: 30 * time.Second, EnabledTools: all, Disabled: true}, nil},
		{"not enabled", `{"command": "x", "enabled": false}`, Server{Type: Stdio, Command: "x", ToolTimeout: 30 * time.Second, EnabledTools: all, Disabled: true}, nil},
		{"null is absent", `{"command": "x", "url": null, "args": null, "enabledTools": null}`, Server{Type: Stdio, Command: "x", ToolTimeout: 30 * time.Second, EnabledTools: all}, nil},
		{"long time", `{"command": "x", "toolTimeout": 1e300}`, Server{Type: Stdio, Command: "x", ToolTimeout: time.Hour, EnabledTools: all}, nil},
		{
			"command and url", `{"command": "x", "url": "https://h", "headers": {"A": "b"}, "auth": "oauth"}`,
			Server{Type: Stdio, Command: "x", ToolTimeout: 30 * time.Second, EnabledTools: all},
			[]string{"url: ignored, because the server is started by its command", "auth: ignored, because only HTTP servers have it"},
		},
		{
			"oauth", `{"url": "https://h/#frag", "auth": "oauth", "trusted": true, "sandbox": true, "headers": {"authorization": "x"}}`,
			Server{Type: StreamableHTTP, URL: "https://h/", Auth: "oauth", Trusted: true, ToolTimeout: 30 * time.Second, EnabledTools: all, Headers: map[string]httpsafe.Secret{"authorization": httpsafe.NewSecret("x")}},
			[]string{"sandbox: ignored, because nothing is started for an HTTP server", "headers: Authorization is ignored, because auth is set"},
		},
	} {
		got, warns, err := ParseServer("n", []byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		c.want.Name = "n"
		if d := cmp.Diff(c.want, got, cmp.Comparer(func(a, b httpsafe.Secret) bool { return a.Reveal() == b.Reveal() })); d != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, d)
		}
		var texts []string
		for _, w := range warns {
			texts = append(texts, w.String())
		}
		if d := cmp.Diff(c.warns, texts); d != "" {
			t.Errorf("%s: warnings (-want +got)\n%s", c.name, d)
		}
	}
}

func TestParseServerRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`[]`:                                                  "want an object",
		`null`:                                                "want an object",
		`{}`:                                                  "neither a command nor a url",
		`{"type": "ws"}`:                                      "type: want",
		`{"type": "stdio", "url": "https://h"}`:               "needs a command",
		`{"type": "sse", "command": "x"}`:                     "url: want",
		`{"url": "ftp://h"}`:                                  "url: want",
		`{"url": "http://"}`:                                  "url: want",
		`{"command": 1}`:                                      "command: want a string",
		`{"command": "x", "args": "y"}`:                       "args: want a list of strings",
		`{"command": "x", "env": {"A": 1}}`:                   "env: want an object of strings",
		`{"command": "x", "env": {"A=B": "1"}}`:               "env: a name",
		`{"command": "x", "toolTimeout": 0}`:                  "toolTimeout: want a number of seconds",
		`{"command": "x", "toolTimeout": "5"}`:                "toolTimeout: want a number of seconds",
		`{"command": "x", "enabledTools": "a"}`:               "enabledTools: want a list of strings",
		`{"command": "x\u0000y"}`:                             "NUL",
		`{"url": "https://h", "auth": "basic"}`:               "auth: want",
		`{"url": "https://h", "headers": {"A b": "c"}}`:       "headers: a name or value",
		`{"url": "https://h", "headers": {"A": "b\r\nC: d"}}`: "headers: a name or value",
	} {
		_, _, err := ParseServer("n", []byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	if _, _, err := ParseServer(" ", []byte(`{"command":"x"}`)); err == nil {
		t.Error("a server without a name")
	}
	if _, _, err := ParseServer("n", []byte(`{"command": {"x": "hidden-value"}}`)); err == nil || strings.Contains(err.Error(), "hidden-value") {
		t.Errorf("err = %v", err)
	}
}
