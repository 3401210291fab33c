package responses

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	// breakAfter failures the protocol is not tried for a while.
	breakAfter = 3
	// breakFor is that while; one request then tries again.
	breakFor = 300 * time.Second
)

// ChatOptions tune WithChat.
type ChatOptions struct {
	Log *slog.Logger // nil: no log
}

// WithChat makes a model that asks resp and, where the server turns out not to
// know the Responses protocol, asks chat instead. After three such failures of
// a model with one effort it asks chat at once for 300 s. Errors that are not
// about the protocol (a rate limit, an overloaded server, a wrong key) are
// returned as they are. Models that exist only behind Responses must not be
// wrapped.
func WithChat(resp, chat llm.Model, o ChatOptions) llm.Model {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &withChat{resp: resp, chat: chat, log: o.Log, circuits: map[string]*circuit{}}
}

type withChat struct {
	resp, chat llm.Model
	log        *slog.Logger

	mu       sync.Mutex
	circuits map[string]*circuit // by model and effort
}

// circuit remembers how the protocol fared. It is open from the third failure
// until a request succeeds.
type circuit struct {
	failures int
	until    time.Time // no request before
	probing  bool      // one request is finding out
}

// Stream implements llm.Model.
func (m *withChat) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		key := req.Model + ":" + req.Effort
		if m.admit(key) {
			refused := m.try(ctx, req, key, yield)
			if refused == nil {
				return
			}
			m.log.InfoContext(ctx, "the server does not take the Responses protocol, using Chat Completions", "model", req.Model, "err", refused)
		}

		for ev, err := range m.chat.Stream(ctx, forChat(req)) {
			if !yield(ev, err) {
				return
			}
		}
	}
}

// try asks over Responses. It returns the error for which chat should be asked
// instead; nil means that the caller has had everything.
func (m *withChat) try(ctx context.Context, req llm.Request, key string, yield func(llm.Event, error) bool) *llm.Error {
	verdict := undecided
	defer func() { m.recordVerdict(key, verdict) }()
	started := false
	for ev, err := range m.resp.Stream(ctx, req) {
		if e, ok := errors.AsType[*llm.Error](err); ok && !started && aboutProtocol(e) {
			verdict = failed
			return e
		}

		started = true
		if err == nil {
			verdict = worked
		}

		if !yield(ev, err) {
			return nil
		}
	}

	return nil
}

// admit reports whether a request may use the protocol.
func (m *withChat) admit(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	c := m.circuits[key]
	if c == nil || c.failures < breakAfter {
		return true
	}
	if c.probing || time.Now().Before(c.until) {
		return false
	}

	c.probing = true
	return true
}

type verdict int

const (
	undecided verdict = iota // cancelled, or failed for another reason
	worked
	failed
)

// recordVerdict records how a request ended.
func (m *withChat) recordVerdict(key string, v verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.circuits[key]
	switch {
	case v == worked:
		delete(m.circuits, key)
	case v == failed && c == nil:
		m.circuits[key] = &circuit{failures: 1}
	case v == failed:
		c.failures++
		c.probing = false
		if c.failures >= breakAfter {
			c.until = time.Now().Add(breakFor)
		}

	case c != nil:
		c.probing = false
	}
}

// aboutProtocol reports whether an error says that the server does not know
// this protocol, or not all of it.
func aboutProtocol(e *llm.Error) bool {
	switch e.Status {
	case 400, 404, 422:
	default:
		return false
	}

	switch e.Kind {
	case llm.InvalidRequest, llm.UnsupportedParam, llm.NotFound:
	default:
		return false // about keys, money, length or pictures: chat would say the same
	}

	text := strings.ToLower(e.Message)
	return slices.ContainsFunc([]string{
		"responses", "response api", "max_output_tokens", "instructions", "previous_response", "unsupported", "not supported",
		"unknown parameter", "unrecognized request argument",
	}, func(w string) bool { return strings.Contains(text, w) })
}

// forChat shortens the ids of calls to what Chat servers take: they allow
// forty characters, and the item's id means nothing to them.
func forChat(req llm.Request) llm.Request {
	long := func(id string) bool { return strings.Contains(id, "|") }
	if !slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return long(m.ToolCallID) || slices.ContainsFunc(m.ToolCalls, func(c llm.ToolCall) bool { return long(c.ID) })
	}) {
		return req
	}

	req.Messages = slices.Clone(req.Messages)
	for i := range req.Messages {
		m := &req.Messages[i]
		m.ToolCallID, _, _ = strings.Cut(m.ToolCallID, "|")
		if slices.ContainsFunc(m.ToolCalls, func(c llm.ToolCall) bool { return long(c.ID) }) {
			m.ToolCalls = slices.Clone(m.ToolCalls)
			for k := range m.ToolCalls {
				m.ToolCalls[k].ID, _, _ = strings.Cut(m.ToolCalls[k].ID, "|")
			}
		}
	}

	return req
}
