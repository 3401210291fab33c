package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// client talks to a provider's sign-in servers.
type client struct {
	oauth.Wire

	name, command string
}

// ask sends a request that OAuth does not define. An error means that there
// was no answer.
func (w *client) ask(ctx context.Context, r oauth.Request) (oauth.Answer, error) {
	a, err := w.Do(ctx, r)
	if err != nil {
		return a, w.explain(ctx, r.URL, err)
	}
	return a, nil
}

// decode reads an answer that should be 2xx JSON.
func (w *client) decode(ctx context.Context, a oauth.Answer, into any) error {
	if err := a.Decode(into); err != nil {
		return w.explain(ctx, a.URL, err)
	}
	return nil
}

// explain returns the provider's error for one of a sign-in server.
func (w *client) explain(ctx context.Context, address string, err error) error {
	c := wire.Classifier{Provider: w.name, BaseURL: address}
	r, answered := errors.AsType[*oauth.RefusedError](err)
	if !answered {
		return c.Transport(ctx, httpsafe.WithoutURL(err))
	}

	for _, s := range r.Hide {
		c.Secrets = append(c.Secrets, httpsafe.NewSecret(s))
	}

	e := c.Response(r.Status, r.Header, r.Body)
	switch {
	case r.OK() && r.Code == "" && json.Valid(r.Body):
		e.Kind, e.Message = llm.ServerError, r.Host()+" gave no token"
	case r.OK() && r.Code == "":
		e.Kind, e.Message = llm.ServerError, r.Host()+" answered with something else than JSON; is a proxy or login page in between?"
	case r.Said:
		e.Message = r.Text
	}

	return e
}

// failed returns the error of a sign-in that the provider or the person ended.
func (w *client) failed(why string) error {
	return &llm.Error{Kind: llm.Auth, Provider: w.name, Message: why}
}

// rejected reports whether a server turned down what it was given, rather than
// the request as such.
func rejected(err error) (*oauth.RefusedError, bool) {
	r, ok := errors.AsType[*oauth.RefusedError](err)
	return r, ok && (r.Status == http.StatusBadRequest || r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden)
}

// transient reports whether asking again may help.
func transient(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Retryable()
}

// signIn returns the error that asks the user to sign in (again).
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
	if u.Scheme == "https" || u.Scheme == "http" && oauth.Loopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%q is not an https URL, and credentials are not sent without encryption", address)
}
