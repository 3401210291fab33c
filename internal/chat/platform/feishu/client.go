package feishu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	callTimeout   = 15 * time.Second
	uploadTimeout = 5 * time.Minute
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
	app    kit.REST // shows the token; its results are the data of answers
	public kit.REST // shows none; its results are whole answers
	o      account
	clock  kit.Clock
}

func newClient(o account, h *http.Client, now func() time.Time) *client {
	c := &client{o: o}
	c.public = kit.REST{
		Client: h,
		Base:   o.APIBaseURL,
		Sign:   func(req *http.Request, _ string) { sign(req, "") },
		Judge:  judge,
		Heard:  func(h http.Header) { c.clock.Adjust(h, now()) },
		Within: callTimeout,
	}

	c.app = kit.REST{
		Client: h,
		Base:   o.APIBaseURL,
		Token:  kit.NewTokens(now, tokenMargin, c.fetchToken).Get,
		Sign:   sign,
		Stale:  stale,
		Judge:  judgeData,
		Holds:  isFile,
		Within: callTimeout,
	}
	return c
}

func sign(req *http.Request, token string) {
	if req.Header.Get("Content-Type") == "application/json" {
		req.Header.Set("Content-Type", "application/json; charset=utf-8") // as Feishu's own clients do
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
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

// stale reports whether Feishu calls the token invalid.
func stale(err error) bool {
	switch refusal(err) {
	case codeTokenInvalid, codeTokenExpired, codeTokenMissing:
		return true
	}
	return false
}

// judge takes an answer whose code is 0. What something between us and Feishu
// answered says nothing about the request, so it is never final.
func judge(a kit.Answer) (json.RawMessage, error) {
	var said struct {
		Code *int   `json:"code"`
		Msg  string `json:"msg"`
	}
	after := a.Pause("X-Ogw-Ratelimit-Reset", "Retry-After")
	if json.Unmarshal(a.Body, &said) != nil || said.Code == nil {
		if a.Status == http.StatusTooManyRequests {
			return nil, &apiError{Call: a.Call, Status: a.Status, Msg: "too many requests", After: after}
		}
		return nil, a.Foreign("Feishu")
	}

	if *said.Code != 0 {
		return nil, &apiError{
			Call:   a.Call,
			Status: a.Status,
			Code:   *said.Code,
			Msg:    text.Label(said.Msg, msgShown),
			Log:    text.Label(a.Header.Get("X-Tt-Logid"), 64),
			After:  after,
		}
	}

	return a.Body, nil
}

// judgeData is judge for results that are the data of the answer.
func judgeData(a kit.Answer) (json.RawMessage, error) {
	body, err := judge(a)
	if err != nil {
		return nil, err
	}

	said := struct {
		Data json.RawMessage `json:"data"`
	}{Data: json.RawMessage("null")}
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, a.Unexpected(err)
	}
	return said.Data, nil
}

// isFile tells a file from an answer with a code.
func isFile(res *http.Response) bool {
	return res.StatusCode == http.StatusOK &&
		(disposition(res) != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json"))
}

// disposition says how a file is called; nil if it is not said, or broken.
func disposition(res *http.Response) map[string]string {
	_, params, _ := mime.ParseMediaType(res.Header.Get("Content-Disposition"))
	return params
}

// fetchToken gets a token for the secret, and how long it is good.
func (c *client) fetchToken(ctx context.Context) (string, time.Duration, error) {
	const path = "/open-apis/auth/v3/tenant_access_token/internal"
	var got struct {
		Token  string `json:"tenant_access_token"`
		Expire int    `json:"expire"`
	}
	body := kit.PlainJSON(map[string]string{"app_id": c.o.AppID, "app_secret": c.o.AppSecret.Reveal()})
	a, err := c.public.Ask(ctx, kit.Call{Method: http.MethodPost, Path: path, Body: body})
	if err != nil {
		return "", 0, err
	}
	if a.Decode(&got) != nil || got.Token == "" {
		return "", 0, fmt.Errorf("POST %s: no token in the answer", path)
	}
	return got.Token, time.Duration(got.Expire) * time.Second, nil
}

// call runs a request with a JSON body and reads the data of the answer.
func (c *client) call(ctx context.Context, method, path string, body, result any) error {
	return c.app.Do(ctx, kit.Call{Method: method, Path: path, Body: kit.PlainJSON(body)}, result)
}

// whole is a request without a body whose result is the whole answer.
func (c *client) whole(ctx context.Context, path string, result any) error {
	app := c.app
	app.Judge = judge
	return app.Do(ctx, kit.Call{Method: http.MethodGet, Path: path}, result)
}

// encode is JSON as Feishu counts it: the escapes for HTML would count as text.
func encode(v any) ([]byte, error) { return kit.MarshalPlain(v) }

// upload sends a file with fields and reads the data of the answer.
func (c *client) upload(ctx context.Context, path, part string, f *kit.Attachment, fields [][2]string, result any) error {
	form := kit.NewForm()
	for _, f := range fields {
		form.Field(f[0], f[1])
	}
	form.File(part, f.Name, f, f.Size())
	return c.app.Do(ctx, kit.Call{Method: http.MethodPost, Path: path, Body: form.Body(), Within: uploadTimeout}, result)
}

// download opens a file and returns its name, "" if Feishu does not say it.
func (c *client) download(ctx context.Context, path string) (io.ReadCloser, string, error) {
	res, err := c.app.Open(ctx, kit.Call{Method: http.MethodGet, Path: path})
	if err != nil {
		return nil, "", err
	}
	return res.Body, disposition(res)["filename"], nil
}
