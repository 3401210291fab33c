package mcp

import (
	"strings"
	"testing"
)

// Every way to fail has a hint that fits.
func TestHint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		trial Trial
		s     Server
		want  string
	}{
		{"download", Trial{Error: "no answer to initialize in time"}, Server{Type: Stdio, Command: "npx", Args: []string{"-y", "x"}}, "once by hand, then try again: npx -y x"},
		{"download on Windows", Trial{Error: "no answer"}, Server{Type: Stdio, Command: "/bin/npx.cmd"}, "downloads the program"},
		{"silent", Trial{Error: "no answer"}, Server{Type: Stdio, Command: "prog"}, ""},
		{"ended", Trial{Error: "the server ended"}, Server{Type: Stdio, Command: "npx"}, "Run it by hand"},
		{"odd", Trial{Error: "no answer", Odd: []string{"x"}}, Server{Type: Stdio, Command: "prog"}, "Is this an MCP server?"},
		{"address", Trial{Error: "status 404"}, Server{Type: StreamableHTTP}, "/sse"},
	} {
		if got := hintFor(tt.trial, tt.s); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
