package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
)

// maxBody bounds an answer over HTTP. It is more than a line of a stdio server
// may have, so that a picture of 5 MiB passes.
const maxBody = 8 << 20

// deleteTimeout bounds the good-bye to a server.
const deleteTimeout = 2 * time.Second

const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

// web is the HTTP side of one connection. It sends requests to the origin the
// operator wrote and nowhere else, with that server's headers, and bounds what
// comes back. The address may be private: the operator wrote it, and nothing a
// server says can change it.
type web struct {
	server Server
	origin string
	base   http.RoundTripper
	auth   Authorizer
	under  func(context.Context) (context.Context, context.CancelFunc)

	mu      sync.Mutex
	session string
	version string
	fault   error // why requests were refused, for people
}

// newWeb makes the client of a connection. Requests end with under's parent.
func newWeb(s Server, auth Authorizer, under func(context.Context) (context.Context, context.CancelFunc)) (*web, *http.Client, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, nil, errors.New("the url cannot be read")
	}

	client, err := httpsafe.Client(httpsafe.Options{Direct: httpsafe.IsLocal(s.URL)})
	if err != nil {
		return nil, nil, err
	}
	if s.Auth != "" && auth == nil {
		return nil, nil, fmt.Errorf("logging in is not possible here: %w", errLoginNeeded)
	}

	w := &web{server: s, origin: origin(u), base: client.Transport, auth: auth, under: under}
	client.Transport = w
	return w, client, nil
}

// RoundTrip implements http.RoundTripper; redirects pass here too.
func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, token, err := w.try(req)
	if err != nil {
		return nil, err
	}
	if scope, lacking := insufficient(resp); lacking && w.server.Auth != "" {
		return w.stepUp(req, resp, token, scope)
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return resp, nil
	}
	if w.server.Auth == "" {
		w.blame(errors.New(`the server wants credentials: set "headers", or "auth": "oauth" and log in`))
		return resp, nil
	}

	w.auth.Invalidate(w.server.Name, token)
	if again, ok := repeat(req); ok {
		_ = resp.Body.Close()
		if resp, _, err = w.try(again); err != nil {
			return nil, err
		}
	}

	if resp.StatusCode == http.StatusUnauthorized {
		w.blame(w.refusedToken())
	}
	return resp, nil
}

// refusedToken returns why a server cannot be used that does not take our
// token.
func (w *web) refusedToken() error {
	if w.server.Client.Alone {
		return errors.New("the server refused the token that the client credentials gave")
	}
	return fmt.Errorf("the server refused the token: %w", errLoginNeeded)
}

// insufficient reads a refusal that asks for a wider scope (RFC 6750, 3.1).
func insufficient(resp *http.Response) (scope string, ok bool) {
	if resp.StatusCode != http.StatusForbidden {
		return "", false
	}

	list, _ := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate")) // a header that cannot be read says nothing
	for _, c := range list {
		if c.Scheme == "bearer" && c.Params["error"] == "insufficient_scope" {
			return c.Params["scope"], true
		}
	}
	return "", false
}

// stepUp repeats a request, once, that the server refused for its scope: it did
// nothing for it. An error is that of the request alone; the connection stays.
func (w *web) stepUp(req *http.Request, resp *http.Response, token httpsafe.Secret, scope string) (*http.Response, error) {
	_ = resp.Body.Close()
	unmarkSent(req.Context())
	if err := w.auth.StepUp(req.Context(), w.server.Name, w.server.URL, token, scope); err != nil {
		return nil, err
	}

	again, ok := repeat(req)
	if !ok {
		return nil, errScope
	}

	resp, _, err := w.try(again)
	if err != nil {
		return nil, err
	}
	if _, lacking := insufficient(resp); lacking {
		_ = resp.Body.Close()
		return nil, errScope
	}
	return resp, nil
}

