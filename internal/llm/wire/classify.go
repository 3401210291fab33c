package wire

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Classifier turns what a model server answered, or how the connection to it
// broke, into an *Error. Its fields describe the server.
type Classifier struct {
	Provider string
	BaseURL  string            // named in the hint when a local server is unreachable
	Local    bool              // a server on this machine or network
	Secrets  []httpsafe.Secret // removed from every message, wherever they appear
}

// maxErrorBody is how much of an error body is read; vendors that echo the
// whole prompt back are cut.
const maxErrorBody = 64 << 10

// Read classifies a response with a status outside 2xx. It reads and closes
// the body.
func (c Classifier) Read(resp *http.Response) *llm.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close()
	return c.Response(resp.StatusCode, resp.Header, body)
}

// Response classifies an error answer. Status 0 or 2xx means that the body is
// an error although HTTP said otherwise; header may be nil.
func (c Classifier) Response(status int, header http.Header, body []byte) *llm.Error {
	if status >= 200 && status < 300 {
		status = 0
	}

	e := &llm.Error{Provider: c.Provider, Status: status}
	w, isJSON := decodeErrorBody(body)
	raw := strings.TrimSpace(string(body))
	page := false
	switch {
	case isJSON:
		e.Code = strings.ToLower(w.code)
		e.Type = strings.ToLower(w.kind)
		e.Message = w.message
		if e.Status == 0 && w.status >= 400 && w.status < 600 {
			e.Status = w.status
		}

	case isHTML(header, raw):
		e.Message = "the server answered with a web page instead of JSON" + htmlTitle(raw)
		raw, page = "", true
	default:
		e.Message = raw
	}

	e.RetryAfter = retryAfter(header, raw)
	if v := header.Get("X-Should-Retry"); v == "true" || v == "false" {
		yes := v == "true"
		e.ShouldRetry = &yes
	}

	lower := strings.ToLower(e.Message)
	e.Kind = kindOf(e, lower)
	switch e.Kind {
	case llm.ContextLength:
		e.ContextLimit = contextLimit(lower)
	case llm.UnsupportedParam:
		e.Param = paramName(w.param, e.Message)
	}

	if page && e.Status == 0 {
		e.Kind = llm.ServerError
	}

	c.cleanMessage(e)
	return e
}

// Transport classifies a failed exchange: no connection, a broken one, or a
// deadline. An *Error is returned with the provider filled in. If ctx has
// ended, its error is returned as it is, so that a cancelled turn is never
// taken for a failing server.
func (c Classifier) Transport(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		if e, ok := errors.AsType[*llm.Error](context.Cause(ctx)); ok {
			return c.named(e)
		}
		return ctx.Err()
	}

	if e, ok := errors.AsType[*llm.Error](err); ok {
		return c.named(e)
	}

	e := &llm.Error{Provider: c.Provider, Kind: llm.Connection, Err: err, Message: err.Error()}
	no := false
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case isTLS(err):
		e.ShouldRetry = &no
		e.Message = "the server's certificate cannot be trusted: " + e.Message
	case isNet && netErr.Timeout(), errors.Is(err, context.DeadlineExceeded):
		e.Kind = llm.Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		if !c.Local {
			e.Message = "connection refused: " + c.BaseURL
		}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Message = "the server closed the connection"
	}

	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		e.Message = "unknown host " + dns.Name
		e.ShouldRetry = &no
		if c.Local {
			e.ShouldRetry = nil
		}
	}

	c.cleanMessage(e)
	return e
}

// Broken does the same for an error in the middle of an answer: a connection
// that breaks there left a truncated answer.
func (c Classifier) Broken(ctx context.Context, err error) error {
	err = c.Transport(ctx, err)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Kind != llm.Connection {
		return err
	}
	return &llm.Error{Kind: llm.StreamTruncated, Provider: c.Provider, Message: "the connection broke before the answer was complete", Err: e.Err}
}

func (c Classifier) named(e *llm.Error) *llm.Error {
	cp := *e
	if cp.Provider == "" {
		cp.Provider = c.Provider
	}
	return &cp
}

// cleanMessage removes credentials, adds the hint for local servers and cuts.
func (c Classifier) cleanMessage(e *llm.Error) {
	e.Message = httpsafe.RedactSecrets(e.Message, c.Secrets...)
	if e.Message == "" && e.Status != 0 {
		e.Message = strings.ToLower(http.StatusText(e.Status))
	}

	hint := ""
	if c.Local && (e.Status == 502 || e.Kind == llm.Connection) {
		hint = "; is the model server running at " + c.BaseURL + "?"
	}
	if over := 500 - len([]rune(hint)); over > 0 {
		e.Message = text.Ellipsis(e.Message, over)
	}
	e.Message += hint
}

