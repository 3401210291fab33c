package security_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

const (
	mostGrowth = 256 << 20       // of our process, by anything a model does
	mostWait   = 2 * time.Second // of another conversation meanwhile
)

// service is the real program serving several conversations in one process.
type service struct {
	h      *house
	cmd    *exec.Cmd
	client *mcp.ClientSession
	quiet  time.Duration // of an answer while nothing else goes on
}

// serve starts the program as an MCP server: the one way to hold several
// conversations with one process from outside.
func serve(t *testing.T, h *house) *service {
	t.Helper()
	cmd := h.command(context.WithoutCancel(t.Context()), "mcp", "serve", "--http", "127.0.0.1:0")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // then it ends by itself
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program ended with %v\n%s", err, log.String())
		}
	})
	var address, tokenFile string
	re := regexp.MustCompile(`(http://\S+/mcp)$|token in (.+)$`)
	sc := bufio.NewScanner(out)
	for (address == "" || tokenFile == "") && sc.Scan() {
		if m := re.FindStringSubmatch(sc.Text()); m != nil {
			address, tokenFile = address+m[1], tokenFile+m[2]
		}
	}
	go func() { _, _ = io.Copy(&log, out); close(read) }() // ends with the process
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: withToken(strings.TrimSpace(string(token)))}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: address, HTTPClient: client}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	return &service{h: h, cmd: cmd, client: cs}
}

type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

func (s *service) ask(ctx context.Context, session, text string) (string, error) {
	res, err := s.client.CallTool(ctx, &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"message": text, "session": session}})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, part := range res.Content {
		if t, ok := part.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	if res.IsError {
		return "", fmt.Errorf("ask: %s", b.String())
	}
	return b.String(), nil
}

// memory is a figure of /proc/PID/status, in bytes.
func (s *service) memory(t *testing.T, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s in %s", name, b)
	return 0
}

// greedy is something that would use up the machine or hang the agent.
type greedy struct {
	name  string
	set   func(t *testing.T, h *house)
	calls []call
	want  string // in the results
}

func greedies() []greedy {
	return []greedy{
		{name: "yes", calls: []call{{"exec", `{"command":"yes","timeout":2}`}, {"exec", `{"command":"yes >&2 | yes","timeout":1}`}}, want: "stopped after"},
		{name: "urandom", calls: []call{{"exec", `{"command":"cat /dev/urandom | base64","timeout":1}`}}, want: "stopped after"},
		{name: "fork bomb", set: func(t *testing.T, h *house) {
			// Only where the kernel counts the processes of the command: let
			// loose it would take the machine down.
			if lv := level(t, sandbox.Auto); !lv.UserNS || !lv.PIDNS {
				t.Skipf("no bomb without a limit on processes: %s", lv)
			}
			h.write(filepath.Join(h.ws, "bomb.sh"), "bomb() { bomb | bomb & }\nbomb\nsleep 1\n")
		}, calls: []call{{"exec", `{"command":"bash bomb.sh","timeout":20}`}}, want: "Resource temporarily unavailable"},
		{name: "memory", calls: []call{
			{"exec", `{"command":"python3 -c \"x=bytearray(64<<30)\"","timeout":120}`},
		}, want: "MemoryError"},
		{name: "big file", calls: []call{{"exec", `{"command":"dd if=/dev/zero of=big bs=1M seek=3000 count=1","timeout":120}`}}, want: "Exit code: 153"},
		{name: "10 GB gzip", set: func(_ *testing.T, h *house) { h.web.handle("/bomb", gzipBomb()) }, calls: []call{
			{"web_fetch", `{"url":"{{web}}/bomb"}`},
		}, want: "bomb"},
		{name: "endless page", set: func(_ *testing.T, h *house) {
			h.web.handle("/endless", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, strings.Repeat("<div>word ", 4096)); err != nil {
						return
					}
				}
			})
		}, calls: []call{{"web_fetch", `{"url":"{{web}}/endless"}`}}, want: "word"},
		{name: "FIFO", set: func(t *testing.T, h *house) {
			if err := syscall.Mkfifo(filepath.Join(h.ws, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, calls: []call{
			{"read_file", `{"path":"pipe"}`},
			{"grep", `{"pattern":"milk"}`},
			{"write_file", `{"path":"pipe","content":"x"}`},
			{"exec", `{"command":"cat pipe","timeout":1}`},
		}, want: "notes.txt"},
		{name: "1 GB line", set: func(t *testing.T, h *house) { longLine(t, filepath.Join(h.ws, "line.txt"), 1<<30) }, calls: []call{
			{"read_file", `{"path":"line.txt"}`},
			{"grep", `{"pattern":"b$","path":"line.txt","output_mode":"content"}`},
			{"edit_file", `{"path":"line.txt","old_text":"aab","new_text":"c"}`},
			{"exec", `{"command":"cat line.txt","timeout":20}`},
		}, want: "aaaa"},
		{name: "deep arguments", calls: []call{
			{"read_file", `{"path":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`},
			{"read_file", strings.Repeat(`{"path":`, 10_000) + `"x"` + strings.Repeat("}", 10_000)},
			{"mcp_deep_lookup", `{"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`},
		}, want: "Error"},
		{name: "deep MCP result", calls: []call{{"mcp_deep_lookup", `{}`}}, want: "mcp_deep_lookup"},
	}
}

// TestResourceLimits lets one conversation do the worst while another one goes
// on: the process grows by less than 256 MiB and the other conversation is
// answered within two seconds.
func TestResourceLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("uses up a gigabyte of disk and some processor time")
	}
	level(t, sandbox.Auto)
	h := newHouse(t, "auto", "none")
	h.tools()["approval"] = map[string]any{"mode": "off"}
	h.web.handle("/mcp", deepServer)
	h.tools()["mcpServers"] = map[string]any{"deep": map[string]any{"url": h.web.url + "/mcp"}}
	all := greedies()
	h.model.script = func(user string, results []string) (string, []call) {
		user, _, _ = strings.Cut(user, "\n")
		i := slices.IndexFunc(all, func(g greedy) bool { return g.name == user })
		switch {
		case i < 0:
			return "pong", nil
		case len(results) < len(all[i].calls):
			return "", all[i].calls[len(results) : len(results)+1]
		}
		return strings.Join(results, "\n"), nil
	}
	s := serve(t, h)
	start := time.Now()
	if got, err := s.ask(t.Context(), "other", "ping"); err != nil || got != "pong" {
		t.Fatalf("ask: %q, %v", got, err)
	}
	s.quiet = time.Since(start)
	base := s.memory(t, "VmRSS")
	for _, g := range all {
		t.Run(g.name, func(t *testing.T) {
			if g.set != nil {
				g.set(t, h)
			}
			s.survive(t, g)
			if grown := s.memory(t, "VmHWM") - base; grown > mostGrowth {
				t.Errorf("the process grew by %d MiB", grown>>20)
			}
		})
	}
	t.Logf("memory before %d MiB, at most %d MiB", base>>20, s.memory(t, "VmHWM")>>20)
	if n := h.private.connections(); n > 0 {
		t.Errorf("%d connections to the private address", n)
	}
}

