package bedrock_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/bedrock"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	claude    = "us.anthropic.claude-sonnet-4-6-v1:0"
	opus      = "global.anthropic.claude-opus-4-7"
)

// server answers with scripted replies, one per request, and refuses requests
// that the real one would refuse.
type server struct{ *llmtest.Handlers }

func newServer(t *testing.T, replies ...http.HandlerFunc) *server {
	t.Helper()
	return &server{llmtest.NewHandlers(t, func(r *http.Request, body []byte) error {
		if err := checkHTTP(r, body); err != nil {
			return err
		}
		return checkConverse(body)
	}, replies...)}
}

// body is the decoded i-th request.
func (s *server) body(t *testing.T, i int) map[string]any {
	t.Helper()
	if i >= len(s.Bodies) {
		t.Fatalf("only %d requests", len(s.Bodies))
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(s.Bodies[i]), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func environment(k string) string {
	return map[string]string{"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_REGION": "us-west-2"}[k]
}

// model is a driver that signs its requests to the server.
func (s *server) model(t *testing.T, change ...func(*bedrock.Options)) llm.Model {
	t.Helper()
	o := bedrock.Options{BaseURL: s.URL, Getenv: environment, Client: s.Client()}
	for _, c := range change {
		c(&o)
	}
	m, err := bedrock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checkHTTP verifies address, headers and signature, written after the
// vendor's description and not after our signer.
func checkHTTP(r *http.Request, body []byte) error {
	if !regexp.MustCompile(`^/model/[A-Za-z0-9._~%-]+/converse(-stream)?$`).MatchString(r.RequestURI) {
		return fmt.Errorf("address %s", r.RequestURI)
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("%s of %q", r.Method, r.Header.Get("Content-Type"))
	}
	auth := r.Header.Get("Authorization")
	if strings.HasPrefix(auth, "Bearer ") {
		if r.Header.Get("X-Amz-Date") != "" {
			return errors.New("a bearer request is signed too")
		}
		return nil
	}
	m := regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/bedrock/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$`).FindStringSubmatch(auth)
	if m == nil {
		return fmt.Errorf("authorization %q", auth)
	}
	date, region, signed := m[2], m[3], strings.Split(m[4], ";")
	if m[1] != accessKey || !strings.HasPrefix(r.Header.Get("X-Amz-Date"), date+"T") || !slices.IsSorted(signed) || !slices.Contains(signed, "host") {
		return fmt.Errorf("authorization %q", auth)
	}
	lines := []string{r.Method, strings.ReplaceAll(r.RequestURI, "%", "%25"), ""}
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		lines = append(lines, name+":"+strings.TrimSpace(value))
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Amz") && !slices.Contains(signed, strings.ToLower(name)) {
			return fmt.Errorf("%s is not signed", name)
		}
	}
	lines = append(lines, "", m[4], fmt.Sprintf("%x", sha256.Sum256(body)))
	digest := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	key := []byte("AWS4" + secretKey)
	for _, step := range []string{
		date, region, "bedrock", "aws4_request",
		fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s/%s/bedrock/aws4_request\n%x", r.Header.Get("X-Amz-Date"), date, region, digest),
	} {
		h := hmac.New(sha256.New, key)
		_, _ = io.WriteString(h, step)
		key = h.Sum(nil)
	}
	if got := hex.EncodeToString(key); got != m[5] {
		return fmt.Errorf("signature %s, computed %s", m[5], got)
	}
	return nil
}

type object = map[string]any

func only(o object, allowed string) error {
	for k := range o {
		if !slices.Contains(strings.Fields(allowed), k) {
			return fmt.Errorf("extraneous key %q", k)
		}
	}
	return nil
}

func objects(v any) []object {
	list, _ := v.([]any)
	out := make([]object, len(list))
	for i, item := range list {
		out[i], _ = item.(map[string]any)
	}
	return out
}

func sub(o object, key string) object {
	m, _ := o[key].(map[string]any)
	return m
}

var wireID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checkConverse judges a body as the service does.
func checkConverse(body []byte) error {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return err
	}
	if err := only(o, "messages system inferenceConfig toolConfig additionalModelRequestFields guardrailConfig performanceConfig serviceTier requestMetadata"); err != nil {
		return err
	}
	if err := only(sub(o, "inferenceConfig"), "maxTokens temperature topP stopSequences"); err != nil {
		return err
	}
	if t, ok := sub(o, "inferenceConfig")["temperature"].(float64); ok && (t < 0 || t > 1) {
		return errors.New("temperature")
	}
	if n := bytes.Count(body, []byte(`"cachePoint"`)); n > 4 {
		return fmt.Errorf("%d cache points", n)
	}
	for i, b := range objects(o["system"]) {
		if s, _ := b["text"].(string); strings.TrimSpace(s) == "" && (i == 0 || b["cachePoint"] == nil) {
			return errors.New("blank system block")
		}
	}
	if err := checkTools(o); err != nil {
		return err
	}
	return checkMessages(objects(o["messages"]), o["toolConfig"] != nil)
}

func checkTools(o object) error {
	c := sub(o, "toolConfig")
	if c == nil {
		return nil
	}
	tools := objects(c["tools"])
	if len(tools) == 0 {
		return errors.New("no tools in toolConfig")
	}
	names := map[string]bool{}
	for i, t := range tools {
		if t["cachePoint"] != nil && len(t) == 1 && i > 0 {
			continue
		}
		spec := sub(t, "toolSpec")
		name, _ := spec["name"].(string)
		schema := sub(sub(spec, "inputSchema"), "json")
		if d, ok := spec["description"].(string); ok && d == "" || !wireID.MatchString(name) || names[name] || schema["type"] != "object" || len(t) != 1 {
			return fmt.Errorf("tool %d: %v", i, t)
		}
		names[name] = true
	}
	if choice := sub(c, "toolChoice"); choice != nil {
		name, _ := sub(choice, "tool")["name"].(string)
		if len(choice) != 1 || choice["any"] == nil && choice["auto"] == nil && !names[name] {
			return fmt.Errorf("tool choice %v", choice)
		}
	}
	return only(c, "tools toolChoice")
}

func checkMessages(msgs []object, tools bool) error {
	if len(msgs) == 0 || len(msgs)%2 == 0 {
		return fmt.Errorf("%d messages", len(msgs))
	}
	open, seen := map[string]bool{}, map[string]bool{}
	for i, m := range msgs {
		want := []string{"user", "assistant"}[i%2]
		blocks := objects(m["content"])
		if m["role"] != want || len(blocks) == 0 {
			return fmt.Errorf("message %d: role %v with %d blocks, want %s", i, m["role"], len(blocks), want)
		}
		results := true
		for j, b := range blocks {
			results = results && b["toolResult"] != nil
			if err := checkBlock(b, j, want, results, open, seen); err != nil {
				return fmt.Errorf("message %d, block %d: %w", i, j, err)
			}
			if (b["toolUse"] != nil || b["toolResult"] != nil) && !tools {
				return errors.New("the toolConfig field must be defined when using toolUse and toolResult content blocks")
			}
		}
		if want == "user" && len(open) > 0 {
			return fmt.Errorf("message %d: calls without results: %v", i, open)
		}
	}
	return nil
}

func checkBlock(b object, j int, role string, results bool, open, seen map[string]bool) error {
	if len(b) != 1 {
		return fmt.Errorf("%d members", len(b))
	}
	switch {
	case b["text"] != nil:
		if s, _ := b["text"].(string); strings.TrimSpace(s) == "" {
			return errors.New("blank text")
		}
	case b["image"] != nil && role == "user":
		return checkImage(sub(b, "image"))
	case b["cachePoint"] != nil:
		if j == 0 || sub(b, "cachePoint")["type"] != "default" {
			return errors.New("cache point")
		}
	case b["toolUse"] != nil && role == "assistant":
		u := sub(b, "toolUse")
		id, _ := u["toolUseId"].(string)
		if !wireID.MatchString(id) || seen[id] || sub(u, "input") == nil || u["name"] == "" {
			return fmt.Errorf("toolUse %v", u)
		}
		seen[id], open[id] = true, true
	case b["toolResult"] != nil && role == "user":
		u := sub(b, "toolResult")
		id, _ := u["toolUseId"].(string)
		if !open[id] || !results || len(objects(u["content"])) == 0 || u["status"] != nil && u["status"] != "success" && u["status"] != "error" {
			return fmt.Errorf("toolResult %v", u)
		}
		delete(open, id)
		for _, c := range objects(u["content"]) {
			if s, _ := c["text"].(string); strings.TrimSpace(s) == "" && c["image"] == nil {
				return fmt.Errorf("toolResult content %v", c)
			}
			if err := checkImage(sub(c, "image")); err != nil {
				return err
			}
		}
	case b["reasoningContent"] != nil && role == "assistant":
		c := sub(b, "reasoningContent")
		text, redacted := sub(c, "reasoningText"), c["redactedContent"]
		if len(c) != 1 || redacted == nil && (text["signature"] == nil || text["signature"] == "") {
			return fmt.Errorf("reasoning %v", c)
		}
	default:
		return fmt.Errorf("block %v in the turn of the %s", b, role)
	}
	return nil
}

func checkImage(img object) error {
	if img == nil {
		return nil
	}
	data, _ := sub(img, "source")["bytes"].(string)
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
		return errors.New("image bytes")
	}
	if f, _ := img["format"].(string); !slices.Contains([]string{"png", "jpeg", "gif", "webp"}, f) {
		return fmt.Errorf("image format %q", f)
	}
	return nil
}

// pack encodes one frame with string headers.
func pack(payload string, headers ...string) []byte {
	var h []byte
	for i := 0; i < len(headers); i += 2 {
		h = append(append(h, byte(len(headers[i]))), headers[i]...)
		h = binary.BigEndian.AppendUint16(append(h, 7), uint16(len(headers[i+1])))
		h = append(h, headers[i+1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// event is a frame like "contentBlockDelta {...}".
func event(s string) []byte {
	name, payload, _ := strings.Cut(s, " ")
	return pack(payload, ":message-type", "event", ":event-type", name, ":content-type", "application/json")
}

func exception(name, payload string) []byte {
	return pack(payload, ":message-type", "exception", ":exception-type", name, ":content-type", "application/json")
}

// say replies with frames, each flushed on its own.
func say(frames ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		for _, f := range frames {
			switch f := f.(type) {
			case string:
				_, _ = w.Write(event(f))
			case []byte:
				_, _ = w.Write(f)
			}
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// refuse replies with an error of the service.
func refuse(status int, code, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-ErrorType", code+":http://internal.amazon.com/coral/com.amazon.bedrock/")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
	}
}

const (
	begin    = `messageStart {"role":"assistant"}`
	endTurn  = `messageStop {"stopReason":"end_turn"}`
	endTools = `messageStop {"stopReason":"tool_use"}`
	counts   = `metadata {"usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15},"metrics":{"latencyMs":1}}`
)

func piece(i int, s string) string {
	return fmt.Sprintf(`contentBlockDelta {"contentBlockIndex":%d,"delta":{"text":%q},"p":"abcd"}`, i, s)
}

func stopBlock(i int) string { return fmt.Sprintf(`contentBlockStop {"contentBlockIndex":%d}`, i) }

func toolUse(i int, id, name string, args ...string) []any {
	out := []any{fmt.Sprintf(`contentBlockStart {"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":%q,"name":%q}}}`, i, id, name)}
	for _, a := range args {
		out = append(out, fmt.Sprintf(`contentBlockDelta {"contentBlockIndex":%d,"delta":{"toolUse":{"input":%q}}}`, i, a))
	}
	return append(out, stopBlock(i))
}

func reply(frames ...any) http.HandlerFunc {
	return say(slices.Concat([]any{begin}, frames, []any{endTurn, counts})...)
}

func ask(msgs ...llm.Message) llm.Request {
	if len(msgs) == 0 {
		msgs = []llm.Message{user("hello")}
	}
	return llm.Request{Model: claude, System: "Be kind.", Messages: msgs, MaxTokens: 1000}
}

func user(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }

func says(s string, calls ...llm.ToolCall) llm.Message {
	return llm.Message{Role: llm.Assistant, Content: llm.Text(s), ToolCalls: calls}
}

func result(id, s string) llm.Message {
	return llm.Message{Role: llm.ToolRole, ToolCallID: id, Name: "look", Content: llm.Text(s)}
}

func look() llm.ToolDef {
	return llm.ToolDef{Name: "look", Description: "Look.", Schema: json.RawMessage(`{"type":"object","properties":{"p":{"type":"string"}}}`)}
}
