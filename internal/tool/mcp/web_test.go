package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// sdkServer is a well-behaved server.
func sdkServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "good", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again"}, func(_ context.Context, _ *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "you said " + a.Text}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "grow"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: "grown"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{}, nil, nil
		})
		return &sdk.CallToolResult{}, nil, nil
	})
	return s
}

func httpServer(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv
}

func webServer(name, kind, url string) Server {
	return Server{Name: name, Type: kind, URL: url, ToolTimeout: time.Minute, Headers: map[string]httpsafe.Secret{"X-API-Key": httpsafe.NewSecret("key-of-this-server")}}
}

func TestHTTPTransports(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string]int{}
	versions := map[string]int{}
	watch := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			keys[r.Header.Get("X-Api-Key")]++
			versions[r.Method+" "+r.Header.Get("Mcp-Protocol-Version")]++
			mu.Unlock()
			h.ServeHTTP(w, r)
		})
	}
	good := sdkServer()
	get := func(*http.Request) *sdk.Server { return good }
	stream := httpServer(t, watch(sdk.NewStreamableHTTPHandler(get, nil)))
	plain := httpServer(t, watch(sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})))
	sse := httpServer(t, watch(sdk.NewSSEHandler(get, nil)))
	r := start(t, nil, webServer("stream", StreamableHTTP, stream.URL), webServer("plain", StreamableHTTP, plain.URL), webServer("sse", transportSSE, sse.URL+"/sse"))
	for _, name := range []string{"stream", "plain", "sse"} {
		if res := r.run(t.Context(), "mcp_"+name+"_echo", `{"text":"hi"}`); res.Content.String() != "you said hi" {
			t.Errorf("%s: %q", name, res.Content.String())
		}
	}
	_, gen := r.Tools(t.Context())
	r.run(t.Context(), "mcp_stream_grow", `{}`)
	r.until("the new tool is there", func() bool { return strings.Contains(fmt.Sprint(r.names()), "mcp_stream_grown") })
	if _, now := r.Tools(t.Context()); now == gen {
		t.Error("the tools changed, but their number did not")
	}
	mu.Lock()
	defer mu.Unlock()
	if keys[""] > 0 || len(keys) != 1 {
		t.Errorf("requests by key: %v", keys)
	}
	t.Logf("requests by version: %v", versions)
}

// Row 113: nothing a server says sends the key to another origin.
func TestHeadersStayAtTheirOrigin(t *testing.T) {
	t.Parallel()
	var stolen atomic.Int32
	thief := httpServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen.Add(1)
		t.Logf("the thief got %s %s %v", r.Method, r.URL, r.Header)
	}))
	redirect := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+"/steal", http.StatusTemporaryRedirect)
	}))
	endpoint := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: "+thief.URL+"/steal\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	userinfo := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: //"+r.Host+"@"+strings.TrimPrefix(thief.URL, "http://")+"/steal\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	r := start(t, nil, webServer("redirect", StreamableHTTP, redirect.URL), webServer("endpoint", transportSSE, endpoint.URL+"/sse"), webServer("userinfo", transportSSE, userinfo.URL+"/sse"))
	if got := r.names(); len(got) > 0 {
		t.Errorf("tools = %v", got)
	}
	r.until("all refused", func() bool {
		return strings.Contains(r.state("redirect").Error, "another origin") && strings.Contains(r.state("endpoint").Error, "another origin") && strings.Contains(r.state("userinfo").Error, "another origin")
	})
	if n := stolen.Load(); n != 0 {
		t.Errorf("%d requests reached the other origin", n)
	}
	if strings.Contains(r.log.String(), "key-of-this-server") {
		t.Error("the key is in the log")
	}
}

