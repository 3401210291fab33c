package mcp

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// The servers real tests are made with; exact, so that a release elsewhere
// breaks nothing here.
const realVersion = "2026.8.31"

// installing lets tests that need the servers wait for one installation.
var installing sync.Mutex

// realServers installs the reference servers once and returns their folder.
func realServers(t *testing.T) string {
	t.Helper()
	if os.Getenv("NANOBOT_NPM") == "" && os.Getenv("CI") == "" {
		t.Skip("needs the reference MCP servers from npm and a minute; set NANOBOT_NPM=1 to run it")
	}
	installing.Lock()
	defer installing.Unlock()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no place for the servers: %v", err)
	}
	dir := filepath.Join(cache, "nanobot-test", "mcp-"+realVersion)
	packages := filepath.Join(dir, "node_modules", "@modelcontextprotocol")
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return packages
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--fetch-timeout=10000", "--fetch-retries=1",
		"@modelcontextprotocol/server-everything@"+realVersion, "@modelcontextprotocol/server-filesystem@"+realVersion)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the registry cannot be reached: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "complete"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return packages
}

// node is a server of its own that can be killed and started again.
type node struct {
	t          *testing.T
	script     string
	kind, port string
	cmd        *exec.Cmd
}

func startNode(t *testing.T, script, kind string) *node {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	n := &node{t: t, script: script, kind: kind, port: port}
	n.start()
	t.Cleanup(n.kill)
	return n
}

func (n *node) start() {
	n.t.Helper()
	n.cmd = exec.Command("node", n.script, n.kind) //nolint:noctx // killed by the test
	n.cmd.Env = append(os.Environ(), "PORT="+n.port)
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if c, err := new(net.Dialer).DialContext(n.t.Context(), "tcp", "127.0.0.1:"+n.port); err == nil {
			_ = c.Close()
			return
		}
	}
	n.t.Fatal("the server does not listen")
}

func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

func (n *node) server(name string) Server {
	s := Server{Name: name, Type: StreamableHTTP, URL: "http://127.0.0.1:" + n.port + "/mcp", ToolTimeout: 20 * time.Second}
	if n.kind == "sse" {
		s.Type, s.URL = transportSSE, "http://127.0.0.1:"+n.port+"/sse"
	}
	return s
}

// everything is the reference server over one transport, and how to kill it
// and bring it back.
func everything(t *testing.T, script, kind string) (s Server, kill, restart func(r *rig)) {
	t.Helper()
	if kind == "stdio" {
		s = Server{Name: "ev", Type: Stdio, Command: "node", Args: []string{script, "stdio"}, ToolTimeout: 20 * time.Second}
		return s, func(r *rig) {
			l, err := r.servers[0].connected(t.Context(), 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			_ = l.proc.cmd.Process.Kill()
		}, func(*rig) {} // its supervisor does it
	}
	n := startNode(t, script, kind)
	return n.server("ev"), func(*rig) { n.kill() }, func(*rig) { n.start() }
}

// TestRealEverything: tools, resources, prompts, progress, cancellation and a
// server that is killed in the middle of a call, over all transports.
func TestRealEverything(t *testing.T) {
	t.Parallel()
	script := filepath.Join(realServers(t), "server-everything", "dist", "index.js")
	for _, kind := range []string{"stdio", "sse", "streamableHttp"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, kill, restart := everything(t, script, kind)
			media := t.TempDir()
			r := start(t, func(o *Options, _ *timing) { o.MediaDir = media }, s)
			realCalls(t, r)
			realCancel(t, r)
			realKill(t, r, kill, restart)
		})
	}
}