// survive runs one greedy turn and talks to the agent elsewhere meanwhile.
func (s *service) survive(t *testing.T, g greedy) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1) // the turn never waits for us
	go func() {
		text, err := s.ask(ctx, "busy-"+strings.ReplaceAll(g.name, " ", "-"), g.name)
		done <- answer{text, err}
	}()
	var waits []time.Duration
	for {
		select {
		case a := <-done:
			if a.err != nil || !strings.Contains(a.text, g.want) {
				t.Errorf("the turn ended with %v and %.600q, want %q", a.err, a.text, g.want)
			}
			if len(waits) > 0 {
				slices.Sort(waits)
				t.Logf("%d answers meanwhile, the slowest after %v", len(waits), waits[len(waits)-1].Round(time.Millisecond))
				// One that a busy machine held up is no sign of ours, nor is a machine
				// on which every answer takes long.
				if w := waits[len(waits)*9/10]; w > mostWait {
					start := time.Now()
					_, err := s.ask(t.Context(), "other", "ping")
					if quiet := max(s.quiet, time.Since(start)); err != nil || w > 20*quiet {
						t.Errorf("another conversation waited %v, without the turn it waits %v: %v", w, quiet, err)
					}
				}
			}
			return
		default:
		}
		start := time.Now()
		if got, err := s.ask(ctx, "other", "ping"); err != nil || got != "pong" {
			t.Errorf("the other conversation: %q, %v", got, err)
			cancel()
			<-done
			return
		}
		waits = append(waits, time.Since(start))
		pause(ctx, 50*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// gzipBomb serves 10 GB of a page in a few megabytes.
func gzipBomb() http.HandlerFunc {
	var member bytes.Buffer
	z, _ := gzip.NewWriterLevel(&member, gzip.BestCompression) // the level exists
	line := []byte(strings.Repeat("bomb ", 13_107) + "\n")     // 64 KiB
	for range 1024 {
		_, _ = z.Write(line) // into memory
	}
	_ = z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		for range 160 { // of 64 MiB
			if _, err := w.Write(member.Bytes()); err != nil {
				return
			}
		}
	}
}

// longLine writes a file of one line.
func longLine(t *testing.T, path string, size int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := bytes.Repeat([]byte("a"), 1<<20)
	for range size / len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			t.Skipf("no room for a file of 1 GB: %v", err)
		}
	}
	if _, err := f.WriteString("b"); err != nil {
		t.Skipf("no room for a file of 1 GB: %v", err)
	}
}

// deepServer is an MCP server whose results are nested 10,000 levels deep.
func deepServer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&req) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var result string
	switch req.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"deep","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"lookup","description":"look up","inputSchema":{"type":"object","properties":{"x":{}}}}]}`
	case "tools/call":
		deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
		result = `{"content":[],"structuredContent":{"x":` + deep + `}}`
	default:
		if req.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result = `{}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
}
