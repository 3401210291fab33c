package mochat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	callTime   = 30 * time.Second
	watchSlack = 10 * time.Second // beyond what the server may wait
	limitPause = 5 * time.Second  // after too many requests, if the server names no time
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
	rest  kit.REST
	clock kit.Clock
	pace  *pace // of requests for messages
}

func newClient(o *options, h *http.Client, now func() time.Time) *client {
	if now == nil {
		now = time.Now
	}

	c := &client{pace: &pace{now: now}}
	c.rest = kit.REST{
		Client: h,
		Base:   o.BaseURL,
		Token:  kit.Static(o.ClawToken),
		Sign:   sign,
		Judge:  judge,
		Heard:  func(h http.Header) { c.clock.Adjust(h, now()) },
	}
	return c
}

func sign(req *http.Request, token string) {
	if token != "" {
		req.Header.Set("X-Claw-Token", token)
	}
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
	a, err := c.rest.Ask(ctx, kit.Call{
		Method: http.MethodPost,
		Path:   path,
		Name:   path,
		Body:   kit.JSON(body),
		Within: limit,
	})
	return a.Body, err
}

// judge takes what an answer holds: the data of {"code", "data"}, or itself.
func judge(a kit.Answer) (json.RawMessage, error) {
	var said struct {
		Code    *int            `json:"code"`
		Data    json.RawMessage `json:"data"`
		Message string          `json:"message"`
		Name    string          `json:"name"`
	}

	err := json.Unmarshal(a.Body, &said) // what is not like this has no code
	why := &refusal{
		Path:   a.Call,
		Status: a.Status,
		Text:   text.Label(cmp.Or(said.Message, said.Name, http.StatusText(a.Status), "request failed"), 200),
		After:  a.Pause(),
	}
	switch {
	case !a.OK():
		return nil, why
	case said.Code != nil && *said.Code != http.StatusOK:
		why.Status = *said.Code
		return nil, why
	case said.Code != nil:
		return said.Data, nil
	case err != nil:
		return nil, a.Unexpected(err)
	}

	return a.Body, nil
}

// pace spreads requests for messages, so that many sessions do not use up those
// that the server takes.
type pace struct {
	now func() time.Time

	mu   sync.Mutex
	next time.Time
}

// wait waits until messages may be asked for once more.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := p.now()
	if earliest := now.Add(-readBurst * readEvery); p.next.Before(earliest) || p.next.Sub(now) > time.Hour {
		p.next = earliest
	}
	p.next = p.next.Add(readEvery)
	d := p.next.Sub(now)
	p.mu.Unlock()
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
