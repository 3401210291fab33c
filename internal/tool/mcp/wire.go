package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sentKey finds, in the context of a call, the flag that says whether any byte
// of its request may have reached the server. Only a request that was not sent
// may be repeated without thought.
type sentKey struct{}

func withSent(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

func markSent(ctx context.Context) {
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

// unmarkSent says that the server got a request and did not know us, so that
// it cannot have done anything.
func unmarkSent(ctx context.Context) {
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(false)
	}
}

const (
	// maxAnswers is how many requests of a server wait for our answer; more
	// are not answered. We only ever answer that we are alive or that we do
	// not know the method.
	maxAnswers = 16
	// changeEvery is how often the SDK is told that a list changed.
	changeEvery = 100 * time.Millisecond
)

// wire stands between the SDK and a transport. It lets responses through and
// deals with all else a server may send on its own, so that a server that
// floods us costs no memory: progress extends calls, changed lists are noted,
// requests are answered here.
type wire struct {
	sdk.Transport
	conn       sdk.Connection
	changed    chan struct{} // capacity 1: there is news or there is none
	answers    chan *jsonrpc.Response
	notifiedAt time.Time     // when the SDK was last told of a change; read loop only
	lost       chan struct{} // closed when nothing more can be read
	reason     error         // set before
	once       sync.Once
	// version is called with the protocol version the server chose. The SDK passes
	// it only to connections of its own, and requests must name it.
	version func(string)

	mu       sync.Mutex
	progress map[string]func(text string)
	tokens   int
}

func newWire(t sdk.Transport) *wire {
	return &wire{
		Transport: t, changed: make(chan struct{}, 1), answers: make(chan *jsonrpc.Response, maxAnswers),
		lost: make(chan struct{}), progress: map[string]func(string){},
	}
}

// Connect implements sdk.Transport.
func (w *wire) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := w.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.conn = conn
	w.mu.Unlock()
	return wireConn{conn, w}, nil
}

// wireConn is the connection that the SDK talks to.
type wireConn struct {
	sdk.Connection
	w *wire
}

// Read implements sdk.Connection.
func (c wireConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.w.once.Do(func() { c.w.reason = err; close(c.w.lost) })
			return nil, err
		}
		if c.w.filter(m) {
			return m, nil
		}
	}
}

func (w *wire) isLost() bool {
	select {
	case <-w.lost:
		return true
	default:
		return false
	}
}

// close ends the connection below the SDK.
func (w *wire) close() {
	w.mu.Lock()
	conn := w.conn
	w.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// await registers who is told of the progress of a call. The token goes into
// the request; forget must be called.
func (w *wire) await(fn func(text string)) (token int, forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.tokens++
	token = w.tokens
	key, _ := json.Marshal(token)
	w.progress[string(key)] = fn
	return token, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.progress, string(key))
	}
}

// filter looks at what came in and says whether the SDK gets it.
func (w *wire) filter(m jsonrpc.Message) bool {
	req, ok := m.(*jsonrpc.Request)
	if !ok {
		if resp, ok := m.(*jsonrpc.Response); ok && w.version != nil && len(resp.Result) < 1<<20 {
			w.handshake(resp.Result)
		}
		return true
	}

	if req.IsCall() {
		w.answer(req)
		return false
	}

	switch req.Method {
	case "notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		select {
		case w.changed <- struct{}{}:
		default:
		}
		if now := time.Now(); now.Sub(w.notifiedAt) >= changeEvery {
			w.notifiedAt = now
			return true
		}
	case "notifications/progress":
		w.advance(req.Params)
	}

	return false
}

// handshake looks for the chosen version, which is in the first results only.
func (w *wire) handshake(result json.RawMessage) {
	var r struct {
		Version string `json:"protocolVersion"`
	}
	if json.Unmarshal(result, &r) == nil && r.Version != "" {
		w.version(r.Version)
		w.version = nil
	}
}

func (w *wire) answer(req *jsonrpc.Request) {
	resp := &jsonrpc.Response{ID: req.ID}
	if req.Method == "ping" {
		resp.Result = json.RawMessage(`{}`)
	} else {
		resp.Error = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
	}

	select {
	case w.answers <- resp:
	default: // it asks faster than it reads
	}
}

// answerLoop sends answers until ctx ends.
func (w *wire) answerLoop(ctx context.Context) {
	for {
		select {
		case resp := <-w.answers:
			w.mu.Lock()
			conn := w.conn
			w.mu.Unlock()
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			_ = conn.Write(ctx, resp) // a broken connection is noticed by its reader
			cancel()
		case <-ctx.Done():
			return
		}
	}
}

// advance tells a call that it makes progress. Notifications without a token
// of ours are dropped.
func (w *wire) advance(params json.RawMessage) {
	var p struct {
		Token   json.RawMessage `json:"progressToken"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}

	w.mu.Lock()
	fn := w.progress[string(p.Token)]
	w.mu.Unlock()
	if fn != nil {
		fn(p.Message)
	}
}
