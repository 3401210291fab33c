package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	uploadTimeout = 5 * time.Minute
	maxAnswer     = 16 << 20 // bytes of one answer
	agent         = "DiscordBot (https://github.com/nanobot-go/nanobot, 1)"
)

// The codes of errors that are told apart.
const (
	codeUnknownChannel = 10003
	codeUnknownMessage = 10008
	codeUnknownEmoji   = 10014
	codeTooLarge       = 40005
	codeArchived       = 50083
)

// client speaks the REST API. It keeps to the buckets that the answers name, so
// that Discord has nothing to refuse.
type client struct {
	rest   kit.REST
	limits *limits
}

// call is one request.
type call struct {
	method, path string
	body         any
	files        []*kit.Attachment
	patience     time.Duration // how long to wait for a bucket; more is an error
}

func newClient(base string, token httpsafe.Secret, h *http.Client, now func() time.Time) *client {
	return &client{
		rest: kit.REST{
			Client: h,
			Base:   base,
			Token:  kit.Static(token),
			Sign:   sign,
			Judge:  judge,
			Most:   maxAnswer,
		},
		limits: newLimits(now),
	}
}

func sign(req *http.Request, token string) {
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Authorization", "Bot "+token)
}

// apiError is a refusal by the REST API.
type apiError struct {
	Call    string // method and form of the path
	Status  int
	Code    int
	Message string
	After   time.Duration // with 429
	Global  bool          // no call is taken before that
	Shared  bool          // the limit is used up by others
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: %d %s (code %d)", e.Call, e.Status, e.Message, e.Code)
}

// refusal returns the apiError in err, nil if it is another error.
func refusal(err error) *apiError {
	e, _ := errors.AsType[*apiError](err)
	return e
}

// is reports whether err is a refusal with one of the codes.
func is(err error, codes ...int) bool {
	e := refusal(err)
	for _, c := range codes {
		if e != nil && e.Code == c {
			return true
		}
	}
	return false
}

// classify puts an error of a sending call into the words of the manager.
func classify(err error) error {
	e := refusal(err)
	if e == nil {
		return err
	}

	switch e.Status {
	case http.StatusTooManyRequests:
		return chat.RateLimited(max(e.After, 100*time.Millisecond), err)
	case http.StatusUnauthorized: // Run says so
		return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return chat.Permanent(err)
	}

	return err
}

// form returns a path without what differs from call to call, and the channel, which
// buckets are kept for.
func form(path string) (string, string) {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	major := ""
	for i, p := range parts {
		switch {
		case i > 0 && parts[i-1] == "reactions", i > 1 && parts[1] == "interactions" && i < 4:
			parts[i] = "*"
		case number(p) != 0:
			if i == 2 {
				major = p
			}
			parts[i] = "*"
		}
	}

	return strings.Join(parts, "/"), major
}

// do runs a call and reads its answer into result, if that is not nil.
func (c *client) do(ctx context.Context, k call, result any) error {
	shape, major := form(k.path)
	name := k.method + " " + shape
	for {
		pause, err := c.limits.spend(name, major)
		if err == nil && pause == 0 {
			err = c.once(ctx, k, name, major, result)
			if e := refusal(err); e != nil && e.Status == http.StatusTooManyRequests {
				pause = max(e.After, 50*time.Millisecond)
			}
		} else if err == nil {
			err = &apiError{Call: name, Status: http.StatusTooManyRequests, Message: "the limit of this call is used up", After: pause}
		}

		if err == nil || pause == 0 || pause > k.patience {
			return err
		}

		k.patience -= pause
		if wait.For(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

// once makes a call, and remembers what its answer says about limits.
func (c *client) once(ctx context.Context, k call, name, major string, result any) error {
	limit := time.Duration(0)
	if len(k.files) > 0 {
		limit = uploadTimeout
	}

	a, err := c.rest.Ask(ctx, kit.Call{Method: k.method, Path: k.path, Name: name, Body: k.encode(), Within: limit})
	if a.Header != nil {
		c.limits.record(name, major, a.Header)
	}
	if e := refusal(err); e != nil {
		c.limits.count(e)
	}

	if err != nil {
		return err
	}
	return a.Decode(result)
}

// judge reads what Discord said.
func judge(a kit.Answer) (json.RawMessage, error) {
	if a.OK() {
		return a.Body, nil
	}

	var said struct {
		Message string          `json:"message"`
		Code    int             `json:"code"`
		After   float64         `json:"retry_after"`
		Global  bool            `json:"global"`
		Errors  json.RawMessage `json:"errors"`
	}
	if err := json.Unmarshal(a.Body, &said); err != nil {
		return nil, a.Foreign("the API")
	}

	e := &apiError{
		Call:    a.Call,
		Status:  a.Status,
		Code:    said.Code,
		Message: said.Message,
		After:   time.Duration(min(max(said.After, 0), 3600) * float64(time.Second)),
		Global:  said.Global,
		Shared:  a.Header.Get("X-RateLimit-Scope") == "shared",
	}
	if said.After == 0 {
		e.After = a.Pause()
	}
	if len(said.Errors) > 0 {
		e.Message += " " + string(said.Errors[:min(len(said.Errors), 300)])
	}
	return nil, e
}

// encode makes the body of a request: JSON, or a form with files.
func (k call) encode() kit.Body {
	if len(k.files) == 0 {
		return kit.JSON(k.body)
	}
	form := kit.NewForm()
	form.JSON("payload_json", k.body)
	for i, f := range k.files {
		form.File("files["+strconv.Itoa(i)+"]", f.Name, f, f.Size())
	}
	return form.Body()
}
