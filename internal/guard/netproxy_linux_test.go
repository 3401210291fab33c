package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// netLab runs commands in the sandbox as the agent does, with one web server in
// place of the internet.
type netLab struct {
	t    *testing.T
	g    *Guard
	file string // of the configuration
	exec tool.Tool
	web  *httptest.Server

	mu      sync.Mutex
	answers []string
	asked   []bus.Question
	dialed  []string
}

func newNetLab(t *testing.T, exec string) *netLab {
	t.Helper()
	level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto})
	if !level.NetNS {
		t.Skipf("no network namespaces here: %s", level)
	}
	home := t.TempDir()
	n := &netLab{t: t, file: filepath.Join(home, "config.json")}
	if err := os.WriteFile(n.file, []byte(`{"tools":{"restrictToWorkspace":true,"exec":{"sandbox":"auto","timeout":600,`+exec+`}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "page of "+r.Host)
	}))
	t.Cleanup(n.web.Close)
	n.g = open(t, home)
	n.g.confiner.proxy.options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		n.mu.Lock()
		n.dialed = append(n.dialed, address)
		n.mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, network, n.web.Listener.Addr().String())
	}
	if _, err := n.g.CommandTools(); err != nil {
		t.Fatal(err)
	}
	n.exec = n.g.commands.Tools()[0]
	return n
}

// open makes a guard as an agent with the configuration in home does.
func open(t *testing.T, home string) *Guard {
	t.Helper()
	return openWith(t, config.Options{Home: home, Env: []string{"NANOBOT_HOME=" + home}}, "")
}

// openWith makes a guard for a workspace; "" is the one that the configuration
// names.
func openWith(t *testing.T, from config.Options, workspace string) *Guard {
	t.Helper()
	l, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	if workspace == "" {
		workspace = l.Workspace()
	}
	log := slog.New(slog.DiscardHandler)
	o := Options{
		Policy: policyOf(l), Workspace: workspace, State: disk.Open(l.DataDir, log), Secrets: &httpsafe.Registry{},
		Env: os.Environ(), Getenv: os.Getenv, Log: log,
	}
	if o.Installed, err = skill.InstalledDirs(o.State); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, o.Workspace, map[string]string{
		"AGENTS.md": "1\n", "SOUL.md": "2\n", "USER.md": "3\n", "HEARTBEAT.md": "4\n", "memory/MEMORY.md": "5\n", "skills/README.md": "6\n",
	})
	sessions, err := session.Open(session.Options{DataDir: l.DataDir, Store: o.State, Workspace: o.Workspace, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	o.WorkspaceID = sessions.Workspace().ID
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), sessions.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (n *netLab) ask(_ context.Context, q bus.Question) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, q)
	if len(n.answers) == 0 {
		return "", tool.ErrNoAnswer
	}
	a := n.answers[0]
	n.answers = n.answers[1:]
	return a, nil
}

// run is the text of one call.
func (n *netLab) run(c tool.Call, command string) string {
	n.t.Helper()
	c.Input, _ = json.Marshal(map[string]string{"command": command})
	r, err := n.exec.Run(n.t.Context(), c)
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Content.String()
}

// expect checks what came out, and how many questions there were so far.
func (n *netLab) expect(got string, questions int, want ...string) {
	n.t.Helper()
	for _, w := range want {
		no, isNo := strings.CutPrefix(w, "!")
		if strings.Contains(got, strings.TrimPrefix(w, "!")) == isNo {
			n.t.Errorf("want %q (%v) in: %s", no, !isNo, got)
		}
	}
	if len(n.asked) != questions {
		n.t.Errorf("%d questions, want %d", len(n.asked), questions)
	}
}

func TestCommandsAskForHosts(t *testing.T) {
	t.Parallel()
	n := newNetLab(t, `"network":"proxy","allowedHosts":["mine.example.org"]`)
	c := tool.Call{ID: "1", Name: "exec", SessionKey: "s", TurnID: "t1", SenderID: "me", Ask: n.ask}
	const get = "curl -sS -m 20 http://"

	n.expect(n.run(c, "echo quiet"), 0, "quiet", "!network")
	n.expect(n.run(c, get+"mine.example.org/"), 0, "page of mine.example.org")
	n.answers = []string{"turn"}
	n.expect(n.run(c, get+"a.example.com/; "+get+"a.example.com/again"), 1, "page of a.example.com", "!network")
	c.TurnID = "t2"
	n.answers = []string{"no"}
	n.expect(n.run(c, get+"a.example.com/; "+get+"a.example.com/"), 2, "!page of", "[network: refused a.example.com", "said no")
	n.answers = []string{"always"}
	n.expect(n.run(c, get+"kept.example.com/"), 3, "page of kept.example.com")
	c.SessionKey, c.TurnID = "other", "t3"
	n.expect(n.run(c, get+"kept.example.com/"), 3, "page of kept.example.com")

	l, err := config.Load(config.Options{Path: n.file})
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(allowedFile(l)); err != nil || string(kept) != "kept.example.com" {
		t.Errorf("allowed for good: %q, %v", kept, err)
	}

	// In a job nobody is asked, and the model learns what the owner can do.
	c.Ask, c.TurnID = nil, "t4"
	n.expect(n.run(c, get+"b.example.com/"), 3, "!page of", "nanobot config set tools.exec.allowedHosts.2 b.example.com")
	// Many programs show nothing of a refused tunnel, so the reason is told beside.
	n.expect(n.run(c, "curl -sS -m 20 https://b.example.com/ -o /dev/null"), 3, "[network: refused b.example.com")
	for _, address := range n.dialed {
		if strings.HasPrefix(address, "b.") {
			t.Errorf("connected to %s", address)
		}
	}
}

// Whatever network says: no service of this machine, no metadata, not ourselves.
func TestCommandsNeverReach(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"host", "proxy"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			port := func(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port } // it is TCP
			other := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(other.Close)
			n := newNetLab(t, fmt.Sprintf(`"network":%q,"allowedHosts":["169.254.169.254","127.0.0.1:%d"],"allowedAddresses":["127.0.0.1:%d"]`,
				network, port(other), port(other)))
			n.g.confiner.proxy.options.Dial = nil
			c := tool.Call{ID: "1", SessionKey: "s", TurnID: "t", Ask: n.ask}
			n.answers = []string{"turn", "turn", "turn", "turn"}
			got := n.run(c, fmt.Sprintf(`for u in 169.254.169.254/latest/meta-data/ '[fd00:ec2::254]/' 168.63.129.16/ metadata.google.internal/ 10.0.0.1/ 127.0.0.1:%[1]d/ 127.0.0.1:%[2]d/ '[::1]:%[1]d/'; do
curl -sS -m 20 --noproxy '' -w '\n%%{http_code}\n' "http://$u"; curl -s -m 20 --noproxy '' -x socks5h://127.0.0.1:3128 "http://$u" && echo reached; done`, port(n.web), port(other)))
			if strings.Count(got, "\n403") != 8 || strings.Contains(got, "reached") || strings.Contains(got, "page of") || strings.Contains(got, "\n404") {
				t.Errorf("got %s", got)
			}
			if !strings.Contains(got, "commands do not reach nanobot itself") {
				t.Error("a port of this very process was not refused as ours")
			}
			if len(n.asked) != 0 {
				t.Errorf("asked about what is never allowed: %v", n.asked[0].Text)
			}
		})
	}
}

