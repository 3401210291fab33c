package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus/media"
)

// Limits of a call for which the platform has no other ones.
const (
	callTime   = 30 * time.Second
	answerMost = 8 << 20   // bytes
	pauseMost  = time.Hour // that a platform may ask us to wait
)

// REST calls the JSON API of a platform. It hides how a request is made, signed and sent a
// second time with another token, how much of an answer is read and for how long, and what an
// error may show: neither an address, which may hold a token or ids, nor the token. What the
// platform's answers mean is said by Judge. The fields are not changed after the first call.
// Safe for concurrent use.
type REST struct {
	Client *http.Client
	Base   string // stands before the paths, without a slash at the end

	// Token returns the token that a call is made with, another one than refused. Nil: calls
	// are made without. An error is returned by the call as it is.
	Token func(ctx context.Context, refused string) (string, error)
	// Sign writes the token, "" for none, and what else belongs to each request into its
	// head. Nil: nothing does.
	Sign func(req *http.Request, token string)
	// Stale reports whether an error of Judge means that the token is over. The call is
	// made a second time then, with another one. Nil: it never does.
	Stale func(err error) bool

	// Judge tells a result from a refusal. It returns the part of the body that holds the
	// result. It is called for every status, and must not take what a proxy on the way said
	// for a word of the platform; see Answer.Foreign.
	Judge func(a Answer) (json.RawMessage, error)
	// Holds reports whether an answer to Open is what was asked for. Nil: by its status.
	Holds func(res *http.Response) bool
	// Heard is called with the head of every answer. Nil: nothing is learned from it.
	Heard func(h http.Header)

	Within time.Duration // for a call with all its tries; 0: 30 s
	Most   int64         // bytes of an answer; 0: 8 MiB
}

// Call is one request.
type Call struct {
	Method string
	Path   string // with the query, escaped
	Name   string // by which errors know it; "": the method, and the path without its query
	Header http.Header
	Body   Body
	Within time.Duration // 0: as usual
	Most   int64         // 0: as usual
}

// Answer is what came back.
type Answer struct {
	Call   string // as errors name it
	Status int
	Header http.Header
	Body   []byte // of a refusal perhaps not all of it
	token  string
}

// lateError is the end of a call by its own limit.
type lateError struct {
	call  string
	limit time.Duration
	err   error
}

func (e *lateError) Error() string { return fmt.Sprintf("%s: no answer within %s", e.call, e.limit) }
func (e *lateError) Unwrap() error { return e.err }

// Do makes a call and reads the result of its answer, unless result is nil.
func (r *REST) Do(ctx context.Context, c Call, result any) error {
	a, err := r.Ask(ctx, c)
	if err != nil {
		return err
	}
	return a.Decode(result)
}

// Ask makes a call. The body of the answer is what Judge says. With an error of Judge the answer
// is returned, too; without any answer it has no head.
func (r *REST) Ask(ctx context.Context, c Call) (Answer, error) {
	limit := cmp.Or(c.Within, r.Within, callTime)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var a Answer
	err := r.exchange(limited, c, func(res *http.Response, token string) (err error) {
		a, err = r.read(res, c, token)
		return err
	})
	if ctx.Err() == nil && limited.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		err = &lateError{c.name(), limit, err}
	}
	return a, err
}

// Open makes a call and returns its answer while it is read, as long as ctx allows. The caller
// closes the body.
func (r *REST) Open(ctx context.Context, c Call) (*http.Response, error) {
	holds := r.Holds
	if holds == nil {
		holds = func(res *http.Response) bool { return good(res.StatusCode) }
	}

	var opened *http.Response
	err := r.exchange(ctx, c, func(res *http.Response, token string) error {
		if holds(res) {
			opened = res
			return nil
		}
		if _, err := r.read(res, c, token); err != nil {
			return err
		}
		return fmt.Errorf("%s: HTTP status %d and not what was asked for", c.name(), res.StatusCode)
	})
	return opened, err
}

// exchange makes a request and has its answer read, a second time if the token is over.
func (r *REST) exchange(ctx context.Context, c Call, read func(res *http.Response, token string) error) error {
	refused := ""
	for {
		token := ""
		if r.Token != nil {
			var err error
			if token, err = r.Token(ctx, refused); err != nil {
				return err
			}
		}

		res, err := r.send(ctx, c, token) //nolint:bodyclose // read closes it
		if err != nil {
			return err
		}

		err = read(res, token)
		if err == nil || r.Stale == nil || token == "" || refused != "" || c.Body.once || !r.Stale(err) {
			return err
		}
		refused = token
	}
}

