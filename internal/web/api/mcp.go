package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// SessionInfo describes a conversation to a client.
type SessionInfo struct {
	Session  string    `json:"session"`
	Title    string    `json:"title,omitempty"`
	Messages int       `json:"messages"`
	Updated  time.Time `json:"updated"`
}

// Hit is a place where words were found.
type Hit struct {
	Source string     `json:"source"` // a memory file or a session
	At     *time.Time `json:"at,omitempty"`
	Text   string     `json:"text"`
}

// MCPOptions configure an MCP. Ask, Sessions and SearchMemory are required.
type MCPOptions struct {
	// Ask sends a message to the agent; breaking out of the loop or the end of
	// the context stops the turn.
	Ask          func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error]
	Sessions     func(context.Context) ([]SessionInfo, error)
	SearchMemory func(ctx context.Context, query string, limit int) ([]Hit, error)
	Version      string
	Log          *slog.Logger
}

// MCP offers the agent to MCP clients as three tools: ask, search_memory and
// list_sessions. No question can be asked back: what needs an approval is denied.
// It is safe for concurrent use.
type MCP struct {
	o      MCPOptions
	server *mcp.Server

	mu     sync.Mutex
	turns  map[int]context.CancelFunc // of the asks under way
	last   int
	closed bool
	wg     sync.WaitGroup
}

const (
	maxLine      = 1 << 20          // bytes of a request
	maxSessions  = 100              // of list_sessions
	maxHits      = 50               // of search_memory
	defaultHits  = 10               // of search_memory
	heartbeat    = 10 * time.Second // between signs of life of a turn
	idleSession  = 30 * time.Minute // after which a silent HTTP client is forgotten
	drain        = 2 * time.Second  // for requests when we are asked to end
	instructions = "A personal AI agent with its own memory, files and tools. Ask it in plain words; it answers when it is done."
)

// NewMCP makes a server. It starts nothing.
func NewMCP(o MCPOptions) (*MCP, error) {
	if o.Ask == nil || o.Sessions == nil || o.SearchMemory == nil {
		return nil, errors.New("mcp server: ask, sessions and search are required")
	}

	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	m := &MCP{o: o, turns: map[int]context.CancelFunc{}}
	m.server = mcp.NewServer(&mcp.Implementation{Name: "nanobot", Version: o.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: o.Log.With("component", "mcp_serve"), Capabilities: &mcp.ServerCapabilities{},
	})
	no := false
	mcp.AddTool(m.server, &mcp.Tool{
		Name:        "ask",
		Description: "Send a message to the agent and wait for its answer. It may use its tools and take minutes. Messages with the same session continue one conversation.",
		Annotations: &mcp.ToolAnnotations{Title: "Ask the agent"},
	}, m.ask)

	mcp.AddTool(m.server, &mcp.Tool{
		Name: "search_memory", Description: "Find what the agent remembers: memory files and past conversations that contain all words of the query.",
		Annotations: &mcp.ToolAnnotations{Title: "Search memory", ReadOnlyHint: true, OpenWorldHint: &no},
	}, m.search)
	mcp.AddTool(m.server, &mcp.Tool{
		Name: "list_sessions", Description: "List the agent's conversations, the last used first.",
		Annotations: &mcp.ToolAnnotations{Title: "List conversations", ReadOnlyHint: true, OpenWorldHint: &no},
	}, m.sessions)
	return m, nil
}

// ServeStdio talks to one client over a pair of streams until it hangs up or
// ctx ends, and returns when no turn is running any more. Nothing but protocol
// is written to out.
func (m *MCP) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	defer context.AfterFunc(ctx, m.stop)() // the end of a connection waits for its calls
	err := m.server.Run(ctx, &mcp.IOTransport{
		Reader: io.NopCloser(in), Writer: nopCloser{out}, MaxLineLength: maxLine,
	})
	m.stop()
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// handler answers MCP over HTTP (streamable) to whoever the gate lets in.
func (m *MCP) handler(g Gate) (http.Handler, error) {
	return g.guard(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m.server }, &mcp.StreamableHTTPOptions{
		SessionTimeout: idleSession, Logger: m.o.Log, MaxRequestBodyBytes: maxLine, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // the gate does it
	}))
}

// Serve answers on l until ctx ends. It closes l.
func (m *MCP) Serve(ctx context.Context, l net.Listener, g Gate) error {
	h, err := m.handler(g)
	if err != nil {
		return errors.Join(err, l.Close())
	}

	hangUp := func() {
		m.stop()
		for s := range m.server.Sessions() {
			_ = s.Close() // the client is gone
		}
	}

	// Streams stay open as long as their client likes, so they are closed first.
	stopped := make(chan struct{})
	defer context.AfterFunc(ctx, func() { defer close(stopped); hangUp() })()
	err = serve(ctx, l, h, drain)
	if ctx.Err() != nil {
		<-stopped
	}

	hangUp()
	return err
}

// stop ends the asks under way, lets none begin and waits for them.
func (m *MCP) stop() {
	m.mu.Lock()
	m.closed = true
	for _, cancel := range m.turns {
		cancel()
	}
	m.mu.Unlock()
	m.wg.Wait()
}

var errStopping = errors.New("the agent is shutting down")

// begin makes a turn one that stop reaches.
func (m *MCP) begin(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.closed {
		cancel()
		return nil, nil, errStopping
	}

	m.last++
	id := m.last
	m.turns[id] = cancel
	m.wg.Add(1)
	return ctx, func() {
		cancel()
		m.mu.Lock()
		delete(m.turns, id)
		m.mu.Unlock()
		m.wg.Done()
	}, nil
}