// With network host every public host is open without a question, and a turn
// that has seen content from outside is asked about what it sends.
func TestCommandsBudget(t *testing.T) {
	t.Parallel()
	n := newNetLab(t, `"network":"host"`)
	c := tool.Call{ID: "1", SessionKey: "s", TurnID: "t1", Ask: n.ask}
	const many = `for i in $(seq 80); do curl -s -m 20 http://x.example.com/$i; echo; done | sort | uniq -c`
	n.expect(n.run(c, many), 0, "80 page of x.example.com")
	c.TurnID, c.Tainted = "t2", true
	n.answers = []string{"no"}
	n.expect(n.run(c, many), 1, "!80 page", "page of x.example.com", "sent as much as it may")
	if n.asked[0].Text == "" || !strings.Contains(n.asked[0].Text, "x.example.com") {
		t.Errorf("asked %q", n.asked[0].Text)
	}
	c.TurnID = "t3"
	n.expect(n.run(c, `for i in $(seq 30); do curl -s -m 20 http://data$i.example.com/ && echo; done | wc -l; `), 2, "sent as much as it may", "!30\n")
}

// A command uses its own socket and sees neither those of others nor their
// folder, also where temporary files lie in the workspace.
func TestSocketsOfOthersAreHidden(t *testing.T) {
	n := newNetLab(t, `"network":"proxy","allowedHosts":["mine.example.org"]`)
	t.Setenv("TMPDIR", n.g.o.Workspace)
	other, err := n.g.confiner.proxy.serve(tool.Call{SessionKey: "s", TurnID: "t", ID: "other"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.stop()
	if !strings.HasPrefix(other.socket, n.g.o.Workspace) {
		t.Fatalf("the socket is %s, so this test tests nothing", other.socket)
	}

	c := tool.Call{ID: "1", SessionKey: "s", TurnID: "t", Ask: n.ask}
	got := n.run(c, "curl -sS -m 60 http://mine.example.org/; test -e "+other.socket+" && echo it is seen; ls -A "+filepath.Dir(other.socket))
	n.expect(got, 0, "page of mine.example.org", "!it is seen", "!"+certsName)
}

// A line knows what its command used, and nothing of it is left afterwards.
func TestLines(t *testing.T) {
	t.Parallel()
	n := newNetLab(t, `"network":"proxy","allowedHosts":["mine.example.org"]`)
	p := n.g.confiner.proxy
	first, err := p.serve(tool.Call{SessionKey: "s", TurnID: "t", ID: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.serve(tool.Call{SessionKey: "s", TurnID: "t", ID: "2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", first.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprint(conn, "GET http://mine.example.org/ HTTP/1.1\r\nHost: mine.example.org\r\n\r\n")
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if got := first.used().Hosts; len(got) != 1 || got[0] != "mine.example.org" {
		t.Errorf("the first used %q", got)
	}
	if got := second.used().Hosts; len(got) != 0 {
		t.Errorf("the second used %q", got)
	}
	first.stop()
	if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("after the end: %v", err)
	}
	if _, err := os.Stat(first.socket); err == nil {
		t.Error("the socket is still there")
	}
	info, err := os.Stat(filepath.Dir(second.socket))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	p.close()
	if _, err := os.Stat(filepath.Dir(second.socket)); err == nil {
		t.Error("the folder is still there")
	}
	second.stop() // its command may end later
}

func BenchmarkCommandWithLine(b *testing.B) {
	p := newCommandProxy(Policy{}, nil, slog.New(slog.DiscardHandler))
	defer p.close()
	for b.Loop() {
		line, err := p.serve(tool.Call{}, nil)
		if err != nil {
			b.Fatal(err)
		}
		line.stop()
	}
}

// Where a command cannot be kept to the proxy it has no network, and that is said.
func TestNetworkNote(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		network sandbox.Network
		spaces  bool
		want    string
	}{
		{sandbox.NetHost, true, "any public host"},
		{sandbox.NetProxy, true, "hosts that you allow"},
		{sandbox.NetNone, true, "none"},
		{sandbox.NetHost, false, "none (tools.exec.network"},
		{sandbox.NetProxy, false, "none (tools.exec.network"},
		{sandbox.NetNone, false, "none"},
	} {
		if got := networkNote(tt.network, sandbox.Level{NetNS: tt.spaces}); !strings.Contains(got, tt.want) {
			t.Errorf("%s, %v: %q", tt.network, tt.spaces, got)
		}
	}
}

// A sandbox that makes no network namespace gives commands none, not that of
// the machine.
func TestNoNamespaceNoNetwork(t *testing.T) {
	t.Parallel()
	box, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.None})
	if err != nil || box.Level().NetNS {
		t.Fatalf("%v, %v", box.Level(), err)
	}
	for _, network := range []sandbox.Network{sandbox.NetHost, sandbox.NetProxy, sandbox.NetNone} {
		p := sandbox.Profile{Network: network}
		l, err := connect(box, &p, func() (*line, error) {
			t.Error("a line was opened")
			return nil, nil
		})
		if err != nil || p.Network != sandbox.NetNone || p.ProxySocket != "" || l.used().Requests != 0 {
			t.Errorf("%s: %+v, %v", network, p, err)
		}
	}
}