func isTLS(err error) bool {
	_, a := errors.AsType[x509.UnknownAuthorityError](err)
	_, b := errors.AsType[x509.HostnameError](err)
	_, d := errors.AsType[x509.CertificateInvalidError](err)
	return a || b || d
}

func isHTML(h http.Header, body string) bool {
	if strings.Contains(strings.ToLower(h.Get("Content-Type")), "html") {
		return body == "" || body[0] == '<'
	}
	lead := strings.ToLower(body[:min(len(body), 20)])
	return strings.HasPrefix(lead, "<!doctype") || strings.HasPrefix(lead, "<html") || strings.HasPrefix(lead, "<head")
}

// htmlTitle gives the page's title as " (title)", which is usually the only
// useful word in a proxy's error page.
func htmlTitle(page string) string {
	low := strings.ToLower(page)
	_, rest, ok := strings.Cut(low, "<title")
	if !ok {
		return ""
	}

	_, rest, _ = strings.Cut(rest, ">")
	title, _, ok := strings.Cut(rest, "</title")
	if !ok {
		return ""
	}

	at := len(low) - len(rest)
	if len(low) == len(page) {
		title = page[at : at+len(title)]
	}

	title = strings.Join(strings.Fields(title), " ")
	if title == "" || strings.ContainsAny(title, "<>") {
		return ""
	}
	return " (" + text.Ellipsis(title, 80) + ")"
}

// errorBody holds what the many shapes of an error answer have in common.
type errorBody struct {
	code, kind, message, param string
	status                     int
}

// decodeErrorBody reads a vendor's error. ok is false if the body is not JSON.
func decodeErrorBody(body []byte) (w errorBody, ok bool) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return w, false
	}

	for {
		list, isList := v.([]any) // Google wraps the error in a list
		if !isList || len(list) == 0 {
			break
		}
		v = list[0]
	}

	switch t := v.(type) {
	case string:
		w.message = t
	case map[string]any:
		w.read(t)
	default:
		w.message = strings.TrimSpace(string(body))
	}

	if w.message == "" {
		w.message = strings.TrimSpace(string(body))
	}
	return w, true
}

func (w *errorBody) read(m map[string]any) {
	switch inner := m["error"].(type) {
	case map[string]any:
		w.fields(inner)
	case string:
		w.message = inner
	}

	if inner, ok := m["base_resp"].(map[string]any); ok { // MiniMax
		w.fields(map[string]any{"code": inner["status_code"], "message": inner["status_msg"]})
	}

	w.fields(m)
	if w.message == "" {
		w.message = firstText(m["detail"], m["msg"], m["error_msg"])
	}
}

// fields fills what is still empty.
func (w *errorBody) fields(m map[string]any) {
	if w.message == "" {
		w.message = firstText(m["message"])
	}

	// OpenRouter hides the vendor's own words in metadata.
	if meta, ok := m["metadata"].(map[string]any); ok {
		if raw := firstText(meta["raw"]); raw != "" && !strings.Contains(w.message, raw) {
			inner, _ := decodeErrorBody([]byte(raw))
			if inner.message != "" {
				raw = inner.message
			}
			w.message += ": " + raw
			if w.code == "" {
				w.code = inner.code
			}
		}
	}

	switch t := m["type"].(type) {
	case string:
		if w.kind == "" && t != "error" {
			w.kind = t
		}
	}

	if s, ok := m["status"].(string); ok && w.kind == "" {
		w.kind = s
	}

	switch code := m["code"].(type) {
	case string:
		if w.code == "" {
			w.code = code
		}
		if n, err := strconv.Atoi(code); err == nil && w.status == 0 {
			w.status = n
		}
	case float64:
		if w.code == "" {
			w.code = strconv.Itoa(int(code))
		}
		if w.status == 0 {
			w.status = int(code)
		}
	}

	if p, ok := m["param"].(string); ok && w.param == "" {
		w.param = p
	}
}

// firstText returns the first value that holds words: a string, or the msg of a
// validation list.
func firstText(vs ...any) string {
	for _, v := range vs {
		switch t := v.(type) {
		case string:
			if t != "" {
				return t
			}
		case []any:
			for _, item := range t {
				if m, ok := item.(map[string]any); ok {
					return strings.TrimSpace(firstText(m["msg"], m["message"]) + " " + location(m["loc"]))
				}
			}

		case map[string]any:
			if s := firstText(t["message"], t["msg"]); s != "" {
				return s
			}
		}
	}
	return ""
}

func location(v any) string {
	list, _ := v.([]any)
	parts := make([]string, 0, len(list))
	for _, p := range list {
		if s, ok := p.(string); ok {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ".")
}