func realCalls(t *testing.T, r *rig) {
	t.Helper()
	for _, c := range []struct{ name, args, want string }{
		{"mcp_ev_echo", `{"message":"hello"}`, "hello"},
		{"mcp_ev_get-sum", `{"a":2,"b":"3"}`, "5"},
		{"mcp_ev_get-structured-content", `{"location":"New York"}`, "temperature"},
		{"mcp_ev_get-resource-links", `{"count":2}`, "[link to resource"},
		{"mcp_ev_get-tiny-image", `{}`, "[image: "},
		{"mcp_ev_prompt_simple-prompt", `{}`, "simple prompt"},
		{"mcp_ev_prompt_args-prompt", `{"city":"Oslo"}`, "Oslo"},
	} {
		res := r.run(t.Context(), c.name, c.args)
		if got := res.Content.String(); res.IsError || !strings.Contains(got, c.want) || !res.Untrusted {
			t.Errorf("%s: %.300q, want %q", c.name, got, c.want)
		}
	}
	if res := r.run(t.Context(), "mcp_ev_echo", `{}`); res.Code != tool.InvalidArgs {
		t.Errorf("a missing argument: %q", res.Content.String())
	}
	i := slices.IndexFunc(r.names(), func(n string) bool { return strings.HasPrefix(n, "mcp_ev_resource_") })
	if i < 0 {
		t.Fatalf("no resources among %v", r.names())
	}
	if res := r.run(t.Context(), r.names()[i], `{}`); res.IsError || len(res.Content.String()) < 10 {
		t.Errorf("%s: %q", r.names()[i], res.Content.String())
	}
	st := r.state("ev")
	if st.State != Ready || st.Tools < 10 || st.Resources < 1 || st.Prompts < 3 || st.Protocol == "" {
		t.Errorf("status = %+v", st)
	}
	// The server works longer than it may, but says that it does.
	r.servers[0].ToolTimeout = 1500 * time.Millisecond
	res := r.run(t.Context(), "mcp_ev_trigger-long-running-operation", `{"duration":3,"steps":6}`)
	if res.IsError || !strings.Contains(res.Content.String(), "completed") {
		t.Errorf("with progress: %q", res.Content.String())
	}
	if res = r.run(t.Context(), "mcp_ev_trigger-long-running-operation", `{"duration":60,"steps":1}`); res.Code != tool.TimedOut {
		t.Errorf("without progress: %q", res.Content.String())
	}
	r.servers[0].ToolTimeout = 30 * time.Second
}

func realCancel(t *testing.T, r *rig) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	long := r.find("mcp_ev_trigger-long-running-operation")
	began := time.Now()
	if _, err := long.Run(ctx, tool.Call{Input: []byte(`{"duration":60,"steps":60}`)}); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("a cancelled call: %v after %v", err, time.Since(began))
	}
	if res := r.run(t.Context(), "mcp_ev_echo", `{"message":"after"}`); res.IsError {
		t.Errorf("after a cancelled call: %q", res.Content.String())
	}
}

func realKill(t *testing.T, r *rig, kill, restart func(*rig)) {
	t.Helper()
	tools, gen := r.Tools(t.Context())
	timer := time.AfterFunc(500*time.Millisecond, func() {
		kill(r)
		restart(r)
	})
	defer timer.Stop()
	// The tool is annotated as idempotent, so it is tried again on the new server.
	res := r.run(t.Context(), "mcp_ev_trigger-long-running-operation", `{"duration":3,"steps":6}`)
	t.Logf("killed in the middle of a call: %v %q", res.IsError, res.Content.String())
	r.until("it answers again", func() bool {
		res := r.run(t.Context(), "mcp_ev_echo", `{"message":"back"}`)
		return !res.IsError
	})
	again, still := r.Tools(t.Context())
	if still != gen || len(again) != len(tools) {
		t.Errorf("the tools changed: %d, then %d", len(tools), len(again))
	}
}

// TestRealFilesystem: the reference file server, read and write, inside and
// outside of what it allows.
func TestRealFilesystem(t *testing.T) {
	t.Parallel()
	script := filepath.Join(realServers(t), "server-filesystem", "dist", "index.js")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, warns, err := ParseServer("fs", fmt.Appendf(nil, `{"command": "node", "args": [%q, %q], "enabled_tools": ["read_text_file", "mcp_fs_write_file", "list_directory"], "trusted": true}`, script, dir))
	if err != nil || len(warns) > 0 {
		t.Fatal(err, warns)
	}
	r := start(t, nil, s)
	if got := r.names(); !slices.Equal(got, []string{"mcp_fs_list_directory", "mcp_fs_read_text_file", "mcp_fs_write_file"}) {
		t.Fatalf("tools = %v; log:\n%s", got, r.log)
	}
	file := filepath.Join(dir, "note.txt")
	if res := r.run(t.Context(), "mcp_fs_write_file", fmt.Sprintf(`{"path":%q,"content":"hello"}`, file)); res.IsError {
		t.Fatal(res.Content.String())
	}
	if res := r.run(t.Context(), "mcp_fs_read_text_file", fmt.Sprintf(`{"path":%q}`, file)); res.Content.String() != "hello" {
		t.Errorf("read: %q", res.Content.String())
	}
	if res := r.run(t.Context(), "mcp_fs_read_text_file", `{"path":"/etc/passwd"}`); !res.IsError {
		t.Errorf("outside: %q", res.Content.String())
	}
	if !r.find("mcp_fs_read_text_file").ReadOnly || r.find("mcp_fs_write_file").ReadOnly {
		t.Error("the hints of a trusted server do not count")
	}
}
