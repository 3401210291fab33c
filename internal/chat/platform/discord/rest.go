package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	callTimeout   = 30 * time.Second
	uploadTimeout = 5 * time.Minute
	maxAnswer     = 16 << 20 // bytes of one answer
	agent         = "DiscordBot (https://github.com/nanobot-go/nanobot, 1)"

	// Discord shuts an address out for a while after 10,000 refused calls in ten
	// minutes. A tenth of it means that something is wrong.
	refusedMost = 1000
	refusedSpan = 10 * time.Minute

	sameWindow = 250 * time.Millisecond // two answers that name the same end of a bucket differ by less
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
	base  string // without a slash at the end
	token httpsafe.Secret
	http  *http.Client
	now   func() time.Time

	routes *recent.Map[string, string] // method and form of a path -> its bucket

	mu      sync.Mutex
	buckets map[string]*bucket // by bucket and channel
	global  time.Time          // no call before
	refused int                // calls since
	since   time.Time
	revoked bool // the token is not good any more
}

// bucket is how many calls are left until a time.
type bucket struct {
	left  int
	reset time.Time
}

// call is one request.
type call struct {
	method, path string
	body         any
	files        []*kit.Attachment
	patience     time.Duration // how long to wait for a bucket; more is an error
}

func newClient(base string, token httpsafe.Secret, h *http.Client, now func() time.Time) *client {
	return &client{base: base, token: token, http: h, now: now, routes: recent.New[string, string](500), buckets: map[string]*bucket{}}
}

// apiError is a refusal by the REST API.
type apiError struct {
	Call    string // method and form of the path
	Status  int
	Code    int
	Message string
	After   time.Duration // with 429
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

// form is a path without what differs from call to call, and the channel, which
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
	limit := callTimeout
	if len(k.files) > 0 {
		limit = uploadTimeout
	}
	for {
		pause, err := c.take(name, major)
		if err == nil && pause == 0 {
			trying, cancel := context.WithTimeout(ctx, limit)
			err = c.once(trying, k, name, major, result)
			cancel()
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

// take spends a call of a bucket, or says how long to wait for the next one.
func (c *client) take(name, major string) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.revoked {
		return 0, &apiError{Call: name, Status: http.StatusUnauthorized, Message: "Discord refused the token before"}
	}
	if now.Sub(c.since) > refusedSpan {
		c.since, c.refused = now, 0
	}
	if c.refused >= refusedMost {
		return c.since.Add(refusedSpan).Sub(now) + time.Second, nil
	}
	if pause := c.global.Sub(now); pause > 0 {
		return pause, nil
	}
	id, _ := c.routes.Get(name)
	b := c.buckets[id+"/"+major]
	if b == nil || !now.Before(b.reset) {
		return 0, nil
	}
	if b.left == 0 {
		return b.reset.Sub(now), nil
	}
	b.left--
	return 0, nil
}

// learn reads what an answer says about its bucket.
func (c *client) learn(name, major string, h http.Header) {
	id := h.Get("X-RateLimit-Bucket")
	left, err := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	seconds, err2 := strconv.ParseFloat(h.Get("X-RateLimit-Reset-After"), 64)
	if id == "" || err != nil || err2 != nil || seconds < 0 || seconds > 3600 {
		return
	}
	c.routes.Put(name, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if len(c.buckets) > 1000 {
		for k, b := range c.buckets {
			if !now.Before(b.reset) {
				delete(c.buckets, k)
			}
		}
	}
	reset := now.Add(time.Duration(seconds * float64(time.Second)))
	if b := c.buckets[id+"/"+major]; b != nil && now.Before(b.reset) && reset.Sub(b.reset) < sameWindow {
		left = min(left, b.left) // answers may overtake each other
	}
	c.buckets[id+"/"+major] = &bucket{left, reset}
}

func (c *client) once(ctx context.Context, k call, name, major string, result any) error {
	body, size, kind, err := k.encode()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, k.method, c.base+k.path, body)
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}
	req.ContentLength = size
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Authorization", "Bot "+c.token.Reveal())
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}
	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", name, httpsafe.WithoutURL(err))
	}
	c.learn(name, major, res.Header)
	if res.StatusCode/100 != 2 {
		return c.refuse(name, res, data)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(data, result); err != nil {
		return fmt.Errorf("%s: the answer is not as expected: %w", name, err)
	}
	return nil
}

// refuse makes an error of an answer, and counts those that Discord counts.
func (c *client) refuse(name string, res *http.Response, data []byte) error {
	var a struct {
		Message string          `json:"message"`
		Code    int             `json:"code"`
		After   float64         `json:"retry_after"`
		Global  bool            `json:"global"`
		Errors  json.RawMessage `json:"errors"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		// Somebody between us and Discord answered. A status of theirs says
		// nothing about the message, so none of it is final.
		return fmt.Errorf("%s: HTTP status %d without an answer of the API", name, res.StatusCode)
	}
	if a.After == 0 {
		a.After, _ = strconv.ParseFloat(res.Header.Get("Retry-After"), 64)
	}
	e := &apiError{Call: name, Status: res.StatusCode, Code: a.Code, Message: a.Message, After: time.Duration(min(max(a.After, 0), 3600) * float64(time.Second))}
	if len(a.Errors) > 0 {
		e.Message += " " + string(a.Errors[:min(len(a.Errors), 300)])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.Status == http.StatusUnauthorized:
		c.revoked = true
		c.refused++
	case e.Status == http.StatusForbidden, e.Status == http.StatusTooManyRequests && res.Header.Get("X-RateLimit-Scope") != "shared":
		c.refused++
	}
	if e.Status == http.StatusTooManyRequests && a.Global {
		c.global = c.now().Add(e.After)
	}
	return e
}

// encode makes the body of a request: JSON, or a form with files.
func (k call) encode() (body io.Reader, size int64, kind string, err error) {
	if k.body == nil {
		return nil, 0, "", nil
	}
	data, err := json.Marshal(k.body)
	if err != nil {
		return nil, 0, "", err
	}
	if len(k.files) == 0 {
		return bytes.NewReader(data), int64(len(data)), "application/json", nil
	}

	var parts []io.Reader
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	flush := func() {
		size += int64(head.Len())
		parts = append(parts, bytes.NewReader(bytes.Clone(head.Bytes())))
		head.Reset()
	}
	h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="payload_json"`}, "Content-Type": {"application/json"}}
	p, err := w.CreatePart(h)
	if err == nil {
		_, err = p.Write(data)
	}
	for i, f := range k.files {
		if err == nil {
			_, err = w.CreateFormFile("files["+strconv.Itoa(i)+"]", f.Name)
		}
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		flush()
		size += f.Size()
		parts = append(parts, f)
	}
	if err == nil {
		err = w.Close()
	}
	flush()
	return io.MultiReader(parts...), size, w.FormDataContentType(), err
}

// revive forgets that the token was refused: a person may have looked after it.
func (c *client) revive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revoked = false
}

// dead reports whether Discord refused the token.
func (c *client) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revoked
}
