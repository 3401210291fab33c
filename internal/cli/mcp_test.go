package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/tool/mcp"
	"github.com/nanobot-go/nanobot/internal/tool/mcptest"
)

// mcpRun is the outcome of one command.
type mcpRun struct {
	out, err string
	code     int
}

// runMCP runs a command of mcp in a home of its own. What it prints goes line
// by line to watch as well.
func runMCP(t *testing.T, dir string, watch func(line string), args ...string) mcpRun {
	t.Helper()
	pipe := func(watch func(string)) (*os.File, func() string) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		var wg sync.WaitGroup
		wg.Go(func() {
			defer r.Close()
			for sc := bufio.NewScanner(r); sc.Scan(); {
				b.WriteString(sc.Text() + "\n")
				if watch != nil {
					watch(sc.Text())
				}
			}
		})
		return w, func() string {
			_ = w.Close()
			wg.Wait()
			return strings.ReplaceAll(b.String(), dir, "HOME")
		}
	}
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, outText := pipe(watch)
	errOut, errText := pipe(nil)
	c := newProgram(Stdio{Now: time.Now, In: in, Out: out, Err: errOut, Env: []string{"NANOBOT_HOME=" + dir, "HOME=" + dir, "USERPROFILE=" + dir, "PATH=" + os.Getenv("PATH")}}, "", "")
	root := &cobra.Command{Use: "nanobot", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(build(t, c, "mcp"))
	root.SetArgs(append([]string{"mcp"}, args...))
	root.SetOut(out)
	root.SetErr(errOut)
	err = root.ExecuteContext(t.Context())
	r := mcpRun{out: outText(), err: errText()}
	if err != nil {
		r.code = exitCode(err)
		r.err += strings.ReplaceAll(err.Error(), dir, "HOME")
	}
	return r
}

func TestMCPEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte("{\n  // mine\n  \"tools\": {}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name, args string
		code       int
		want       string // part of what is printed
	}{
		{"none", "list", 0, "No MCP server is configured"},
		{"program", "add files --env A=b=c --enabled-tools x,y --timeout 5 -- prog -y a", 0, "nanobot mcp test files"},
		{"address", "add web https://u.example/mcp --header X-Key:v --auth oauth", 0, "nanobot mcp login web"},
		{"older address", "add old http://127.0.0.1:1/sse/", 0, ""},
		{"twice", "add files -- other", exitUsage, "--force"},
		{"replaced", "add files --force -- prog2", 0, "Set tools.mcpServers.files"},
		{"no name", "add", exitUsage, "needs a name"},
		{"bad name", "add a.b -- x", exitUsage, "is not a valid name"},
		{"nothing", "add x", exitUsage, "an address, or a command"},
		{"no dash", "add x prog arg", exitUsage, "put -- in front"},
		{"dash too late", "add x prog -- arg", exitUsage, "only the name"},
		{"bad transport", "add x --transport carrier -- prog", exitUsage, "type: want"},
		{"env of an address", "add x http://127.0.0.1 --env A=b", exitUsage, "--header"},
		{"header of a program", "add x --header A=b -- prog", exitUsage, "--env"},
		{"bad header", "add x http://127.0.0.1 --header A", exitUsage, "NAME=VALUE"},
		{"dry", "add dry --dry-run -- prog", 0, "not saved"},
		{"unknown", "test fils", exitUsage, "did you mean files?"},
		{"gone", "remove nothing", exitUsage, "no MCP server"},
		{"login of a program", "login files", exitUsage, "--env"},
		{"removed", "remove old", 0, "Removed tools.mcpServers.old"},
		{"no login", "logout web", 0, "not logged in to web"},
		{"list", "list", 0, "web     streamableHttp  pending-login  https://u.example/mcp"},
	}
	for _, s := range steps {
		got := runMCP(t, dir, nil, strings.Fields(s.args)...)
		if got.code != s.code || !strings.Contains(got.out+got.err, s.want) {
			t.Errorf("%s: code %d\n%s%s\nwant code %d and %q", s.name, got.code, got.out, got.err, s.code, s.want)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  // mine
  "tools": {
    "mcpServers": {
      "files": {
        "command": "prog2"
      },
      "web": {
        "url": "https://u.example/mcp",
        "headers": {
          "X-Key": "v"
        },
        "auth": "oauth"
      }
    }
  }
}
`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	var list []mcp.Summary
	if err := json.Unmarshal([]byte(runMCP(t, dir, nil, "list", "--json").out), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Name != "files" || list[0].State != "configured" || list[1].State != "pending-login" {
		t.Errorf("list %+v", list)
	}
}

// A reference instead of a value, so that no key gets into the file.
func TestMCPAddReference(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runMCP(t, dir, nil, "add", "s", "--env", "TOKEN", "--", "prog")
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || !strings.Contains(string(b), `"TOKEN": "${TOKEN}"`) {
		t.Errorf("file %s, error %v", b, err)
	}
}

// TestMCPHelper is no test: it is the server that others start.
func TestMCPHelper(t *testing.T) { // a program of its own
	mode := os.Getenv("MCP_HELPER")
	if mode == "" {
		t.Skip("only started by other tests")
	}
	switch mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "config missing: token sk-abcdefgh12345678")
		os.Exit(3) //nolint:forbidigo // plays a program
	case "banner":
		_, _ = os.Stdout.WriteString("Welcome to my server!\n")
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "helper", Version: "1"}, nil)
	type input struct {
		Text string `json:"text"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "shout", Description: "Say it loud."}, func(_ context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.ToUpper(in.Text)}}}, nil, nil
	})
	_ = s.Run(t.Context(), &sdk.StdioTransport{}) // the client hangs up
	os.Exit(0)                                    //nolint:forbidigo // plays a program: nothing more on standard output
}

func TestMCPTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(locked.Close)
	servers := map[string]any{}
	for _, mode := range []string{"good", "banner", "exit"} {
		servers[mode] = map[string]any{"command": os.Args[0], "args": []string{"-test.run=^TestMCPHelper$"}, "env": map[string]string{"MCP_HELPER": mode}}
	}
	servers["missing"] = map[string]any{"command": "no-such-program-here"}
	servers["locked"] = map[string]any{"url": locked.URL}
	servers["login"] = map[string]any{"url": locked.URL, "auth": "oauth"}
	servers["off"] = map[string]any{"url": locked.URL, "disabled": true}
	servers["broken"] = map[string]any{"args": []string{}}
	b, err := json.Marshal(map[string]any{"tools": map[string]any{"mcpServers": servers}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		code int
		want []string
		not  string
	}{
		{"good", exitOK, []string{"good works: stdio, protocol 20", "1 tools, about", "mcp_good_shout", "Say it loud"}, "no message"},
		{"banner", exitOK, []string{"banner works", "an invalid message: Welcome to my server!", "standard error"}, ""},
		{"exit", exitUnavailable, []string{"exit does not work: the server ended", "It logged:\n  config missing", "Run it by hand"}, "WELCOME"},
		{"missing", exitUnavailable, []string{`"no-such-program-here" is not in PATH`, "Install it"}, ""},
		{"locked", exitUnavailable, []string{"wants credentials", "nanobot mcp login locked"}, ""},
		{"login", exitAuth, []string{"login needed", "nanobot mcp login login"}, ""},
		{"broken", exitFailure, []string{"neither a command nor a url"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := runMCP(t, dir, nil, "test", tt.name)
			text := got.out + got.err
			if got.code != tt.code {
				t.Errorf("code %d, want %d", got.code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in:\n%s", want, text)
				}
			}
			if tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("%q is in:\n%s", tt.not, text)
			}
		})
	}
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		var list []mcp.Summary
		if err := json.Unmarshal([]byte(runMCP(t, dir, nil, "list", "--probe", "--json").out), &list); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, j := range list {
			got[j.Name] = j.State
		}
		want := map[string]string{
			"good": "ready", "banner": "ready", "exit": "backoff", "missing": "backoff", "locked": "backoff",
			"login": "pending-login", "off": "disabled", "broken": "invalid",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

func TestMCPLogin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runMCP(t, dir, nil, "add", "s", mcptest.Server(t, true))
	browse := func(line string) {
		if address := strings.TrimSpace(line); strings.HasPrefix(address, "http") {
			mcptest.Browse(t, address)
		}
	}
	got := runMCP(t, dir, browse, "login", "s")
	if got.code != 0 || !strings.Contains(got.out, "Logged in to s. The login is renewed automatically.") || !strings.Contains(got.out, "Set tools.mcpServers.s.auth") {
		t.Fatalf("login: code %d\n%s%s", got.code, got.out, got.err)
	}
	if strings.Contains(got.out+got.err, mcptest.Token) {
		t.Error("the token is printed")
	}
	if got := runMCP(t, dir, nil, "list"); !strings.Contains(got.out, "configured") {
		t.Errorf("list after the login:\n%s", got.out)
	}
	if got := runMCP(t, dir, nil, "logout", "s"); !strings.Contains(got.out, "Logged out of s") {
		t.Errorf("logout:\n%s%s", got.out, got.err)
	}
	if got := runMCP(t, dir, nil, "list"); !strings.Contains(got.out, "pending-login") {
		t.Errorf("list after the logout:\n%s", got.out)
	}
	if got := runMCP(t, dir, browse, "login", "s", "--client-secret-file", "x"); got.code != exitUsage {
		t.Errorf("a secret without an id: code %d", got.code)
	}
}

// A listener that other machines reach needs a token of the operator.
func TestMCPServeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	weak := filepath.Join(dir, "weak")
	if err := os.WriteFile(weak, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"everywhere", []string{"--http", "0.0.0.0:0"}, exitUsage, "--token-file"},
		{"weak token", []string{"--http", "127.0.0.1:0", "--token-file", weak}, exitFailure, "at least 16"},
		{"missing token", []string{"--http", "127.0.0.1:0", "--token-file", weak + "x"}, exitFailure, "read the token"},
		{"no listener", []string{"--token-file", weak}, exitUsage, "require --http"},
		{"bad address", []string{"--http", "here"}, exitUsage, "HOST:PORT"},
	} {
		if got := runMCP(t, dir, nil, append([]string{"serve"}, tt.args...)...); got.code != tt.code || !strings.Contains(got.err, tt.want) || got.out != "" {
			t.Errorf("%s: code %d, output %q, error %q, want %d and %q", tt.name, got.code, got.out, got.err, tt.code, tt.want)
		}
	}
}
