package wire_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

type classified struct {
	name   string
	status int
	body   string
	kind   llm.Kind
	retry  bool
}

func responses() []classified {
	openai := func(kind, code, msg string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":%q}}`, msg, kind, code)
	}
	return []classified{
		{"401", 401, openai("invalid_request_error", "invalid_api_key", "Incorrect API key provided"), llm.Auth, false},
		{"400 bad key", 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, llm.Auth, false},
		{"403", 403, `{"error":"forbidden"}`, llm.Permission, false},
		{"403 unpaid", 403, `{"error":{"message":"Insufficient balance"}}`, llm.Billing, false},
		{"402", 402, `{}`, llm.Billing, false},
		{"404", 404, `{"error":{"message":"The model x does not exist"}}`, llm.NotFound, false},
		{"404 no vision", 404, `{"error":{"message":"No endpoints found that support image input"}}`, llm.UnsupportedImage, false},
		{"408", 408, ``, llm.Timeout, true},
		{"409", 409, ``, llm.ServerError, true},
		{"425", 425, ``, llm.ServerError, true},
		{"500", 500, `{"error":{"message":"oops"}}`, llm.ServerError, true},
		{"502 page", 502, `<!DOCTYPE html><html><head><title>Bad Gateway</title></head></html>`, llm.ServerError, true},
		{"503", 503, `{"error":{"message":"m"}}`, llm.Overloaded, true},
		{"504", 504, ``, llm.Timeout, true},
		{"529", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.Overloaded, true},
		{"429", 429, openai("", "rate_limit_exceeded", "Rate limit reached"), llm.RateLimited, true},
		{"429 unknown", 429, `{"error":{"message":"concurrency limit"}}`, llm.RateLimited, true},
		{"77 quota", 429, openai("insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan"), llm.Billing, false},
		{"429 quota in words", 429, `{"error":{"message":"You are out of credits"}}`, llm.Billing, false},
		{"429 free tier", 429, `[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]`, llm.RateLimited, true},
		{"429 free tier for today", 429, `{"error":{"message":"You exceeded your current quota","details":[{"retryDelay":"7200s"}]}}`, llm.Billing, false},
		{"83 context", 400, openai("invalid_request_error", "context_length_exceeded", "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"), llm.ContextLength, false},
		{"413", 413, `{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, llm.ContextLength, false},
		{"context in a 500", 500, `{"error":"the prompt exceeds the available context size"}`, llm.ContextLength, false},
		{"81 image", 400, `{"error":{"message":"This model does not support image input"}}`, llm.UnsupportedImage, false},
		{"image code", 400, openai("", "invalid_image_url", "Timeout while downloading"), llm.UnsupportedImage, false},
		{"415", 415, ``, llm.UnsupportedImage, false},
		{"84 stream_options", 400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`, llm.UnsupportedParam, false},
		{"422 extra", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","prompt_cache_key"],"msg":"Extra inputs are not permitted"}]}`, llm.UnsupportedParam, false},
		{"400", 400, `{"error":{"message":"max_tokens 5000 is too large"}}`, llm.InvalidRequest, false},
		{"422", 422, `{"message":"bad shape"}`, llm.InvalidRequest, false},
		{"filter", 400, openai("", "content_filter", "The response was filtered due to Azure OpenAI's content management policy"), llm.ContentFilter, false},
		{"filter at DashScope", 400, `{"error":{"code":"data_inspection_failed","message":"Input data may contain inappropriate content."}}`, llm.ContentFilter, false},
		{"24 200 with a code", 200, `{"error":{"code":502,"message":"m"}}`, llm.ServerError, true},
		{"stream: overloaded", 0, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, llm.Overloaded, true},
		{"stream: api_error", 0, `{"type":"error","error":{"type":"api_error","message":"x"}}`, llm.ServerError, true},
		{"stream: server_error", 0, `{"error":{"message":"m","code":"server_error"}}`, llm.ServerError, true},
		{"stream: authentication", 0, `{"error":{"type":"authentication_error","message":"m"}}`, llm.Auth, false},
		{"stream: words", 0, `{"error":{"message":"upstream timed out"}}`, llm.Timeout, true},
		{"stream: no words", 0, `{"error":{"message":"I will not"}}`, llm.InvalidRequest, false},
		{"86 Zhipu", 0, `{"error":{"code":"1302","message":"您当前使用该API的并发数过高"}}`, llm.RateLimited, true},
		{"86 Zhipu in words", 0, `{"message":"当前访问量过大"}`, llm.RateLimited, true},
		{"MiniMax", 200, `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, llm.Billing, false},
		{"plain text", 500, `Internal Server Error`, llm.ServerError, true},
		{"200 page", 200, `<html><title>Sign in, 429</title></html>`, llm.ServerError, true},
	}
}

func TestClassifyResponse(t *testing.T) {
	t.Parallel()
	for _, c := range responses() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := wire.Classifier{Provider: "p"}.Response(c.status, nil, []byte(c.body))
			if e.Kind != c.kind || e.Retryable() != c.retry || e.Provider != "p" {
				t.Errorf("got %+v (retryable %v), want %s (%v)", e, e.Retryable(), c.kind, c.retry)
			}
			if strings.Contains(e.Message, "<") {
				t.Errorf("HTML in %q", e.Message)
			}
		})
	}
}

// Every kind must come out of the tables, or be one that no server sends.
func TestClassifyCoversAllKinds(t *testing.T) {
	t.Parallel()
	elsewhere := []llm.Kind{
		llm.Connection,      // TestClassifyTransport
		llm.Refused,         // made by callers from a finish reason
		llm.Empty,           // drivers
		llm.StreamTruncated, // drivers
		llm.Configuration,   // Match
		llm.BudgetExceeded,  // made by the ledger before a call
	}
	for _, k := range llm.Kinds() {
		in := slices.ContainsFunc(responses(), func(c classified) bool { return c.kind == k })
		if in == slices.Contains(elsewhere, k) {
			t.Errorf("kind %s: in the table %v", k, in)
		}
	}
}

func TestClassifyTransport(t *testing.T) {
	t.Parallel()
	op := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		name  string
		err   error
		kind  llm.Kind
		retry bool
	}{
		{"refused", op(os.NewSyscallError("connect", syscall.ECONNREFUSED)), llm.Connection, true},
		{"reset", op(syscall.ECONNRESET), llm.Connection, true},
		{"pipe", op(syscall.EPIPE), llm.Connection, true},
		{"EOF", io.ErrUnexpectedEOF, llm.Connection, true},
		{"GOAWAY", errors.New("http2: server sent GOAWAY and closed the connection"), llm.Connection, true},
		{"timeout", op(os.ErrDeadlineExceeded), llm.Timeout, true},
		{"certificate", x509.UnknownAuthorityError{}, llm.Connection, false},
		{"no host", op(&net.DNSError{Err: "no such host", Name: "api.example", IsNotFound: true}), llm.Connection, false},
		{"typed", fmt.Errorf("read: %w", &llm.Error{Kind: llm.Timeout}), llm.Timeout, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := wire.Classifier{Provider: "p"}.Transport(t.Context(), c.err)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Kind != c.kind || e.Retryable() != c.retry || e.Provider != "p" {
				t.Errorf("got %+v, want %s, retryable %v", e, c.kind, c.retry)
			}
		})
	}
}

func TestClassifyLocalHint(t *testing.T) {
	t.Parallel()
	c := wire.Classifier{Provider: "ollama", BaseURL: "http://localhost:11434/v1", Local: true}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, err := range map[string]error{
		"85 refused": c.Transport(t.Context(), refused),
		"502":        c.Response(502, nil, []byte(strings.Repeat("x", 2000))),
	} {
		if !strings.HasSuffix(err.Error(), "is the model server running at http://localhost:11434/v1?") {
			t.Errorf("%s: %q has no hint", name, err)
		}
	}
	if e := c.Response(400, nil, []byte("bad")); strings.Contains(e.Message, "running") {
		t.Errorf("hint on a 400: %q", e.Message)
	}
}

func TestClassifyContextLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"This model's maximum context length is 8192 tokens. However, you requested 9001 tokens (8001 in the messages, 1000 in the completion).": 8192,
		"prompt is too long: 210345 tokens > 200000 maximum":                                                                             200000,
		"the request exceeds the available context size (4096 tokens), try increasing it":                                                4096,
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).":                                        1048576,
		"Range of input length should be [1, 30720]":                                                                                     30720,
		"Input is too long for requested model. context_length_exceeded":                                                                 0,
		"This endpoint's maximum context length is 163,840 tokens. However, you requested about 200,000 tokens":                          163840,
		"Your request exceeded model token limit: 131072":                                                                                131072,
		"maximum prompt length is 131072 but the request contains 140000 tokens":                                                         131072,
		"input length and `max_tokens` exceed context limit: too many tokens":                                                            0,
		"Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 40000 tokens: 39000": 32768,
		"exceed_context_size: request (12000 tokens) exceeds the available context size (8192 tokens)":                                   8192,
	} {
		e := wire.Classifier{}.Response(400, nil, fmt.Appendf(nil, `{"error":{"message":%q}}`, text))
		if e.Kind != llm.ContextLength || e.ContextLimit != want {
			t.Errorf("%q: %s, limit %d, want %d", text, e.Kind, e.ContextLimit, want)
		}
	}
}

func TestClassifyParam(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}`: "max_tokens",
		`{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}`:                                                     "max_tokens",
		`{"error":{"message":"max_completion_tokens is not supported, use max_tokens"}}`:                                                                                                         "max_completion_tokens",
		`{"error":{"message":"Unsupported value: 'temperature' does not support 0.1 with this model. Only the default (1) value is supported."}}`:                                                "temperature",
		`{"error":{"message":"invalid temperature: only 1 is allowed for this model"}}`:                                                                                                          "temperature",
		`{"error":{"message":"property 'reasoning_content' is unsupported"}}`:                                                                                                                    "reasoning_content",
		`{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`:                                                                         "stream_options",
		`{"error":{"message":"Unknown name \"prompt_cache_key\": Cannot find field."}}`:                                                                                                          "prompt_cache_key",
		`{"error":{"message":"this thing is not supported"}}`:                                                                                                                                    "",
	} {
		e := wire.Classifier{}.Response(400, nil, []byte(body))
		if e.Kind != llm.UnsupportedParam || e.Param != want {
			t.Errorf("%s: %s, param %q, want %q", body, e.Kind, e.Param, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	h := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	s, ms := time.Second, time.Millisecond
	for _, c := range []struct {
		name   string
		header http.Header
		body   string
		want   time.Duration
	}{
		{"none", nil, `{}`, 0},
		{"ms header", h("retry-after-ms", "250", "retry-after", "9"), "", 250 * ms},
		{"seconds", h("Retry-After", "2"), "", 2 * s},
		{"decimals", h("retry-after", "1.5"), "", 1500 * ms},
		{"tiny", h("retry-after", "0.001"), "", 100 * ms},
		{"zero", h("retry-after", "0"), "", 0},
		{"nonsense", h("retry-after", "soon"), "", 0},
		{"huge", h("retry-after", "1e300"), "", 0},
		{"past date", h("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), "", 100 * ms},
		{"past date without zone", h("retry-after", "Wed, 21 Oct 2015 07:28:00"), "", 100 * ms},
		{"header before text", h("retry-after", "3"), "retry after 9 seconds", 3 * s},
		{"retry after", nil, "Please retry after 20 seconds.", 20 * s},
		{"retry after without unit", nil, "retry after 20", 20 * s},
		{"try again in", nil, "Please try again in 350ms.", 350 * ms},
		{"try again in minutes", nil, "try again in 2 minutes", 2 * time.Minute},
		{"try again compound", nil, "Please try again in 6m0s.", 6 * time.Minute},
		{"try again hours", nil, "try again in 1h2m", 62 * time.Minute},
		{"decimal seconds", nil, "Please try again in 7.66s. Visit", 7660 * ms},
		{"wait", nil, "wait 5 sec before retry", 5 * s},
		{"json field", nil, `{"error":{"retry_after": 4}}`, 4 * s},
		{"retryDelay", nil, `{"details":[{"retryDelay":"34.5s"}]}`, 34500 * ms},
		{"reset header", h("x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "6m0s", "x-ratelimit-remaining-tokens", "100", "x-ratelimit-reset-tokens", "9h"), "", 6 * time.Minute},
		{"past anthropic reset", h("anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset", "2020-01-01T00:00:00Z"), "", 100 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := wire.Classifier{}.Response(429, c.header, []byte(c.body))
			if e.RetryAfter != c.want {
				t.Errorf("RetryAfter = %s, want %s", e.RetryAfter, c.want)
			}
		})
	}
}

func TestShouldRetryHeader(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"false": false, "true": true} {
		e := wire.Classifier{}.Response(map[string]int{"false": 500, "true": 400}[value], http.Header{"X-Should-Retry": {value}}, nil)
		if e.Retryable() != want {
			t.Errorf("x-should-retry %s: retryable %v", value, e.Retryable())
		}
	}
}

func TestMessageIsCutAndRedacted(t *testing.T) {
	t.Parallel()
	c := wire.Classifier{Secrets: []httpsafe.Secret{httpsafe.NewSecret("my-very-own-key")}}
	for _, secret := range []string{"my-very-own-key", "sk-proj-abcdefghijkl", "Bearer abcdef123456", `"api_key": "zzzzzzzzzz"`, "AIzaSyABCDEFGHIJ", "authorization: tokentoken"} {
		e := c.Response(401, nil, []byte("wrong credential "+secret+" given"))
		value := strings.Trim(secret[strings.LastIndexAny(secret, " :")+1:], `"`)
		if strings.Contains(e.Message, value) || !strings.Contains(e.Message, "wrong credential") || !strings.Contains(e.Message, "given") {
			t.Errorf("message for %q is %q", secret, e.Message)
		}
	}
	e := c.Response(500, nil, []byte(strings.Repeat("ü", 3000)))
	if n := len([]rune(e.Message)); n != 500 {
		t.Errorf("message has %d characters, want 500", n)
	}
	if got := httpsafe.RedactSecrets("the api key is wrong; use a bearer token"); got != "the api key is wrong; use a bearer token" {
		t.Errorf("harmless text became %q", got)
	}
}

func TestVendorWordsBehindGateway(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 300 tokens > 256 maximum\"}}","provider_name":"X"}}}`
	e := wire.Classifier{}.Response(400, nil, []byte(body))
	if e.Kind != llm.ContextLength || e.ContextLimit != 256 || !strings.Contains(e.Message, "too long") {
		t.Errorf("got %+v", e)
	}
}
