package matrix

import (
	"bytes"
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
)

const (
	callTimeout   = 30 * time.Second
	uploadTimeout = 5 * time.Minute
	maxAnswer     = 64 << 20 // bytes of one answer; the first sync of an account with many rooms is large

	clientV3 = "/_matrix/client/v3"
	clientV1 = "/_matrix/client/v1"
	mediaV3  = "/_matrix/media/v3"
)

// client speaks the client-server API. Beside the encryption a dozen calls are
// needed, and every error must keep its code and its waiting time.
type client struct {
	base  string // without a slash at the end
	http  *http.Client
	token atomic.Pointer[httpsafe.Secret]
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
	return err // also a status without a code: it is of somebody between us and the server
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

// call runs a request with a JSON body, nil for none, and fills result.
func (c *client) call(ctx context.Context, method, path string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.callFor(ctx, method, path, body, result)
}

// callFor is call without a limit of its own.
func (c *client) callFor(ctx context.Context, method, path string, body, result any) error {
	var r io.Reader
	if body != nil {
		data, err := marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(data)
	}
	res, err := c.open(ctx, method, path, r, "application/json", -1)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.clean(path, err)
	case len(data) > maxAnswer:
		return fmt.Errorf("%s: the answer is over %d bytes", name(path), maxAnswer)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(data, result); err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", name(path), err)
	}
	return nil
}

// open runs a request and returns the answer if it is a good one.
func (c *client) open(ctx context.Context, method, path string, body io.Reader, kind string, size int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, c.clean(path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	if size >= 0 {
		req.ContentLength = size
	}
	if t := c.token.Load(); t != nil {
		req.Header.Set("Authorization", "Bearer "+t.Reveal())
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.clean(path, err)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close() //nolint:errcheck // read only
	e := &apiError{}
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil || json.Unmarshal(data, e) != nil {
		e = &apiError{Text: "without an answer of a Matrix server"}
	}
	e.What, e.Status, e.Text = name(path), res.StatusCode, c.hide(e.Text)
	return nil, e
}

// name is what an error calls a request: its path without ids and query.
func name(path string) string {
	path, _, _ = strings.Cut(path, "?")
	for _, base := range []string{clientV3, clientV1, mediaV3} {
		path = strings.TrimPrefix(path, base)
	}
	path, _, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/%")
	return path
}

func (c *client) clean(path string, err error) error {
	return fmt.Errorf("%s: %w", name(path), httpsafe.WithoutURL(err))
}

func (c *client) hide(s string) string {
	if t := c.token.Load(); t != nil && !t.IsZero() {
		return strings.ReplaceAll(s, t.Reveal(), "***")
	}
	return s
}

// marshal is JSON as the platform measures it, without escaped brackets.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// room is the path of something in a room.
func roomPath(room string, pieces ...string) string {
	return path(clientV3+"/rooms", append([]string{room}, pieces...)...)
}

// upload stores a file and returns its address.
func (c *client) upload(ctx context.Context, data io.Reader, size int64, kind string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	res, err := c.open(ctx, http.MethodPost, mediaV3+"/upload", data, kind, size)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	var out struct {
		URI string `json:"content_uri"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&out); err != nil || !strings.HasPrefix(out.URI, "mxc://") {
		return "", fmt.Errorf("upload: the answer names no address (%w)", err)
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
	res, err := c.open(ctx, http.MethodGet, path(clientV1+"/media/download", server, file), nil, "", -1)
	if is(err, "M_UNRECOGNIZED") {
		res, err = c.open(ctx, http.MethodGet, path(mediaV3+"/download", server, file), nil, "", -1)
	}
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
