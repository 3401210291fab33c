package teams

import (
	"bytes"
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
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	callTimeout = 30 * time.Second
	maxAnswer   = 1 << 20
	tokenEarly  = time.Minute     // before its end a token is replaced
	limitedWait = 5 * time.Second // when Teams does not say how long to wait
)

// client speaks to the connector of Teams, with tokens that it fetches.
type client struct {
	name string // of the section
	o    *options
	http *http.Client
	now  func() time.Time

	mu    sync.Mutex // also while a token is fetched
	token string
	until time.Time
}

func newClient(d chat.Deps, o *options, h *http.Client) *client {
	return &client{name: d.Name, o: o, http: h, now: d.Now}
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

// bearer is a token for the connector, other than one that was refused.
func (c *client) bearer(ctx context.Context, refused string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && c.token != refused && c.now().Before(c.until) {
		return c.token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {c.o.AppID}, "client_secret": {c.o.AppPassword.Reveal()},
		"scope": {"https://api.botframework.com/.default"},
	}
	address := c.o.LoginBase + "/" + cmp.Or(c.o.TenantID, "botframework.com") + "/oauth2/v2.0/token"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		Token   string `json:"access_token"`
		Expires int    `json:"expires_in"`
		Error   string `json:"error"`
		Reason  string `json:"error_description"`
	}
	status, _, err := c.do(req, &answer)
	switch {
	case err != nil:
		return "", fmt.Errorf("fetch a token: %w", err)
	case answer.Error != "" && (status == http.StatusBadRequest || status == http.StatusUnauthorized):
		why, _, _ := strings.Cut(answer.Reason, " Trace ID")
		return "", chat.Fatal(fmt.Errorf("Microsoft refuses the credentials of the bot (%s: %s); check appId, appPassword (the value of the secret, not its id; is it expired?) and tenantId of channels.%s", //nolint:staticcheck // a name begins the sentence
			answer.Error, text.Label(why, 200), c.name))
	case status != http.StatusOK || answer.Token == "":
		return "", fmt.Errorf("fetch a token: HTTP status %d", status)
	}
	c.token, c.until = answer.Token, c.now().Add(time.Duration(answer.Expires)*time.Second-tokenEarly)
	return c.token, nil
}

// do runs a request and reads its JSON; what is not JSON has its status only.
func (c *client) do(req *http.Request, into any) (status int, header http.Header, err error) {
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, httpsafe.WithoutURL(err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, nil, err
	}
	_ = json.Unmarshal(data, into)
	return res.StatusCode, res.Header, nil
}

// call sends an activity, or nil, to an address below a service URL. Result is
// the id of what was made.
func (c *client) call(ctx context.Context, method, address string, body any) (id string, err error) {
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return "", err
		}
	}
	token, err := c.bearer(ctx, "")
	if err != nil {
		return "", err
	}
	id, err = c.once(ctx, method, address, token, data)
	if e := refusal(err); e != nil && e.Status == http.StatusUnauthorized {
		if token, err = c.bearer(ctx, token); err != nil {
			return "", err
		}
		id, err = c.once(ctx, method, address, token, data)
	}
	return id, err
}

func (c *client) once(ctx context.Context, method, address, token string, data []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	var answer struct {
		ID    string `json:"id"`
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	status, header, err := c.do(req, &answer)
	if err != nil {
		return "", err
	}
	if status/100 == 2 {
		return answer.ID, nil
	}
	e := &apiError{Status: status, Code: text.Label(answer.Error.Code, 64), Message: text.Label(answer.Error.Message, 200), After: limitedWait}
	if n, err := strconv.Atoi(header.Get("Retry-After")); err == nil && n >= 0 {
		e.After = time.Duration(max(n, 1)) * time.Second
	}
	return "", e
}

// get opens a file. The token goes along only to the connector, which keeps the
// pictures of messages; the client h is for all other addresses.
func (c *client) get(ctx context.Context, h *http.Client, address string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, httpsafe.WithoutURL(err)
	}
	if c.o.trusted(address) && strings.Contains(req.URL.Path, "/v3/attachments/") {
		token, err := c.bearer(ctx, "")
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		h = c.http
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
