package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	callTimeout   = 30 * time.Second
	uploadTimeout = 5 * time.Minute
	pollFor       = 50 * time.Second
	pollMost      = 60 * time.Second // then the connection is dead
	maxAnswer     = 16 << 20         // bytes of one answer; 100 updates are far below
)

// client speaks the Bot API. It is our own and not a library because a dozen
// methods are needed, while every error must keep its code, its waiting time
// and its new chat, and none may show the address, which holds the token.
type client struct {
	base  string // without a slash at the end
	token httpsafe.Secret
	http  *http.Client
}

// apiError is a refusal by the Bot API.
type apiError struct {
	Method      string
	Code        int
	Description string
	RetryAfter  int
	MigrateTo   int64
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: %d %s", e.Method, e.Code, e.Description)
}

// says reports whether the description holds one of the phrases.
func (e *apiError) says(phrases ...string) bool {
	d := strings.ToLower(e.Description)
	for _, p := range phrases {
		if strings.Contains(d, strings.ToLower(p)) {
			return true
		}
	}
	return false
}

// refusal returns the apiError in err, nil if it is another error.
func refusal(err error) *apiError {
	e, _ := errors.AsType[*apiError](err)
	return e
}

// classify puts an error of a sending call into the words of the manager.
func classify(err error) error {
	e := refusal(err)
	if e == nil {
		return err
	}
	switch e.Code {
	case http.StatusTooManyRequests:
		return chat.RateLimited(time.Duration(max(e.RetryAfter, 1))*time.Second, err)
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return chat.Permanent(err)
	case http.StatusUnauthorized, http.StatusNotFound: // the token; Run says so
		return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	}
	return err
}

// call runs a method with JSON parameters.
func (c *client) call(ctx context.Context, method string, params, result any) error {
	return c.callWithin(ctx, callTimeout, method, params, result)
}

func (c *client) callWithin(ctx context.Context, limit time.Duration, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	body, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.do(ctx, method, request{body: bytes.NewReader(body), size: int64(len(body)), kind: "application/json"}, result)
}

// upload runs a method with one file. The parameters are plain words; values
// that are objects come as JSON.
func (c *client) upload(ctx context.Context, method string, params map[string]string, f upload) error {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	for k, v := range params {
		if err := w.WriteField(k, v); err != nil {
			return err
		}
	}
	if _, err := w.CreateFormFile(f.field, f.name); err != nil {
		return err
	}
	tail := "\r\n--" + w.Boundary() + "--\r\n"
	return c.do(ctx, method, request{
		body: io.MultiReader(&head, f.data, strings.NewReader(tail)),
		size: int64(head.Len()) + f.size + int64(len(tail)), kind: w.FormDataContentType(),
	}, f.result)
}

// upload is a file that goes along with a call.
type upload struct {
	field, name string
	data        io.Reader
	size        int64
	result      any
}

type request struct {
	body io.Reader
	size int64
	kind string
}

func (c *client) do(ctx context.Context, method string, r request, result any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/bot"+c.token.Reveal()+"/"+method, r.body)
	if err != nil {
		return c.clean(method, err)
	}
	req.ContentLength = r.size
	req.Header.Set("Content-Type", r.kind)
	res, err := c.http.Do(req)
	if err != nil {
		return c.clean(method, err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return c.clean(method, err)
	}
	return c.answer(method, res.StatusCode, data, result)
}

func (c *client) answer(method string, status int, data []byte, result any) error {
	var a struct {
		OK          bool            `json:"ok"`
		Result      json.RawMessage `json:"result"`
		Code        int             `json:"error_code"`
		Description string          `json:"description"`
		Parameters  struct {
			RetryAfter int   `json:"retry_after"`
			MigrateTo  int64 `json:"migrate_to_chat_id"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		// Somebody between us and Telegram answered. A status of theirs says
		// nothing about the message, so none of it is final.
		return fmt.Errorf("%s: HTTP status %d without an answer of the Bot API", method, status)
	}
	if !a.OK {
		return &apiError{
			Method: method, Code: a.Code, Description: c.hide(a.Description),
			RetryAfter: a.Parameters.RetryAfter, MigrateTo: a.Parameters.MigrateTo,
		}
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", method, err)
	}
	return nil
}

// clean takes the address with the token out of an error.
func (c *client) clean(method string, err error) error {
	err = httpsafe.WithoutURL(err)
	if c.token.IsZero() || !strings.Contains(err.Error(), c.token.Reveal()) {
		return fmt.Errorf("%s: %w", method, err)
	}
	return fmt.Errorf("%s: %s", method, c.hide(err.Error()))
}

func (c *client) hide(s string) string {
	if c.token.IsZero() {
		return s
	}
	return strings.ReplaceAll(s, c.token.Reveal(), "***")
}

// download opens a file that getFile named.
func (c *client) download(ctx context.Context, path string) (io.ReadCloser, error) {
	const what = "download"
	path = strings.TrimPrefix(path, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/file/bot"+c.token.Reveal()+"/"+path, nil)
	if err != nil {
		return nil, c.clean(what, err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.clean(what, err)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s: HTTP status %d", what, res.StatusCode)
	}
	return res.Body, nil
}
