package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// TestMCPConfinedHelper is no test: it is a server that looks where it is.
func TestMCPConfinedHelper(t *testing.T) { // a program of its own
	secret := os.Getenv("MCP_CONFINED")
	if secret == "" {
		t.Skip("only started by another test")
	}
	var cpu syscall.Rlimit
	if _, err := os.ReadFile(secret); err == nil {
		fmt.Fprintln(os.Stderr, "the configuration can be read")
	} else if err := syscall.Getrlimit(syscall.RLIMIT_CPU, &cpu); err != nil || cpu.Cur != ^uint64(0) {
		fmt.Fprintln(os.Stderr, "the processor time is bounded", cpu.Cur, err)
	} else {
		s := sdk.NewServer(&sdk.Implementation{Name: "confined", Version: "1"}, nil)
		_ = s.Run(t.Context(), &sdk.StdioTransport{}) // the client hangs up
		os.Exit(0)                                    //nolint:forbidigo // plays a program
	}
	os.Exit(3) //nolint:forbidigo // plays a program
}

func TestMCPConfined(t *testing.T) {
	t.Parallel()
	if _, err := sandbox.Open(t.Context(), sandbox.Options{}); err != nil {
		t.Skipf("this machine has no sandbox: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	b, err := json.Marshal(map[string]any{
		"agents": map[string]any{"defaults": map[string]any{"workspace": filepath.Join(dir, "workspace")}},
		"tools": map[string]any{
			"exec": map[string]any{"sandbox": "auto", "sandboxRoBinds": []string{filepath.Dir(os.Args[0])}},
			"mcpServers": map[string]any{"confined": map[string]any{
				"command": os.Args[0], "args": []string{"-test.run=^TestMCPConfinedHelper$"}, "sandbox": true,
				"env": map[string]string{"MCP_CONFINED": file},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runMCP(t, dir, nil, "test", "confined"); got.code != exitOK || !strings.Contains(got.out, "confined works") {
		t.Errorf("test: code %d\n%s%s", got.code, got.out, got.err)
	}
	if got := runMCP(t, dir, nil, "list", "--probe"); got.code != exitOK || !strings.Contains(got.out, "ready") {
		t.Errorf("list: code %d\n%s%s", got.code, got.out, got.err)
	}
}
