package mattermost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	callTimeout   = 30 * time.Second
	uploadTimeout = 5 * time.Minute
	maxAnswer     = 32 << 20 // bytes of one answer; 200 long posts are far below
)

// client speaks API v4.
type client struct {
	base  string // without a slash at the end
	token httpsafe.Secret
	http  *http.Client
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

// call runs a request with a JSON body and reads a JSON answer.
func (c *client) call(ctx context.Context, method, path string, body, result any) error {
	_, err := c.ask(ctx, method, path, body, result)
	return err
}

func (c *client) ask(ctx context.Context, method, path string, body, result any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	res, err := c.do(ctx, method, path, "application/json", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	return res.Header, c.answer(method, path, res, result)
}

// upload sends one file to a channel and returns its id.
func (c *client) upload(ctx context.Context, chatID string, f *kit.Attachment) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	if err := w.WriteField("channel_id", chatID); err != nil {
		return "", err
	}
	if _, err := w.CreateFormFile("files", f.Name); err != nil {
		return "", err
	}
	tail := "\r\n--" + w.Boundary() + "--\r\n"
	size := int64(head.Len()) + f.Size() + int64(len(tail))
	const path = "/files"
	res, err := c.do(ctx, http.MethodPost, path, w.FormDataContentType(), io.MultiReader(&head, f, strings.NewReader(tail)), size)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	var got struct {
		Infos []file `json:"file_infos"`
	}
	if err := c.answer(http.MethodPost, path, res, &got); err != nil {
		return "", err
	}
	if len(got.Infos) == 0 {
		return "", errors.New("POST /files: no file in the answer")
	}
	return got.Infos[0].ID, nil
}

// download opens a file.
func (c *client) download(ctx context.Context, id string) (io.ReadCloser, error) {
	path := "/files/" + id
	res, err := c.do(ctx, http.MethodGet, path, "", nil, 0)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close() //nolint:errcheck // read only
		return nil, c.answer(http.MethodGet, path, res, nil)
	}
	return res.Body, nil
}

func (c *client) do(ctx context.Context, method, path, kind string, body io.Reader, size int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, shown(path), httpsafe.WithoutURL(err))
	}
	if size > 0 {
		req.ContentLength = size
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	req.Header.Set("X-Requested-With", "XMLHttpRequest") // as the server asks of clients with a session
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, shown(path), httpsafe.WithoutURL(err))
	}
	return res, nil
}

// answer reads what the server said.
func (c *client) answer(method, path string, res *http.Response, result any) error {
	call := method + " " + shown(path)
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	if res.StatusCode/100 != 2 {
		var e struct {
			ID      string `json:"id"`
			Message string `json:"message"`
		}
		if json.Unmarshal(data, &e) != nil || e.ID == "" && e.Message == "" {
			if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusUnauthorized {
				// Something between us and the server answered. Its status says
				// nothing about the message, so none of it is final.
				return fmt.Errorf("%s: HTTP status %d without an answer of Mattermost", call, res.StatusCode)
			}
		}
		return &apiError{Call: call, Code: res.StatusCode, ID: e.ID, Message: e.Message, After: pause(res.Header)}
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(data, result); err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", call, err)
	}
	return nil
}

// pause is how long the server asks to wait.
func pause(h http.Header) time.Duration {
	for _, name := range []string{"Retry-After", "X-Ratelimit-Reset"} {
		if n, err := strconv.Atoi(h.Get(name)); err == nil && n > 0 {
			return time.Duration(min(n, 3600)) * time.Second
		}
	}
	return 0
}

// shown is a path without its query.
func shown(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}
