package weixin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	http     *http.Client
	routeTag string
	now      func() time.Time
	clock    kit.Clock
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
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.do(ctx, limit, http.MethodPost, s, method, data, result)
}

// get is post for the one method that is asked without a body.
func (c *client) get(ctx context.Context, limit time.Duration, base, method string, result any) error {
	return c.do(ctx, limit, http.MethodGet, session{base: base}, method, nil, result)
}

func (c *client) do(ctx context.Context, limit time.Duration, verb string, s session, method string, data []byte, result any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	call, _, _ := strings.Cut(method, "?")
	req, err := http.NewRequestWithContext(ctx, verb, s.base+"/ilink/bot/"+method, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", call, httpsafe.WithoutURL(err))
	}
	c.headers(req, s)
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", call, httpsafe.WithoutURL(err))
	}
	defer res.Body.Close() //nolint:errcheck // read only
	c.clock.Learn(res.Header, c.now())
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	if res.StatusCode/100 != 2 {
		return &apiError{Call: call, Status: res.StatusCode, After: pause(res.Header)}
	}

	var head struct {
		Ret  ident  `json:"ret"`
		Code ident  `json:"errcode"`
		Text string `json:"errmsg"`
	}
	if err := json.Unmarshal(answer, &head); err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", call, err)
	}
	for _, code := range []ident{head.Ret, head.Code} {
		if n := code.number(); n != 0 {
			return &apiError{Call: call, Code: n, Text: head.Text}
		}
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", call, err)
	}
	return nil
}

// headers are written as the service's own client does.
func (c *client) headers(req *http.Request, s session) {
	set := func(name, value string) { req.Header[name] = []string{value} }
	set("iLink-App-Id", "bot")
	set("iLink-App-ClientVersion", strconv.Itoa(protocolNumber))
	if c.routeTag != "" {
		set("SKRouteTag", c.routeTag)
	}
	if req.Method == http.MethodGet {
		return
	}
	var n [4]byte
	_, _ = rand.Read(n[:])
	set("Content-Type", "application/json")
	set("AuthorizationType", "ilink_bot_token")
	set("X-WECHAT-UIN", base64.StdEncoding.EncodeToString([]byte(strconv.FormatUint(uint64(binary.BigEndian.Uint32(n[:])), 10))))
	if !s.token.IsZero() {
		set("Authorization", "Bearer "+s.token.Reveal())
	}
}

// pause is how long the service asks to wait.
func pause(h http.Header) time.Duration {
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(min(n, 3600)) * time.Second
	}
	return 0
}