// A redirect within the origin is followed, with the headers.
func TestRedirectWithinTheOrigin(t *testing.T) {
	t.Parallel()
	good := sdkServer()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return good }, nil)
	srv := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/new":
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
		case r.Header.Get("X-Api-Key") == "":
			w.WriteHeader(http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	r := start(t, nil, webServer("srv", StreamableHTTP, srv.URL+"/old"))
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"hi"}`); res.IsError {
		t.Errorf("%q", res.Content.String())
	}
}

// rpc is a streamable server written by hand.
func rpc(result func(w http.ResponseWriter, method string, id json.RawMessage) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		var res any
		if m.Method == "server/discover" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if res = result(w, m.Method, m.ID); res == nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": res})
	})
}

func handshake() map[string]any {
	return map[string]any{"protocolVersion": "2025-06-18", "serverInfo": map[string]any{"name": "x", "version": "1"}, "capabilities": map[string]any{"tools": map[string]any{}}}
}

// A server that has forgotten the session is greeted again, and the call that
// it refused is made once more.
func TestForgottenSession(t *testing.T) {
	t.Parallel()
	var sessions, calls atomic.Int32
	inner := rpc(func(w http.ResponseWriter, method string, _ json.RawMessage) any {
		switch method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", sessions.Add(1)))
			return handshake()
		case "tools/list":
			return map[string]any{"tools": []any{fakeTool("do", nil)}}
		}
		calls.Add(1)
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": "did it"}}}
	})
	var forget atomic.Bool
	srv := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("Mcp-Session-Id"); forget.Load() && id == "s1" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	r := start(t, nil, webServer("srv", StreamableHTTP, srv.URL))
	r.names()
	forget.Store(true)
	res := r.run(t.Context(), "mcp_srv_do", `{}`)
	if res.IsError || res.Content.String() != "did it" || sessions.Load() != 2 || calls.Load() != 1 {
		t.Errorf("%q after %d sessions and %d calls; log:\n%s", res.Content.String(), sessions.Load(), calls.Load(), r.log)
	}
}

// A call the server may have got is not made twice; one it cannot have got is.
func TestHTTPRetryRule(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	srv := httpServer(t, rpc(func(_ http.ResponseWriter, method string, _ json.RawMessage) any {
		switch method {
		case "initialize":
			return handshake()
		case "tools/list":
			return map[string]any{"tools": []any{fakeTool("do", nil)}}
		}
		calls.Add(1)
		panic(http.ErrAbortHandler) // the connection breaks in the middle
	}))
	r := start(t, nil, webServer("srv", StreamableHTTP, srv.URL))
	res := r.run(t.Context(), "mcp_srv_do", `{}`)
	if !res.IsError || !res.MayHaveRun || calls.Load() != 1 {
		t.Errorf("%q, may have run = %v, calls = %d", res.Content.String(), res.MayHaveRun, calls.Load())
	}
	srv.CloseClientConnections()
	srv.Close()
	r.run(t.Context(), "mcp_srv_do", `{}`) // a connection from before may still seem open
	res = r.run(t.Context(), "mcp_srv_do", `{}`)
	if !res.IsError || res.MayHaveRun || r.state("srv").State == Ready {
		t.Errorf("with the server gone: %q, may have run = %v", res.Content.String(), res.MayHaveRun)
	}
}

// Answers without end, of both kinds, end in an error.
func TestHTTPAnswerLimits(t *testing.T) {
	t.Parallel()
	var taken atomic.Int64
	endless := func(w http.ResponseWriter, kind, begin, more string) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, begin)
		for range 64 << 10 {
			if _, err := io.WriteString(w, more); err != nil {
				return
			}
			taken.Add(int64(len(more)))
		}
	}
	var kind atomic.Value
	kind.Store("application/json")
	srv := httpServer(t, rpc(func(w http.ResponseWriter, method string, id json.RawMessage) any {
		switch method {
		case "initialize":
			return handshake()
		case "tools/list":
			return map[string]any{"tools": []any{fakeTool("do", nil)}}
		}
		begin := ""
		if kind.Load() != "application/json" {
			begin = "data: "
		}
		endless(w, kind.Load().(string), begin+`{"jsonrpc":"2.0","id":`+string(id)+`,"result":"`, strings.Repeat("x", 1<<10))
		return nil
	}))
	r := start(t, nil, webServer("srv", StreamableHTTP, srv.URL))
	r.names()
	for _, k := range []string{"application/json", "text/event-stream"} {
		kind.Store(k)
		taken.Store(0)
		res := r.run(t.Context(), "mcp_srv_do", `{}`)
		if n := taken.Load(); n > 32<<20 {
			t.Errorf("%s: %d bytes were read", k, n)
		}
		if !res.IsError || res.Code == tool.TimedOut {
			t.Errorf("%s: %q", k, res.Content.String()[:min(len(res.Content.String()), 300)])
		}
	}
}

// A GET that is never answered delays little.
func TestSilentListenStream(t *testing.T) {
	t.Parallel()
	inner := rpc(func(_ http.ResponseWriter, method string, _ json.RawMessage) any {
		switch method {
		case "initialize":
			return handshake()
		case "tools/list":
			return map[string]any{"tools": []any{fakeTool("do", nil)}}
		}
		return map[string]any{"content": []any{}}
	})
	srv := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		inner.ServeHTTP(w, r)
	}))
	r := start(t, nil, webServer("srv", StreamableHTTP, srv.URL))
	if res := r.run(t.Context(), "mcp_srv_do", `{}`); res.IsError {
		t.Errorf("%q", res.Content.String())
	}
}

// The stream on which a server speaks first is open before the first request,
// so that nothing it says is lost.
func TestListenStreamComesFirst(t *testing.T) {
	t.Parallel()
	var listening atomic.Bool
	inner := rpc(func(_ http.ResponseWriter, method string, _ json.RawMessage) any {
		switch method {
		case "initialize":
			return handshake()
		case "tools/list":
			if !listening.Load() {
				t.Error("the server is asked before it can speak")
			}
			return map[string]any{"tools": []any{fakeTool("do", nil)}}
		}
		return map[string]any{"content": []any{}}
	})
	srv := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			inner.ServeHTTP(w, r)
			return
		}
		listening.Store(true)
		w.Header().Set("Content-Type", "text/event-stream")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	r := start(t, func(_ *Options, tm *timing) { tm.listen = time.Minute }, webServer("srv", StreamableHTTP, srv.URL))
	if got := r.names(); len(got) != 1 {
		t.Errorf("tools %v", got)
	}
}

