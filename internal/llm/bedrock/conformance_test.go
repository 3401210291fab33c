package bedrock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/bedrock"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// TestConformance runs the common suite. Its server speaks the Messages
// protocol, which has the same turns and events; bridge translates.
func TestConformance(t *testing.T) {
	t.Parallel()
	impatient := func(t *testing.T, s *llmtest.Server, limit time.Duration) llm.Model {
		t.Helper()
		client, err := httpsafe.Client(httpsafe.Options{Direct: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseIdleConnections)
		m, err := bedrock.New(bedrock.Options{
			BaseURL: "http://127.0.0.1:1", Key: httpsafe.NewSecret(llmtest.Key), FirstTimeout: limit, IdleTimeout: limit,
			Client: &http.Client{Transport: bridge{t, s.URL, client}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	patient := func(t *testing.T, s *llmtest.Server) llm.Model { t.Helper(); return impatient(t, s, 0) }
	llmtest.Run(t, patient, llmtest.Quirks{Model: claude, MovingMarkers: true, Impatient: impatient})
}

// bridge is a transport that checks requests of the Converse protocol and has
// them answered by a server of the Messages protocol.
type bridge struct {
	t      *testing.T
	url    string
	client *http.Client
}

func (b bridge) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.RequestURI = r.URL.EscapedPath()
	err := checkHTTP(r, sent)
	if err == nil {
		err = checkConverse(sent)
	}
	if err != nil {
		b.t.Errorf("the service would refuse the request: %v\n%s", err, sent)
	}
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, b.url+"/messages", bytes.NewReader(toMessages(b.t, sent)))
	if err != nil {
		return nil, err
	}
	out.Header = http.Header{"X-Api-Key": {llmtest.Key}, "Anthropic-Version": {"2023-06-01"}, "Content-Type": {"application/json"}}
	resp, err := b.client.Do(out)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	pr, pw := io.Pipe()
	body := resp.Body
	go func() {
		defer body.Close()
		pw.CloseWithError(toFrames(body, pw))
	}()
	resp.Body, resp.ContentLength = pr, -1
	return resp, nil
}

func toMessages(t *testing.T, body []byte) []byte {
	t.Helper()
	var in object
	if err := json.Unmarshal(body, &in); err != nil {
		t.Fatal(err)
	}
	out := object{"model": "claude-sonnet-4-6", "stream": true, "max_tokens": sub(in, "inferenceConfig")["maxTokens"]}
	maps.Copy(out, sub(in, "additionalModelRequestFields"))
	if sys := objects(in["system"]); len(sys) > 0 {
		out["system"] = sys[0]["text"]
	}
	var tools, msgs []object
	for _, tool := range objects(sub(in, "toolConfig")["tools"]) {
		if s := sub(tool, "toolSpec"); s != nil {
			tools = append(tools, object{"name": s["name"], "description": s["description"], "input_schema": sub(s, "inputSchema")["json"]})
		}
	}
	out["tools"] = tools
	for _, m := range objects(in["messages"]) {
		msgs = append(msgs, object{"role": m["role"], "content": toBlocks(objects(m["content"]))})
	}
	out["messages"] = msgs
	data, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func toBlocks(blocks []object) []object {
	var out []object
	for _, b := range blocks {
		switch {
		case b["text"] != nil:
			out = append(out, object{"type": "text", "text": b["text"]})
		case b["image"] != nil:
			img := sub(b, "image")
			out = append(out, object{"type": "image", "source": object{"type": "base64", "media_type": fmt.Sprint("image/", img["format"]), "data": sub(img, "source")["bytes"]}})
		case b["toolUse"] != nil:
			u := sub(b, "toolUse")
			out = append(out, object{"type": "tool_use", "id": u["toolUseId"], "name": u["name"], "input": u["input"]})
		case b["toolResult"] != nil:
			u := sub(b, "toolResult")
			out = append(out, object{"type": "tool_result", "tool_use_id": u["toolUseId"], "is_error": u["status"] == "error", "content": toBlocks(objects(u["content"]))})
		case b["reasoningContent"] != nil:
			u := sub(sub(b, "reasoningContent"), "reasoningText")
			out = append(out, object{"type": "thinking", "thinking": u["text"], "signature": u["signature"]})
		}
	}
	return out
}

// toFrames translates the answer; it returns how the stream ended.
func toFrames(r io.Reader, w io.Writer) error {
	var usage object
	for sse, err := range wire.SSE(r) {
		if err != nil {
			return err
		}
		var ev object
		if err := json.Unmarshal(sse.Data, &ev); err != nil {
			return err
		}
		var frame []byte
		delta := sub(ev, "delta")
		piece := func(format string, v any) {
			frame = event(fmt.Sprintf(`contentBlockDelta {"contentBlockIndex":%v,"delta":`+format+`}`, ev["index"], js(v)))
		}
		switch ev["type"] {
		case "message_start":
			usage = sub(sub(ev, "message"), "usage")
			frame = event(begin)
		case "content_block_start":
			if c := sub(ev, "content_block"); c["type"] == "tool_use" {
				frame = event(fmt.Sprintf(`contentBlockStart {"contentBlockIndex":%v,"start":{"toolUse":{"toolUseId":%s,"name":%s}}}`, ev["index"], js(c["id"]), js(c["name"])))
			}
		case "content_block_delta":
			switch delta["type"] {
			case "text_delta":
				piece(`{"text":%s}`, delta["text"])
			case "thinking_delta":
				piece(`{"reasoningContent":{"text":%s}}`, delta["thinking"])
			case "signature_delta":
				piece(`{"reasoningContent":{"signature":%s}}`, delta["signature"])
			case "input_json_delta":
				piece(`{"toolUse":{"input":%s}}`, delta["partial_json"])
			}
		case "content_block_stop":
			frame = event(fmt.Sprintf(`contentBlockStop {"contentBlockIndex":%v}`, ev["index"]))
		case "message_delta":
			frame = event(fmt.Sprintf(`messageStop {"stopReason":%s}`, js(delta["stop_reason"])))
			usage["output_tokens"] = sub(ev, "usage")["output_tokens"]
		case "message_stop":
			frame = event(fmt.Sprintf(`metadata {"usage":{"inputTokens":%v,"outputTokens":%v,"cacheReadInputTokens":%v}}`,
				usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]))
		case "error":
			frame = exception("serviceUnavailableException", `{"message":"busy"}`)
		}
		if _, err := w.Write(frame); err != nil {
			return err
		}
	}
	return nil
}

func js(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
