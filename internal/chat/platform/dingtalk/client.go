package dingtalk

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
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	callTimeout   = 30 * time.Second
	uploadTimeout = 5 * time.Minute
	maxAnswer     = 8 << 20          // bytes of one answer
	tokenMargin   = time.Minute      // before its end another token is fetched
	limitPause    = 10 * time.Second // after too many messages

	messageTopic = "/v1.0/im/bot/messages/get"

	scopeSend   = "qyapi_robot_sendmsg"
	scopesShown = 200 // characters of the permissions that are named in an error
)

// client speaks the APIs.
type client struct {
	api, oapi, id string
	secret        httpsafe.Secret
	http          *http.Client
	now           func() time.Time

	mu    sync.Mutex // held while a token is fetched: one request is enough for all
	token string
	until time.Time
}

func newClient(o *options, h *http.Client, now func() time.Time) *client {
	return &client{api: o.APIBaseURL, oapi: o.OAPIBaseURL, id: o.ClientID, secret: o.ClientSecret, http: h, now: now}
}

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

// scopes are the permissions that the app lacks, as DingTalk names them, else
// those that the call needs.
func (e *apiError) scopes(usual string) string {
	if len(e.Scopes) > 0 {
		return text.Label(strings.Join(e.Scopes, ", "), scopesShown)
	}
	return usual
}

// classify puts an error of a sending call into the words of the manager.
func (b *bot) classify(err error) error {
	e := refusal(err)
	switch {
	case e == nil:
		return err
	case e.limited():
		return chat.RateLimited(b.limit, err)
	case strings.HasPrefix(e.Code, "Forbidden.AccessDenied"):
		return chat.Permanent(fmt.Errorf("the app may not send messages (%w); give it the permission %s on https://open-dev.dingtalk.com", err, e.scopes(scopeSend)))
	case e.Status/100 == 4 || e.Status == http.StatusOK:
		return chat.Permanent(err)
	}
	return err
}

// explained says what to do about credentials that are refused.
func (b *bot) explained(err error) error {
	if e := refusal(err); e != nil && !e.limited() && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
		return chat.Fatal(fmt.Errorf("DingTalk refuses channels.%s.clientId and clientSecret (%w); copy both again from the Credentials page of the app on https://open-dev.dingtalk.com", b.deps.Name, err))
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
		Token   string `json:"accessToken"`
		Expires int64  `json:"expireIn"`
	}
	body := map[string]string{"appKey": c.id, "appSecret": c.secret.Reveal()}
	if err := c.post(ctx, c.api+"/v1.0/oauth2/accessToken", "", body, &a); err != nil {
		return "", err
	}
	if a.Token == "" {
		return "", errors.New("DingTalk gave no access token")
	}
	c.token, c.until = a.Token, c.now().Add(max(time.Duration(a.Expires)*time.Second-tokenMargin, time.Second))
	return c.token, nil
}

// do runs a call of the API. A token that is over is replaced once.
func (c *client) do(ctx context.Context, path string, body, result any) error {
	return c.withToken(ctx, func(token string) error { return c.post(ctx, c.api+path, token, body, result) })
}

// put is do for what is there already.
func (c *client) put(ctx context.Context, path string, body any) error {
	return c.withToken(ctx, func(token string) error {
		return c.json(ctx, http.MethodPut, c.api+path, token, body, nil)
	})
}

func (c *client) withToken(ctx context.Context, try func(token string) error) error {
	for n := 0; ; n++ {
		token, err := c.bearer(ctx)
		if err != nil {
			return err
		}
		err = try(token)
		if e := refusal(err); e == nil || n > 0 || e.Status != http.StatusUnauthorized && e.Code != "40014" && e.Code != "42001" {
			return err
		}
		c.mu.Lock()
		if c.token == token {
			c.token = ""
		}
		c.mu.Unlock()
	}
}

// post sends JSON to an address.
func (c *client) post(ctx context.Context, address, token string, body, result any) error {
	return c.json(ctx, http.MethodPost, address, token, body, result)
}

func (c *client) json(ctx context.Context, method, address, token string, body, result any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.send(ctx, method, address, token, "application/json", data, result)
}

func (c *client) send(ctx context.Context, method, address, token, kind string, data []byte, result any) error {
	name := method
	if u, err := url.Parse(address); err == nil {
		name += " " + u.Path
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json") // else the stream's address comes as XML
	if token != "" {
		req.Header.Set("x-acs-dingtalk-access-token", token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}
	defer res.Body.Close() //nolint:errcheck // read only
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}

	var a struct {
		Code    string      `json:"code"`
		Message string      `json:"message"`
		ErrCode json.Number `json:"errcode"`
		ErrMsg  string      `json:"errmsg"`
		Denied  struct {
			Scopes []string `json:"requiredScopes"`
		} `json:"accessdenieddetail"`
	}
	err = json.Unmarshal(answer, &a)
	switch old := a.ErrCode != "" && a.ErrCode != "0"; {
	case err == nil && (old || res.StatusCode/100 != 2 && a.Code != ""):
		return &apiError{Call: name, Status: res.StatusCode, Code: cmp.Or(a.Code, string(a.ErrCode)), Message: cmp.Or(a.Message, a.ErrMsg), Scopes: a.Denied.Scopes}
	case res.StatusCode/100 != 2: // a proxy answered: that says nothing about the message
		return fmt.Errorf("%s: HTTP status %d without an answer of the API", name, res.StatusCode)
	case result == nil:
		return nil
	case err == nil:
		err = json.Unmarshal(answer, result)
	}
	if err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", name, err)
	}
	return nil
}

// place is where the stream is, and the ticket for one connection.
type place struct {
	Endpoint string `json:"endpoint"`
	Ticket   string `json:"ticket"`
}

func (c *client) place(ctx context.Context) (p place, err error) {
	body := map[string]any{
		"clientId": c.id, "clientSecret": c.secret.Reveal(), "ua": "nanobot", "localIp": "127.0.0.1",
		"subscriptions": []map[string]string{{"type": "CALLBACK", "topic": messageTopic}},
	}
	if err := c.post(ctx, c.api+"/v1.0/gateway/connections/open", "", body, &p); err != nil {
		return p, err
	}
	if u, err := url.Parse(p.Endpoint); err != nil || u.Host == "" || p.Ticket == "" {
		return p, errors.New("DingTalk named no address of its stream")
	}
	return p, nil
}

// upload brings a file to DingTalk and returns its id.
func (c *client) upload(ctx context.Context, kind, name string, file io.Reader) (string, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("media", name)
	if err == nil {
		_, err = io.Copy(part, file)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	var a struct {
		ID    string `json:"media_id"`
		Other string `json:"mediaId"`
	}
	err = c.withToken(ctx, func(token string) error {
		return c.send(ctx, http.MethodPost, c.oapi+"/media/upload?access_token="+url.QueryEscape(token)+"&type="+kind, "", w.FormDataContentType(), b.Bytes(), &a)
	})
	if err == nil && a.ID == "" && a.Other == "" {
		err = errors.New("DingTalk named no file")
	}
	return cmp.Or(a.ID, a.Other), err
}
