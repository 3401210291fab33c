package qq

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	callTimeout   = 30 * time.Second
	uploadTimeout = 5 * time.Minute
	maxAnswer     = 8 << 20          // bytes of one answer
	tokenMargin   = 50 * time.Second // QQ gives another token in the last minute of the old one
	limitPause    = 5 * time.Second  // after too many messages
)

// The codes of errors that are told apart.
const (
	codeBadApp     = 100007   // of the token: no such bot
	codeBadSecret  = 100016   // of the token
	codeTokenGone  = 11244    // the token is over
	codeTokenWrong = 11243    // the token is not known
	codeAddress    = 11298    // our address is not in the bot's list
	codeBusy       = 20028    // too many messages in a channel
	codeTooMany    = 22009    // too many messages
	codeURL        = 304003   // an address that the bot did not register
	codeAudit      = 304023   // it is shown after QQ looked at it
	codeURLModern  = 40054010 // as codeURL
	codeDuplicate  = 40054005 // a reply with the number of another one
	codeTooLong    = 40054007 // a text
	codeTooLongToo = 40054018
)

// closed are the codes of a message that takes no reply any more.
func closed(code int) bool {
	return code == 304027 || code == 304103 || code == 40034005 || code == 40034128 || code >= 40034024 && code <= 40034027
}

// client speaks the REST API.
type client struct {
	api, auth, app string
	secret         httpsafe.Secret
	http           *http.Client
	now            func() time.Time

	mu    sync.Mutex // held while a token is fetched: one request is enough for all
	token string
	until time.Time
	clock kit.Clock
}

// call is one request.
type call struct {
	method, path string
	body         any
	patience     time.Duration // 0: as usual
}

func newClient(o *options, h *http.Client, now func() time.Time) *client {
	return &client{api: o.APIBaseURL, auth: o.TokenBaseURL, app: o.AppID, secret: o.Secret, http: h, now: now}
}

// apiError is a refusal.
type apiError struct {
	Call    string
	Status  int
	Code    int
	Message string
	After   time.Duration
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: %s (code %d, status %d)", e.Call, e.Message, e.Code, e.Status)
}

// code is that of a refusal, 0 if err is another error.
func code(err error) int {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.Code
	}
	return 0
}

// business reports whether QQ itself refused what was sent, so that the same
// would be refused again. It uses status 500 for that, too.
func business(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && !e.limited() && !e.unauthorized() && (e.Status/100 == 4 || e.Code >= 300000)
}

func (e *apiError) limited() bool {
	return e.Status == http.StatusTooManyRequests || e.Code == codeTooMany || e.Code == codeBusy
}

func (e *apiError) unauthorized() bool {
	return e.Status == http.StatusUnauthorized || e.Code == codeTokenGone || e.Code == codeTokenWrong
}

// classify puts an error of a sending call into the words of the manager.
func classify(err error) error {
	e, ok := errors.AsType[*apiError](err)
	switch {
	case ok && e.limited():
		return chat.RateLimited(cmp.Or(e.After, limitPause), err)
	case business(err):
		return chat.Permanent(err)
	}
	return err
}

