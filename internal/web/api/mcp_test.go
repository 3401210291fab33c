package api_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

const token = "0123456789abcdef-token"

// agent is a fake: "wait" runs until it is stopped, "fail" fails, everything
// else is echoed.
type agent struct {
	mu      sync.Mutex
	got     []bus.Inbound
	started chan struct{}
	stopped chan struct{}
}

func newAgent() *agent {
	return &agent{started: make(chan struct{}, 1), stopped: make(chan struct{}, 1)}
}

func (a *agent) ask(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
	a.mu.Lock()
	a.got = append(a.got, in)
	a.mu.Unlock()
	return func(yield func(bus.Outbound, error) bool) {
		switch in.Text {
		case "wait":
			yield(bus.Outbound{Kind: bus.ToolHint, Text: "$ sleep"}, nil)
			a.started <- struct{}{}
			<-ctx.Done()
			a.stopped <- struct{}{}
			yield(bus.Outbound{}, context.Cause(ctx))
		case "fail":
			yield(bus.Outbound{Kind: bus.Final, Text: "sorry", Turn: &bus.Turn{Error: "the key was refused"}}, nil)
		case "lost":
			yield(bus.Outbound{}, errors.New("disk full"))
		default:
			for _, o := range []bus.Outbound{
				{Kind: bus.ToolHint, Text: "read notes.md"},
				{Kind: bus.Delta, Text: "echo"},
				{Kind: bus.Message, Text: "on the way", Media: []bus.Media{{Path: "/ws/a b.png", MIME: "image/png", Size: 3}}},
				{Kind: bus.Final, Text: "echo: " + in.Text, Turn: &bus.Turn{ID: "t1", Tools: []string{"read_file"}}},
			} {
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

func newServer(t *testing.T, a *agent) *api.MCP {
	t.Helper()
	m, err := api.NewMCP(api.MCPOptions{
		Ask: a.ask, Version: "v1",
		Sessions: func(context.Context) ([]api.SessionInfo, error) {
			return []api.SessionInfo{{Session: "cli:direct", Title: "Notes", Messages: 4, Updated: time.Unix(0, 0).UTC()}}, nil
		},
		SearchMemory: func(_ context.Context, query string, limit int) ([]api.Hit, error) {
			if query == "nothing" {
				return nil, nil
			}
			return []api.Hit{{Source: "memory/MEMORY.md", Text: query + strings.Repeat("!", limit)}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bearer adds the token to requests.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// listen serves m on loopback for the time of the test.
func listen(t *testing.T, m *api.MCP) (address string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(ctx, l, api.Gate{Token: httpsafe.NewSecret(token)}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

// connect opens a client session over a transport of the given kind.
func connect(t *testing.T, kind string, m *api.MCP, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	var tr mcp.Transport
	switch kind {
	case "http":
		tr = &mcp.StreamableClientTransport{Endpoint: listen(t, m), HTTPClient: &http.Client{Transport: bearer{token}}}
	case "stdio":
		toServer, fromClient := io.Pipe()
		toClient, fromServer := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- m.ServeStdio(context.WithoutCancel(t.Context()), toServer, fromServer)
			_ = fromServer.Close()
		}()
		t.Cleanup(func() {
			_ = fromClient.Close()
			if err := <-ended; err != nil {
				t.Errorf("ServeStdio: %v", err)
			}
		})
		tr = &mcp.IOTransport{Reader: toClient, Writer: fromClient}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func call(t *testing.T, s *mcp.ClientSession, name string, args any) (string, *mcp.CallToolResult) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("%s: first content is %T", name, res.Content[0])
	}
	return text.Text, res
}

// The tools work the same over both transports.
func TestTools(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stdio", "http"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := newAgent()
			var mu sync.Mutex
			var notes []string
			told := make(chan struct{}, 16)
			s := connect(t, kind, newServer(t, a), &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					notes = append(notes, r.Params.Message)
					told <- struct{}{}
				},
			})
			if got, want := s.InitializeResult().ServerInfo.Name, "nanobot"; got != want {
				t.Errorf("server is called %q, want %q", got, want)
			}
			var names []string
			for tool, err := range s.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, tool.Name)
			}
			if diff := cmp.Diff([]string{"ask", "list_sessions", "search_memory"}, names); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			params := &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "hi"}}
			params.SetProgressToken("p")
			res, err := s.CallTool(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			<-told
			mu.Lock()
			if diff := cmp.Diff([]string{"read notes.md"}, notes); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			mu.Unlock()
			if got, want := res.Content[0].(*mcp.TextContent).Text, "on the way\n\necho: hi"; got != want { // fails the test
				t.Errorf("answer %q, want %q", got, want)
			}
			if got, want := res.Content[1].(*mcp.ResourceLink).URI, "file:///ws/a%20b.png"; got != want { // fails the test
				t.Errorf("file %q, want %q", got, want)
			}
			turn, ok := res.Meta["nanobot/turn"].(map[string]any)
			if !ok || turn["id"] != "t1" {
				t.Errorf("meta %v lacks the turn", res.Meta)
			}
			if got, _ := call(t, s, "search_memory", map[string]any{"query": "x", "limit": 999}); strings.Count(got, "!") != 50 {
				t.Errorf("the limit was not bounded: %q", got)
			}
			if got, _ := call(t, s, "search_memory", map[string]any{"query": "nothing"}); !strings.HasPrefix(got, "Nothing found") {
				t.Errorf("no hits: %q", got)
			}
			if got, _ := call(t, s, "list_sessions", nil); !strings.Contains(got, `"session": "cli:direct"`) {
				t.Errorf("sessions: %q", got)
			}
		})
	}
}

// What cannot be answered is an error of the tool, never an answer.
func TestAskRefused(t *testing.T) {
	t.Parallel()
	a := newAgent()
	s := connect(t, "stdio", newServer(t, a), nil)
	for _, tt := range []struct{ name, message, session, want string }{
		{"empty", " ", "", "message is empty"},
		{"command", "/restart", "", "commands are for people"},
		{"bad session", "hi", "a\nb", "session must be"},
		{"failed turn", "fail", "", "the key was refused"},
		{"no turn", "lost", "", "disk full"},
	} {
		got, res := call(t, s, "ask", map[string]any{"message": tt.message, "session": tt.session})
		if !res.IsError || !strings.Contains(got, tt.want) {
			t.Errorf("%s: error %v, text %q, want %q", tt.name, res.IsError, got, tt.want)
		}
	}
	if n := len(a.got); n != 2 {
		t.Errorf("%d messages reached the agent, want 2", n)
	}
}

// Messages go to the conversation that was named, and nobody can be asked.
func TestAskSession(t *testing.T) {
	t.Parallel()
	a := newAgent()
	s := connect(t, "stdio", newServer(t, a), nil)
	for _, name := range []string{"", "work", "cli:direct"} {
		call(t, s, "ask", map[string]any{"message": "/etc/hosts is what?", "session": name})
	}
	want := []bus.Inbound{
		{Route: bus.Route{Channel: "mcp", ChatID: "direct"}, SenderID: "mcp", Text: "/etc/hosts is what?", OwnTurn: true},
		{Route: bus.Route{Channel: "mcp", ChatID: "work"}, SenderID: "mcp", Text: "/etc/hosts is what?", OwnTurn: true},
		{Route: bus.Route{Channel: "mcp", ChatID: "direct"}, SenderID: "mcp", Text: "/etc/hosts is what?", OwnTurn: true, SessionKey: "cli:direct"},
	}
	if diff := cmp.Diff(want, a.got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// A call that the client cancels stops the turn.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stdio", "http"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := newAgent()
			s := connect(t, kind, newServer(t, a), nil)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-a.started; cancel() }()
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "wait"}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want %v", err, context.Canceled)
			}
			<-a.stopped
			if got, _ := call(t, s, "ask", map[string]any{"message": "still there?"}); !strings.HasSuffix(got, "echo: still there?") {
				t.Errorf("after the cancel: %q", got)
			}
		})
	}
}

