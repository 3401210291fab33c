package weixin

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// The version of the protocol that we say we speak.
const (
	protocolVersion = "2.4.6"
	protocolNumber  = 2<<16 | 4<<8 | 6
	botAgent        = "nanobot/1.0 (go)"
)

// What a call may take.
const (
	callTime   = 15 * time.Second
	signalTime = 10 * time.Second
	maxAnswer  = 32 << 20 // bytes
)

// The refusals of the service.
const (
	codeRestricted = -2
	codeInvalid    = -3
	codeStale      = -14
)

// apiError is a refusal by the service.
type apiError struct {
	Call   string
	Status int // of HTTP, if that is what refused
	Code   int64
	Text   string
	After  time.Duration
}

func (e *apiError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s: HTTP status %d", e.Call, e.Status)
	}
	return strings.TrimSpace(fmt.Sprintf("%s: error %d %s", e.Call, e.Code, e.Text))
}

// refusal returns the apiError in err, nil if it is another error.
func refusal(err error) *apiError {
	e, _ := errors.AsType[*apiError](err)
	return e
}

func refusedAs(err error, code int64) bool {
	e := refusal(err)
	return e != nil && e.Status == 0 && e.Code == code
}

// classify puts an error of a sending call into the words of the manager.
func classify(err error) error {
	e := refusal(err)
	switch {
	case e == nil, e.Status >= 500, e.Status == http.StatusRequestTimeout, e.Status == http.StatusTooEarly:
		return err
	case e.Status == http.StatusTooManyRequests:
		return chat.RateLimited(max(e.After, time.Second), err)
	case e.Status == 0 && e.Code == codeRestricted:
		return chat.Deferred(err)
	case e.Status == 0 && e.Code == codeStale: // Run says so
		return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	}

	return chat.Permanent(err)
}

// client speaks with the service.
type client struct {
	rest  kit.REST // but for the account
	clock kit.Clock
}

func newClient(o *options, h *http.Client, now func() time.Time) *client {
	c := &client{}
	c.rest = kit.REST{
		Client: h,
		Sign:   func(req *http.Request, token string) { sign(req, o.RouteTag, token) },
		Judge:  judge,
		Heard:  func(h http.Header) { c.clock.Adjust(h, now()) },
		Most:   maxAnswer,
	}
	return c
}

// session is an account that we are logged in to.
type session struct {
	base  string
	token httpsafe.Secret
}

// post calls a method of the service. The answer is read into result.
func (c *client) post(ctx context.Context, limit time.Duration, s session, method string, body object, result any) error {
	if !strings.HasPrefix(method, "get_bot_qrcode") {
		body["base_info"] = object{"channel_version": protocolVersion, "bot_agent": botAgent}
	}
	return c.do(ctx, limit, http.MethodPost, s, method, kit.JSON(body), result)
}

// get is post for the one method that is asked without a body.
func (c *client) get(ctx context.Context, limit time.Duration, base, method string, result any) error {
	return c.do(ctx, limit, http.MethodGet, session{base: base}, method, kit.Body{}, result)
}

func (c *client) do(ctx context.Context, limit time.Duration, verb string, s session, method string, body kit.Body, result any) error {
	rest := c.rest
	rest.Base = s.base + "/ilink/bot/"
	rest.Token = kit.Static(s.token)
	name, _, _ := strings.Cut(method, "?")
	return rest.Do(ctx, kit.Call{Method: verb, Path: method, Name: name, Body: body, Within: limit}, result)
}

// sign writes a head as the service's own client does, the names in its spelling.
func sign(req *http.Request, routeTag, token string) {
	set := func(name, value string) { req.Header[name] = []string{value} }
	set("iLink-App-Id", "bot")
	set("iLink-App-ClientVersion", strconv.Itoa(protocolNumber))
	if routeTag != "" {
		set("SKRouteTag", routeTag)
	}

	if req.Method == http.MethodGet {
		return
	}

	var n [4]byte
	_, _ = rand.Read(n[:])
	set("AuthorizationType", "ilink_bot_token")
	set("X-WECHAT-UIN", base64.StdEncoding.EncodeToString([]byte(strconv.FormatUint(uint64(binary.BigEndian.Uint32(n[:])), 10))))
	if token != "" {
		set("Authorization", "Bearer "+token)
	}
}

// judge reads what the service said.
func judge(a kit.Answer) (json.RawMessage, error) {
	if !a.OK() {
		return nil, &apiError{Call: a.Call, Status: a.Status, After: a.Pause()}
	}

	var head struct {
		Ret  ident  `json:"ret"`
		Code ident  `json:"errcode"`
		Text string `json:"errmsg"`
	}
	if err := json.Unmarshal(a.Body, &head); err != nil {
		return nil, a.Unexpected(err)
	}

	for _, code := range []ident{head.Ret, head.Code} {
		if n := code.number(); n != 0 {
			return nil, &apiError{Call: a.Call, Code: n, Text: head.Text}
		}
	}
	return a.Body, nil
}
