package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/text"
)

const (
	oauthAskTimeout = 20 * time.Second // one exchange with a server
	oauthMaxAnswer  = 1 << 20          // bytes of any answer
)

// oauthWire talks to one MCP server and the login servers it names.
type oauthWire struct {
	home    string       // origin of the MCP server
	own     *http.Client // for that origin only
	guarded *http.Client // for everything else
	agent   string
}

func (a *OAuth) wire(server string) (*oauthWire, error) {
	u, err := oauthAddress(server)
	if err != nil {
		return nil, err
	}
	w := &oauthWire{home: oauthOrigin(u), agent: a.o.Agent}
	if w.own, err = httpsafe.Client(httpsafe.Options{
		Proxy: a.o.Proxy, Direct: httpsafe.IsLocal(server), HeaderTimeout: oauthAskTimeout,
	}); err != nil {
		return nil, err
	}
	w.guarded, err = httpsafe.Guarded(httpsafe.GuardOptions{
		Allow: a.o.Allow, Proxy: a.o.Proxy, EnvProxy: a.o.Proxy == "", Timeout: oauthAskTimeout,
	})
	return w, err
}

// oauthAddress reads an address that tokens or codes may travel to: https, or
// http on this machine or a private network, where the operator or the guard
// has a say.
func oauthAddress(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errors.New("the address is not a URL")
	case u.User != nil:
		return nil, fmt.Errorf("the address at %s holds a password", u.Host)
	case u.Scheme == "https", u.Scheme == "http" && httpsafe.IsLocal(raw):
		return u, nil
	}
	return nil, fmt.Errorf("%s://%s is not encrypted, and logins are not sent in the clear", u.Scheme, u.Host)
}

func oauthOrigin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// oauthQuestion is one request.
type oauthQuestion struct {
	url    string
	form   url.Values        // posted as a form
	body   any               // posted as JSON when form is nil
	header map[string]string // further headers
	basic  [2]string         // client id and secret for the header, if any
	hide   []string          // removed from error texts
}

// oauthAnswer is what came back, with any status.
type oauthAnswer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a question. An error means that there was no answer.
func (w *oauthWire) ask(ctx context.Context, q oauthQuestion) (oauthAnswer, error) {
	u, err := oauthAddress(q.url)
	if err != nil {
		return oauthAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, oauthAskTimeout)
	defer cancel()
	method, payload, kind := http.MethodGet, []byte(nil), ""
	switch {
	case q.form != nil:
		method, payload, kind = http.MethodPost, []byte(q.form.Encode()), "application/x-www-form-urlencoded"
	case q.body != nil:
		if payload, err = json.Marshal(q.body); err != nil {
			return oauthAnswer{}, err
		}
		method, kind = http.MethodPost, "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(payload))
	if err != nil {
		return oauthAnswer{}, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", w.agent)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for k, v := range q.header {
		req.Header.Set(k, v)
	}
	if q.basic[0] != "" {
		req.SetBasicAuth(url.QueryEscape(q.basic[0]), url.QueryEscape(q.basic[1]))
	}
	client := w.guarded
	if oauthOrigin(u) == w.home {
		client = w.own
	}
	resp, err := client.Do(req)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return oauthAnswer{}, fmt.Errorf("%s did not answer within %s", u.Host, oauthAskTimeout)
		}
		return oauthAnswer{}, fmt.Errorf("ask %s: %w", u.Host, httpsafe.WithoutURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	a := oauthAnswer{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return a, nil // it has no end, and nobody wants to read it
	}
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, oauthMaxAnswer)); err != nil {
		return oauthAnswer{}, fmt.Errorf("ask %s: %w", u.Host, httpsafe.WithoutURL(err))
	}
	return a, nil
}

// post asks and reads a 2xx JSON answer into v.
func (w *oauthWire) post(ctx context.Context, q oauthQuestion, v any) error {
	a, err := w.ask(ctx, q)
	if err != nil {
		return err
	}
	u, _ := url.Parse(q.url) // ask parsed it
	if a.status < 200 || a.status > 299 {
		return &oauthError{host: u.Host, status: a.status, body: readOAuthBody(a.body, q.hide)}
	}
	if json.Unmarshal(a.body, v) != nil {
		return fmt.Errorf("%s answered with something else than JSON", u.Host)
	}
	return nil
}

// oauthError is a refusal of a login server.
type oauthError struct {
	host   string
	status int
	body   oauthBody
}