type askInput struct {
	Message string `json:"message" jsonschema:"what to say to the agent"`
	Session string `json:"session,omitempty" jsonschema:"name of the conversation; one of list_sessions or a new one"`
}

func (m *MCP) ask(ctx context.Context, req *mcp.CallToolRequest, in askInput) (*mcp.CallToolResult, any, error) {
	msg, err := inbound(in)
	if err != nil {
		return nil, nil, err
	}

	ctx, end, err := m.begin(ctx)
	if err != nil {
		return nil, nil, err
	}

	defer end()
	p := &progress{req: req}
	defer p.beat(ctx)()
	var said []string
	var media []bus.Media
	for out, err := range m.o.Ask(ctx, msg) {
		if err != nil {
			return nil, nil, err
		}
		switch out.Kind {
		case bus.Message:
			said, media = append(said, out.Text), append(media, out.Media...)
		case bus.Final:
			return reply(out, said, append(media, out.Media...)), nil, nil
		default:
			p.notify(ctx, out)
		}
	}

	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	return nil, nil, errors.New("the turn ended without an answer")
}

// inbound returns the message of an ask. No person sits behind it who could answer a
// question or means a slash command.
func inbound(in askInput) (bus.Inbound, error) {
	text := strings.TrimSpace(in.Message)
	if text == "" {
		return bus.Inbound{}, errors.New("message is empty")
	}

	word, _, _ := strings.Cut(text, " ")
	if strings.HasPrefix(word, "/") && !strings.ContainsAny(word[1:], "/.") {
		return bus.Inbound{}, fmt.Errorf("%s looks like a command; commands are for people in a chat", word)
	}

	msg := bus.Inbound{
		Route: bus.Route{Channel: "mcp", ChatID: "direct"}, SenderID: "mcp", Text: text, OwnTurn: true,
	}
	switch name := strings.TrimSpace(in.Session); {
	case len(name) > 200 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bus.Inbound{}, errors.New("session must be a name of at most 200 characters")
	case strings.Contains(name, ":"):
		msg.SessionKey = name
	case name != "":
		msg.Route.ChatID = name
	}

	return msg, nil
}

// reply returns the answer of a turn: its text, the files it sent, and for programs
// what the runtime recorded about it.
func reply(final bus.Outbound, said []string, media []bus.Media) *mcp.CallToolResult {
	text := final.Text
	res := &mcp.CallToolResult{}
	if t := final.Turn; t != nil {
		res.Meta = mcp.Meta{"nanobot/turn": t}
		if t.Error != "" {
			text, res.IsError = t.Error, true
		}
	}

	if text != "" || len(said) == 0 {
		said = append(said, text)
	}

	res.Content = append(res.Content, &mcp.TextContent{Text: strings.Join(said, "\n\n")})
	for _, f := range media {
		name := f.Name
		if name == "" {
			name = filepath.Base(f.Path)
		}

		link := &mcp.ResourceLink{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(f.Path)}).String(), Name: name, MIMEType: f.MIME}
		if f.Size > 0 {
			link.Size = &f.Size
		}
		res.Content = append(res.Content, link)
	}

	return res
}

// progress tells a client that wants to know how a turn gets on.
type progress struct {
	req *mcp.CallToolRequest

	mu sync.Mutex
	n  float64
}

// notify sends what people would see while they wait.
func (p *progress) notify(ctx context.Context, out bus.Outbound) {
	switch out.Kind {
	case bus.ToolHint, bus.Progress, bus.Notice:
		p.send(ctx, out.Text)
	default: // the text itself comes with the answer
	}
}

func (p *progress) send(ctx context.Context, text string) {
	token := p.req.Params.GetProgressToken()
	if token == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	// A client that does not take it will not take the answer either.
	_ = p.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: p.n, Message: text})
}

// beat sends a sign of life now and then until the returned function is
// called: clients give a silent call up.
func (p *progress) beat(ctx context.Context) (stop func()) {
	if p.req.Params.GetProgressToken() == nil {
		return func() {}
	}

	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(heartbeat)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				p.send(ctx, "working")
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

type searchInput struct {
	Query string `json:"query" jsonschema:"words that must all occur"`
	Limit int    `json:"limit,omitempty" jsonschema:"results, 1 to 50, default 10"`
}

func (m *MCP) search(ctx context.Context, _ *mcp.CallToolRequest, in searchInput) (*mcp.CallToolResult, any, error) {
	if strings.TrimSpace(in.Query) == "" {
		return nil, nil, errors.New("query is empty")
	}

	if in.Limit <= 0 {
		in.Limit = defaultHits
	}

	hits, err := m.o.SearchMemory(ctx, in.Query, min(in.Limit, maxHits))
	if err != nil {
		return nil, nil, err
	}
	if len(hits) == 0 {
		return plain("Nothing found. All words of the query must occur; try fewer."), nil, nil
	}
	return listed(hits)
}

type noInput struct{}

func (m *MCP) sessions(ctx context.Context, _ *mcp.CallToolRequest, _ noInput) (*mcp.CallToolResult, any, error) {
	list, err := m.o.Sessions(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(list) == 0 {
		return plain("No conversations yet."), nil, nil
	}
	return listed(list[:min(len(list), maxSessions)])
}

func plain(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func listed(v any) (*mcp.CallToolResult, any, error) {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, nil, err
	}
	return plain(string(b)), nil, nil
}
