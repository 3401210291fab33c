package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// SpeakResponses makes a server understand POST .../responses too, as strictly
// as the other protocols. It changes the server's URL, so it must be called
// before a driver is made.
func SpeakResponses(s *Server) {
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/responses") {
			s.serveResponses(w, r)
			return
		}
		s.serve(w, r)
	}))

	front.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
		}
	}

	front.Start()
	s.t.Cleanup(front.Close)
	s.http = front
	s.URL = front.URL + "/v1"
}

func (s *Server) serveResponses(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	rec := Recorded{Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	err := checkResponses(r.Header, body)
	if err != nil {
		rec.Error = err.Error()
	}

	s.mu.Lock()
	s.requests = append(s.requests, rec)
	n := len(s.requests)
	var a Answer
	found := len(s.answers) > 0
	if found && err == nil {
		a, s.answers = s.answers[0], s.answers[1:]
	}

	s.mu.Unlock()
	switch {
	case err != nil:
		if !s.Lenient {
			s.t.Errorf("request %d to %s: the API would refuse it: %v\n%s", n, r.URL.Path, err, body)
		}
		a = Answer{Status: http.StatusBadRequest, Body: fmt.Sprintf(`{"error":{"type":"invalid_request_error","message":%q}}`, err)}
	case !found:
		s.t.Errorf("request %d: the server has no more answers", n)
		a = Answer{Status: http.StatusTeapot, Body: `{"error":{"message":"no more answers"}}`}
	}

	if a.Reply != nil {
		a.ContentType, a.Body = "text/event-stream", a.Reply.responses()
		if a.Reply.Cut || a.Reply.Hold != nil {
			a.Hold = a.Reply.Hold
		}
		a.Reply = nil
	}

	if !s.play(w, r, a, false) {
		s.mu.Lock()
		s.gone++
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// responses renders the events of the Responses protocol. A call whose ID
// holds a bar has an item id behind it; other calls have none, and are told
// apart by their place alone.
func (r *StreamReply) responses() string {
	out := strings.Builder{}
	event := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "event: %s\ndata: {\"type\":%s,%s}\n\n", name, js(name), fmt.Sprintf(format, args...))
	}
	event("response.created", `"response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"output":[]}`)
	place := 0
	var output []string
	finish := func(item string) {
		event("response.output_item.done", `"output_index":%d,"item":%s`, place, item)
		output = append(output, item)
		place++
	}
	if len(r.Think) > 0 {
		event("response.output_item.added", `"output_index":%d,"item":{"type":"reasoning","id":"rs_1","summary":[]}`, place)
		for _, p := range r.Think {
			event("response.reasoning_summary_text.delta", `"item_id":"rs_1","output_index":%d,"summary_index":0,"delta":%s`, place, js(p))
		}
		all := js(strings.Join(r.Think, ""))
		event("response.reasoning_summary_text.done", `"item_id":"rs_1","output_index":%d,"summary_index":0,"text":%s`, place, all)
		finish(fmt.Sprintf(`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":%s}],"encrypted_content":"c2VjcmV0"}`, all))
	}

	if len(r.Text) > 0 {
		event("response.output_item.added", `"output_index":%d,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}`, place)
		for _, p := range r.Text {
			event("response.output_text.delta", `"item_id":"msg_1","output_index":%d,"content_index":0,"delta":%s`, place, js(p))
		}
	}

	if r.Fail == "" && (r.Cut || r.Hold != nil) {
		return out.String()
	}

	if len(r.Text) > 0 {
		all := js(strings.Join(r.Text, ""))
		event("response.output_text.done", `"item_id":"msg_1","output_index":%d,"content_index":0,"text":%s`, place, all)
		finish(fmt.Sprintf(`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":%s,"annotations":[]}]}`, all))
	}

	for _, c := range r.Calls {
		call, id, _ := strings.Cut(c.ID, "|")
		item := func(args string) string {
			if id == "" {
				return fmt.Sprintf(`{"type":"function_call","call_id":%s,"name":%s,"arguments":%s}`, js(call), js(c.Name), js(args))
			}
			return fmt.Sprintf(`{"type":"function_call","id":%s,"call_id":%s,"name":%s,"arguments":%s}`, js(id), js(call), js(c.Name), js(args))
		}

		event("response.output_item.added", `"output_index":%d,"item":%s`, place, item(""))
		for _, p := range c.Args {
			event("response.function_call_arguments.delta", `"item_id":%s,"output_index":%d,"delta":%s`, js(id), place, js(p))
		}

		all := strings.Join(c.Args, "")
		event("response.function_call_arguments.done", `"item_id":%s,"output_index":%d,"arguments":%s`, js(id), place, js(all))
		finish(item(all))
	}

	if r.Fail != "" {
		event("error", `"code":%s,"message":"something broke","param":null`, js(r.Fail))
		return out.String()
	}

	u := r.Usage
	usage := "null"
	if u != (llm.Usage{}) {
		usage = fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
			u.Prompt, u.Cached, u.Completion, u.Reasoning, u.Prompt+u.Completion)
	}

	status, details := "completed", "null"
	switch r.finishReason() {
	case llm.FinishLength:
		status, details = "incomplete", `{"reason":"max_output_tokens"}`
	case llm.FinishFilter:
		status, details = "incomplete", `{"reason":"content_filter"}`
	}

	event("response."+status, `"response":{"id":"resp_1","object":"response","status":%s,"error":null,"incomplete_details":%s,"output":[%s],"usage":%s}`,
		js(status), details, strings.Join(output, ","), usage)
	return out.String()
}

