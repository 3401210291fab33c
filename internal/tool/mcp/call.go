package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const (
	// maxExtension is how many times its time a call may take while the server
	// reports progress.
	maxExtension = 10
	// maxError bounds the text of an error a server sends.
	maxError = 2000
)

var errTimeout = errors.New("no answer in time")

// request is one exchange with a server.
type request func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) (tool.Result, error)

// call runs a request with the limits of the server and repeats it once when
// that cannot do harm.
func (s *server) call(ctx context.Context, o offer, do request) (tool.Result, error) {
	start := time.Now()
	res, sent, err := s.attempt(ctx, do)
	if err != nil && ctx.Err() == nil && worthRepeating(err, sent, o.repeatable) {
		s.log.InfoContext(ctx, "mcp call is repeated", "name", text.Label(o.raw, 80), "err", s.clean(err))
		if !errors.Is(err, errLost) {
			_ = wait.For(ctx, s.pool.timing.minBackoff) // it may be restarting
		}
		res, sent, err = s.attempt(ctx, do)
	}

	s.log.DebugContext(ctx, "mcp call", "kind", o.kind.label(), "name", text.Label(o.raw, 80),
		"dur_ms", time.Since(start).Milliseconds(), "bytes", len(res.Content.String()), "is_error", res.IsError, "err", s.clean(err))
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return s.failure(o, sent, err), nil
	}
	return res, nil
}

// worthRepeating decides about a second attempt. A request that may have
// reached the server is only repeated when running twice is harmless; one the
// server answered is not repeated at all.
func worthRepeating(err error, sent, repeatable bool) bool {
	if errors.Is(err, errTimeout) || errors.Is(err, errLoginNeeded) || errors.Is(err, errScope) || errors.Is(err, errNotConnected) {
		return false
	}
	if _, ok := answered(err); ok {
		return false
	}
	return !sent || repeatable && errors.Is(err, errLost)
}

var (
	errNotConnected = errors.New("not connected")
	errLost         = errors.New("the connection was lost during the call")
)

// answered finds the error a server sent. The SDK marks errors of its own with
// values of the same type; those are not answers.
func answered(err error) (*jsonrpc.Error, bool) {
	if wire, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // the chain is walked here
		switch wire.Message {
		case "rejected by transport", "client is closing", "server is closing":
			return nil, false
		}
		return wire, true
	}

	switch e := err.(type) { //nolint:errorlint // see above
	case interface{ Unwrap() error }:
		return answered(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			if wire, ok := answered(sub); ok {
				return wire, true
			}
		}
	}

	return nil, false
}

// attempt makes a request on the current link. sent says whether the server
// may have got it.
func (s *server) attempt(ctx context.Context, do request) (res tool.Result, sent bool, err error) {
	l, err := s.connected(ctx, min(s.pool.timing.reconnect, s.ToolTimeout))
	if err != nil {
		if errors.Is(err, errLoginNeeded) {
			return res, false, err
		}
		return res, false, fmt.Errorf("%w: %w", errNotConnected, err)
	}

	ctx, done := l.under(ctx)
	defer done()
	ctx, flag := withSent(ctx)
	ctx, extend, stop := deadline(ctx, s.ToolTimeout)
	defer stop()
	token, forget := l.wire.await(func(string) { extend() })
	defer forget()
	res, err = do(ctx, l.session, sdk.Meta{"progressToken": token})
	switch {
	case err == nil:
		s.mark(l, "")
		return res, true, nil
	case errors.Is(err, errLoginNeeded), errors.Is(err, errScope): // the rest of the server works
	case errors.Is(context.Cause(ctx), errTimeout):
		err = errTimeout
		s.mark(l, "a call was not answered in time")
	case l.web.blamed() != nil && errors.Is(l.web.blamed(), errLoginNeeded):
		err = l.web.blamed()
	case broken(l, err):
		// The supervisor sees it too and makes a new link; until it has, this
		// one must not be used again.
		s.drop(l)
		err = fmt.Errorf("%w: %w", errLost, err)

	default:
		if _, ok := answered(err); !ok && ctx.Err() == nil {
			s.mark(l, "the last call failed: "+s.clean(err))
		}
	}

	return res, flag.Load(), err
}

