package feishu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	callTimeout   = 15 * time.Second
	uploadTimeout = 5 * time.Minute
	maxAnswer     = 8 << 20 // bytes of JSON
	tokenMargin   = 3 * time.Minute
	msgShown      = 300 // characters of what Feishu says about a refusal
)

// The codes of Feishu that mean something to us.
const (
	codeBusy          = 1
	codeInternal      = 1000040343
	codeManyConns     = 1000040350
	codeBadParam      = 10003
	codeBadSecret     = 10014
	codeTokenInvalid  = 99991663
	codeTokenExpired  = 99991664
	codeTokenMissing  = 99991671
	codeAppRate       = 99991400
	codeScope         = 99991672
	codeChatRate      = 230020
	codeSending       = 230049
	codeServer        = 2200
	codeFormat        = 230001
	codeCard          = 230099
	codeTooLong       = 230025
	codeRecalled      = 230011
	codeInvisible     = 230017
	codeNoTarget      = 230040
	codeNoMessage     = 230110
	codeCardClosed    = 300309
	codeCardOrder     = 300317
	codeCardTimeout   = 200850
	codeBadEmoji      = 231001
	codeNoReaction    = 231011
	codeReactedTwice  = 231010
	codeNoMessageMark = 231003
)

// client speaks Feishu's open API as one app.
type client struct {
	base   string // without a slash at the end
	id     string
	secret httpsafe.Secret
	http   *http.Client
	now    func() time.Time

	mu    sync.Mutex // held while a token is fetched
	token string
	until time.Time
	clock kit.Clock
}

// apiError is a refusal by Feishu.
type apiError struct {
	Call   string
	Status int
	Code   int
	Msg    string
	Log    string // by which Feishu's support finds the request
	After  time.Duration
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: %d %s (log id %s)", e.Call, e.Code, e.Msg, e.Log)
}

// refusal returns the code of the apiError in err, 0 if it is another error.
func refusal(err error) int {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.Code
	}
	return 0
}

// refused reports whether Feishu will say the same to the same request again.
func refused(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	if !ok || e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests {
		return false
	}
	switch e.Code {
	case codeChatRate, codeAppRate, codeSending, codeServer, codeBusy, codeInternal, codeTokenInvalid, codeTokenExpired, codeTokenMissing, codeBadParam, codeBadSecret:
		return false
	}
	return true
}

// classify puts an error of a sending call into the words of the manager.
func classify(err error) error {
	e, ok := errors.AsType[*apiError](err)
	switch {
	case !ok:
		return err
	case e.Code == codeChatRate || e.Code == codeAppRate || e.Status == http.StatusTooManyRequests:
		return chat.RateLimited(max(e.After, time.Second), err)
	case e.Code == codeTokenInvalid || e.Code == codeTokenExpired || e.Code == codeTokenMissing || e.Code == codeBadParam || e.Code == codeBadSecret:
		return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	case refused(err):
		return chat.Permanent(err)
	}
	return err
}

// call runs a request with a JSON body and reads the data of the answer.
func (c *client) call(ctx context.Context, method, path string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var data []byte
	if body != nil {
		var err error
		if data, err = encode(body); err != nil {
			return err
		}
	}
	answer, err := c.authorized(ctx, method, path, "application/json; charset=utf-8", func() (io.Reader, int64) { return bytes.NewReader(data), int64(len(data)) })
	if err != nil {
		return err
	}
	return decodeData(method+" "+shown(path), answer, result)
}

// decodeData reads the data of an answer.
func decodeData(call string, answer []byte, result any) error {
	if result == nil {
		return nil
	}
	var e struct {
		Data json.RawMessage `json:"data"`
	}
	err := json.Unmarshal(answer, &e)
	if err == nil && len(e.Data) > 0 {
		err = json.Unmarshal(e.Data, result)
	}
	if err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", call, err)
	}
	return nil
}

// encode is JSON without the escapes for HTML, which would count as text.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// authorized runs a request with the app's token, a second time if the token has
// become invalid. The whole answer is returned.
func (c *client) authorized(ctx context.Context, method, path, kind string, body func() (io.Reader, int64)) ([]byte, error) {
	for try := 1; ; try++ {
		res, token, err := c.open(ctx, method, path, kind, body)
		if err != nil {
			return nil, err
		}
		data, err := c.read(method+" "+shown(path), res)
		if !c.drop(token, err) || try == 2 {
			return data, err
		}
	}
}

// open begins a request with the app's token.
func (c *client) open(ctx context.Context, method, path, kind string, body func() (io.Reader, int64)) (*http.Response, string, error) {
	token, err := c.bearer(ctx)
	if err != nil {
		return nil, "", err
	}
	r, size := body()
	res, err := c.do(ctx, method, path, kind, token, r, size)
	return res, token, err
}

