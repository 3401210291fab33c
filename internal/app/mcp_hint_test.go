package app

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// Every way to fail has a hint that fits.
func TestMCPHint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		trial MCPTrial
		s     mcp.Server
		want  string
	}{
		{"download", MCPTrial{Error: "no answer to initialize in time"}, mcp.Server{Type: mcp.Stdio, Command: "npx", Args: []string{"-y", "x"}}, "once by hand, then try again: npx -y x"},
		{"download on Windows", MCPTrial{Error: "no answer"}, mcp.Server{Type: mcp.Stdio, Command: "/bin/npx.cmd"}, "downloads the program"},
		{"silent", MCPTrial{Error: "no answer"}, mcp.Server{Type: mcp.Stdio, Command: "prog"}, ""},
		{"ended", MCPTrial{Error: "the server ended"}, mcp.Server{Type: mcp.Stdio, Command: "npx"}, "Run it by hand"},
		{"odd", MCPTrial{Error: "no answer", Odd: []string{"x"}}, mcp.Server{Type: mcp.Stdio, Command: "prog"}, "Is this an MCP server?"},
		{"address", MCPTrial{Error: "status 404"}, mcp.Server{Type: mcp.StreamableHTTP}, "/sse"},
	} {
		if got := mcpHint(tt.trial, tt.s); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