// bearer is a token that is still good.
func (c *client) bearer(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && c.now().Before(c.until) {
		return c.token, nil
	}
	var a struct {
		Token   string `json:"access_token"`
		Expires number `json:"expires_in"`
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body := map[string]string{"appId": c.app, "clientSecret": c.secret.Reveal()}
	if err := c.once(ctx, call{method: http.MethodPost, path: "/app/getAppAccessToken", body: body}, c.auth, "", &a); err != nil {
		return "", err
	}
	if a.Token == "" { // with status 200
		return "", &apiError{Call: "POST /app/getAppAccessToken", Status: http.StatusOK, Code: a.Code, Message: a.Message}
	}
	c.token, c.until = a.Token, c.now().Add(max(time.Duration(a.Expires)*time.Second-tokenMargin, time.Second))
	return c.token, nil
}

// drop forgets a token that QQ refused.
func (c *client) drop(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token || token == "" {
		c.token = ""
	}
}

// do runs a call and reads its answer into result, if that is not nil. A token
// that is over is replaced once.
func (c *client) do(ctx context.Context, k call, result any) error {
	limit := k.patience
	if limit == 0 {
		limit = callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for try := 0; ; try++ {
		token, err := c.bearer(ctx)
		if err != nil {
			return err
		}
		err = c.once(ctx, k, c.api, token, result)
		e, ok := errors.AsType[*apiError](err)
		if !ok || !e.unauthorized() || try > 0 {
			return err
		}
		c.drop(token)
	}
}

func (c *client) once(ctx context.Context, k call, base, token string, result any) error {
	name := k.method + " " + form(k.path)
	body, contentType, err := encode(k.body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, k.method, base+k.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", contentType)
	}
	if token != "" {
		req.Header.Set("Authorization", "QQBot "+token)
		req.Header.Set("X-Union-Appid", c.app)
	}

	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}
	defer res.Body.Close() //nolint:errcheck // read only
	c.clock.Learn(res.Header, c.now())
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}
	if res.StatusCode/100 != 2 || res.StatusCode == http.StatusAccepted {
		return refuse(name, res, data)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(data, result); err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", name, err)
	}
	return nil
}

// form is a path without ids, which do not belong into a log.
func form(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		if i > 0 && strings.HasSuffix(parts[i-1], "s") && parts[i] != "@me" {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}

// refuse makes an error of an answer. Without a code, a proxy between us and QQ
// answered: that says nothing about the message, so it is not final.
func refuse(name string, res *http.Response, data []byte) error {
	var a struct {
		Code    int    `json:"code"`
		ErrCode int    `json:"err_code"`
		Message string `json:"message"`
	}
	err := json.Unmarshal(data, &a)
	if a.Code == codeAudit || err == nil && a.Code == 0 && res.StatusCode == http.StatusAccepted {
		return nil // it arrived, and QQ looks at it
	}
	if err != nil || a.Code == 0 && a.ErrCode == 0 && res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("%s: HTTP status %d without an answer of the API", name, res.StatusCode)
	}
	if a.ErrCode != 0 {
		a.Code = a.ErrCode // it says more
	}
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	return &apiError{
		Call: name, Status: res.StatusCode, Code: a.Code, Message: a.Message,
		After: time.Duration(min(max(seconds, 0), 3600)) * time.Second,
	}
}

// encode makes the body of a request: JSON, or a form with a picture.
func encode(v any) (data []byte, contentType string, err error) {
	if v == nil {
		return nil, "", nil
	}
	m, ok := v.(outgoing)
	if !ok || m.picture == nil {
		data, err = json.Marshal(v)
		return data, "application/json", err
	}

	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range [][2]string{{"content", m.Content}, {"msg_id", m.MsgID}} {
		if err == nil && f[1] != "" {
			err = w.WriteField(f[0], f[1])
		}
	}
	part, partErr := w.CreateFormFile("file_image", "image")
	if err = errors.Join(err, partErr); err == nil {
		_, err = part.Write(m.picture)
	}
	err = errors.Join(err, w.Close())
	return b.Bytes(), w.FormDataContentType(), err
}

// gatewayInfo says where to connect to.
type gatewayInfo struct {
	URL   string `json:"url"`
	Limit struct {
		Remaining int   `json:"remaining"`
		After     int64 `json:"reset_after"` // milliseconds
	} `json:"session_start_limit"`
}

func (c *client) gateway(ctx context.Context) (g gatewayInfo, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/gateway/bot"}, &g)
	return g, err
}

// explained says what to do about a refusal that a person can end.
func (b *bot) explained(err error) error {
	switch code(err) {
	case codeBadApp, codeBadSecret:
		return chat.Fatal(fmt.Errorf("QQ refuses channels.%s.appId and secret (%w); copy both again from the development settings of the bot on https://q.qq.com", b.deps.Name, err))
	case codeAddress:
		return fmt.Errorf("QQ does not let this machine in (%w): add its public address to the IP whitelist in the development settings of the bot on https://q.qq.com", err)
	}
	return err
}
