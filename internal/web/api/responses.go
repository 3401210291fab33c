package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// responsesRequest is what we read of a request to /v1/responses.
type responsesRequest struct {
	Model        string       `json:"model"`
	Input        items        `json:"input"`
	Instructions string       `json:"instructions"`
	Stream       bool         `json:"stream"`
	Conversation conversation `json:"conversation"`
	ToolChoice   toolChoice   `json:"tool_choice"`
	Previous     string       `json:"previous_response_id"`
	Background   bool         `json:"background"`
	Text         struct {
		Format struct {
			Type string `json:"type"`
		} `json:"format"`
	} `json:"text"`
	Tools   []json.RawMessage `json:"tools"`
	Nanobot extension         `json:"nanobot"`
}

// conversation is a name, alone or in an object.
type conversation struct{ ID string }

// UnmarshalJSON takes both forms.
func (c *conversation) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		return json.Unmarshal(b, &struct{ ID *string }{&c.ID})
	}
	return json.Unmarshal(b, &c.ID)
}

// items is the input: a text or a list.
type items []item

type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   parts           `json:"content"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// UnmarshalJSON takes both forms of an input.
func (i *items) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*i = items{{Role: "user"}}
		return json.Unmarshal(b, &(*i)[0].Content)
	}
	return json.Unmarshal(b, (*[]item)(i))
}

// plain brings an item into our words; false means that it says nothing.
func (it item) plain(i int) (message, bool, error) {
	switch it.Type {
	case "", "message":
		m, err := chatMessage{Role: it.Role, Content: it.Content}.plain(i)
		return m, true, err
	case "function_call":
		return message{role: bus.RoleAssistant, text: called(it.Name, it.Arguments)}, true, nil
	case "function_call_output":
		text := string(it.Output)
		_ = json.Unmarshal(it.Output, &text) // an object is shown as it is
		return message{role: bus.RoleTool, text: text}, true, nil
	case "reasoning":
		return message{}, false, nil
	}
	return message{}, false, badRequest(fmt.Sprintf("input[%d].type", i), fmt.Sprintf("Items of type %q are not supported.", it.Type))
}

func (r responsesRequest) check() error {
	switch {
	case r.Previous != "":
		return badRequest("previous_response_id", "Answers are not kept one by one: name a conversation instead.")
	case r.Background:
		return badRequest("background", "Answers are given at once: leave background out.")
	case r.Text.Format.Type != "" && r.Text.Format.Type != "text":
		return badRequest("text.format", "Answers are text: leave the format out and ask for it in words.")
	}
	return unsupported{Tools: r.Tools}.check(r.ToolChoice)
}

// readResponses reads a request to /v1/responses. The call is there also when
// an error is, for its files.
func (a *API) readResponses(w http.ResponseWriter, r *http.Request) (*call, string, error) {
	c := &call{events: r.Header.Get(headerEvents) == "true"}
	var req responsesRequest
	if err := decode(w, r, &req); err != nil {
		return c, "", err
	}
	if err := req.check(); err != nil {
		return c, "", err
	}

	session, err := a.session(r, req.Conversation.ID)
	if err != nil {
		return c, "", err
	}
	if c.model, err = a.model(req.Model); err != nil {
		return c, "", err
	}

	c.stream = req.Stream
	c.events = c.events || req.Nanobot.Events
	c.in.NoTools = req.ToolChoice.none
	var msgs []message
	if req.Instructions != "" {
		msgs = append(msgs, message{role: bus.RoleSystem, text: req.Instructions})
	}

	for i, it := range req.Input {
		m, says, err := it.plain(i)
		if err != nil {
			return c, "", err
		}
		if says {
			msgs = append(msgs, m)
		}
	}

	return c, req.Instructions, a.fill(r.Context(), c, session, msgs)
}

// response is the object of /v1/responses. The fields that clients expect and
// we do not use have the values that say so.
type response struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Created      int64             `json:"created_at"`
	Status       string            `json:"status"`
	Error        any               `json:"error"`
	Incomplete   any               `json:"incomplete_details"`
	Instructions *string           `json:"instructions"`
	MaxTokens    *int              `json:"max_output_tokens"`
	Model        string            `json:"model"`
	Output       []outputItem      `json:"output"`
	Parallel     bool              `json:"parallel_tool_calls"`
	Previous     *string           `json:"previous_response_id"`
	Store        bool              `json:"store"`
	Temperature  *float64          `json:"temperature"`
	TopP         *float64          `json:"top_p"`
	Text         map[string]any    `json:"text"`
	ToolChoice   string            `json:"tool_choice"`
	Tools        []struct{}        `json:"tools"`
	Truncation   string            `json:"truncation"`
	Usage        *responsesUsage   `json:"usage"`
	Metadata     map[string]string `json:"metadata"`
	Nanobot      *details          `json:"nanobot,omitempty"`
}

type outputItem struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Status  string       `json:"status"`
	Role    string       `json:"role"`
	Content []outputText `json:"content"`
}

type outputText struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
}

type responsesUsage struct {
	Input        int            `json:"input_tokens"`
	InputDetail  map[string]int `json:"input_tokens_details"`
	Output       int            `json:"output_tokens"`
	OutputDetail map[string]int `json:"output_tokens_details"`
	Total        int            `json:"total_tokens"`
}

func textPart(s string) outputText {
	return outputText{Type: "output_text", Text: s, Annotations: []struct{}{}}
}

func (a *API) newResponse(c *call, instructions string) *response {
	r := &response{
		ID:         "resp_" + randomHex(32),
		Object:     "response",
		Created:    a.o.Now().Unix(),
		Status:     "in_progress",
		Model:      c.model.ID,
		Output:     []outputItem{},
		Parallel:   true,
		Text:       map[string]any{"format": map[string]string{"type": "text"}},
		ToolChoice: "auto",
		Tools:      []struct{}{},
		Truncation: "disabled",
		Metadata:   map[string]string{},
	}
	if instructions != "" {
		r.Instructions = &instructions
	}
	return r
}

// conclude fills in how the turn ended.
func (r *response) conclude(c *call, got answer, item outputItem) {
	r.Status, item.Status = "completed", "completed"
	switch got.finish {
	case finishLength:
		r.Status = "incomplete"
		item.Status = "incomplete"
		r.Incomplete = map[string]string{"reason": "max_output_tokens"}
	case finishFilter:
		r.Status = "incomplete"
		item.Status = "incomplete"
		r.Incomplete = map[string]string{"reason": "content_filter"}
	}

	item.Content = []outputText{textPart(got.text)}
	r.Output = []outputItem{item}
	u := got.turn.Usage
	r.Usage = &responsesUsage{
		Input: u.Prompt, InputDetail: map[string]int{"cached_tokens": u.Cached},
		Output: u.Completion, OutputDetail: map[string]int{"reasoning_tokens": 0}, Total: u.Prompt + u.Completion,
	}
	r.Nanobot = got.details(c)
}

// responses answers POST /v1/responses.
func (a *API) responses(w http.ResponseWriter, r *http.Request) error {
	c, instructions, err := a.readResponses(w, r)
	defer c.drop()
	if err != nil {
		return err
	}

	item := outputItem{
		ID:      "msg_" + randomHex(32),
		Type:    "message",
		Status:  "in_progress",
		Role:    "assistant",
		Content: []outputText{},
	}
	return a.answer(w, r, c, &responsesEncoder{call: c, resp: a.newResponse(c, instructions), item: item})
}

// responsesEncoder answers in the form of /v1/responses.
type responsesEncoder struct {
	call *call
	resp *response
	item outputItem

	stream *stream
	n      int // events that were sent
	begun  bool
}

func (e *responsesEncoder) whole(got answer) any {
	e.resp.conclude(e.call, got, e.item)
	return e.resp
}

func (e *responsesEncoder) open(s *stream) sink {
	e.stream = s
	return sink{
		text: func(t string) {
			e.begin()
			e.send("response.output_text.delta", e.place(map[string]any{"delta": t, "logprobs": []struct{}{}}))
		},
		event: func(ev event) {
			e.begin()
			e.send("response.nanobot.event", map[string]any{"event": ev})
		},
	}
}

// send sends an event with its number.
func (e *responsesEncoder) send(kind string, fields map[string]any) {
	fields["type"], fields["sequence_number"] = kind, e.n
	e.n++
	e.stream.send(kind, fields)
}

// begin sends what comes before the text.
func (e *responsesEncoder) begin() {
	if e.begun {
		return
	}
	e.begun = true
	e.send("response.created", map[string]any{"response": e.resp})
	e.send("response.in_progress", map[string]any{"response": e.resp})
	e.send("response.output_item.added", map[string]any{"output_index": 0, "item": e.item})
	e.send("response.content_part.added", e.place(map[string]any{"part": textPart("")}))
}

func (e *responsesEncoder) place(fields map[string]any) map[string]any {
	fields["item_id"] = e.item.ID
	fields["output_index"] = 0
	fields["content_index"] = 0
	return fields
}

func (e *responsesEncoder) end(got answer) {
	e.begin()
	e.resp.conclude(e.call, got, e.item)
	e.send("response.output_text.done", e.place(map[string]any{"text": got.text, "logprobs": []struct{}{}}))
	e.send("response.content_part.done", e.place(map[string]any{"part": textPart(got.text)}))
	e.send("response.output_item.done", map[string]any{"output_index": 0, "item": e.resp.Output[0]})
	e.send("response."+e.resp.Status, map[string]any{"response": e.resp})
}

func (e *responsesEncoder) fail(f *fault) {
	e.begin()
	e.resp.Status, e.resp.Error = "failed", map[string]string{"code": f.kind(), "message": f.message}
	e.send("response.failed", map[string]any{"response": e.resp})
}
