package bedrock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/bedrock"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

func must(t *testing.T, m llm.Model, req llm.Request) *llm.Response {
	t.Helper()
	w := llmtest.Watch(t.Context(), t, m, req)
	if w.Err != nil {
		t.Fatalf("stream: %v", w.Err)
	}
	return w.Response
}

// fails runs a request that must end in an *llm.Error.
func fails(t *testing.T, m llm.Model, req llm.Request) *llm.Error {
	t.Helper()
	w := llmtest.Watch(t.Context(), t, m, req)
	e, ok := errors.AsType[*llm.Error](w.Err)
	if !ok {
		t.Fatalf("error = %v (%T), want *llm.Error", w.Err, w.Err)
	}
	return e
}

// Row 88: text, a tool call and the counts.
func TestRow88(t *testing.T) {
	t.Parallel()
	frames := slices.Concat([]any{begin, piece(0, "I'll "), piece(0, "look"), stopBlock(0)},
		toolUse(1, "tooluse_1", "look", `{"p"`, `:"a"}`), toolUse(2, "tooluse_2", "look"),
		[]any{endTools, `metadata {"usage":{"inputTokens":10,"outputTokens":5,"totalTokens":48,"cacheReadInputTokens":30,"cacheWriteInputTokens":3}}`})
	s := newServer(t, say(frames...))
	req := ask()
	req.Tools = []llm.ToolDef{look()}
	r := must(t, s.model(t), req)
	want := &llm.Response{
		Message: llm.Message{
			Role: llm.Assistant, Content: llm.Text("I'll look"), Origin: "bedrock",
			ToolCalls: []llm.ToolCall{{ID: "tooluse_1", Name: "look", Arguments: `{"p":"a"}`}, {ID: "tooluse_2", Name: "look", Arguments: "{}"}},
		},
		Finish: llm.FinishToolCalls, Usage: llm.Usage{Prompt: 43, Completion: 5, Cached: 30, CacheWrite: 3},
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Errorf("response differs: %s", d)
	}
	if got, want := s.Paths[0], "/model/us.anthropic.claude-sonnet-4-6-v1%3A0/converse-stream"; got != want {
		t.Errorf("path = %s, want %s", got, want)
	}
}

// Row 89: an exception in the middle of the stream.
func TestRow89(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, message string
		kind          llm.Kind
		retry         bool
	}{
		{"throttlingException", "Too many tokens, please wait before trying again.", llm.RateLimited, true},
		{"internalServerException", "oops", llm.ServerError, true},
		{"modelStreamErrorException", "oops", llm.ServerError, true},
		{"modelTimeoutException", "slow", llm.Timeout, true},
		{"serviceUnavailableException", "busy", llm.Overloaded, true},
		{"modelNotReadyException", "loading", llm.Overloaded, true},
		{"validationException", "Input is too long for requested model.", llm.ContextLength, false},
		{"validationException", "bad", llm.InvalidRequest, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, say(begin, piece(0, "half"), exception(c.name, fmt.Sprintf(`{"message":%q}`, c.message))))
			w := llmtest.Watch(t.Context(), t, s.model(t), ask())
			e, _ := errors.AsType[*llm.Error](w.Err)
			if w.Text != "half" || e == nil || e.Kind != c.kind || e.Retryable() != c.retry || e.Provider != "bedrock" || !strings.Contains(e.Message, c.message) {
				t.Errorf("text %q, error %+v, want %s", w.Text, e, c.kind)
			}
		})
	}
	t.Run("error frame", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, say(begin, pack("", ":message-type", "error", ":error-code", "ThrottlingException", ":error-message", "slower")))
		if e := fails(t, s.model(t), ask()); e.Kind != llm.RateLimited || e.Message != "slower" || e.Code != "throttlingexception" {
			t.Errorf("error = %+v", e)
		}
	})
}