// checkResponses judges a request of the Responses protocol.
func checkResponses(h http.Header, body []byte) error {
	if key, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); (!ok || key == "") && h.Get("Api-Key") == "" {
		return errors.New("no bearer token and no api-key")
	}
	if !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		return errors.New("content type is not JSON")
	}

	o, err := decodeObject(body)
	if err != nil {
		return err
	}
	if err := o.only(`model instructions input max_output_tokens store stream temperature top_p reasoning include tools tool_choice
		parallel_tool_calls text prompt_cache_key service_tier metadata`); err != nil {
		return err
	}
	if o.text("model") == "" {
		return errors.New("no model")
	}
	if n, ok := o["max_output_tokens"].(float64); o["max_output_tokens"] != nil && (!ok || n < 16) {
		return fmt.Errorf("max_output_tokens is %v, at least 16 is needed", o["max_output_tokens"])
	}
	if s, ok := o["instructions"].(string); o["instructions"] != nil && (!ok || s == "") {
		return errors.New("instructions are not a text")
	}
	if err := checkResponsesTools(o); err != nil {
		return err
	}

	items, err := o.objects("input")
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return errors.New("input is empty")
	}

	c := inputCheck{open: map[string]bool{}, ids: map[string]bool{}, stored: o["store"] != false}
	for i, it := range items {
		if err := c.item(it); err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	return c.checkEnd()
}

func checkResponsesTools(o object) error {
	tools, err := o.objects("tools")
	if err != nil {
		return err
	}
	if o["tools"] != nil && len(tools) == 0 {
		return errors.New("tools is empty")
	}

	names := map[string]bool{}
	for i, t := range tools {
		if t.text("type") != "function" {
			continue // hosted
		}
		if err := t.only("type name description parameters strict"); err != nil {
			return fmt.Errorf("tools[%d]: %w", i, err)
		}

		p, _ := t["parameters"].(map[string]any)
		if !isToolName(t.text("name")) || object(p).text("type") != "object" || names[t.text("name")] {
			return fmt.Errorf("tools[%d] is malformed or named twice", i)
		}
		names[t.text("name")] = true
	}

	switch c := o["tool_choice"].(type) {
	case nil:
	case string:
		if c != "auto" && c != "none" && c != "required" || len(tools) == 0 {
			return fmt.Errorf("tool_choice %q with %d tools", c, len(tools))
		}
	case map[string]any:
		if !names[object(c).text("name")] {
			return fmt.Errorf("tool_choice names no tool: %v", c)
		}
	default:
		return errors.New("malformed tool_choice")
	}

	return nil
}

// inputCheck walks through the input items.
type inputCheck struct {
	open    map[string]bool // calls; true = waiting for the result
	ids     map[string]bool
	stored  bool
	pending string // a reasoning item that nothing follows yet
}

func (c *inputCheck) item(it object) error {
	kind := it.text("type")
	if kind == "" && it.text("role") != "" {
		kind = "message"
	}

	if id, ok := it["id"]; ok {
		s, _ := id.(string)
		prefix := map[string]string{"message": "msg", "function_call": "fc", "reasoning": "rs", "web_search_call": "ws"}[kind]
		if !isToolName(s) || !strings.HasPrefix(s, prefix) {
			return fmt.Errorf("id %v of a %s does not begin with %q", id, kind, prefix)
		}
		if c.ids[s] {
			return fmt.Errorf("duplicate item %q", s)
		}
		c.ids[s] = true
	}

	if c.pending != "" && (kind == "function_call_output" || kind == "message" && it.text("role") != "assistant") {
		return fmt.Errorf("reasoning %q without its required following item", c.pending)
	}

	switch kind {
	case "message":
		c.pending = ""
		return c.message(it)
	case "function_call":
		c.pending = ""
		return c.call(it)
	case "function_call_output":
		return c.result(it)
	case "reasoning":
		c.pending = "(" + it.text("id") + ")"
		if err := it.only("type id summary content encrypted_content status"); err != nil {
			return err
		}
		if _, ok := it["summary"].([]any); it["content"] == nil && (!ok || !c.stored && it.text("encrypted_content") == "") {
			return errors.New("reasoning without summary or encrypted content, and nothing is stored")
		}
		return nil

	case "web_search_call":
		return nil
	}

	return fmt.Errorf("unknown type %q", kind)
}

