package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// chunk is one event of a stream, or a whole reply: the two differ only in
// whether a choice holds a delta or a message. Fields whose type varies
// between vendors stay raw.
type chunk struct {
	Object     string          `json:"object"`
	Error      json.RawMessage `json:"error"`
	Choices    []choice        `json:"choices"`
	Usage      *usage          `json:"usage"`
	Content    json.RawMessage `json:"content"`
	OutputText json.RawMessage `json:"output_text"`
	Detail     json.RawMessage `json:"detail"`
	Message    json.RawMessage `json:"message"`
	BaseResp   struct {
		Status int `json:"status_code"`
	} `json:"base_resp"`
}

type choice struct {
	Index   int             `json:"index"`
	Delta   *delta          `json:"delta"`
	Message *delta          `json:"message"`
	Text    string          `json:"text"`
	Finish  string          `json:"finish_reason"`
	Error   json.RawMessage `json:"error"`
}

type delta struct {
	Content          json.RawMessage `json:"content"`
	ReasoningContent *string         `json:"reasoning_content"`
	Reasoning        *string         `json:"reasoning"`
	Details          json.RawMessage `json:"reasoning_details"`
	Refusal          string          `json:"refusal"`
	ToolCalls        []callDelta     `json:"tool_calls"`
	FunctionCall     *functionDelta  `json:"function_call"`
}

type callDelta struct {
	Index        *int            `json:"index"`
	ID           string          `json:"id"`
	Function     functionDelta   `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
	Fields       json.RawMessage `json:"provider_specific_fields"`
}

type functionDelta struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Fields    json.RawMessage `json:"provider_specific_fields"`
}

// decodeChunk reads a chunk. A field of an unexpected type is skipped; only
// text that is not a JSON object is an error.
func decodeChunk(data []byte) (*chunk, error) {
	c := &chunk{}
	err := json.Unmarshal(data, c)
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		err = nil
	}
	return c, err
}

// failed says whether the chunk reports an error.
func (c *chunk) failed() bool {
	if present(c.Error) && string(c.Error) != "false" && string(c.Error) != `""` && string(c.Error) != "{}" {
		return true
	}
	if c.Object == "error" || c.BaseResp.Status != 0 {
		return true
	}
	return c.Choices == nil && c.Usage == nil && !present(c.Content) && !present(c.OutputText) && (present(c.Detail) || present(c.Message))
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// usage counts tokens in the spellings of all vendors.
type usage struct {
	Prompt        llm.Count `json:"prompt_tokens"`
	Completion    llm.Count `json:"completion_tokens"`
	Cached        llm.Count `json:"cached_tokens"`
	CacheHit      llm.Count `json:"prompt_cache_hit_tokens"`
	Cost          float64   `json:"cost"`
	PromptDetails struct {
		Cached     llm.Count `json:"cached_tokens"`
		CacheWrite llm.Count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning llm.Count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *usage) normal() llm.Usage {
	return llm.Usage{
		Prompt:     int(u.Prompt),
		Completion: int(u.Completion),
		Cached:     int(cmp.Or(u.PromptDetails.Cached, u.Cached, u.CacheHit)),
		CacheWrite: int(u.PromptDetails.CacheWrite),
		Reasoning:  int(u.CompletionDetails.Reasoning),
		Cost:       u.Cost,
	}
}

// contentText reads a content field: a string, null, or a list of blocks in
// which thinking is separate from text.
func contentText(raw json.RawMessage) (text, thinking string) {
	if !present(raw) {
		return "", ""
	}

	switch raw[0] {
	case '"':
		text = unquote(raw)
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list)
		for _, item := range list {
			t, th := contentText(item)
			text += t
			thinking += th
		}

	case '{':
		var b struct {
			Type     string          `json:"type"`
			Text     json.RawMessage `json:"text"`
			Thinking json.RawMessage `json:"thinking"`
		}

		_ = json.Unmarshal(raw, &b)
		text, _ = contentText(b.Text)
		thinking, _ = contentText(b.Thinking)
		if strings.HasPrefix(b.Type, "thinking") || b.Type == "reasoning" {
			text, thinking = "", thinking+text
		}
	}

	return text, thinking
}

// finishOf translates a finish reason; "" means that the answer goes on.
func finishOf(s string) llm.Finish {
	switch strings.ToLower(s) {
	case "":
		return ""
	case "tool_calls", "function_call", "tool_use", "tool_call":
		return llm.FinishToolCalls
	case "length", "max_tokens", "max_output_tokens", "model_length":
		return llm.FinishLength
	case "content_filter", "safety", "sensitive", "recitation", "prohibited_content":
		return llm.FinishFilter
	case "refusal":
		return llm.FinishRefusal
	}
	return llm.FinishStop
}
