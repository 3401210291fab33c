package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	callTimeout = 30 * time.Second
	maxAnswer   = 16 << 20 // bytes of an answer of the Web API
)

// bounded is the HTTP client of the Web API: answers have a limit, and errors
// do not hold addresses.
type bounded struct{ *http.Client }

// Do implements what slack-go needs.
func (b bounded) Do(req *http.Request) (*http.Response, error) {
	res, err := b.Client.Do(req) //nolint:gosec // the configured address
	if err != nil {
		return nil, httpsafe.WithoutURL(err)
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}

// client is the Web API with what we know from it.
type client struct {
	deps  chat.Deps
	api   *api.Client
	http  *http.Client
	base  string
	token httpsafe.Secret
	names *names
	once  *kit.Once       // logs trouble
	fail  func(err error) // ends the Run that goes on
}

func newClient(d chat.Deps, o *options, a *api.Client, h *http.Client, fail func(err error)) *client {
	return &client{
		deps:  d,
		api:   a,
		http:  h,
		base:  o.APIBase,
		token: o.BotToken,
		names: newNames(),
		once:  kit.NewOnce(d.Log),
		fail:  fail,
	}
}

// report logs something the first time that it happens.
func (c *client) report(ctx context.Context, what, cause string, err error) {
	c.once.Warn(ctx, what+cause, "a step failed; this is logged once", "step", what, "cause", cause, "err", httpsafe.WithoutURL(err))
}

// call runs something within the time for one call.
func call[T any](ctx context.Context, run func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return run(ctx)
}

// refusal returns the word that Slack refused a call with, "" if it did not.
func refusal(err error) string {
	e, _ := errors.AsType[api.SlackErrorResponse](err)
	return e.Err
}

// hasCode reports whether Slack refused a call with one of these words.
func hasCode(err error, words ...string) bool { return slices.Contains(words, refusal(err)) }

// badToken reports whether a refusal means that the token is wrong.
func badToken(err error) bool {
	return hasCode(err, "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type",
		"no_permission", "org_login_required", "ekm_access_denied", "app_missing_action_url")
}

// refusedToken makes an error fatal if it means that a token is wrong.
func (c *client) refusedToken(key string, err error) error {
	switch {
	case badToken(err):
		return chat.Fatal(fmt.Errorf("Slack refuses the token (%w); check channels.%s.%s, and that the app is installed", err, c.deps.Name, key)) //nolint:staticcheck // a name begins the sentence
	case hasCode(err, "missing_scope"):
		return chat.Fatal(c.lacksScope(err))
	}
	return err
}

// lacksScope says how a missing scope is added.
func (c *client) lacksScope(err error) error {
	e, _ := errors.AsType[api.SlackErrorResponse](err)
	return fmt.Errorf("the Slack app lacks the scope %s; add it in the app's settings under OAuth & Permissions and install the app again: %w", e.Needed, err)
}

// classify puts an error of a call into the words of the manager.
func (c *client) classify(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*api.RateLimitedError](err); ok {
		return chat.RateLimited(max(e.RetryAfter, time.Second), err)
	}

	if e, ok := errors.AsType[api.StatusCodeError](err); ok {
		switch e.Code {
		case http.StatusTooManyRequests:
			return chat.RateLimited(30*time.Second, err)
		case http.StatusRequestEntityTooLarge:
			return chat.Permanent(err)
		}
		return err
	}

	switch word := refusal(err); {
	case word == "":
		return err
	case badToken(err):
		err = c.refusedToken("botToken", err)
		c.fail(err)
		return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	case word == "missing_scope":
		return chat.Permanent(c.lacksScope(err))
	case word == "not_in_channel":
		return chat.Permanent(fmt.Errorf("the bot is not a member of the channel; invite it with /invite: %w", err))
	case slices.Contains([]string{"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"}, word):
		return err
	case word == "ratelimited" || word == "rate_limited" || word == "message_limit_exceeded":
		return chat.RateLimited(30*time.Second, err)
	}

	return chat.Permanent(err)
}

// needed returns the scopes without which something does not work.
func needed() []string {
	return []string{
		"app_mentions:read", "channels:history", "channels:read", "chat:write", "files:read", "files:write", "groups:history", "groups:read",
		"im:history", "im:write", "mpim:history", "reactions:write", "users:read",
	}
}

// missing lists the scopes that a token lacks, by the header of an answer.
func missing(h http.Header, want []string) string {
	all := h.Get("X-Oauth-Scopes")
	if all == "" {
		return ""
	}

	var has, lack []string
	for s := range strings.SplitSeq(all, ",") {
		has = append(has, strings.TrimSpace(s))
	}

	for _, s := range want {
		if !slices.Contains(has, s) {
			lack = append(lack, s)
		}
	}
	return strings.Join(lack, " ")
}
