package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// clientSecret signs in as an application with its secret.
func (s *signer) clientSecret(ctx context.Context) (token, error) {
	if s.o.TenantID == "" || s.o.ClientID == "" || s.o.ClientSecret.IsZero() {
		return token{}, errNotHere
	}
	return s.signIn(ctx, url.Values{"client_secret": {s.o.ClientSecret.Reveal()}})
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
	return s.signIn(ctx, url.Values{
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {string(bytes.TrimSpace(assertion))},
	})
}

func (s *signer) signIn(ctx context.Context, form url.Values) (token, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	form.Set("grant_type", "client_credentials")
	form.Set("client_id", s.o.ClientID)
	form.Set("scope", s.o.Scope)
	at := strings.TrimRight(s.o.Authority, "/") + "/" + url.PathEscape(s.o.TenantID) + "/oauth2/v2.0/token"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return token{}, fmt.Errorf("the address of the sign-in service: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return exchange(s.o.Client, req)
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return token{}, fmt.Errorf("the address of the metadata service: %w", err)
	}
	req.Header.Set("Metadata", "true")
	t, err := exchange(s.o.MetadataClient, req)
	if _, answered := errors.AsType[*refusedError](err); err != nil && !answered {
		return token{}, errNotHere // nobody listens there: this is not a machine of that cloud
	}
	return t, err
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
		line, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		return token{}, errors.New(httpsafe.RedactSecrets(line))
	case err != nil:
		return token{}, err
	}
	return parseToken(out)
}

// resource is the older name of a scope.
func resource(scope string) string { return strings.TrimSuffix(scope, "/.default") }

// refusedError says that the server answered, and not with a token.
type refusedError struct {
	text   string
	status int
}

func (e *refusedError) Error() string { return e.text }

// maxAnswer bounds what is read of a token answer.
const maxAnswer = 1 << 20

func exchange(c *http.Client, req *http.Request) (token, error) {
	resp, err := c.Do(req)
	if err != nil {
		return token{}, &llm.Error{Kind: llm.Connection, Message: "the service cannot be reached", Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return token{}, &llm.Error{Kind: llm.Connection, Message: "the connection broke", Err: err}
	}
	if resp.StatusCode != http.StatusOK {
		return token{}, refusal(resp.StatusCode, body)
	}
	t, err := parseToken(body)
	if err != nil {
		return token{}, &refusedError{text: err.Error(), status: resp.StatusCode}
	}
	return t, nil
}

// refusal keeps the first line of what the service says; the rest is trace
// numbers.
func refusal(status int, body []byte) error {
	var w struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(body, &w)
	line, _, _ := strings.Cut(strings.TrimSpace(w.Description), "\n")
	if line = strings.TrimSpace(line); line == "" {
		line = w.Error
	}
	if line == "" {
		line = strings.ToLower(http.StatusText(status))
	}
	return &refusedError{text: fmt.Sprintf("HTTP %d: %s", status, line), status: status}
}

// parseToken reads the three shapes of a token: the sign-in service counts the
// seconds, the metadata service writes numbers as text, and the az program
// also gives a local time.
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
