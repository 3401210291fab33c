package mcp

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// TrialTool is a tool of a server that was tried.
type TrialTool struct {
	Name        string `json:"name"`
	About       string `json:"about,omitempty"`
	Bytes       int    `json:"bytes"`  // of name, description and schema, sent with every request
	Tokens      int    `json:"tokens"` // about what that costs
	Description string `json:"description,omitempty"`
}

// Trial holds what trying a server found out.
type Trial struct {
	Name      string      `json:"name"`
	Transport string      `json:"transport"`
	Target    string      `json:"target"`
	OK        bool        `json:"ok"`
	State     State       `json:"state"`
	Protocol  string      `json:"protocol,omitempty"`
	Seconds   float64     `json:"seconds"`
	Tools     []TrialTool `json:"tools"`
	Error     string      `json:"error,omitempty"`
	Hint      string      `json:"hint,omitempty"`
	Log       string      `json:"log,omitempty"` // the last lines of the server's log
	Odd       []string    `json:"odd,omitempty"` // printed where only messages belong
	Warnings  []string    `json:"warnings,omitempty"`
	Digest    string      `json:"digest,omitempty"` // of the definitions
}

// Try connects to one server and lists what it offers, whether or not it is
// switched on. The servers of o are not used.
func Try(ctx context.Context, o Options, e Entry) (Trial, error) {
	e.Disabled = false
	o.Servers = []Server{e.Server}
	p, err := probe(ctx, o)
	if err != nil {
		return Trial{}, err
	}

	st := p.Status[0]
	t := Trial{
		Name:      e.Name,
		Transport: st.Transport,
		Target:    e.Target(),
		OK:        st.State == Ready || st.State == Degraded,
		State:     st.State,
		Protocol:  st.Protocol,
		Seconds:   p.Took.Seconds(),
		Tools:     []TrialTool{},
		Odd:       p.Odd,
		Digest:    st.Digest,
	}
	for _, w := range e.Warnings {
		t.Warnings = append(t.Warnings, w.String())
	}

	for _, found := range p.Tools {
		size := len(found.Name) + len(found.Description) + len(found.Schema)
		about := strings.Fields(strings.TrimPrefix(found.Description, "["+e.Name+"] "))
		t.Tools = append(t.Tools, TrialTool{
			Name:        found.Name,
			About:       text.Ellipsis(strings.Join(about, " "), 60),
			Bytes:       size,
			Tokens:      text.Tokens(found.Name + found.Description + string(found.Schema)),
			Description: found.Description,
		})
	}

	if !t.OK {
		t.Error, t.Log = st.Error, strings.TrimSpace(st.Log)
		if t.Error == "" {
			t.Error = "no answer within " + probeTime.String()
		}
	}

	if !t.OK || len(t.Odd) > 0 {
		t.Hint = hintFor(t, e.Server)
	}
	return t, nil
}

// hintFor says what to do about a server that does not work.
func hintFor(t Trial, s Server) string {
	switch {
	case t.State == PendingLogin:
		return "Log in with: nanobot mcp login " + t.Name
	case strings.Contains(t.Error, "not in PATH"):
		return "Install it, or give its full path: nanobot config set tools.mcpServers." + t.Name + ".command /path/to/" + s.Command
	case strings.Contains(t.Error, "wants credentials"):
		return "Log in with: nanobot mcp login " + t.Name + "\nor give a key: nanobot config set tools.mcpServers." + t.Name + ".headers.Authorization 'Bearer ${KEY}'"
	case len(t.Odd) > 0 && t.OK:
		return "The lines were skipped; a server must log to standard error."
	case len(t.Odd) > 0:
		return "Is this an MCP server? Its standard output must carry messages only, and it must log to standard error."
	case s.Type == Stdio && !strings.Contains(t.Error, "ended") && downloads(s.Command):
		return "The first start downloads the program and may take too long. Start it once by hand, then try again: " + s.Target()
	case s.Type == Stdio && strings.Contains(t.Error, "ended"):
		return "Run it by hand to see more: " + s.Target()
	case s.Type != Stdio:
		return "Is the address right? Servers of the older kind end in /sse: nanobot config set tools.mcpServers." + t.Name + ".type sse"
	}
	return ""
}

// downloads reports whether a program is one that fetches others first.
func downloads(command string) bool {
	name, _, _ := strings.Cut(filepath.Base(command), ".")
	return slices.Contains([]string{"npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman", "deno", "go"}, name)
}
