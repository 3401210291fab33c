package mattermost

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
	maxAnswer     = 32 << 20 // bytes of one answer; 200 long posts are far below
)

// client speaks API v4.
type client struct{ rest kit.REST }

func newClient(server string, token httpsafe.Secret, h *http.Client) *client {
	return &client{kit.REST{
		Client: h,
		Base:   server + "/api/v4",
		Token:  kit.Static(token),
		Sign:   sign,
		Judge:  judge,
		Most:   maxAnswer,
	}}
}

func sign(req *http.Request, token string) {
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-Requested-With", "XMLHttpRequest") // as the server asks of clients with a session
}

// apiError is a refusal by the server.
type apiError struct {
	Call    string
	Code    int
	ID      string
	Message string
	After   time.Duration // to wait for, if the server says so
}

func (e *apiError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %d %s %s", e.Call, e.Code, e.Message, e.ID))
}

// refusal returns the apiError in err, nil if it is another error.
func refusal(err error) *apiError {
	e, _ := errors.AsType[*apiError](err)
	return e
}

// refused reports whether the server will say the same to the same request
// again.
func (e *apiError) refused() bool {
	return e != nil && e.Code/100 == 4 && e.Code != http.StatusTooManyRequests && e.Code != http.StatusUnauthorized && e.Code != http.StatusRequestTimeout
}

// classify puts an error of a sending call into the words of the manager.
func classify(err error) error {
	e := refusal(err)
	switch {
	case e == nil:
		return err
	case e.Code == http.StatusTooManyRequests:
		return chat.RateLimited(max(e.After, time.Second), err)
	case e.Code == http.StatusUnauthorized: // the token; Run says so
		return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	case e.refused() || e.Code == http.StatusNotImplemented:
		return chat.Permanent(err)
	}

	return err
}

// judge reads what the server said.
func judge(a kit.Answer) (json.RawMessage, error) {
	if a.OK() {
		return a.Body, nil
	}

	var e struct {
		ID      string `json:"id"`
		Message string `json:"message"`
	}
	said := json.Unmarshal(a.Body, &e) == nil && (e.ID != "" || e.Message != "")
	if !said && a.Status != http.StatusTooManyRequests && a.Status != http.StatusUnauthorized {
		return nil, a.Foreign("Mattermost")
	}
	return nil, &apiError{
		Call:    a.Call,
		Code:    a.Status,
		ID:      e.ID,
		Message: e.Message,
		After:   a.Pause("Retry-After", "X-Ratelimit-Reset"),
	}
}

// call runs a request with a JSON body and reads a JSON answer.
func (c *client) call(ctx context.Context, method, path string, body, result any) error {
	return c.rest.Do(ctx, kit.Call{Method: method, Path: path, Body: kit.JSON(body)}, result)
}

// upload sends one file to a channel and returns its id.
func (c *client) upload(ctx context.Context, chatID string, f *kit.Attachment) (string, error) {
	form := kit.NewForm()
	form.Field("channel_id", chatID)
	form.File("files", f.Name, f, f.Size())
	var got struct {
		Infos []file `json:"file_infos"`
	}
	if err := c.rest.Do(ctx, kit.Call{Method: http.MethodPost, Path: "/files", Body: form.Body(), Within: uploadTimeout}, &got); err != nil {
		return "", err
	}
	if len(got.Infos) == 0 {
		return "", errors.New("POST /files: no file in the answer")
	}
	return got.Infos[0].ID, nil
}

// download opens a file.
func (c *client) download(ctx context.Context, id string) (io.ReadCloser, error) {
	res, err := c.rest.Open(ctx, kit.Call{Method: http.MethodGet, Path: "/files/" + id})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