// Row 90: a history with tools, and none to offer.
func TestRow90(t *testing.T) {
	t.Parallel()
	history := []llm.Message{user("a"), says("", llm.ToolCall{ID: "1", Name: "look", Arguments: "{}"}), result("1", "r"), user("b")}
	for name, change := range map[string]func(*llm.Request){
		"no tools":    func(*llm.Request) {},
		"choice none": func(r *llm.Request) { r.Tools, r.ToolChoice = []llm.ToolDef{look()}, "none" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, say(slices.Concat([]any{begin, piece(0, "x")}, toolUse(1, "t", "unavailable"), []any{endTools, counts})...))
			req := ask(history...)
			change(&req)
			r := must(t, s.model(t), req)
			tools := objects(sub(s.body(t, 0), "toolConfig")["tools"])
			if len(tools) != 1 || sub(tools[0], "toolSpec")["name"] != "unavailable" {
				t.Errorf("tools = %v, want the dummy", tools)
			}
			if len(r.Message.ToolCalls) != 0 || r.Finish != llm.FinishStop {
				t.Errorf("calls %v, finish %s: the dummy was called", r.Message.ToolCalls, r.Finish)
			}
		})
	}
	t.Run("no tools in the history", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, reply(piece(0, "x")))
		must(t, s.model(t), ask())
		if c := s.body(t, 0)["toolConfig"]; c != nil {
			t.Errorf("toolConfig = %v, want none", c)
		}
	})
}

