package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// askTimeout bounds one exchange with a sign-in server.
const askTimeout = 20 * time.Second

// maxAnswer bounds what a sign-in server may answer.
const maxAnswer = 1 << 20

// client talks to a provider's sign-in servers.
type client struct {
	name, command string
	client        *http.Client
	agent         string
}

// question is one request.
type question struct {
	method  string // "" means POST
	url     string
	form    url.Values
	body    any // JSON, when form is nil
	header  map[string]string
	secrets []string // removed from errors
}

// answer is what came back, with any status.
type answer struct {
	status int
	header http.Header
	body   []byte
	q      question
}

// ask sends a question. An error means that there was no answer.
func (w *client) ask(ctx context.Context, q question) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var payload []byte
	kind := ""
	switch {
	case q.form != nil:
		payload, kind = []byte(q.form.Encode()), "application/x-www-form-urlencoded"
	case q.body != nil:
		var err error
		if payload, err = json.Marshal(q.body); err != nil {
			return answer{}, err
		}
		kind = "application/json"
	}
	method := q.method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, q.url, bytes.NewReader(payload))
	if err != nil {
		return answer{}, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", w.agent)
	for k, v := range q.header {
		req.Header.Set(k, v)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return answer{}, w.broken(ctx, q, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, w.broken(ctx, q, err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body, q: q}, nil
}

func (w *client) broken(ctx context.Context, q question, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &llm.Error{
			Kind: llm.Timeout, Provider: w.name, Err: ctx.Err(),
			Message: fmt.Sprintf("%s did not answer within %s", hostOf(q.url), askTimeout),
		}
	}
	return w.classifier(q).Transport(ctx, err)
}

func (w *client) classifier(q question) wire.Classifier {
	c := wire.Classifier{Provider: w.name, BaseURL: q.url}
	for _, s := range q.secrets {
		c.Secrets = append(c.Secrets, httpsafe.NewSecret(s))
	}
	return c
}

// refused is the error of an answer that is not what was asked for.
func (w *client) refused(a answer) *llm.Error {
	e := w.classifier(a.q).Response(a.status, a.header, a.body)
	var o oauthError
	if json.Unmarshal(a.body, &o) == nil && o.text() != "" {
		e.Message = httpsafe.RedactSecrets(o.text(), w.classifier(a.q).Secrets...)
	}
	return e
}

// decode reads an answer that should be 2xx JSON.
func (w *client) decode(a answer, into any) error {
	if a.status < 200 || a.status > 299 {
		return w.refused(a)
	}
	if json.Unmarshal(a.body, into) != nil {
		e := w.classifier(a.q).Response(a.status, a.header, a.body)
		e.Kind, e.Message = llm.ServerError, hostOf(a.q.url)+" answered with something else than JSON; is a proxy or login page in between?"
		return e
	}
	return nil
}

// signIn is the error that asks the user to sign in (again).
func (w *client) signIn(cause error) error {
	if e, ok := errors.AsType[*llm.Error](cause); ok && e.Kind != llm.Auth {
		return cause
	}
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return &llm.Error{
		Kind: llm.Auth, Provider: w.name, Err: cause,
		Message: cause.Error() + "; sign in with: nanobot provider login " + w.command,
	}
}

// oauthError is the body of an error of RFC 6749; error may also be an object.
type oauthError struct {
	Code        json.RawMessage `json:"error"`
	Description string          `json:"error_description"`
}

func (o oauthError) code() string {
	var s string
	if json.Unmarshal(o.Code, &s) == nil {
		return s
	}
	var obj struct{ Code, Type string }
	_ = json.Unmarshal(o.Code, &obj) // no code is an answer too
	if obj.Code != "" {
		return obj.Code
	}
	return obj.Type
}

func (o oauthError) text() string {
	if o.Description != "" {
		return o.Description
	}
	var obj struct{ Message string }
	if json.Unmarshal(o.Code, &obj) == nil && obj.Message != "" {
		return obj.Message
	}
	return o.code()
}

func readOAuthError(body []byte) oauthError {
	var o oauthError
	_ = json.Unmarshal(body, &o) // anything else has no code
	return o
}

// number reads seconds given as a JSON number or as a text.
type number int64

// UnmarshalJSON accepts 5, 5.0, "5" and null.
func (n *number) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "null" || s == "" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f > 1<<40 {
		return fmt.Errorf("%s is not a number of seconds", s)
	}
	*n = number(f)
	return nil
}

// override reads an address from the environment. Tokens travel to it, so it
// must be encrypted unless it never leaves this machine.
func override(getenv func(string) string, name, otherwise string) (string, error) {
	v := strings.TrimSpace(getenv(name))
	if v == "" {
		return otherwise, nil
	}
	if err := private(v); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimRight(v, "/"), nil
}

// private refuses addresses to which a token would travel in the clear.
func private(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%q is not a URL", address)
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%q is not an https URL, and credentials are not sent without encryption", address)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the server"
	}
	return u.Host
}