type oauthBody struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func readOAuthBody(b []byte, hide []string) oauthBody {
	var o oauthBody
	_ = json.Unmarshal(b, &o) // anything else has no code
	o.Code, o.Description = oauthClean(o.Code, hide), oauthClean(o.Description, hide)
	return o
}

// oauthClean makes a text of a server fit for an error message.
func oauthClean(s string, hide []string) string {
	known := make([]httpsafe.Secret, 0, len(hide))
	for _, h := range hide {
		known = append(known, httpsafe.NewSecret(h))
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, text.Valid(s))
	return text.Ellipsis(httpsafe.RedactSecrets(s, known...), 300)
}

func (e *oauthError) Error() string {
	why := e.body.Description
	if why == "" {
		why = e.body.Code
	}
	if why == "" {
		why = "status " + strconv.Itoa(e.status)
	}
	return fmt.Sprintf("%s refused: %s", e.host, why)
}

// errGrantRefused says that a refresh token is not good any more.
var errGrantRefused = errors.New("the login was ended by the server")

// register makes us known to an authorization server as a public client.
func (w *oauthWire) register(ctx context.Context, m oauthMeta, redirect, scope string) (*oauthClient, error) {
	if m.RegistrationEndpoint == "" {
		return nil, fmt.Errorf("%s lets no program register itself; make an OAuth app there with the redirect address %s and log in with --client-id", m.host(), redirect)
	}
	want := map[string]any{
		"client_name": "nanobot", "redirect_uris": []string{redirect}, "application_type": "native",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": "none",
	}
	if scope != "" {
		want["scope"] = scope
	}
	var c oauthClient
	if err := w.post(ctx, oauthQuestion{url: m.RegistrationEndpoint, body: want}, &c); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	if c.ID == "" {
		return nil, fmt.Errorf("register: %s gave no client id", m.host())
	}
	c.Given = false
	return &c, nil
}

// exchange turns a code into tokens.
func (w *oauthWire) exchange(ctx context.Context, e oauthEntry, code, verifier string, now time.Time) (oauthTokens, error) {
	t, err := w.grant(ctx, e, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {e.Redirect}, "code_verifier": {verifier},
	}, now)
	if err != nil {
		return t, fmt.Errorf("exchange the code: %w", err)
	}
	return t, nil
}

// refresh turns a refresh token into tokens.
func (w *oauthWire) refresh(ctx context.Context, e oauthEntry, now time.Time) (oauthTokens, error) {
	t, err := w.grant(ctx, e, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {e.Tokens.Refresh}}, now)
	if o, ok := errors.AsType[*oauthError](err); ok {
		switch o.body.Code {
		case "invalid_grant", "invalid_client", "unauthorized_client":
			return t, fmt.Errorf("%w: %w", errGrantRefused, err)
		}
	}
	if t.Refresh == "" {
		t.Refresh = e.Tokens.Refresh
	}
	if t.Scope == "" {
		t.Scope = e.Tokens.Scope
	}
	return t, err
}

func (w *oauthWire) grant(ctx context.Context, e oauthEntry, form url.Values, now time.Time) (oauthTokens, error) {
	q := oauthQuestion{url: e.At.Token, form: form}
	form.Set("resource", e.At.Resource)
	switch c := e.Client; {
	case c.Secret != "" && c.Method != "client_secret_post":
		q.basic = [2]string{c.ID, c.Secret} // the default of RFC 7591
	default:
		form.Set("client_id", c.ID)
		if c.Secret != "" {
			form.Set("client_secret", c.Secret)
		}
	}
	q.hide = []string{form.Get("code"), form.Get("refresh_token"), form.Get("code_verifier"), e.Client.Secret}
	var raw struct {
		oauthTokens
		In json.RawMessage `json:"expires_in"` // a number, or a text in some servers
	}
	if err := w.post(ctx, q, &raw); err != nil {
		return oauthTokens{}, err
	}
	t := raw.oauthTokens
	if t.Access == "" || strings.ContainsAny(t.Access, "\r\n\x00") {
		return oauthTokens{}, errors.New("the login server gave no token")
	}
	if t.Type != "" && !strings.EqualFold(t.Type, "bearer") {
		return oauthTokens{}, fmt.Errorf("the login server gave a token of type %q, only bearer can be used", oauthClean(t.Type, nil))
	}
	t.ExpiresAt = 0
	if s, err := strconv.ParseFloat(strings.Trim(string(raw.In), `"`), 64); err == nil && s > 0 && s < math.MaxInt32 {
		t.ExpiresIn = int64(s)
		t.ExpiresAt = now.Unix() + t.ExpiresIn
	}
	return t, nil
}