func TestReasoningRoundTrip(t *testing.T) {
	t.Parallel()
	think := func(i int, v string) string {
		return fmt.Sprintf(`contentBlockDelta {"contentBlockIndex":%d,"delta":{"reasoningContent":%s}}`, i, v)
	}
	frames := slices.Concat([]any{
		begin, think(0, `{"text":"let me "}`), think(0, `{"text":"see"}`), think(0, `{"signature":"sig"}`), stopBlock(0),
		think(1, `{"redactedContent":"AAEC"}`), think(1, `{"redactedContent":"AwQ="}`), stopBlock(1),
		piece(2, "first"), think(3, `{"text":"hm"}`), think(3, `{"signature":"sig2"}`),
	}, toolUse(4, "t1", "look", `{}`), []any{endTools, counts})
	s := newServer(t, say(frames...), reply(piece(0, "done")), reply(piece(0, "done")))
	req := ask()
	req.Tools, req.Effort = []llm.ToolDef{look()}, "low"
	m := s.model(t)
	w := llmtest.Watch(t.Context(), t, m, req)
	if w.Err != nil || w.Reasoning != "let me see\n\nhm" || w.Response.Message.Reasoning != w.Reasoning || !w.Response.Message.HasReasoning {
		t.Fatalf("reasoning %q, response %+v, error %v", w.Reasoning, w.Response, w.Err)
	}
	data, err := json.Marshal(w.Response.Message)
	if err != nil {
		t.Fatal(err)
	}
	var stored llm.Message
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, stored, result("t1", "r"))
	must(t, m, req)
	got := js(objects(s.body(t, 1)["messages"])[1]["content"])
	want := `[{"reasoningContent":{"reasoningText":{"signature":"sig","text":"let me see"}}},{"reasoningContent":{"redactedContent":"AAECAwQ="}},` +
		`{"text":"first"},{"reasoningContent":{"reasoningText":{"signature":"sig2","text":"hm"}}},{"toolUse":{"input":{},"name":"look","toolUseId":"t1"}}]`
	if got != want {
		t.Errorf("replayed %s\nwant %s", got, want)
	}
	req.Messages[1].Origin = "anthropic"
	must(t, m, req)
	if got := js(s.body(t, 2)); strings.Contains(got, "reasoningContent") || strings.Contains(got, "budget_tokens") {
		t.Errorf("thinking of another provider was sent: %s", got)
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	for stop, want := range map[string]string{
		"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "guardrail_intervened": "content_filter", "content_filtered": "content_filter",
		"model_context_window_exceeded": "context_length false", "malformed_tool_use": "stream_truncated true", "malformed_model_output": "stream_truncated true",
	} {
		t.Run(stop, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, say(begin, piece(0, "x"), fmt.Sprintf(`messageStop {"stopReason":%q}`, stop), counts))
			w := llmtest.Watch(t.Context(), t, s.model(t), ask())
			got := ""
			if e, ok := errors.AsType[*llm.Error](w.Err); ok {
				got = fmt.Sprintf("%s %v", e.Kind, e.Retryable())
			} else if w.Response != nil {
				got = string(w.Response.Finish)
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status        int
		code, message string
		kind          llm.Kind
		retry         bool
	}{
		{429, "ThrottlingException", "Too many tokens per day, please wait before trying again.", llm.RateLimited, true},
		{400, "ServiceQuotaExceededException", "quota", llm.RateLimited, true},
		{408, "ModelTimeoutException", "slow", llm.Timeout, true},
		{429, "ModelNotReadyException", "loading", llm.Overloaded, true},
		{424, "ModelErrorException", "x", llm.ServerError, true},
		{500, "InternalServerException", "x", llm.ServerError, true},
		{503, "ServiceUnavailableException", "x", llm.Overloaded, true},
		{403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", llm.Permission, false},
		{403, "AccessDeniedException", "Authentication failed: Please make sure your API Key is valid.", llm.Auth, false},
		{403, "UnrecognizedClientException", "The security token included in the request is invalid.", llm.Auth, false},
		{403, "InvalidSignatureException", "Signature expired: 20260101 is now earlier than 20260102", llm.Auth, false},
		{404, "ResourceNotFoundException", "no such model", llm.NotFound, false},
		{400, "ValidationException", "The provided model identifier is invalid.", llm.NotFound, false},
		{400, "ValidationException", "Invocation of model ID x with on-demand throughput isn’t supported. Retry with an inference profile.", llm.NotFound, false},
		{400, "ValidationException", "Input is too long for requested model.", llm.ContextLength, false},
		{400, "ValidationException", "prompt is too long: 210000 tokens > 200000 maximum", llm.ContextLength, false},
		{400, "ValidationException", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", llm.ContextLength, false},
		{400, "ValidationException", "The model returned the following errors: Could not process image, image is invalid", llm.UnsupportedImage, false},
		{400, "ValidationException", "something else", llm.InvalidRequest, false},
	} {
		t.Run(c.code+" "+c.message, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, refuse(c.status, c.code, c.message))
			e := fails(t, s.model(t), ask())
			if e.Kind != c.kind || e.Retryable() != c.retry || e.Status != c.status || e.Provider != "bedrock" || !strings.HasPrefix(e.Message, c.message) {
				t.Errorf("error = %+v, want %s", e, c.kind)
			}
			for word, hint := range map[string]string{"Signature expired": "clock", "on-demand": "global.", "200000 maximum": ""} {
				if strings.Contains(c.message, word) && !strings.Contains(e.Message, hint) {
					t.Errorf("message %q has no hint %q", e.Message, hint)
				}
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	page := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte(body))
		}
	}
	damaged := event(piece(0, "x"))
	damaged[len(damaged)-6] ^= 1
	for _, c := range []struct {
		name  string
		reply http.HandlerFunc
		kind  llm.Kind
		text  string
	}{
		{"login page", page("text/html", "<html><title>Sign in</title></html>"), llm.ServerError, "Sign in"},
		{"error with 200", page("application/json", `{"__type":"com.amazon#ThrottlingException","message":"slow down"}`), llm.RateLimited, "slow down"},
		{"empty", page("application/vnd.amazon.eventstream", ""), llm.StreamTruncated, "complete"},
		{"cut between frames", say(begin, piece(0, "x")), llm.StreamTruncated, "complete"},
		{"cut inside a frame", say(begin, event(piece(0, "x"))[:30]), llm.StreamTruncated, "closed"},
		{"damaged", say(begin, damaged), llm.StreamTruncated, "damaged"},
		{"not JSON", say(begin, `contentBlockDelta {`), llm.ServerError, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, c.reply)
			if e := fails(t, s.model(t), ask()); e.Kind != c.kind || !strings.Contains(e.Message, c.text) || e.Provider != "bedrock" {
				t.Errorf("error = %+v, want %s with %q", e, c.kind, c.text)
			}
		})
	}
}

