package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// legacyVersion is asked for when the handshake without a session is not tried.
const legacyVersion = "2025-11-25"

var errSilent = errors.New("no answer to initialize in time")

// link is one connection to a server, from its handshake to its end. It owns
// the process or the requests behind it.
type link struct {
	session *sdk.ClientSession
	wire    *wire
	proc    *process
	web     *web
	client  *http.Client
	cancel  context.CancelCauseFunc
	// under gives a context that also ends with the link.
	under func(context.Context) (context.Context, context.CancelFunc)
	wg    sync.WaitGroup
}

// dialOptions say how a link is made.
type dialOptions struct {
	// discover is how long to wait for the handshake of newer servers before
	// the older one is tried; 0 tries only the older one.
	discover time.Duration
	odd      func(line string) // told of lines of a stdio server that are not messages
}

// dial connects to a server. Nothing is left behind on an error.
func (s *server) dial(ctx context.Context, o dialOptions) (*link, error) {
	linkCtx, cancel := context.WithCancelCause(ctx)
	l := &link{cancel: cancel, under: func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(linkCtx, func() { cancel(context.Cause(linkCtx)) })
		return ctx, func() { stop(); cancel(context.Canceled) }
	}}

	t, err := s.transport(l, o)
	if err != nil {
		cancel(err)
		return nil, err
	}

	l.wire = newWire(t)
	if l.web != nil {
		l.wire.version = l.web.setVersion
	}

	l.wg.Go(func() { l.wire.answerLoop(linkCtx) })
	timer := time.AfterFunc(s.pool.timing.connect, func() {
		cancel(errSilent)
		l.wire.close()
	})
	opts := &sdk.ClientSessionOptions{}
	if o.discover == 0 || s.Type == transportSSE {
		opts.ProtocolVersion = legacyVersion
	}

	l.session, err = s.client(o.discover).Connect(linkCtx, l.wire, opts)
	if !timer.Stop() || err != nil {
		if cause := context.Cause(linkCtx); cause != nil {
			err = cause
		}
		if fault := l.web.blamed(); fault != nil {
			err = fault
		}

		lost := l.wire.isLost()
		l.close()
		if lost && l.proc != nil && !errors.Is(err, errSilent) {
			err = fmt.Errorf("the server ended while it was started (%s)", l.proc.state)
		}
		return nil, err
	}

	if res := l.session.InitializeResult(); s.Type == StreamableHTTP && res.ProtocolVersion <= legacyVersion {
		open := make(chan struct{})
		opened := sync.OnceFunc(func() { close(open) })
		l.wg.Go(func() { l.web.listen(linkCtx, l.client, l.wire.filter, opened) })
		late := time.NewTimer(s.pool.timing.listen)
		defer late.Stop()

		select {
		case <-open:
		case <-late.C:
		case <-linkCtx.Done():
		}
	}

	return l, nil
}

// transport starts or prepares what is below the protocol.
func (s *server) transport(l *link, o dialOptions) (sdk.Transport, error) {
	if s.Type == Stdio {
		p, err := startProcess(s.Server, &s.pool.o, s.stderr, o.odd)
		l.proc = p
		return p, err
	}

	w, client, err := newWeb(s.Server, s.pool.o.Auth, l.under)
	if err != nil {
		return nil, err
	}

	l.web, l.client = w, client
	if s.Type == transportSSE {
		return &sdk.SSEClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxBody}, nil
	}
	return &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxBody, MaxRetries: 2, DisableStandaloneSSE: true,
	}, nil
}

// client makes the SDK's client. It announces nothing: no sampling, no roots,
// no questions to the user.
func (s *server) client(discover time.Duration) *sdk.Client {
	c := sdk.NewClient(&sdk.Implementation{Name: "nanobot", Version: s.pool.o.Version}, &sdk.ClientOptions{
		Logger:         slog.New(slog.DiscardHandler),
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		// Wanting them makes newer servers send them; the wire hears them.
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) {},
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) {},
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) {},
	})

	c.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "server/discover" {
				// Older servers may not answer what they do not know.
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, discover)
				defer cancel()
			}
			return next(ctx, method, req)
		}
	})
	return c
}

// close ends the connection, stops the process and waits for all that ran for
// the link.
func (l *link) close() {
	l.cancel(errors.New("the connection was closed"))
	l.wire.close()
	if l.session != nil {
		_ = l.session.Close()
	}
	if l.proc != nil {
		l.proc.stop()
	}

	l.wg.Wait()
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
}
