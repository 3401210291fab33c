// Package oauth makes the requests of every OAuth login: at model providers, MCP
// servers, mail servers and cloud sign-in services. golang.org/x/oauth2 speaks
// the protocol; this package adds our HTTP client with its address guard and
// limits (Wire), errors that hold what a server said (RefusedError), the page
// at which a browser ends (Callback), one renewal however many callers need it
// (Source), and the documents in which logins are kept (Document).
package oauth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	// Timeout bounds one exchange with a login server.
	Timeout = 20 * time.Second

	maxAnswer = 1 << 20 // bytes of any answer
)

// Wire talks to login servers.
type Wire struct {
	Client *http.Client // from httpsafe
	Agent  string       // User-Agent, "" for Go's own
}

// Request is a request to a login server that OAuth does not define.
type Request struct {
	URL    string
	Body   any // url.Values are posted as a form, other values as JSON; nil means GET
	Header map[string]string
	Hide   []string // secrets of the request, removed from errors
}

// Answer holds what a server said, with any status.
type Answer struct {
	URL    string
	Status int
	Header http.Header
	Body   []byte   // empty for a stream of events, which has no end
	Hide   []string // secrets that were sent
}

// Host returns where the answer came from.
func (a Answer) Host() string { return HostOf(a.URL) }

// OK reports a 2xx status.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status <= 299 }

// Decode reads a 2xx answer in JSON.
func (a Answer) Decode(into any) error {
	if !a.OK() || json.Unmarshal(a.Body, into) != nil {
		return a.Refused()
	}
	return nil
}

// HostOf returns the host of an address, for messages.
func HostOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return "the server"
}

// Do sends a request. An error means that there was no answer.
func (w Wire) Do(ctx context.Context, r Request) (Answer, error) {
	method := http.MethodPost
	var payload []byte
	kind := "application/json"
	switch body := r.Body.(type) {
	case nil:
		method, kind = http.MethodGet, ""
	case url.Values:
		payload, kind = []byte(body.Encode()), "application/x-www-form-urlencoded"
	default:
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return Answer{}, err
		}
	}

	req, err := http.NewRequestWithContext(ctx, method, r.URL, bytes.NewReader(payload))
	if err != nil {
		return Answer{}, err
	}

	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}

	for k, v := range r.Header {
		req.Header.Set(k, v)
	}

	t := w.transport()
	t.hide = r.Hide
	resp, err := t.client().Do(req)
	if err != nil {
		return Answer{}, err
	}
	return *t.last, resp.Body.Close()
}

// Exchange turns a code into a token.
func (w Wire) Exchange(ctx context.Context, c *oauth2.Config, code string, opts ...oauth2.AuthCodeOption) (*oauth2.Token, error) {
	return w.token(ctx, func(ctx context.Context) (*oauth2.Token, error) { return c.Exchange(ctx, code, opts...) })
}

// Grant asks for a token without a person. Without a grant_type among the
// parameters it is client_credentials.
func (w Wire) Grant(ctx context.Context, c *oauth2.Config, params url.Values) (*oauth2.Token, error) {
	// The library's own refresh sends no further parameters, such as the
	// resource that MCP demands and the scope that Microsoft demands.
	conf := clientcredentials.Config{
		ClientID:       c.ClientID,
		ClientSecret:   c.ClientSecret,
		TokenURL:       c.Endpoint.TokenURL,
		Scopes:         c.Scopes,
		AuthStyle:      c.Endpoint.AuthStyle,
		EndpointParams: params,
	}
	return w.token(ctx, conf.Token)
}

// Refresh is a Grant for a refresh token. The answer keeps it unless it holds
// a new one.
func (w Wire) Refresh(ctx context.Context, c *oauth2.Config, refresh string, params url.Values) (*oauth2.Token, error) {
	all := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}
	maps.Copy(all, params)
	return w.Grant(ctx, c, all)
}

// Device asks for a code that a person types in a browser anywhere, shows it,
// and waits for the token. What retry accepts, and trouble of the server, does
// not end the wait.
func (w Wire) Device(ctx context.Context, c *oauth2.Config, show func(*oauth2.DeviceAuthResponse) error, retry func(error) bool) (*oauth2.Token, error) {
	t := w.transport()
	da, err := c.DeviceAuth(t.into(ctx))
	if err != nil {
		return nil, t.explain(err)
	}
	if err := show(da); err != nil {
		return nil, err
	}

	if da.Expiry.IsZero() {
		da.Expiry = time.Now().Add(15 * time.Minute)
	}

	t.patient = func(err error) bool { return ctx.Err() == nil && retry(err) }

	got, err := c.DeviceAccessToken(t.into(ctx), da)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !time.Now().Before(da.Expiry) {
		return nil, &RefusedError{Answer: *t.last, Code: "expired_token", Text: "the code expired before it was typed"}
	}
	if err != nil {
		return nil, t.explain(err)
	}
	return got, nil
}

func (w Wire) token(ctx context.Context, call func(context.Context) (*oauth2.Token, error)) (*oauth2.Token, error) {
	t := w.transport()
	got, err := call(t.into(ctx))
	if err != nil {
		return nil, t.explain(err)
	}
	return got, nil
}