// The counts come after the end; without them the answer is still complete.
func TestNoCounts(t *testing.T) {
	t.Parallel()
	s := newServer(t, say(begin, piece(0, "hello there"), endTurn))
	if r := must(t, s.model(t), ask()); !r.Usage.Estimated || r.Usage.Prompt == 0 || r.Usage.Completion == 0 {
		t.Errorf("usage = %+v, want an estimate", r.Usage)
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	s := newServer(t, reply(piece(0, "x")), reply(piece(0, "x")), refuse(403, "AccessDeniedException", "bad key secret-key-9"))
	must(t, s.model(t, func(o *bedrock.Options) { o.Key = httpsafe.NewSecret("from-config") }), ask())
	m := s.model(t, func(o *bedrock.Options) {
		o.Getenv = func(k string) string {
			return map[string]string{"AWS_BEARER_TOKEN_BEDROCK": "secret-key-9", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}[k]
		}
		o.Version = "1.2"
		o.Headers = map[string]httpsafe.Secret{"X-Team": httpsafe.NewSecret("t")}
	})
	must(t, m, ask())
	for i, want := range []string{"Bearer from-config", "Bearer secret-key-9"} {
		if got := s.Headers[i].Get("Authorization"); got != want {
			t.Errorf("authorization = %q, want %q", got, want)
		}
	}
	if h := s.Headers[1]; h.Get("User-Agent") != "nanobot/1.2" || h.Get("X-Team") != "t" {
		t.Errorf("headers = %v", h)
	}
	if e := fails(t, m, ask()); strings.Contains(e.Error(), "secret-key-9") {
		t.Errorf("the key is shown: %v", e)
	}
}

// Credentials that were replaced on disk are found when the old ones are refused.
func TestReplacedCredentials(t *testing.T) {
	t.Parallel()
	calls := 0
	s := newServer(t, refuse(403, "ExpiredTokenException", "expired "+secretKey), refuse(403, "ExpiredTokenException", "expired"), reply(piece(0, "x")))
	m := s.model(t, func(o *bedrock.Options) {
		o.Getenv = func(k string) string {
			if k == "AWS_SESSION_TOKEN" {
				calls++
				return fmt.Sprint("token-", max(calls, 2)) // the second search finds the same, the third another
			}
			return environment(k)
		}
	})
	if e := fails(t, m, ask()); e.Kind != llm.Auth || strings.Contains(e.Message, secretKey) {
		t.Errorf("error = %+v, want auth without the key", e)
	}
	must(t, m, ask())
	if a, b := s.Headers[1].Get("X-Amz-Security-Token"), s.Headers[2].Get("X-Amz-Security-Token"); a == b {
		t.Errorf("both tries used %s", a)
	}
}

// Once something was shown, no second try is made behind the caller's back.
func TestRefusedInTheMiddle(t *testing.T) {
	t.Parallel()
	n := 0
	s := newServer(t, say(begin, piece(0, "half"), exception("expiredTokenException", `{"message":"expired"}`)))
	m := s.model(t, func(o *bedrock.Options) {
		o.Getenv = func(k string) string {
			if k == "AWS_SESSION_TOKEN" {
				n++
				return fmt.Sprint("token-", n)
			}
			return environment(k)
		}
	})
	if e := fails(t, m, ask()); e.Kind != llm.Auth || len(s.Bodies) != 1 {
		t.Errorf("error %+v after %d requests, want auth after one", e, len(s.Bodies))
	}
}

// The region of the machine is asked for once.
func TestMachineRegion(t *testing.T) {
	t.Parallel()
	asked := 0
	s := newServer(t, reply(piece(0, "x")), reply(piece(0, "x")))
	m := s.model(t, func(o *bedrock.Options) {
		o.Getenv = func(k string) string {
			if k == "AWS_REGION" {
				return ""
			}
			return environment(k)
		}
		o.MetadataClient = &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
			text := "token"
			if strings.HasSuffix(r.URL.Path, "/placement/region") {
				asked++
				text = "sa-east-1"
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(text))}, nil
		})}
	})
	must(t, m, ask())
	must(t, m, ask())
	if got := s.Headers[1].Get("Authorization"); asked != 1 || !strings.Contains(got, "/sa-east-1/bedrock/") {
		t.Errorf("asked %d times, signed %s", asked, got)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]bedrock.Options{
		"base":    {BaseURL: "ftp://x"},
		"query":   {BaseURL: "https://x?a=b"},
		"region":  {Region: "evil.com/"},
		"extra":   {ExtraBody: json.RawMessage(`[1]`)},
		"fields":  {ExtraBody: json.RawMessage(`{"additionalModelRequestFields":3}`)},
		"nothing": {ExtraBody: json.RawMessage(`{"additionalModelRequestFields":null}`)},
	} {
		if _, err := bedrock.New(o); err == nil {
			t.Errorf("%s: no error", name)
		} else if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.Configuration {
			t.Errorf("%s: error %v, want a configuration error", name, err)
		}
	}
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAddress(t *testing.T) {
	t.Parallel()
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			if i := slices.Index(kv, k); i >= 0 && i%2 == 0 {
				return kv[i+1]
			}
			return map[string]string{"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_EC2_METADATA_DISABLED": "true"}[k]
		}
	}
	const arn = "arn:aws:bedrock:ap-south-1:123456789012:application-inference-profile/abc"
	for _, c := range []struct {
		name, model string
		o           bedrock.Options
		want        string // host, region of the signature
	}{
		{"config", claude, bedrock.Options{Region: "eu-central-1", Getenv: env("AWS_REGION", "us-east-1")}, "bedrock-runtime.eu-central-1.amazonaws.com eu-central-1"},
		{"environment", claude, bedrock.Options{Getenv: env("AWS_REGION", "us-east-1", "AWS_DEFAULT_REGION", "us-east-2")}, "bedrock-runtime.us-east-1.amazonaws.com us-east-1"},
		{"default", claude, bedrock.Options{Getenv: env("AWS_DEFAULT_REGION", "us-east-2")}, "bedrock-runtime.us-east-2.amazonaws.com us-east-2"},
		{"china", claude, bedrock.Options{Region: "cn-north-1", Getenv: env()}, "bedrock-runtime.cn-north-1.amazonaws.com.cn cn-north-1"},
		{"model", arn, bedrock.Options{Getenv: env()}, "bedrock-runtime.ap-south-1.amazonaws.com ap-south-1"},
		{"base", claude, bedrock.Options{BaseURL: "https://vpce-1.bedrock-runtime.us-west-1.vpce.amazonaws.com", Getenv: env("AWS_REGION", "us-east-1")}, "vpce-1.bedrock-runtime.us-west-1.vpce.amazonaws.com us-west-1"},
		{"endpoint variable", claude, bedrock.Options{Region: "us-east-1", Getenv: env("AWS_ENDPOINT_URL", "https://gateway.example.com/")}, "gateway.example.com us-east-1"},
		{"none", claude, bedrock.Options{Getenv: env()}, "no AWS region is known"},
		{"bearer at a gateway", claude, bedrock.Options{BaseURL: "https://gateway.example.com", Key: httpsafe.NewSecret("k"), Getenv: env()}, "gateway.example.com "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			c.o.Client = &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
				got = r.URL.Host + " "
				if f := strings.Split(r.Header.Get("Authorization"), "/"); len(f) > 2 {
					got += f[2]
				}
				return nil, errors.New("enough")
			})}
			m, err := bedrock.New(c.o)
			if err != nil {
				t.Fatal(err)
			}
			req := ask()
			req.Model = c.model
			e := fails(t, m, req)
			if got == "" {
				got = e.Message
				if e.Kind != llm.Configuration {
					t.Errorf("kind = %s", e.Kind)
				}
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("address = %q, want %q", got, c.want)
			}
		})
	}
}

func TestNoCredentials(t *testing.T) {
	t.Parallel()
	m, err := bedrock.New(bedrock.Options{
		Region: "us-east-1", Home: t.TempDir(),
		MetadataClient: &http.Client{Transport: tripFunc(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })},
		Client: &http.Client{Transport: tripFunc(func(*http.Request) (*http.Response, error) {
			t.Error("a request was sent")
			return nil, errors.New("x")
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := fails(t, m, ask()); e.Kind != llm.Configuration || !strings.Contains(e.Message, "AWS_ACCESS_KEY_ID") {
		t.Errorf("error = %+v", e)
	}
}
