package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// fault is an error that a client is told, in the form of its protocol.
type fault struct {
	status  int
	code    string
	param   string // the field that is wrong
	message string
	after   time.Duration // when to try again
	final   bool          // trying again does not help, or would do things twice
	err     error         // for the log
}

func (f *fault) Error() string {
	if f.err != nil {
		return f.message + ": " + f.err.Error()
	}
	return f.message
}

func (f *fault) Unwrap() error { return f.err }

// kind returns the word of the OpenAI protocol for a class of errors.
func (f *fault) kind() string {
	switch {
	case f.status == http.StatusUnauthorized:
		return "authentication_error"
	case f.status == http.StatusForbidden:
		return "permission_error"
	case f.status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case f.status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

// body returns what a client of the OpenAI protocol reads. The code is the status as text where there is
// no better word for it.
func (f *fault) body() map[string]any {
	code := f.code
	if code == "" {
		code = strconv.Itoa(f.status)
	}
	var param any
	if f.param != "" {
		param = f.param
	}
	return map[string]any{"error": map[string]any{"message": f.message, "type": f.kind(), "param": param, "code": code}}
}

// messagesKind returns the word of Anthropic's protocol for a class of errors.
func (f *fault) messagesKind() string {
	switch f.status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}

	if f.status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// messagesBody returns what a client of Anthropic's protocol reads.
func (f *fault) messagesBody(request string) map[string]any {
	return map[string]any{
		"type":       "error",
		"error":      map[string]any{"type": f.messagesKind(), "message": f.message},
		"request_id": request,
	}
}

func badRequest(param, message string) *fault {
	return &fault{status: http.StatusBadRequest, code: "invalid_request", param: param, message: message}
}

var (
	errTimeout  = errors.New("the turn took too long")
	errUnread   = errors.New("the client does not read")
	errNoAnswer = errors.New("the turn ended without an answer")
)

// explain makes a fault of an error of the agent.
func (a *API) explain(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}

	if errors.Is(err, errTimeout) {
		return &fault{
			status:  http.StatusGatewayTimeout,
			code:    "timeout",
			message: "The turn took longer than " + a.o.Timeout.String() + " and was stopped. Raise api.timeout or ask for less.",
			final:   true,
			err:     err,
		}
	}

	if a.o.Fault != nil {
		if status, message := a.o.Fault(err); status != 0 {
			f := &fault{status: status, message: message, err: err, final: status < 500 && status != http.StatusTooManyRequests}
			if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
				f.after = retryAfter
			}
			return f
		}
	}

	return &fault{
		status:  http.StatusInternalServerError,
		code:    "internal_error",
		message: "The turn failed; the log of nanobot has the reason under this request id.",
		err:     err,
		final:   true,
	}
}

// turnFault returns the fault of a turn that ended in an error, nil if it did not
// or if the error is an answer in itself.
func turnFault(t *bus.Turn) *fault {
	if t == nil || t.Error == "" {
		return nil
	}

	// The agent has tried again already, for longer than a client would.
	f := &fault{status: http.StatusBadGateway, code: t.ErrorKind, message: t.Error, final: true}
	switch llm.Kind(t.ErrorKind) {
	case llm.ContentFilter, llm.Refused:
		return nil // told by the finish reason
	case llm.RateLimited:
		f.status = http.StatusTooManyRequests
		f.after = 20 * time.Second
		f.final = false
	case llm.Overloaded:
		f.status = http.StatusServiceUnavailable
		f.after = 20 * time.Second
		f.final = false
	case llm.Timeout:
		f.status = http.StatusGatewayTimeout
	case llm.Billing, llm.BudgetExceeded:
		f.status = http.StatusPaymentRequired
	case llm.ContextLength:
		f.status, f.code = http.StatusBadRequest, "context_length_exceeded"
	case llm.UnsupportedImage, llm.InvalidRequest, llm.UnsupportedParam:
		f.status = http.StatusBadRequest
	case "":
		f.status, f.code = http.StatusInternalServerError, "turn_failed"
	default: // the provider's trouble or its configuration: nothing the client can change
	}

	return f
}

// refuse writes a fault, unless the answer has begun.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := a.explain(err)
	if f.err != nil && r.Context().Err() == nil {
		level := a.o.Log.WarnContext
		if f.status >= http.StatusInternalServerError {
			level = a.o.Log.ErrorContext
		}
		level(r.Context(), "api request", "request", w.Header().Get(headerRequest), "path", r.URL.Path, "status", f.status, "err", f.err)
	}

	h := w.Header()
	if f.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="nanobot"`)
	}
	if f.after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(max(f.after, time.Second)/time.Second)))
	}

	// The official clients go by this word rather than by the status.
	h.Set("X-Should-Retry", strconv.FormatBool(!f.final && f.status >= http.StatusTooManyRequests))
	body := f.body()
	if speaksMessages(r) {
		body = f.messagesBody(h.Get(headerRequest))
	}
	_ = sendJSON(w, f.status, body) // the client may be gone
}

func sendJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}

	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(status)
	_, err = w.Write(append(b, '\n'))
	return err
}

// gone reports whether a client went away, after which nothing is written.
func gone(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.Canceled) }
