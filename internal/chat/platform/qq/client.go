package qq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	uploadTimeout = 5 * time.Minute
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
	rest   kit.REST
	tokens *kit.Tokens
	clock  kit.Clock
}

func newClient(o *options, h *http.Client, now func() time.Time) *client {
	c := &client{}
	c.rest = kit.REST{
		Client: h,
		Base:   o.APIBaseURL,
		Stale:  unauthorized,
		Judge:  judge,
		Heard:  func(h http.Header) { c.clock.Adjust(h, now()) },
	}

	auth := c.rest
	auth.Base = o.TokenBaseURL
	c.tokens = kit.NewTokens(now, tokenMargin, func(ctx context.Context) (string, time.Duration, error) {
		return fetchToken(ctx, &auth, o)
	})
	c.rest.Token = c.tokens.Get
	c.rest.Sign = func(req *http.Request, token string) {
		req.Header.Set("Authorization", "QQBot "+token)
		req.Header.Set("X-Union-Appid", o.AppID)
	}
	return c
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

// code returns that of a refusal, 0 if err is another error.
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
	return ok && !e.limited() && !unauthorized(err) && (e.Status/100 == 4 || e.Code >= 300000)
}

func (e *apiError) limited() bool {
	return e.Status == http.StatusTooManyRequests || e.Code == codeTooMany || e.Code == codeBusy
}

// unauthorized reports whether the token is over.
func unauthorized(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && (e.Status == http.StatusUnauthorized || e.Code == codeTokenGone || e.Code == codeTokenWrong)
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

// fetchToken gets a token for the secret, and how long it is good.
func fetchToken(ctx context.Context, auth *kit.REST, o *options) (string, time.Duration, error) {
	var a struct {
		Token   string `json:"access_token"`
		Expires number `json:"expires_in"`
		Code    int    `json:"code"`
		Message string `json:"message"`
	}

	const path = "/app/getAppAccessToken"
	body := kit.JSON(map[string]string{"appId": o.AppID, "clientSecret": o.Secret.Reveal()})
	if err := auth.Do(ctx, kit.Call{Method: http.MethodPost, Path: path, Body: body}, &a); err != nil {
		return "", 0, err
	}
	if a.Token == "" { // with status 200
		return "", 0, &apiError{Call: "POST " + path, Status: http.StatusOK, Code: a.Code, Message: a.Message}
	}
	return a.Token, time.Duration(a.Expires) * time.Second, nil
}

// get reads what is at a path into result, if that is not nil.
func (c *client) get(ctx context.Context, path string, result any) error {
	return c.send(ctx, kit.Call{Method: http.MethodGet, Path: path}, result)
}

func (c *client) send(ctx context.Context, k kit.Call, result any) error {
	k.Name = k.Method + " " + form(k.Path)
	return c.rest.Do(ctx, k, result)
}

// form returns a path without ids, which do not belong into a log.
func form(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		if i > 0 && strings.HasSuffix(parts[i-1], "s") && parts[i] != "@me" {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}

// judge reads what QQ said. Without a code, a proxy between us and QQ answered: that
// says nothing about the message, so it is not final.
func judge(a kit.Answer) (json.RawMessage, error) {
	if a.OK() && a.Status != http.StatusAccepted {
		return a.Body, nil
	}

	var said struct {
		Code    int    `json:"code"`
		ErrCode int    `json:"err_code"`
		Message string `json:"message"`
	}

	err := json.Unmarshal(a.Body, &said)
	if said.Code == codeAudit || err == nil && said.Code == 0 && a.Status == http.StatusAccepted {
		return json.RawMessage("{}"), nil // it arrived, and QQ looks at it
	}
	if err != nil || said.Code == 0 && said.ErrCode == 0 && a.Status != http.StatusTooManyRequests && a.Status != http.StatusUnauthorized {
		return nil, a.Foreign("the API")
	}
	return nil, &apiError{
		Call:    a.Call,
		Status:  a.Status,
		Code:    cmp.Or(said.ErrCode, said.Code), // the first says more
		Message: said.Message,
		After:   a.Pause(),
	}
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
	err = c.get(ctx, "/gateway/bot", &g)
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