// Call lets another library talk to a login server with our client. An error
// is that of the transport or a *RefusedError.
func (w Wire) Call(call func(*http.Client) error) error {
	t := w.transport()
	if err := call(t.client()); err != nil {
		return t.explain(err)
	}
	return nil
}

// Life returns how long a new token lasts, 0 if the server did not say.
func Life(t *oauth2.Token) time.Duration {
	if t.Expiry.IsZero() {
		return 0
	}
	return max(0, time.Until(t.Expiry).Round(time.Second))
}

func (w Wire) transport() *transport {
	base := w.Client.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{wire: w, base: base}
}

// transport adds our headers and limits to what a library sends and remembers
// the last answer, of which libraries tell only a part.
type transport struct {
	wire    Wire
	base    http.RoundTripper
	patient func(error) bool // failures that mean that a device code was not typed yet
	hide    []string
	last    *Answer
}

func (t *transport) client() *http.Client {
	c := *t.wire.Client
	c.Transport = t
	return &c
}

func (t *transport) into(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, t.client())
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.answer(req)
	switch {
	case t.patient == nil:
		return resp, err
	case err != nil && t.patient(err), err == nil && (resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests):
		return t.record(req, &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}}, []byte(`{"error":"authorization_pending"}`)), nil
	}
	return resp, err
}

func (t *transport) answer(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), Timeout)
	defer cancel()
	req = req.Clone(ctx)
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if t.wire.Agent != "" {
		req.Header.Set("User-Agent", t.wire.Agent)
	}

	if err := t.secrets(req); err != nil {
		return nil, err
	}

	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, t.late(ctx, req, err)
	}

	defer func() { _ = resp.Body.Close() }()
	var body []byte
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		if body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
			return nil, t.late(ctx, req, err)
		}
	}
	return t.record(req, resp, body), nil
}

// secrets notes what a request must not show in errors.
func (t *transport) secrets(req *http.Request) error {
	if _, token, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok {
		t.hide = append(t.hide, token)
	}
	if _, secret, ok := req.BasicAuth(); ok {
		t.hide = append(t.hide, secret)
	}

	if req.GetBody == nil || req.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return nil
	}

	body, err := req.GetBody()
	if err != nil {
		return err
	}

	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}

	form, err := url.ParseQuery(string(data))
	for _, k := range []string{"code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "device_code"} {
		t.hide = append(t.hide, form.Get(k))
	}
	return err
}

// late names the server that did not answer in time.
func (t *transport) late(ctx context.Context, req *http.Request, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer within %s: %w", req.URL.Host, Timeout, context.DeadlineExceeded)
	}
	return err
}

// record holds an answer for later and makes it readable again. The library takes a
// JSON object of a server that does not name its type for a form.
func (t *transport) record(req *http.Request, resp *http.Response, body []byte) *http.Response {
	t.last = &Answer{URL: req.URL.String(), Status: resp.StatusCode, Header: resp.Header.Clone(), Body: body, Hide: t.hide}
	out := *resp
	out.Request, out.Header = req, resp.Header.Clone()
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		out.Header.Set("Content-Type", "application/json")
	}
	return &out
}

// explain returns the error of a call: that of the transport if the server did not
// answer, else what it said.
func (t *transport) explain(err error) error {
	if _, broken := errors.AsType[*url.Error](err); broken || t.last == nil {
		return err
	}
	return t.last.Refused()
}

// RefusedError says that a server answered, but not with what was asked for.
type RefusedError struct {
	Answer
	Code string // of RFC 6749, "" if there is none
	Text string // why, without secrets
	Said bool   // Text is the server's, not ours
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("HTTP %d: %s (%s)", e.Status, e.Text, e.Host())
}

// Refused reads why an answer is not what was asked for. The error may be a
// text, as in RFC 6749, or an object.
func (a Answer) Refused() *RefusedError {
	var o struct {
		Code        json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	e := &RefusedError{Answer: a}
	isJSON := json.Unmarshal(a.Body, &o) == nil
	var obj struct{ Code, Type, Message string }
	if json.Unmarshal(o.Code, &e.Code) != nil && json.Unmarshal(o.Code, &obj) == nil {
		e.Code = cmp.Or(obj.Code, obj.Type)
	}

	why, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(o.Description, obj.Message, e.Code)), "\n") // further lines are trace numbers
	e.Text = Clean(strings.TrimSpace(why), a.Hide...)
	e.Said = e.Text != ""

	switch {
	case e.Said:
	case !a.OK():
		e.Text = cmp.Or(strings.ToLower(http.StatusText(a.Status)), "no reason given")
	case isJSON:
		e.Text = "the answer holds no token"
	default:
		e.Text = "the answer is not JSON"
	}

	return e
}

// Clean makes a text of a server fit for a message: one line, without known
// secrets, and not long.
func Clean(s string, hide ...string) string {
	for _, h := range hide {
		if len(h) >= 6 {
			s = strings.ReplaceAll(s, h, "***")
		}
	}

	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, text.Valid(s))
	return text.Ellipsis(httpsafe.RedactPatterns(s), 300)
}
