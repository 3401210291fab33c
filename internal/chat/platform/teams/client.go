package teams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxAnswer   = 1 << 20
	tokenEarly  = time.Minute     // before its end a token is replaced
	limitedWait = 5 * time.Second // when Teams does not say how long to wait
)

// client speaks to the connector of Teams, with tokens that it fetches.
type client struct {
	connector kit.REST // takes whole addresses, below the service URLs of conversations
	login     kit.REST
	tokens    *kit.Tokens
	o         *options
}

func newClient(d chat.Deps, o *options, h *http.Client) *client {
	c := &client{o: o}
	c.login = kit.REST{
		Client: h,
		Base:   o.LoginBase,
		Judge:  func(a kit.Answer) (json.RawMessage, error) { return judgeLogin(a, d.Name) },
		Most:   maxAnswer,
	}

	c.tokens = kit.NewTokens(d.Now, tokenEarly, c.fetchToken)
	c.connector = kit.REST{
		Client: h,
		Token:  c.tokens.Get,
		Sign:   func(req *http.Request, token string) { req.Header.Set("Authorization", "Bearer "+token) },
		Stale:  stale,
		Judge:  judge,
		Most:   maxAnswer,
	}
	return c
}

// apiError is a refusal by Teams.
type apiError struct {
	Status  int
	Code    string
	Message string
	After   time.Duration
}

func (e *apiError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("Teams: HTTP status %d %s %s", e.Status, e.Code, e.Message))
}

// refusal returns the apiError in err, nil if it is another error.
func refusal(err error) *apiError {
	e, _ := errors.AsType[*apiError](err)
	return e
}

// classify puts an error of a call into the words of the manager. What is not
// named there may be different next time: 412, 500, 502, 503, 504.
func classify(err error) error {
	e := refusal(err)
	if e == nil {
		return err
	}

	switch e.Status {
	case http.StatusTooManyRequests:
		return chat.RateLimited(e.After, err)
	case http.StatusForbidden:
		return chat.Permanent(fmt.Errorf("%w; the bot was removed or blocked there, or an administrator does not allow it", err))
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge:
		return chat.Permanent(err)
	case http.StatusUnauthorized:
		return fmt.Errorf("%w; check that appId is the one of the Azure Bot and tenantId its directory", err)
	}

	return err
}

// stale reports whether the token is over.
func stale(err error) bool {
	e := refusal(err)
	return e != nil && e.Status == http.StatusUnauthorized
}

// judge reads what the connector said; what is not JSON has its status only.
func judge(a kit.Answer) (json.RawMessage, error) {
	if a.OK() {
		return a.Body, nil
	}

	var said struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}

	_ = json.Unmarshal(a.Body, &said)
	e := &apiError{
		Status:  a.Status,
		Code:    text.Label(said.Error.Code, 64),
		Message: text.Label(said.Error.Message, 200),
		After:   limitedWait,
	}
	if _, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil {
		e.After = max(a.Pause(), time.Second)
	}
	return nil, e
}

// fetchToken gets a token for the secret, and how long it is good.
func (c *client) fetchToken(ctx context.Context) (string, time.Duration, error) {
	form := url.Values{
		"grant_type":    {"client_credentials"},
		"client_id":     {c.o.AppID},
		"client_secret": {c.o.AppPassword.Reveal()},
		"scope":         {"https://api.botframework.com/.default"},
	}

	var got struct {
		Token   string `json:"access_token"`
		Expires int    `json:"expires_in"`
	}
	err := c.login.Do(ctx, kit.Call{
		Method: http.MethodPost,
		Path:   "/" + cmp.Or(c.o.TenantID, "botframework.com") + "/oauth2/v2.0/token",
		Name:   "fetch a token",
		Body:   kit.URLEncoded(form),
	}, &got)
	if err != nil {
		return "", 0, err
	}
	if got.Token == "" {
		return "", 0, fmt.Errorf("fetch a token: HTTP status %d", http.StatusOK)
	}
	return got.Token, time.Duration(got.Expires) * time.Second, nil
}

// judgeLogin reads what Microsoft's login said about the credentials of a section.
func judgeLogin(a kit.Answer, section string) (json.RawMessage, error) {
	var said struct {
		Error  string `json:"error"`
		Reason string `json:"error_description"`
	}
	_ = json.Unmarshal(a.Body, &said)
	switch {
	case said.Error != "" && (a.Status == http.StatusBadRequest || a.Status == http.StatusUnauthorized):
		why, _, _ := strings.Cut(said.Reason, " Trace ID")
		return nil, chat.Fatal(fmt.Errorf("Microsoft refuses the credentials of the bot (%s: %s); check appId, appPassword (the value of the secret, not its id; is it expired?) and tenantId of channels.%s", //nolint:staticcheck // a name begins the sentence
			said.Error, text.Label(why, 200), section))
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("%s: HTTP status %d", a.Call, a.Status)
	}

	return a.Body, nil
}

// call sends an activity, or nil, to an address below a service URL. Result is
// the id of what was made.
func (c *client) call(ctx context.Context, method, address string, body any) (id string, err error) {
	a, err := c.connector.Ask(ctx, kit.Call{Method: method, Path: address, Name: "Teams", Body: kit.JSON(body)})
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	_ = a.Decode(&made) // some answers have no id, and some no body
	return made.ID, nil
}

// get opens a file. The token goes along only to the connector, which keeps the
// pictures of messages; the client h is for all other addresses.
func (c *client) get(ctx context.Context, h *http.Client, address string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, httpsafe.WithoutURL(err)
	}

	if c.o.trusted(address) && strings.Contains(req.URL.Path, "/v3/attachments/") {
		token, err := c.tokens.Get(ctx, "")
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		h = c.connector.Client
	}

	res, err := h.Do(req)
	if err != nil {
		return nil, httpsafe.WithoutURL(err)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("HTTP status %d", res.StatusCode)
	}
	return res.Body, nil
}
