package bedrock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
)

// awsService is one that gives out credentials, by the beginning of its host name,
// before the region.
type awsService string

const (
	sts    awsService = "sts"
	portal awsService = "portal.sso"
	oidc   awsService = "oidc"
)

// String returns what people call the service.
func (s awsService) String() string {
	if s == sts {
		return "STS"
	}
	return "Identity Center"
}

// variable returns the variable of the environment that replaces the service's address.
func (s awsService) variable() string {
	switch s {
	case portal:
		return "AWS_ENDPOINT_URL_SSO"
	case oidc:
		return "AWS_ENDPOINT_URL_SSO_OIDC"
	case sts:
	}
	return "AWS_ENDPOINT_URL_STS"
}

// serviceTries is how often a service is asked before a failure is reported.
const serviceTries = 3

// serviceCall is one request to a service that gives out credentials.
type serviceCall struct {
	service awsService
	region  string
	method  string
	path    string
	query   url.Values
	header  http.Header
	body    []byte
	signer  credentials // empty: the request is not signed
}

// ask returns the body of the answer to a call. Failures that pass by themselves
// are waited out.
func (k *keyring) ask(ctx context.Context, call serviceCall) ([]byte, error) {
	pause := wait.Backoff{Least: time.Second, Most: 4 * time.Second, Spread: 0.5}
	for try := 1; ; try++ {
		data, err := k.askOnce(ctx, call)
		if err == nil || try == serviceTries || ctx.Err() != nil || !passing(err) {
			return data, err
		}
		if pause.Wait(ctx) != nil {
			return nil, err
		}
	}
}

func (k *keyring) askOnce(ctx context.Context, call serviceCall) ([]byte, error) {
	address, err := k.address(call)
	if err != nil {
		return nil, err
	}

	r, err := http.NewRequestWithContext(ctx, call.method, address, bytes.NewReader(call.body))
	if err != nil {
		return nil, err
	}

	r.Header = call.header.Clone()
	if call.signer.complete() {
		scope{region: call.region, service: string(call.service), at: time.Now()}.sign(r, call.body, call.signer)
	}

	resp, err := k.public.Do(r)
	if err != nil {
		return nil, err
	}

	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, newServiceError(call.service, resp, data)
	}
	return data, nil
}

// address returns where a call goes: to the service of the region, unless the
// environment names another address.
func (k *keyring) address(call serviceCall) (string, error) {
	base := strings.TrimSpace(k.getenv(call.service.variable()))
	if base == "" {
		if !isRegion(call.region) {
			return "", fmt.Errorf("%q is not an AWS region: set region, or sso_region for a sign-in, in ~/.aws/config", call.region)
		}
		base = "https://" + string(call.service) + "." + call.region + "." + dnsSuffix(call.region)
	}

	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%s: write an address such as https://host, not %q", call.service.variable(), base)
	}

	u = u.JoinPath(call.path)
	u.RawQuery = call.query.Encode()
	return u.String(), nil
}

// maxReason bounds each part of a refusal that is quoted, in bytes.
const maxReason = 500

// serviceError is what a service answers instead of credentials.
type serviceError struct {
	service awsService
	status  int
	code    string // such as AccessDenied; may be empty
	reason  string // in the words of the service; may be empty
}

func (e *serviceError) Error() string {
	parts := []string{fmt.Sprintf("%s answers HTTP %d", e.service, e.status), e.code, e.reason}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// newServiceError reads the forms that errors have: XML from STS, JSON from Identity
// Center, whose sign-in uses the names of OAuth.
func newServiceError(service awsService, resp *http.Response, data []byte) *serviceError {
	var x struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	var j struct {
		Message     string `json:"message"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		_ = xml.Unmarshal(data, &x) // a proxy's page says nothing that we could show
	} else {
		_ = json.Unmarshal(data, &j)
	}

	typ, _, _ := strings.Cut(resp.Header.Get("X-Amzn-Errortype"), ":")
	return &serviceError{
		service: service,
		status:  resp.StatusCode,
		code:    shorten(cmp.Or(x.Code, typ, j.Error)),
		reason:  shorten(cmp.Or(x.Message, j.Message, j.Description)),
	}
}

func shorten(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "") }

// passing reports whether the same request may succeed a moment later: nothing
// answered, the service is overloaded, or it has not seen the token of a pod that
// has just started.
func passing(err error) bool {
	r, ok := errors.AsType[*serviceError](err)
	if !ok {
		_, unanswered := errors.AsType[*url.Error](err)
		return unanswered || errors.Is(err, io.ErrUnexpectedEOF)
	}
	return r.status == http.StatusTooManyRequests || r.status >= 500 ||
		slices.Contains([]string{
			"Throttling", "ThrottlingException", "RequestThrottled", "SlowDown", "slow_down",
			"RequestTimeout", "IDPCommunicationError", "InvalidIdentityToken",
		}, r.code)
}
