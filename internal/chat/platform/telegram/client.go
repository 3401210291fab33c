package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	uploadTimeout = 5 * time.Minute
	pollFor       = 50 * time.Second
	pollMost      = 60 * time.Second // then the connection is dead
	maxAnswer     = 16 << 20         // bytes of one answer; 100 updates are far below
)

// client speaks the Bot API. It is our own and not a library because a dozen
// methods are needed, while every error must keep its code, its waiting time
// and its new chat, and none may show the address, which holds the token.
type client struct {
	rest  kit.REST
	token httpsafe.Secret
}

func newClient(o *options, h *http.Client) *client {
	return &client{
		rest:  kit.REST{Client: h, Base: o.APIBase, Token: kit.Static(o.Token), Judge: judge, Most: maxAnswer},
		token: o.Token,
	}
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

// mentions reports whether the description holds one of the phrases.
func (e *apiError) mentions(phrases ...string) bool {
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

// judge reads what the Bot API said.
func judge(a kit.Answer) (json.RawMessage, error) {
	var said struct {
		OK          bool            `json:"ok"`
		Result      json.RawMessage `json:"result"`
		Code        int             `json:"error_code"`
		Description string          `json:"description"`
		Parameters  struct {
			RetryAfter int   `json:"retry_after"`
			MigrateTo  int64 `json:"migrate_to_chat_id"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(a.Body, &said); err != nil {
		return nil, a.Foreign("the Bot API")
	}
	if said.OK {
		return said.Result, nil
	}
	return nil, &apiError{
		Method:      a.Call,
		Code:        said.Code,
		Description: a.Hide(said.Description),
		RetryAfter:  said.Parameters.RetryAfter,
		MigrateTo:   said.Parameters.MigrateTo,
	}
}

// judgeFile is judge for what is not a file. It is not final: the path of a file is good
// for an hour only.
func judgeFile(a kit.Answer) (json.RawMessage, error) {
	return nil, fmt.Errorf("%s: HTTP status %d", a.Call, a.Status)
}

// request returns a call of a method. The address holds the token.
func (c *client) request(method string, body kit.Body, limit time.Duration) kit.Call {
	return kit.Call{
		Method: http.MethodPost,
		Path:   "/bot" + c.token.Reveal() + "/" + method,
		Name:   method,
		Body:   body,
		Within: limit,
	}
}

// call runs a method with JSON parameters.
func (c *client) call(ctx context.Context, method string, params, result any) error {
	return c.callWithin(ctx, 0, method, params, result)
}

// callWithin is call with a limit of its own; 0 is the usual one.
func (c *client) callWithin(ctx context.Context, limit time.Duration, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	return c.rest.Do(ctx, c.request(method, kit.JSON(params), limit), result)
}

// upload runs a method with one file. The parameters are plain words; values
// that are objects come as JSON.
func (c *client) upload(ctx context.Context, method string, params map[string]string, field string, f *kit.Attachment, result any) error {
	form := kit.NewForm()
	for name, value := range params {
		form.Field(name, value)
	}
	form.File(field, f.Name, f, f.Size())
	return c.rest.Do(ctx, c.request(method, form.Body(), uploadTimeout), result)
}

// download opens a file that getFile named.
func (c *client) download(ctx context.Context, path string) (io.ReadCloser, error) {
	path = "/file/bot" + c.token.Reveal() + "/" + strings.TrimPrefix(path, "/")
	files := c.rest
	files.Judge = judgeFile
	res, err := files.Open(ctx, kit.Call{Method: http.MethodGet, Path: path, Name: "download"})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