// broken reports whether a link cannot be used any more.
func broken(l *link, err error) bool {
	return l.wire.isLost() || errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing)
}

// deadline ends a call after d, counted again with every sign of progress, but
// never later than maxExtension times d.
func deadline(ctx context.Context, d time.Duration) (_ context.Context, extend, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	last := time.Now().Add(maxExtension * d)
	timer := time.AfterFunc(d, func() { cancel(errTimeout) })
	extend = func() {
		if left := time.Until(last); left > 0 && timer.Stop() {
			timer.Reset(min(d, left))
		}
	}
	return ctx, extend, func() { timer.Stop(); cancel(context.Canceled) }
}

// ours marks a sentence that quotes no server.
func ours(res tool.Result) tool.Result {
	res.Trusted = true
	return res
}

// failure returns what the model is told when a call did not work. What a
// server said about it is the server's.
func (s *server) failure(o offer, sent bool, err error) tool.Result {
	var res tool.Result
	name := text.Label(s.Name, 80)
	wire, replied := answered(err)
	switch {
	case errors.Is(err, errTimeout):
		res = ours(tool.Fail(tool.TimedOut, "MCP server %q did not answer within %s.", name, s.ToolTimeout))
	case errors.Is(err, errScope):
		return ours(tool.Fail(tool.Unsupported, "MCP server %q refuses this call: the login there does not have the rights for it. Do not repeat the call.", name))
	case errors.Is(err, errMoreRights):
		return ours(tool.Fail(tool.Unsupported, "MCP server %q needs a login with more rights for this call. Tell the user to run: nanobot mcp login %s", name, name))
	case errors.Is(err, errLoginNeeded):
		return ours(tool.Fail(tool.Unsupported, "MCP server %q needs a login. Tell the user to run: nanobot mcp login %s", name, name))
	case errors.Is(err, errNotConnected):
		return tool.Fail(tool.Internal, "MCP server %q is not connected and was tried again without success: %s. Go on without it.", name, s.clean(err))
	case replied:
		res = tool.Fail(tool.Internal, "MCP server %q refused the call: %s", name, s.redact(text.Ellipsis(text.Valid(wire.Message), maxError)))
		if wire.Code == jsonrpc.CodeInvalidParams {
			res.Code = tool.InvalidArgs
		}
		return res // it answered, so it knows

	default:
		res = tool.Fail(tool.Internal, "the call to MCP server %q failed: %s.", name, s.clean(err))
	}

	res.MayHaveRun = sent && !o.readOnly
	return res
}

// tool makes the tool of an offer.
func (s *server) tool(name string, o offer) tool.Tool {
	t := tool.Tool{
		Name:        name,
		Description: o.description,
		Schema:      o.params.schema,
		ReadOnly:    o.readOnly,
		Guests:      s.Guests,
		Foreign:     !o.accepted,
	}
	if !o.readOnly {
		t.Sink = tool.SinkRemote
	}

	t.Run = func(ctx context.Context, c tool.Call) (tool.Result, error) {
		args, err := o.params.arguments(c.Input)
		if err != nil {
			return tool.Fail(tool.InvalidArgs, "%v", err), nil
		}
		return s.call(ctx, o, s.request(o, args))
	}
	return t
}

// request returns the exchange an offer stands for.
func (s *server) request(o offer, args json.RawMessage) request {
	switch o.kind {
	case kindResource:
		return func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) (tool.Result, error) {
			r, err := cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: o.uri, Meta: meta})
			if err != nil {
				return tool.Result{}, err
			}
			return s.resourceResult(r), nil
		}

	case kindPrompt:
		return func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) (tool.Result, error) {
			var in map[string]string
			if json.Unmarshal(args, &in) != nil {
				return tool.Fail(tool.InvalidArgs, "all parameters must be strings"), nil //nolint:nilerr // the model sees it
			}

			r, err := cs.GetPrompt(ctx, &sdk.GetPromptParams{Name: o.raw, Arguments: in, Meta: meta})
			if err != nil {
				return tool.Result{}, err
			}
			return s.promptResult(r), nil
		}

	default:
		return func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) (tool.Result, error) {
			r, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: o.raw, Arguments: args, Meta: meta})
			if err != nil {
				return tool.Result{}, err
			}
			return s.toolResult(r), nil
		}
	}
}