// drop forgets a token that Feishu calls invalid, and reports whether it did.
func (c *client) drop(token string, err error) bool {
	switch refusal(err) {
	case codeTokenInvalid, codeTokenExpired, codeTokenMissing:
	default:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token = ""
	}
	return true
}

// bearer is the app's token.
func (c *client) bearer(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && c.now().Before(c.until) {
		return c.token, nil
	}
	const path = "/open-apis/auth/v3/tenant_access_token/internal"
	data, err := encode(map[string]string{"app_id": c.id, "app_secret": c.secret.Reveal()})
	if err != nil {
		return "", err
	}
	res, err := c.do(ctx, http.MethodPost, path, "application/json; charset=utf-8", "", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	c.clock.Learn(res.Header, c.now())
	if data, err = c.read("POST "+path, res); err != nil {
		return "", err
	}
	var got struct {
		Token  string `json:"tenant_access_token"`
		Expire int    `json:"expire"`
	}
	if err := json.Unmarshal(data, &got); err != nil || got.Token == "" {
		return "", fmt.Errorf("POST %s: no token in the answer", path)
	}
	c.token, c.until = got.Token, c.now().Add(time.Duration(got.Expire)*time.Second-tokenMargin)
	return c.token, nil
}

func (c *client) do(ctx context.Context, method, path, kind, token string, body io.Reader, size int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, shown(path), httpsafe.WithoutURL(err))
	}
	if req.ContentLength = size; size > 0 {
		req.Header.Set("Content-Type", kind)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if path == endpointPath {
		req.Header.Set("Locale", "zh")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, shown(path), httpsafe.WithoutURL(err))
	}
	return res, nil
}

// read takes an answer whose code is 0. What something between us and Feishu
// answered says nothing about the request, so it is never final.
func (c *client) read(call string, res *http.Response) ([]byte, error) {
	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	var e struct {
		Code *int   `json:"code"`
		Msg  string `json:"msg"`
	}
	if json.Unmarshal(data, &e) != nil || e.Code == nil {
		if res.StatusCode == http.StatusTooManyRequests {
			return nil, &apiError{Call: call, Status: res.StatusCode, Msg: "too many requests", After: pause(res.Header)}
		}
		return nil, fmt.Errorf("%s: HTTP status %d without an answer of Feishu", call, res.StatusCode)
	}
	if *e.Code != 0 {
		return nil, &apiError{
			Call: call, Status: res.StatusCode, Code: *e.Code, Msg: text.Label(e.Msg, msgShown), Log: text.Label(res.Header.Get("X-Tt-Logid"), 64), After: pause(res.Header),
		}
	}
	return data, nil
}

// pause is how long Feishu asks to wait.
func pause(h http.Header) time.Duration {
	for _, name := range []string{"X-Ogw-Ratelimit-Reset", "Retry-After"} {
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

// upload sends a file with fields and reads the data of the answer.
func (c *client) upload(ctx context.Context, path, part string, f *kit.Attachment, fields [][2]string, result any) error {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	for _, f := range fields {
		if err := w.WriteField(f[0], f[1]); err != nil {
			return err
		}
	}
	if _, err := w.CreateFormFile(part, f.Name); err != nil {
		return err
	}
	tail := "\r\n--" + w.Boundary() + "--\r\n"
	answer, err := c.authorized(ctx, http.MethodPost, path, w.FormDataContentType(), func() (io.Reader, int64) {
		size := int64(head.Len()) + f.Size() + int64(len(tail))
		return io.MultiReader(bytes.NewReader(head.Bytes()), io.NewSectionReader(f, 0, f.Size()), strings.NewReader(tail)), size
	})
	if err != nil {
		return err
	}
	return decodeData(http.MethodPost+" "+path, answer, result)
}

// download opens a file and returns its name, "" if Feishu does not say it.
func (c *client) download(ctx context.Context, path string) (io.ReadCloser, string, error) {
	for try := 1; ; try++ {
		res, token, err := c.open(ctx, http.MethodGet, path, "", func() (io.Reader, int64) { return nil, 0 })
		if err != nil {
			return nil, "", err
		}
		_, params, _ := mime.ParseMediaType(res.Header.Get("Content-Disposition")) // without a name if it is broken
		if res.StatusCode == http.StatusOK && (params != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json")) {
			return res.Body, params["filename"], nil
		}
		if _, err = c.read(http.MethodGet+" "+shown(path), res); err == nil {
			err = fmt.Errorf("GET %s: no file in the answer", shown(path))
		}
		if !c.drop(token, err) || try == 2 {
			return nil, "", err
		}
	}
}