// send makes one request.
func (r *REST) send(ctx context.Context, c Call, token string) (*http.Response, error) {
	if c.Body.err != nil {
		return nil, fmt.Errorf("%s: %w", c.name(), c.Body.err)
	}

	req, err := http.NewRequestWithContext(ctx, c.Method, r.Base+c.Path, nil)
	if err != nil {
		return nil, c.failed(err, token)
	}

	if c.Body.size > 0 {
		req.ContentLength = c.Body.size
		req.Body = io.NopCloser(c.Body.open())
		if !c.Body.once {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(c.Body.open()), nil }
		}
	}

	if c.Body.kind != "" {
		req.Header.Set("Content-Type", c.Body.kind)
	}
	if r.Sign != nil {
		r.Sign(req, token)
	}

	maps.Copy(req.Header, c.Header)

	res, err := r.Client.Do(req)
	if err != nil {
		return nil, c.failed(err, token)
	}

	if r.Heard != nil {
		r.Heard(res.Header)
	}
	return res, nil
}

// read takes what Judge finds in an answer, and closes it. Of a refusal that is too long the
// beginning counts, so that its status is not lost.
func (r *REST) read(res *http.Response, c Call, token string) (Answer, error) {
	defer res.Body.Close() //nolint:errcheck // read only
	a := Answer{Call: c.name(), Status: res.StatusCode, Header: res.Header, token: token}
	most := cmp.Or(c.Most, r.Most, answerMost)
	data, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return a, c.failed(err, token)
	}

	if int64(len(data)) > most {
		if a.OK() {
			return a, fmt.Errorf("%s: the answer is %w: over %d bytes", a.Call, media.ErrTooLarge, most)
		}
		data = data[:most]
	}

	a.Body = data
	a.Body, err = r.Judge(a)
	return a, err
}

func (c *Call) name() string {
	if c.Name != "" {
		return c.Name
	}
	path, _, _ := strings.Cut(c.Path, "?")
	return c.Method + " " + path
}

// failed is the error of a call without an answer.
func (c *Call) failed(err error, token string) error {
	err = httpsafe.WithoutURL(err)
	if token != "" && strings.Contains(err.Error(), token) {
		return fmt.Errorf("%s: %s", c.name(), hide(err.Error(), token))
	}
	return fmt.Errorf("%s: %w", c.name(), err)
}

func hide(s, token string) string {
	if token == "" {
		return s
	}
	return strings.ReplaceAll(s, token, "***")
}

func good(status int) bool { return status/100 == 2 }

// OK reports whether the status is one of success.
func (a Answer) OK() bool { return good(a.Status) }

// Hide takes the token out of words of the platform.
func (a Answer) Hide(s string) string { return hide(s, a.token) }

// Foreign is the error of an answer that something between us and the platform gave, such as a
// proxy. Its status says nothing about what was asked for, so it is never final.
func (a Answer) Foreign(platform string) error {
	return fmt.Errorf("%s: HTTP status %d without an answer of %s", a.Call, a.Status, platform)
}

// Pause returns how long the platform asks to wait, in seconds in the first of these headers that
// says so; without names it is Retry-After. It is an hour at most, and 0 if it does not say.
func (a Answer) Pause(headers ...string) time.Duration {
	if len(headers) == 0 {
		headers = []string{"Retry-After"}
	}

	for _, name := range headers {
		seconds, err := strconv.ParseFloat(a.Header.Get(name), 64)
		if err == nil && seconds > 0 {
			return time.Duration(min(seconds, pauseMost.Seconds()) * float64(time.Second))
		}
	}
	return 0
}

// Decode reads the body, unless result is nil.
func (a Answer) Decode(result any) error {
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Body, result); err != nil {
		return a.Unexpected(err)
	}
	return nil
}

// Unexpected is the error of an answer that cannot be read.
func (a Answer) Unexpected(err error) error {
	return fmt.Errorf("%s: the answer is not as expected: %w", a.Call, err)
}

// Static returns the Token of an API whose token stands in the section.
func Static(s httpsafe.Secret) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) { return s.Reveal(), nil }
}
