package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// device signs in at GitHub with a code that the person types in a browser,
// and returns GitHub's token.
func (c *copilot) device(ctx context.Context, d Dialog) (string, error) {
	a, err := c.w.ask(ctx, question{url: c.deviceURL, form: url.Values{"client_id": {c.clientID}, "scope": {"read:user"}}})
	if err != nil {
		return "", err
	}
	var start struct {
		DeviceCode string  `json:"device_code"`
		UserCode   string  `json:"user_code"`
		URL        string  `json:"verification_uri"`
		Interval   *number `json:"interval"`
		ExpiresIn  number  `json:"expires_in"`
	}
	if err := c.w.decode(a, &start); err != nil {
		return "", fmt.Errorf("ask for a code: %w", err)
	}
	if start.DeviceCode == "" || start.UserCode == "" || private(start.URL) != nil {
		return "", &llm.Error{Kind: llm.ServerError, Provider: c.w.name, Message: hostOf(c.deviceURL) + " gave no usable code"}
	}
	interval := 5 * time.Second
	if start.Interval != nil {
		interval = max(time.Duration(*start.Interval)*time.Second, time.Second)
	}
	life := 900 * time.Second
	if start.ExpiresIn > 0 {
		life = time.Duration(start.ExpiresIn) * time.Second
	}
	d.tell(Step{URL: start.URL, Code: start.UserCode})
	q := question{url: c.accessURL, secrets: []string{start.DeviceCode}, form: url.Values{
		"client_id": {c.clientID}, "device_code": {start.DeviceCode}, "grant_type": {"urn:ietf:params:oauth:grant-type:device_code"},
	}}
	return c.poll(ctx, q, interval, time.Now().Add(life))
}

// poll asks until the person has typed the code, as slowly as it is told to.
func (c *copilot) poll(ctx context.Context, q question, interval time.Duration, until time.Time) (string, error) {
	for {
		if !time.Now().Add(interval).Before(until) {
			return "", c.w.failed("the code expired before it was typed; start again")
		}
		if err := httpsafe.Pause(ctx, interval); err != nil {
			return "", err
		}
		a, err := c.w.ask(ctx, q)
		if err != nil {
			if transient(err) && ctx.Err() == nil {
				continue
			}
			return "", err
		}
		if a.status >= 500 || a.status == http.StatusTooManyRequests {
			continue
		}
		var got struct {
			Access   string `json:"access_token"`
			Interval number `json:"interval"`
		}
		// GitHub answers 200 with an error inside, others 400.
		o := readOAuthError(a.body)
		switch o.code() {
		case "":
			if err := c.w.decode(a, &got); err != nil {
				return "", err
			}
			if got.Access == "" {
				return "", &llm.Error{Kind: llm.ServerError, Provider: c.w.name, Message: hostOf(q.url) + " gave neither a token nor a reason"}
			}
			return got.Access, nil
		case "authorization_pending":
		case "slow_down":
			_ = c.w.decode(answer{status: 200, body: a.body, q: q}, &got) // the hint is optional
			interval = max(interval+5*time.Second, time.Duration(got.Interval)*time.Second)
		case "expired_token":
			return "", c.w.failed("the code expired before it was typed; start again")
		case "access_denied":
			return "", c.w.failed("the sign-in was declined in the browser")
		default:
			return "", c.w.failed("the sign-in was refused: " + httpsafe.RedactSecrets(o.text()))
		}
	}
}

// failed is the error of a sign-in that the provider or the person ended.
func (w *client) failed(why string) error {
	return &llm.Error{Kind: llm.Auth, Provider: w.name, Message: why}
}

// transient reports whether asking again may help.
func transient(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Retryable()
}
