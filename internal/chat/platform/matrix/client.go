package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	uploadTimeout = 5 * time.Minute
	maxAnswer     = 64 << 20 // bytes of one answer; the first sync of an account with many rooms is large

	clientV3 = "/_matrix/client/v3"
	clientV1 = "/_matrix/client/v1"
	mediaV3  = "/_matrix/media/v3"
)

// client speaks the client-server API. Beside the encryption a dozen calls are
// needed, and every error must keep its code and its waiting time.
type client struct {
	rest  kit.REST
	token atomic.Pointer[httpsafe.Secret]
}

func newClient(o *options, h *http.Client) *client {
	c := &client{}
	c.rest = kit.REST{Client: h, Base: o.Homeserver, Token: c.bearer, Sign: sign, Judge: judge, Most: maxAnswer}
	return c
}

// bearer returns the token of the login, "" before it.
func (c *client) bearer(context.Context, string) (string, error) {
	if t := c.token.Load(); t != nil {
		return t.Reveal(), nil
	}
	return "", nil
}

func sign(req *http.Request, token string) {
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
}

// apiError is a refusal by the homeserver.
type apiError struct {
	What       string
	Status     int
	Code       string `json:"errcode"`
	Text       string `json:"error"`
	RetryAfter int64  `json:"retry_after_ms"`
	SoftLogout bool   `json:"soft_logout"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: HTTP status %d %s %s", e.What, e.Status, e.Code, e.Text)
}

// refusal returns the apiError in err, nil if it is another error.
func refusal(err error) *apiError {
	e, _ := errors.AsType[*apiError](err)
	return e
}

// is reports whether an error is a refusal with this code.
func is(err error, code string) bool {
	e := refusal(err)
	return e != nil && e.Code == code
}

// loggedOut reports whether the homeserver does not know our token any more.
func loggedOut(err error) bool {
	return is(err, "M_UNKNOWN_TOKEN") || is(err, "M_MISSING_TOKEN") || is(err, "M_UNAUTHORIZED")
}

// classify puts an error of a sending call into the words of the manager.
func classify(err error) error {
	e := refusal(err)
	switch {
	case e == nil:
		return err
	case e.Status == http.StatusTooManyRequests || e.Code == "M_LIMIT_EXCEEDED":
		return chat.RateLimited(max(time.Duration(e.RetryAfter)*time.Millisecond, time.Second), err)
	case loggedOut(err):
		return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	case e.Code != "" && e.Status/100 == 4:
		return chat.Permanent(err)
	}

	return err // also a status without a code: it is of a proxy between us and the server
}

// path joins the pieces of a path, which may hold any characters.
func path(base string, pieces ...string) string {
	var b strings.Builder
	b.WriteString(base)
	for _, p := range pieces {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// judge reads what the homeserver said.
func judge(a kit.Answer) (json.RawMessage, error) {
	if a.OK() {
		return a.Body, nil
	}

	e := &apiError{}
	if json.Unmarshal(a.Body, e) != nil {
		e = &apiError{Text: "without an answer of a Matrix server"}
	}

	e.What = a.Call
	e.Status = a.Status
	e.Text = a.Hide(e.Text)
	return nil, e
}

// call runs a request with a JSON body, nil for none, and fills result.
func (c *client) call(ctx context.Context, method, path string, body, result any) error {
	return c.callWithin(ctx, 0, method, path, body, result)
}

// callWithin is call with a limit of its own; 0 is the usual one.
func (c *client) callWithin(ctx context.Context, limit time.Duration, method, path string, body, result any) error {
	return c.rest.Do(ctx, kit.Call{
		Method: method,
		Path:   path,
		Name:   name(path),
		Body:   kit.PlainJSON(body),
		Within: limit,
	}, result)
}

// name returns what an error calls a request: its path without ids and query.
func name(path string) string {
	path, _, _ = strings.Cut(path, "?")
	for _, base := range []string{clientV3, clientV1, mediaV3} {
		path = strings.TrimPrefix(path, base)
	}
	path, _, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/%")
	return path
}

// room is the path of something in a room.
func roomPath(room string, pieces ...string) string {
	return path(clientV3+"/rooms", append([]string{room}, pieces...)...)
}

// upload stores a file and returns its address.
func (c *client) upload(ctx context.Context, data io.Reader, size int64, kind string) (string, error) {
	const path = mediaV3 + "/upload"
	var out struct {
		URI string `json:"content_uri"`
	}
	err := c.rest.Do(ctx, kit.Call{
		Method: http.MethodPost,
		Path:   path,
		Name:   name(path),
		Body:   kit.Stream(kind, data, size),
		Within: uploadTimeout,
	}, &out)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(out.URI, "mxc://") {
		return "", errors.New("upload: the answer names no address")
	}
	return out.URI, nil
}

// download opens a file. Servers before version 1.11 of the specification have
// it at another place.
func (c *client) download(ctx context.Context, address string) (io.ReadCloser, error) {
	server, file, ok := strings.Cut(strings.TrimPrefix(address, "mxc://"), "/")
	if !strings.HasPrefix(address, "mxc://") || !ok || server == "" || file == "" || strings.Contains(file, "/") {
		return nil, chat.Permanent(errors.New("the address of the file is not one of Matrix"))
	}

	res, err := c.open(ctx, path(clientV1+"/media/download", server, file))
	if is(err, "M_UNRECOGNIZED") {
		res, err = c.open(ctx, path(mediaV3+"/download", server, file))
	}

	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

func (c *client) open(ctx context.Context, path string) (*http.Response, error) {
	return c.rest.Open(ctx, kit.Call{Method: http.MethodGet, Path: path, Name: name(path)})
}