// tokens hands out tokens as told.
type tokens struct {
	mu          sync.Mutex
	token       string
	invalidated []string
	wider       string   // what a step up gives; "" needs a person
	scopes      []string // that were asked for
}

func (k *tokens) Token(context.Context, string, string) (httpsafe.Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.token == "" {
		return httpsafe.Secret{}, fmt.Errorf("nothing stored: %w", errLoginNeeded)
	}
	return httpsafe.NewSecret(k.token), nil
}

func (k *tokens) Invalidate(_ string, refused httpsafe.Secret) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.invalidated = append(k.invalidated, refused.Reveal())
	if k.token == refused.Reveal() {
		k.token = "second"
	}
}

func (k *tokens) StepUp(_ context.Context, _, _ string, refused httpsafe.Secret, scope string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.scopes = append(k.scopes, scope)
	if k.token == refused.Reveal() && k.wider == "" {
		return fmt.Errorf("%w: %w", errMoreRights, errLoginNeeded)
	}
	k.token = k.wider
	return nil
}

func (k *tokens) set(t string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.token = t
}

func TestTokens(t *testing.T) {
	t.Parallel()
	good := sdkServer()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return good }, nil)
	srv := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer second" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	auth := &tokens{}
	s := webServer("srv", StreamableHTTP, srv.URL)
	s.Auth = "oauth"
	bare := webServer("bare", StreamableHTTP, srv.URL)
	r := start(t, func(o *Options, _ *timing) { o.Auth = auth }, s, bare)
	if got := r.names(); len(got) > 0 {
		t.Errorf("tools = %v", got)
	}
	r.until("a login is asked for", func() bool { return r.state("srv").State == PendingLogin })
	r.until("a hint", func() bool { return strings.Contains(r.state("bare").Error, "wants credentials") })
	auth.set("first") // the server refuses it, the second one is fine
	r.Retry("srv")
	r.until("connected", func() bool { return r.state("srv").State == Ready })
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"in"}`); res.Content.String() != "you said in" {
		t.Errorf("%q", res.Content.String())
	}
	if len(auth.invalidated) != 1 || auth.invalidated[0] != "first" {
		t.Errorf("invalidated %v", auth.invalidated)
	}
	auth.set("")
	defer auth.set("second") // or the server is never told that we leave
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"out"}`); res.Code != tool.Unsupported || !strings.Contains(res.Content.String(), "nanobot mcp login srv") {
		t.Errorf("%q code %q", res.Content.String(), res.Code)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	var got []string
	in := ": comment\nevent: x\ndata: one\ndata:two\r\n\r\n\n\nid: 5\ndata: three\n\ndata: cut off"
	for e := range events(strings.NewReader(in)) {
		got = append(got, strings.TrimSpace(string(e)))
	}
	if strings.Join(got, "|") != "one\ntwo|three" {
		t.Errorf("events = %q", got)
	}
	n := 0
	for range events(io.MultiReader(strings.NewReader("data: "), &xs{10 << 20}, strings.NewReader("\n\n"))) {
		n++
	}
	if n != 0 {
		t.Error("an event of 10 MB passed")
	}
}

// xs is a reader of n letters.
type xs struct{ n int }

func (x *xs) Read(p []byte) (int, error) {
	if x.n <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), x.n)
	for i := range n {
		p[i] = 'x'
	}
	x.n -= n
	return n, nil
}

func TestLineReader(t *testing.T) {
	t.Parallel()
	var odd []string
	long := strings.Repeat("x", 5<<20)
	in := "banner\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\r\n" +
		`[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":3,"result":{}},7]` + "\n" +
		`{"jsonrpc":"2.0","id":4,"result":"` + long + "\"}\n" +
		`{"result":"` + long + `","jsonrpc":"2.0","id":5}` + "\n" +
		long + "\n" + `{"jsonrpc":"2.0","method":"notifications/x"}` // no newline at the end
	l := newLineReader(io.MultiReader(strings.NewReader(in[:20]), strings.NewReader(in[20:])), func(s string) { odd = append(odd, s) })
	var got []string
	for {
		m, err := l.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		switch m := m.(type) {
		case *jsonrpc.Response:
			got = append(got, fmt.Sprintf("%v %v", m.ID.Raw(), m.Error != nil))
		case *jsonrpc.Request:
			got = append(got, m.Method)
		}
	}
	if want := "1 false,2 false,3 false,4 true,5 true,notifications/x"; strings.Join(got, ",") != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(odd) != 2 || odd[0] != "banner\n" {
		t.Errorf("odd lines: %.100q", odd)
	}
}

func TestRing(t *testing.T) {
	t.Parallel()
	r := &ring{}
	for i := range 100_000 {
		_, _ = fmt.Fprintf(r, "line %d\n", i)
	}
	if got := r.text(); len(got) != maxStderr || !strings.HasSuffix(got, "line 99999\n") || r.last() != "line 99999" || cap(r.buf) > 8*maxStderr {
		t.Errorf("%d bytes, last %q, capacity %d", len(got), r.last(), cap(r.buf))
	}
}
