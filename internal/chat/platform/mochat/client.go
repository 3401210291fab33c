package mochat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	callTime   = 30 * time.Second
	watchSlack = 10 * time.Second // beyond what the server may wait
	maxAnswer  = 8 << 20
	limitPause = 5 * time.Second // after too many requests, if the server names no time
	readEvery  = 600 * time.Millisecond
	readBurst  = 20

	listSessions  = "/api/claw/sessions/list"
	watchSession  = "/api/claw/sessions/watch"
	sendSession   = "/api/claw/sessions/send"
	listPanels    = "/api/claw/groups/get"
	panelMessages = "/api/claw/groups/panels/messages"
	sendPanel     = "/api/claw/groups/panels/send"
	registerAgent = "/api/claw/agents/selfRegister"
	bindOwner     = "/api/claw/agents/bind"
)

// client speaks the HTTP API.
type client struct {
	base  string
	token httpsafe.Secret
	http  *http.Client
	now   func() time.Time
	skew  atomic.Int64 // how far the server's clock is ahead, in ns

	mu   sync.Mutex
	next time.Time // of requests for messages
}

// refusal is an answer that says no.
type refusal struct {
	Path   string
	Status int // of HTTP, or the code in the answer
	Text   string
	After  time.Duration // 0: the server does not say
}

func (e *refusal) Error() string {
	return fmt.Sprintf("Mochat refuses %s: %s (%d)", e.Path, e.Text, e.Status)
}

func statusOf(err error) int {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.Status
	}
	return 0
}

// post makes a request and returns the data of the answer.
func (c *client) post(ctx context.Context, limit time.Duration, path string, body map[string]any) (json.RawMessage, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, c.base+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, httpsafe.WithoutURL(err))
	}
	req.Header.Set("Content-Type", "application/json")
	if !c.token.IsZero() {
		req.Header.Set("X-Claw-Token", c.token.Reveal())
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			return nil, fmt.Errorf("%s: no answer within %s", path, limit)
		}
		return nil, fmt.Errorf("%s: %w", path, httpsafe.WithoutURL(err))
	}
	defer res.Body.Close() //nolint:errcheck // read only
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, httpsafe.WithoutURL(err))
	}
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		c.skew.Store(int64(at.Sub(c.now())))
	}
	return opened(path, res, answer)
}

// opened is what an answer holds: the data of {"code", "data"}, or itself.
func opened(path string, res *http.Response, answer []byte) (json.RawMessage, error) {
	var a struct {
		Code    *int            `json:"code"`
		Data    json.RawMessage `json:"data"`
		Message string          `json:"message"`
		Name    string          `json:"name"`
	}
	err := json.Unmarshal(answer, &a) // what is not like this has no code
	why := &refusal{Path: path, Status: res.StatusCode, Text: text.Label(cmp.Or(a.Message, a.Name, http.StatusText(res.StatusCode), "request failed"), 200)}
	if n, _ := strconv.Atoi(res.Header.Get("Retry-After")); n > 0 {
		why.After = time.Duration(min(n, 3600)) * time.Second
	}
	switch {
	case res.StatusCode/100 != 2:
		return nil, why
	case a.Code != nil && *a.Code != http.StatusOK:
		why.Status = *a.Code
		return nil, why
	case a.Code != nil:
		return a.Data, nil
	case err != nil:
		return nil, fmt.Errorf("%s: the answer is not JSON as expected: %w", path, err)
	}
	return answer, nil
}

// turn waits until messages may be asked for once more, so that many sessions
// do not use up the requests that the server takes.
func (c *client) turn(ctx context.Context) error {
	c.mu.Lock()
	now := c.now()
	if earliest := now.Add(-readBurst * readEvery); c.next.Before(earliest) || c.next.Sub(now) > time.Hour {
		c.next = earliest
	}
	c.next = c.next.Add(readEvery)
	d := c.next.Sub(now)
	c.mu.Unlock()
	return wait.For(ctx, d)
}

// classify says what the manager should do about an error of a send.
func classify(err error) error {
	e, ok := errors.AsType[*refusal](err)
	switch {
	case !ok || e.Status == http.StatusUnauthorized || e.Status == http.StatusRequestTimeout:
		return err
	case e.Status == http.StatusTooManyRequests:
		return chat.RateLimited(cmp.Or(e.After, limitPause), err)
	case e.Status/100 == 4:
		return chat.Permanent(err)
	}
	return err
}

// badToken is the error of a channel whose token is not good.
func (b *bot) badToken(err error) error {
	return chat.Fatal(fmt.Errorf("Mochat refuses the token (%w): channels.%s.clawToken must be the token of the agent; nanobot channels login %s registers another one", err, b.deps.Name, b.deps.Name)) //nolint:staticcheck // a name
}