// The end of the server stops turns that run, and hangs up on open streams.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stdio", "http"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := newAgent()
			m := newServer(t, a)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			var tr mcp.Transport
			if kind == "http" {
				var lc net.ListenConfig
				l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				go func() { ended <- m.Serve(ctx, l, api.Gate{Token: httpsafe.NewSecret(token)}) }()
				tr = &mcp.StreamableClientTransport{Endpoint: "http://" + l.Addr().String(), HTTPClient: &http.Client{Transport: bearer{token}}}
			} else {
				toServer, fromClient := io.Pipe()
				toClient, fromServer := io.Pipe()
				go func() {
					ended <- m.ServeStdio(ctx, toServer, fromServer)
					_ = fromServer.Close()
				}()
				tr = &mcp.IOTransport{Reader: toClient, Writer: fromClient}
			}
			s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), tr, nil)
			if err != nil {
				t.Fatal(err)
			}
			called := make(chan error, 1)
			go func() {
				_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "wait"}})
				called <- err
			}()
			<-a.started
			cancel()
			<-a.stopped
			if err := <-ended; err != nil {
				t.Errorf("Serve: %v", err)
			}
			<-called
			_ = s.Close()
		})
	}
}

// A client that hangs up in the middle of a call leaves nothing running.
func TestHangUp(t *testing.T) {
	t.Parallel()
	a := newAgent()
	m := newServer(t, a)
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- m.ServeStdio(t.Context(), toServer, fromServer) }()
	go func() { _, _ = io.Copy(io.Discard, toClient) }()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"message":"wait"}}}`,
	} {
		if _, err := io.WriteString(fromClient, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	<-a.started
	_ = fromClient.Close()
	<-a.stopped
	if err := <-ended; err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
	_ = fromServer.Close()
}
