package azure

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// clientSecret signs in as an application with its secret.
func (s *signer) clientSecret(ctx context.Context) (token, error) {
	if s.o.TenantID == "" || s.o.ClientID == "" || s.o.ClientSecret.IsZero() {
		return token{}, errNotHere
	}
	return s.signIn(ctx, s.o.ClientSecret.Reveal(), nil)
}

// federated signs in with a token that the platform (Kubernetes, a CI system)
// renews in a file.
func (s *signer) federated(ctx context.Context) (token, error) {
	if s.o.TenantID == "" || s.o.ClientID == "" || s.o.TokenFile == "" {
		return token{}, errNotHere
	}

	assertion, err := os.ReadFile(s.o.TokenFile)
	if err != nil {
		return token{}, fmt.Errorf("read the federated token: %w", err)
	}
	return s.signIn(ctx, "", url.Values{
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {string(bytes.TrimSpace(assertion))},
	})
}

func (s *signer) signIn(ctx context.Context, secret string, params url.Values) (token, error) {
	t, err := oauth.Wire{Client: s.o.Client}.Grant(ctx, &oauth2.Config{
		ClientID:     s.o.ClientID,
		ClientSecret: secret,
		Endpoint: oauth2.Endpoint{
			TokenURL:  strings.TrimRight(s.o.Authority, "/") + "/" + url.PathEscape(s.o.TenantID) + "/oauth2/v2.0/token",
			AuthStyle: oauth2.AuthStyleInParams,
		},
		Scopes: []string{s.o.Scope},
	}, params)
	if err != nil {
		return token{}, unreached(err)
	}
	return token{t.AccessToken, time.Now().Add(cmp.Or(oauth.Life(t), 2*margin))}, nil // without an end: use it briefly
}

// unreached marks trouble that may pass.
func unreached(err error) error {
	if _, answered := errors.AsType[*oauth.RefusedError](err); answered {
		return err
	}
	return &llm.Error{Kind: llm.Connection, Message: "the service cannot be reached", Err: err}
}

// managed asks the machine for the identity it has been given.
func (s *signer) managed(ctx context.Context) (token, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataPatience)
	defer cancel()
	u, err := url.Parse(s.o.MetadataURL)
	if err != nil {
		return token{}, fmt.Errorf("the address of the metadata service: %w", err)
	}

	q := u.Query()
	q.Set("api-version", "2018-02-01")
	q.Set("resource", resource(s.o.Scope))
	if s.o.ClientID != "" {
		q.Set("client_id", s.o.ClientID)
	}

	u.RawQuery = q.Encode()
	a, err := oauth.Wire{Client: s.o.MetadataClient}.Do(ctx, oauth.Request{URL: u.String(), Header: map[string]string{"Metadata": "true"}})
	switch {
	case err != nil:
		return token{}, errNotHere // this is not a machine of that cloud
	case a.Status != http.StatusOK:
		return token{}, a.Refused()
	}
	return parseToken(a.Body)
}

// commandLine asks the az program for the token of the signed-in user.
func (s *signer) commandLine(ctx context.Context) (token, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	args := []string{"account", "get-access-token", "--resource", resource(s.o.Scope), "--output", "json"}
	if s.o.TenantID != "" {
		args = append(args, "--tenant", s.o.TenantID)
	}

	out, err := s.o.Command(ctx, "az", args...)
	switch exit, ok := errors.AsType[*exec.ExitError](err); {
	case errors.Is(err, exec.ErrNotFound):
		return token{}, errNotHere
	case ok:
		return token{}, errors.New(httpsafe.RedactSecrets(text.FirstLine(string(exit.Stderr), 0)))
	case err != nil:
		return token{}, err
	}

	return parseToken(out)
}

// resource returns the older name of a scope.
func resource(scope string) string { return strings.TrimSuffix(scope, "/.default") }

// parseToken reads what is not quite OAuth: the metadata service writes numbers
// as text and gives the end, and the az program gives a local time.
func parseToken(body []byte) (token, error) {
	var w struct {
		Token     string          `json:"access_token"`
		CLIToken  string          `json:"accessToken"`
		ExpiresIn json.RawMessage `json:"expires_in"`
		ExpiresOn json.RawMessage `json:"expires_on"`
		LocalTime string          `json:"expiresOn"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return token{}, errors.New("the answer is not JSON")
	}

	t := token{value: w.Token}
	if t.value == "" {
		t.value = w.CLIToken
	}

	if t.value == "" {
		return token{}, errors.New("the answer holds no token")
	}

	local, err := time.ParseInLocation("2006-01-02 15:04:05", w.LocalTime, time.Local)
	switch at, in := number(w.ExpiresOn), number(w.ExpiresIn); {
	case in > 0:
		t.expires = time.Now().Add(time.Duration(min(in, longest)) * time.Second)
	case at > 0:
		t.expires = time.Unix(at, 0)
	case err == nil:
		t.expires = local
	default:
		t.expires = time.Now().Add(2 * margin) // it says nothing: use it briefly
	}

	return t, nil
}

// longest is the longest believable life of a token, in seconds.
const longest = 30 * 24 * 3600

// number reads a number that may be written as text; 0 if it is none.
func number(raw json.RawMessage) int64 {
	n, err := strconv.ParseInt(strings.Trim(string(raw), `" `), 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0
	}
	return n
}
