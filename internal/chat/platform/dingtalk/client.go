package dingtalk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	uploadTimeout = 5 * time.Minute
	tokenMargin   = time.Minute      // before its end another token is fetched
	limitPause    = 10 * time.Second // after too many messages

	messageTopic = "/v1.0/im/bot/messages/get"

	scopeSend   = "qyapi_robot_sendmsg"
	scopesShown = 200 // characters of the permissions that are named in an error
)

// client speaks the APIs.
type client struct {
	api    kit.REST // shows the token in the head
	old    kit.REST // shows it in the address
	public kit.REST // shows none, and takes whole addresses
	tokens *kit.Tokens
	o      *options
	limit  time.Duration // pause after too many messages
}

func newClient(o *options, h *http.Client, now func() time.Time) *client {
	c := &client{o: o, limit: limitPause}
	c.public = kit.REST{
		Client: h,
		Sign:   func(req *http.Request, _ string) { wantJSON(req) },
		Stale:  stale,
		Judge:  judge,
	}

	c.tokens = kit.NewTokens(now, tokenMargin, c.fetchToken)

	c.api = c.public
	c.api.Base = o.APIBaseURL
	c.api.Token = c.tokens.Get
	c.api.Sign = func(req *http.Request, token string) {
		wantJSON(req)
		req.Header.Set("x-acs-dingtalk-access-token", token)
	}

	c.old = c.public
	c.old.Base = o.OAPIBaseURL
	c.old.Token = c.tokens.Get
	c.old.Sign = func(req *http.Request, token string) {
		wantJSON(req)
		q := req.URL.Query()
		q.Set("access_token", token)
		req.URL.RawQuery = q.Encode()
	}
	return c
}

// wantJSON asks for JSON, else the stream's address comes as XML.
func wantJSON(req *http.Request) { req.Header.Set("Accept", "application/json") }

// apiError is a refusal.
type apiError struct {
	Call    string
	Status  int
	Code    string
	Message string
	Scopes  []string // permissions that the app lacks
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: %s (code %s, status %d)", e.Call, e.Message, e.Code, e.Status)
}

func refusal(err error) *apiError {
	e, _ := errors.AsType[*apiError](err)
	return e
}

func (e *apiError) limited() bool {
	code := strings.ToLower(e.Code)
	return e.Status == http.StatusTooManyRequests || strings.Contains(code, "throttling") || strings.Contains(code, "limit") ||
		e.Code == "130101" || e.Code == "410100" || e.Code == "88" || e.Code == "90018"
}

// scopes returns the permissions that the app lacks, as DingTalk names them, else
// those that the call needs.
func (e *apiError) scopes(usual string) string {
	if len(e.Scopes) > 0 {
		return text.Label(strings.Join(e.Scopes, ", "), scopesShown)
	}
	return usual
}

// classify puts an error of a sending call into the words of the manager.
func (c *client) classify(err error) error {
	e := refusal(err)
	switch {
	case e == nil:
		return err
	case e.limited():
		return chat.RateLimited(c.limit, err)
	case strings.HasPrefix(e.Code, "Forbidden.AccessDenied"):
		return chat.Permanent(fmt.Errorf("the app may not send messages (%w); give it the permission %s on https://open-dev.dingtalk.com", err, e.scopes(scopeSend)))
	case e.Status/100 == 4 || e.Status == http.StatusOK:
		return chat.Permanent(err)
	}

	return err
}

// explained says what to do about credentials of a section that are refused.
func explained(err error, section string) error {
	if e := refusal(err); e != nil && !e.limited() && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
		return chat.Fatal(fmt.Errorf("DingTalk refuses channels.%s.clientId and clientSecret (%w); copy both again from the Credentials page of the app on https://open-dev.dingtalk.com", section, err))
	}
	return err
}

// stale reports whether a token is over.
func stale(err error) bool {
	e := refusal(err)
	return e != nil && (e.Status == http.StatusUnauthorized || e.Code == "40014" || e.Code == "42001")
}

