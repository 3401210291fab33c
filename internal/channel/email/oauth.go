package email

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// oauthOptions replaces the passwords: a token that is good for an hour is
// fetched with one that is good for long.
type oauthOptions struct {
	Provider     string          `json:"provider"` // google or microsoft; "" with tokenUrl
	ClientID     string          `json:"clientId"`
	ClientSecret httpsafe.Secret `json:"clientSecret"`
	RefreshToken httpsafe.Secret `json:"refreshToken"`
	TokenURL     string          `json:"tokenUrl"`
	Scope        string          `json:"scope"`
}

func (o *options) checkOAuth() error {
	if raw := bytes.TrimSpace(o.OAuthSection); len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	var a oauthOptions
	if err := channel.Decode(o.OAuthSection, &a); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	switch a.Provider {
	case "google":
		a.TokenURL = or(a.TokenURL, "https://oauth2.googleapis.com/token")
	case "microsoft":
		a.TokenURL = or(a.TokenURL, "https://login.microsoftonline.com/common/oauth2/v2.0/token")
		a.Scope = or(a.Scope, "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send offline_access")
	case "":
	default:
		return fmt.Errorf("oauth.provider: %q is neither google nor microsoft; leave it out and set tokenUrl", a.Provider)
	}
	u, err := url.Parse(a.TokenURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && !loopback(u.Hostname()):
		return errors.New("oauth.tokenUrl: not an https address")
	case a.ClientID == "":
		return errors.New("oauth.clientId is missing")
	case a.RefreshToken.IsZero():
		return errors.New("oauth.refreshToken is missing")
	}
	o.oauth = &a
	return nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// tokens fetches and keeps an access token.
type tokens struct {
	o    oauthOptions
	http *http.Client
	now  func() time.Time

	mu    sync.Mutex
	token string
	until time.Time
	next  string // refresh token that replaced the configured one, in this run
}

// get returns a token that is good for a minute at least.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" && t.now().Add(time.Minute).Before(t.until) {
		return t.token, nil
	}
	form := url.Values{
		"grant_type": {"refresh_token"}, "client_id": {t.o.ClientID}, "refresh_token": {or(t.next, t.o.RefreshToken.Reveal())},
	}
	if !t.o.ClientSecret.IsZero() {
		form.Set("client_secret", t.o.ClientSecret.Reveal())
	}
	if t.o.Scope != "" {
		form.Set("scope", t.o.Scope)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.o.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := t.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("fetch an oauth token: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	var answer struct {
		Token   string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Seconds int    `json:"expires_in"`
		Error   string `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&answer); err != nil {
		return "", fmt.Errorf("fetch an oauth token: HTTP status %d: %w", res.StatusCode, err)
	}
	if res.StatusCode != http.StatusOK || answer.Token == "" {
		return "", fmt.Errorf("fetch an oauth token: HTTP status %d %s; create a new refresh token if it was revoked", res.StatusCode, answer.Error)
	}
	t.token, t.until = answer.Token, t.now().Add(time.Duration(answer.Seconds)*time.Second)
	t.next = or(answer.Refresh, t.next)
	return t.token, nil
}

// xoauth2 is the way to show a token that Google and Microsoft understand.
type xoauth2 struct{ user, token string }

// Start implements sasl.Client.
func (x *xoauth2) Start() (mech string, ir []byte, err error) {
	return "XOAUTH2", []byte("user=" + x.user + "\x01auth=Bearer " + x.token + "\x01\x01"), nil
}

// Next implements sasl.Client: the server explains a refusal, and wants an
// empty answer before it says no.
func (x *xoauth2) Next([]byte) ([]byte, error) { return []byte{}, nil }