func (c *inputCheck) message(it object) error {
	if id := unanswered(c.open); id != "" {
		return fmt.Errorf("no tool output found for function call %q", id)
	}
	if err := it.only("type role status id content"); err != nil {
		return err
	}

	role := it.text("role")
	want := "input_"
	switch role {
	case "user", "developer", "system":
		if it["id"] != nil || it["status"] != nil {
			return errors.New("id or status on a message from the user's side")
		}
	case "assistant":
		want = "output_"
	default:
		return fmt.Errorf("unknown role %q", role)
	}

	parts, err := it.objects("content")
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return errors.New("empty content")
	}
	return checkParts(parts, want)
}

func checkParts(parts []object, prefix string) error {
	for _, p := range parts {
		kind := p.text("type")
		if !strings.HasPrefix(kind, prefix) {
			return fmt.Errorf("part %q where %s… is wanted", kind, prefix)
		}

		switch kind {
		case "input_text", "output_text":
			if p.text("text") == "" {
				return errors.New("empty text part")
			}
		case "input_image":
			if p.text("image_url") == "" {
				return errors.New("image without URL")
			}
		case "input_file":
		default:
			return fmt.Errorf("unknown part %q", kind)
		}
	}
	return nil
}

func (c *inputCheck) call(it object) error {
	if err := it.only("type id call_id name arguments status"); err != nil {
		return err
	}

	id := it.text("call_id")
	var args map[string]any
	switch _, known := c.open[id]; {
	case id == "" || len(id) > 64 || known:
		return fmt.Errorf("call_id %q is empty, too long or used twice", id)
	case !isToolName(it.text("name")):
		return fmt.Errorf("malformed name of call %q", id)
	case json.Unmarshal([]byte(it.text("arguments")), &args) != nil || args == nil:
		return fmt.Errorf("arguments of %q are not the text of a JSON object", id)
	}

	c.open[id] = true
	return nil
}

func (c *inputCheck) result(it object) error {
	if err := it.only("type call_id output id status"); err != nil {
		return err
	}

	id := it.text("call_id")
	if !c.open[id] {
		return fmt.Errorf("no tool call found for function call output with call_id %q", id)
	}

	c.open[id] = false
	if s, ok := it["output"].(string); ok {
		if s == "" {
			return errors.New("empty output")
		}
		return nil
	}

	parts, err := it.objects("output")
	if err != nil || len(parts) == 0 {
		return errors.New("output is neither text nor parts")
	}
	return checkParts(parts, "input_")
}

func (c *inputCheck) checkEnd() error {
	if id := unanswered(c.open); id != "" {
		return fmt.Errorf("no tool output found for function call %q", id)
	}
	if c.pending != "" {
		return fmt.Errorf("reasoning %q without its required following item", c.pending)
	}
	return nil
}

// ResponsesHistory reads the input of a Responses request back as messages:
// what a server understands of a history. Hidden items are in Thinking of the
// assistant turn they belong to.
func ResponsesHistory(body []byte) ([]llm.Message, error) {
	var w struct {
		Input []json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}

	var msgs []llm.Message
	turn := func() *llm.Message { // the assistant turn that is being put together
		if n := len(msgs); n == 0 || msgs[n-1].Role != llm.Assistant {
			msgs = append(msgs, llm.Message{Role: llm.Assistant})
		}
		return &msgs[len(msgs)-1]
	}
	for i, raw := range w.Input {
		var it struct {
			Type      string          `json:"type"`
			Role      string          `json:"role"`
			ID        string          `json:"id"`
			CallID    string          `json:"call_id"`
			Name      string          `json:"name"`
			Arguments string          `json:"arguments"`
			Content   json.RawMessage `json:"content"`
			Output    json.RawMessage `json:"output"`
		}
		if err := json.Unmarshal(raw, &it); err != nil {
			return nil, fmt.Errorf("input[%d]: %w", i, err)
		}

		switch {
		case it.Role == "assistant":
			m := turn()
			m.Content = llm.Text(m.Content.Text + inputContent(it.Content).String())
		case it.Role != "":
			role := llm.User
			if it.Role != "user" {
				role = llm.System
			}
			msgs = append(msgs, llm.Message{Role: role, Content: inputContent(it.Content)})

		case it.Type == "function_call":
			if it.ID != "" {
				it.CallID += "|" + it.ID
			}
			m := turn()
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: it.CallID, Name: it.Name, Arguments: it.Arguments})

		case it.Type == "function_call_output":
			msgs = append(msgs, llm.Message{Role: llm.ToolRole, ToolCallID: it.CallID, Content: inputContent(it.Output)})
		default:
			m := turn()
			m.Thinking = append(m.Thinking, raw)
		}
	}

	return msgs, nil
}

func inputContent(raw json.RawMessage) llm.Content {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return llm.Text(text)
	}

	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL string `json:"image_url"`
	}

	_ = json.Unmarshal(raw, &parts)
	c := llm.Content{Blocks: []llm.Block{}}
	for _, p := range parts {
		switch p.Type {
		case "input_image":
			c.Blocks = append(c.Blocks, llm.Block{Type: "image_url", ImageURL: p.ImageURL})
		default:
			c.Blocks = append(c.Blocks, llm.Block{Type: "text", Text: p.Text})
		}
	}

	return c
}