// judge reads what DingTalk said. Of the older API, refusals have the status 200.
func judge(a kit.Answer) (json.RawMessage, error) {
	var said struct {
		Code    string      `json:"code"`
		Message string      `json:"message"`
		ErrCode json.Number `json:"errcode"`
		ErrMsg  string      `json:"errmsg"`
		Denied  struct {
			Scopes []string `json:"requiredScopes"`
		} `json:"accessdenieddetail"`
	}

	err := json.Unmarshal(a.Body, &said)
	old := said.ErrCode != "" && said.ErrCode != "0"
	switch {
	case err == nil && (old || !a.OK() && said.Code != ""):
		return nil, &apiError{
			Call:    a.Call,
			Status:  a.Status,
			Code:    cmp.Or(said.Code, string(said.ErrCode)),
			Message: cmp.Or(said.Message, said.ErrMsg),
			Scopes:  said.Denied.Scopes,
		}
	case !a.OK():
		return nil, a.Foreign("the API")
	}

	return a.Body, nil
}

// fetchToken gets a token for the secret, and how long it is good.
func (c *client) fetchToken(ctx context.Context) (string, time.Duration, error) {
	var a struct {
		Token   string `json:"accessToken"`
		Expires int64  `json:"expireIn"`
	}
	body := map[string]string{"appKey": c.o.ClientID, "appSecret": c.o.ClientSecret.Reveal()}
	if err := c.post(ctx, c.o.APIBaseURL+"/v1.0/oauth2/accessToken", body, &a); err != nil {
		return "", 0, err
	}
	if a.Token == "" {
		return "", 0, errors.New("DingTalk gave no access token")
	}
	return a.Token, time.Duration(a.Expires) * time.Second, nil
}

// do runs a call of the API.
func (c *client) do(ctx context.Context, path string, body, result any) error {
	return c.api.Do(ctx, kit.Call{Method: http.MethodPost, Path: path, Body: kit.JSON(body)}, result)
}

// put is do for what is there already.
func (c *client) put(ctx context.Context, path string, body any) error {
	return c.api.Do(ctx, kit.Call{Method: http.MethodPut, Path: path, Body: kit.JSON(body)}, nil)
}

// post sends JSON to an address, without the token.
func (c *client) post(ctx context.Context, address string, body, result any) error {
	name := http.MethodPost
	if u, err := url.Parse(address); err == nil {
		name += " " + u.Path
	}
	return c.public.Do(ctx, kit.Call{Method: http.MethodPost, Path: address, Name: name, Body: kit.JSON(body)}, result)
}

// place is where the stream is, and the ticket for one connection.
type place struct {
	Endpoint string `json:"endpoint"`
	Ticket   string `json:"ticket"`
}

func (c *client) place(ctx context.Context) (p place, err error) {
	body := map[string]any{
		"clientId": c.o.ClientID, "clientSecret": c.o.ClientSecret.Reveal(), "ua": "nanobot", "localIp": "127.0.0.1",
		"subscriptions": []map[string]string{{"type": "CALLBACK", "topic": messageTopic}},
	}
	if err := c.post(ctx, c.o.APIBaseURL+"/v1.0/gateway/connections/open", body, &p); err != nil {
		return p, err
	}
	if u, err := url.Parse(p.Endpoint); err != nil || u.Host == "" || p.Ticket == "" {
		return p, errors.New("DingTalk named no address of its stream")
	}
	return p, nil
}

// upload brings a file to DingTalk and returns its id.
func (c *client) upload(ctx context.Context, kind, name string, file io.ReaderAt, size int64) (string, error) {
	form := kit.NewForm()
	form.File("media", name, file, size)
	var a struct {
		ID    string `json:"media_id"`
		Other string `json:"mediaId"`
	}
	err := c.old.Do(ctx, kit.Call{
		Method: http.MethodPost,
		Path:   "/media/upload?type=" + kind,
		Body:   form.Body(),
		Within: uploadTimeout,
	}, &a)
	if err == nil && a.ID == "" && a.Other == "" {
		err = errors.New("DingTalk named no file")
	}
	return cmp.Or(a.ID, a.Other), err
}