// CloseIdleConnections lets http.Client reach the transport below.
func (w *web) CloseIdleConnections() {
	if c, ok := w.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// repeat makes a request that can be sent again.
func repeat(req *http.Request) (*http.Request, bool) {
	again := req.Clone(req.Context())
	if req.Body == nil || req.Body == http.NoBody {
		return again, true
	}
	if req.GetBody == nil {
		return nil, false
	}

	body, err := req.GetBody()
	again.Body = body
	return again, err == nil
}

func (w *web) try(req *http.Request) (*http.Response, httpsafe.Secret, error) {
	var token httpsafe.Secret
	refuse := func(err error) (*http.Response, httpsafe.Secret, error) {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		w.blame(err)
		return nil, token, err
	}
	if at := origin(req.URL); at != w.origin {
		return refuse(fmt.Errorf("the server sent us to another origin (%s), which is refused", at))
	}

	ctx, cancel := w.under(req.Context())
	if req.Method == http.MethodDelete {
		// The good-bye is sent when the connection has ended already.
		ctx, cancel = context.WithTimeout(context.WithoutCancel(req.Context()), deleteTimeout)
	}

	if w.server.Auth != "" {
		var err error
		if token, err = w.auth.Token(ctx, w.server.Name, w.server.URL); err != nil {
			cancel()
			return refuse(fmt.Errorf("get a token: %w", err))
		}
	}

	out := req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { markSent(ctx) },
	}))
	w.dress(out, token)
	resp, err := w.base.RoundTrip(out)
	if err != nil {
		cancel()
		return nil, token, err
	}

	if resp.StatusCode == http.StatusNotFound && out.Header.Get(headerSession) != "" {
		unmarkSent(req.Context()) // the session is unknown, as the protocol says it
	}

	w.mu.Lock()
	if id := resp.Header.Get(headerSession); id != "" {
		w.session = id
	}

	w.mu.Unlock()
	limit := int64(maxBody)
	if eventStream(resp) {
		limit = -1 // events are bounded one by one
	}

	resp.Body = &boundedBody{resp.Body, limit, cancel}
	return resp, token, nil
}

// dress sets the headers of a request.
func (w *web) dress(req *http.Request, token httpsafe.Secret) {
	for k, v := range w.server.Headers {
		req.Header.Set(k, v.Reveal())
		if strings.EqualFold(k, "Host") {
			req.Host = v.Reveal()
		}
	}

	if w.server.Auth != "" {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	if w.server.Type == transportSSE {
		req.Header.Set("Accept", "application/json, text/event-stream")
	}

	req.Header.Set("User-Agent", "nanobot")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version != "" && w.server.Type == StreamableHTTP && req.Header.Get(headerVersion) == "" {
		req.Header.Set(headerVersion, w.version)
	}
}

func (w *web) setVersion(v string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = v
}

func (w *web) blame(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = err
}

func (w *web) blamed() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

func eventStream(resp *http.Response) bool {
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return t == "text/event-stream"
}

// boundedBody ends a body that is too long with an error, and the context of
// its request with itself.
type boundedBody struct {
	io.ReadCloser
	left   int64 // negative: no limit
	cancel context.CancelFunc
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left >= 0 {
		if b.left -= int64(n); b.left < 0 {
			b.left = 0
			return 0, fmt.Errorf("the answer is longer than %d MiB", maxBody>>20)
		}
	}
	return n, err
}

func (b *boundedBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// listen keeps a stream open on which a streamable server may speak first. Not
// having one is normal; one that ends is opened again after a while. opened is
// called after each attempt.
func (w *web) listen(ctx context.Context, client *http.Client, hear func(jsonrpc.Message) bool, opened func()) {
	pauses := wait.Backoff{Least: time.Second, Most: time.Minute}
	for {
		began := time.Now()
		if !w.listenOnce(ctx, client, hear, opened) {
			return
		}

		if time.Since(began) > pauses.Most {
			pauses.Reset()
		}

		if pauses.Wait(ctx) != nil {
			return
		}
	}
}

// listenOnce reads one stream; false means there is no point in another.
func (w *web) listenOnce(ctx context.Context, client *http.Client, hear func(jsonrpc.Message) bool, opened func()) bool {
	defer opened()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL, http.NoBody)
	if err != nil {
		return false
	}

	req.Header.Set("Accept", "text/event-stream")
	w.mu.Lock()
	if w.session != "" {
		req.Header.Set(headerSession, w.session)
	}

	w.mu.Unlock()
	resp, err := client.Do(req)
	opened()
	if err != nil {
		return ctx.Err() == nil
	}

	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !eventStream(resp) {
		return resp.StatusCode >= http.StatusInternalServerError
	}

	for data := range events(resp.Body) {
		if m, err := jsonrpc.DecodeMessage(data); err == nil {
			hear(m)
		}
	}
	return ctx.Err() == nil
}

// events yields the data of server-sent events until the stream ends or one is
// too long.
func events(r io.Reader) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		br := bufio.NewReaderSize(r, 32<<10)
		var data, line []byte
		for {
			part, err := br.ReadSlice('\n')
			if line = append(line, part...); len(line)+len(data) > maxLine {
				return
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}

			line = bytes.TrimRight(line, "\r\n")
			if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
			}

			if len(line) == 0 && len(data) > 0 {
				if !yield(data) {
					return
				}
				data = nil
			}

			line = line[:0]
			if err != nil {
				return
			}
		}
	}
}
