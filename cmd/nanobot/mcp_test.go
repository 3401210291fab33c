package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// serving is a home for the real program as a server.
type serving struct {
	bin, dir string
	model    *llmtest.Server
}

func newServing(t *testing.T) serving {
	t.Helper()
	bin, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	s := serving{bin: bin, dir: t.TempDir(), model: llmtest.NewServer(t)}
	conf := fmt.Sprintf(`{"agents":{"defaults":{"model":"m","provider":"custom"}},"providers":{"custom":{"apiBase":%q,"apiKey":%q}}}`, s.model.URL, llmtest.Key)
	for name, body := range map[string]string{"config.json": conf, "ws/memory/MEMORY.md": "The code word is heron.\n"} {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// command is the program as an MCP server.
func (s serving) command(ctx context.Context, args ...string) *exec.Cmd {
	return s.program(ctx, append([]string{"mcp", "serve"}, args...)...)
}

func (s serving) program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.bin, append(args, "-c", filepath.Join(s.dir, "config.json"), "-w", filepath.Join(s.dir, "ws"))...)
	cmd.Env = []string{"HOME=" + s.dir, "USERPROFILE=" + s.dir, "PATH=" + os.Getenv("PATH")}
	return cmd
}

func (s serving) answer(t *testing.T, script string) {
	t.Helper()
	answers, err := parseAnswers(script)
	if err != nil {
		t.Fatal(err)
	}
	s.model.Add(answers...)
}

// use talks to the server like any client.
func (s serving) use(t *testing.T, tr mcp.Transport) {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(ctx context.Context, name string, args map[string]any) (string, error) {
		res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for _, part := range res.Content {
			if text, ok := part.(*mcp.TextContent); ok {
				b.WriteString(text.Text)
			}
		}
		return b.String(), nil
	}
	// Nobody can be asked: the turn goes on without.
	s.answer(t, "call list_dir {\"path\":\".\"}\n\nsay Hello from the agent")
	if got, err := call(t.Context(), "ask", map[string]any{"message": "remember the otter", "session": "work"}); err != nil || got != "Hello from the agent" {
		t.Errorf("ask: %q, %v", got, err)
	}
	if got, err := call(t.Context(), "list_sessions", nil); err != nil || !strings.Contains(got, `"mcp:work"`) {
		t.Errorf("list_sessions: %q, %v", got, err)
	}
	for query, want := range map[string]string{"HERON": "memory/MEMORY.md", "otter": "session mcp:work"} {
		if got, err := call(t.Context(), "search_memory", map[string]any{"query": query}); err != nil || !strings.Contains(got, want) {
			t.Errorf("search_memory %s: %q, %v", query, got, err)
		}
	}
	// A call that is cancelled ends the turn, and the session is free again.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.model.Add(llmtest.Answer{Handler: func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done() // the model call is given up, too
	}})
	if _, err := call(ctx, "ask", map[string]any{"message": "long", "session": "work"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled ask: %v", err)
	}
	s.answer(t, "say Still here")
	if got, err := call(t.Context(), "ask", map[string]any{"message": "and now?", "session": "work"}); err != nil || got != "Still here" {
		t.Errorf("ask after the cancel: %q, %v", got, err)
	}
}

// The real program over standard input and output.
func TestMCPServeStdio(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	s.use(t, &mcp.CommandTransport{Command: s.command(t.Context())})
}

// Standard output carries protocol and nothing else, also with logs on.
func TestMCPServeStdoutIsProtocol(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	s.answer(t, "say Hi")
	cmd := s.command(t.Context(), "--logs")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hello"},"_meta":{"progressToken":1}}}`,
	} {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	sc := bufio.NewScanner(out)
	for done := false; !done && sc.Scan(); {
		if !strings.HasPrefix(sc.Text(), `{"jsonrpc":"2.0",`) {
			t.Errorf("not a message: %s", sc.Text())
		}
		done = strings.Contains(sc.Text(), `"id":2`)
	}
	_ = in.Close()
	rest, err := io.ReadAll(out)
	if err != nil || len(rest) > 0 {
		t.Errorf("after the answer: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want success when the client hangs up", err)
	}
}

// The real program over HTTP: with the token from its file, and not without.
func TestMCPServeHTTP(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	cmd := s.command(t.Context(), "--http", "127.0.0.1:0")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout strings.Builder
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
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
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "Bearer wrong-wrong-wrong-wrong"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", bad)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("token %q: status %d, want 401", bad, resp.StatusCode)
		}
	}
	client := &http.Client{Transport: withToken(strings.TrimSpace(string(token)))}
	s.use(t, &mcp.StreamableClientTransport{Endpoint: address, HTTPClient: client})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Skipf("it cannot be asked to end here: %v", err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	ended = true
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want success", err)
	}
	if stdout.Len() > 0 {
		t.Errorf("standard output has %q", stdout.String())
	}
}

type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}
