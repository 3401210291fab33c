package email

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/chat"
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
	if err := chat.Decode(o.OAuthSection, &a); err != nil {
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

// accessToken is a token with its end.
type accessToken struct {
	value string
	until time.Time
}

// newTokens fetches access tokens that are good for a minute at least.
func newTokens(o oauthOptions, client *http.Client, now func() time.Time) *oauth.Source[accessToken] {
	wire := oauth.Wire{Client: client}
	conf := &oauth2.Config{
		ClientID:     o.ClientID,
		ClientSecret: o.ClientSecret.Reveal(),
		Endpoint:     oauth2.Endpoint{TokenURL: o.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
		Scopes:       strings.Fields(o.Scope),
	}

	refresh := o.RefreshToken.Reveal() // the one that replaced the configured one, in this run
	return oauth.NewSource(oauth.SourceOptions[accessToken]{
		Key:   func(t accessToken) string { return t.value },
		Fresh: func(t accessToken) bool { return t.value != "" && now().Add(time.Minute).Before(t.until) },
		Renew: func(ctx context.Context, _ string) (accessToken, error) {
			t, err := wire.Refresh(ctx, conf, refresh, nil)
			if r, ok := errors.AsType[*oauth.RefusedError](err); ok {
				return accessToken{}, fmt.Errorf("fetch an oauth token: HTTP status %d %s; create a new refresh token if it was revoked", r.Status, r.Text)
			}
			if err != nil {
				return accessToken{}, fmt.Errorf("fetch an oauth token: %w", err)
			}

			refresh = t.RefreshToken
			return accessToken{t.AccessToken, now().Add(oauth.Life(t))}, nil
		},
	})
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
