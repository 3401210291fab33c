package bedrock

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// block is one content block of an answer, as far as it has arrived.
type block struct {
	index    int
	kind     wire.PartKind   // TextPart, ThinkingPart or CallPart
	text     strings.Builder // text, thought or arguments
	sign     strings.Builder
	redacted []byte
	id, name string
}

// answer assembles what the server sends.
type answer struct {
	classify wire.Classifier
	known    map[string]bool // the tools of the request
	begun    bool            // something was shown or counted: no second try
	blocks   []*block
	stop     string
	usage    *usage
	size     wire.Size
	deltas   bool // calls are shown while they are written
}

type usage struct {
	Input      llm.Count `json:"inputTokens"`
	Output     llm.Count `json:"outputTokens"`
	CacheRead  llm.Count `json:"cacheReadInputTokens"`
	CacheWrite llm.Count `json:"cacheWriteInputTokens"`
}

// event is the union of all stream events.
type event struct {
	Index int `json:"contentBlockIndex"`
	Start struct {
		ToolUse *struct {
			ID   string `json:"toolUseId"`
			Name string `json:"name"`
		} `json:"toolUse"`
	} `json:"start"`
	Delta struct {
		Text    *string `json:"text"`
		ToolUse *struct {
			Input string `json:"input"`
		} `json:"toolUse"`
		Reasoning *struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
			Redacted  []byte `json:"redactedContent"`
		} `json:"reasoningContent"`
	} `json:"delta"`
	StopReason string `json:"stopReason"`
	Usage      *usage `json:"usage"`
}

// read takes in one reply: frames, or a whole answer.
func (a *answer) read(body io.Reader, idle *wire.Idle, h http.Header, emit func(llm.Event) error) error {
	br := bufio.NewReader(body)
	if lead, err := br.Peek(1); err == nil && lead[0] > 1 { // a frame is shorter than 32 MiB
		return a.readWhole(br, h, emit)
	}

	frames := frameReader{r: br}
	for {
		f, err := frames.next()
		switch {
		case err != nil && a.stop != "":
			return nil // only the counts are missing
		case errors.Is(err, io.EOF):
			return &llm.Error{Kind: llm.StreamTruncated, Provider: a.classify.Provider, Message: "the answer ended before it was complete"}
		case err != nil:
			return err
		case f.kind == "exception" || f.kind == "error":
			return a.exception(f)
		}

		if err := a.event(f, emit); err != nil {
			return err
		}

		switch {
		case a.stop != "" && a.usage != nil:
			return nil
		case a.stop != "":
			idle.Limit(trailing)
		}
	}
}

func (a *answer) event(f frame, emit func(llm.Event) error) error {
	var ev event
	if err := json.Unmarshal(f.payload, &ev); err != nil {
		return &llm.Error{Kind: llm.ServerError, Provider: a.classify.Provider, Message: "the server's stream cannot be read", Err: err}
	}

	switch f.event {
	case "contentBlockStart":
		if t := ev.Start.ToolUse; t != nil {
			a.begun = true
			a.blocks = append(a.blocks, &block{index: ev.Index, kind: wire.CallPart, id: t.ID, name: t.Name})
		}

	case "contentBlockDelta":
		return a.delta(&ev, emit)
	case "messageStop":
		a.stop = ev.StopReason
		if a.stop == "" {
			a.stop = "end_turn"
		}

	case "metadata":
		a.usage = ev.Usage
	}

	return nil
}

// delta extends a block. Blocks of text and thoughts are not announced; they
// begin with their first piece.
func (a *answer) delta(ev *event, emit func(llm.Event) error) error {
	a.begun = true
	switch d := ev.Delta; {
	case d.Text != nil:
		return a.addText(ev.Index, *d.Text, emit)
	case d.Reasoning != nil:
		b := a.thought(ev.Index)
		b.sign.WriteString(d.Reasoning.Signature)
		b.redacted = append(b.redacted, d.Reasoning.Redacted...)
		return a.think(b, d.Reasoning.Text, emit)

	case d.ToolUse != nil:
		if b := a.block(ev.Index, wire.CallPart); b != nil {
			b.text.WriteString(d.ToolUse.Input)
			if err := a.size.Add(d.ToolUse.Input); err != nil || !a.deltas {
				return err
			}
			return emit(llm.Event{Kind: llm.ToolDelta, Text: d.ToolUse.Input, Tool: &llm.ToolPart{ID: b.id, Name: b.name, Index: b.index}})
		}
	}

	return nil
}

func (a *answer) addText(index int, s string, emit func(llm.Event) error) error {
	if s == "" {
		return nil
	}

	b := a.block(index, wire.TextPart)
	if b == nil {
		b = &block{index: index, kind: wire.TextPart}
		a.blocks = append(a.blocks, b)
	}

	b.text.WriteString(s)
	return emit(llm.Event{Kind: llm.TextDelta, Text: s})
}

// thoughtBreak separates two thinking blocks in the text of the reasoning.
const thoughtBreak = "\n\n"

// thought finds or begins a thinking block.
func (a *answer) thought(index int) *block {
	b := a.block(index, wire.ThinkingPart)
	if b == nil {
		b = &block{index: index, kind: wire.ThinkingPart}
		a.blocks = append(a.blocks, b)
	}
	return b
}

// think extends a thought. A second one reads as a paragraph of its own.
func (a *answer) think(b *block, s string, emit func(llm.Event) error) error {
	if s == "" {
		return nil
	}
	second := b.text.Len() == 0 && slices.ContainsFunc(a.blocks, func(o *block) bool { return o.kind == wire.ThinkingPart && o.text.Len() > 0 })
	b.text.WriteString(s)
	if second {
		s = thoughtBreak + s
	}
	return emit(llm.Event{Kind: llm.ReasoningDelta, Text: s})
}

// block finds the current block of an index: the newest one, if it is of the kind.
func (a *answer) block(index int, kind wire.PartKind) *block {
	for _, b := range slices.Backward(a.blocks) {
		if b.index == index {
			if b.kind == kind {
				return b
			}
			return nil
		}
	}
	return nil
}

// maxReply bounds a reply that is not a stream.
const maxReply = 32 << 20

// wholeBlock is a content block of a reply that is not a stream.
type wholeBlock struct {
	Text    *string `json:"text"`
	ToolUse *struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"toolUse"`
	Reasoning *struct {
		Text struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningText"`
		Redacted []byte `json:"redactedContent"`
	} `json:"reasoningContent"`
}

func (a *answer) readWhole(r io.Reader, h http.Header, emit func(llm.Event) error) error {
	data, err := io.ReadAll(io.LimitReader(r, maxReply))
	if err != nil {
		return err
	}

	var w struct {
		Output *struct {
			Message struct {
				Content []wholeBlock `json:"content"`
			} `json:"message"`
		} `json:"output"`
		StopReason string `json:"stopReason"`
		Usage      *usage `json:"usage"`
	}
	if err := json.Unmarshal(data, &w); err != nil || w.Output == nil {
		return plainError(h, data).classified(a.classify, 0, h)
	}

	for i, c := range w.Output.Message.Content {
		if err := a.whole(i, c, emit); err != nil {
			return err
		}
	}

	a.usage, a.stop = w.Usage, w.StopReason
	if a.stop == "" {
		a.stop = "end_turn"
	}
	return nil
}

func (a *answer) whole(i int, c wholeBlock, emit func(llm.Event) error) error {
	a.begun = true
	switch {
	case c.Text != nil:
		return a.addText(i, *c.Text, emit)
	case c.ToolUse != nil:
		b := &block{index: i, kind: wire.CallPart, id: c.ToolUse.ID, name: c.ToolUse.Name}
		b.text.Write(c.ToolUse.Input)
		a.blocks = append(a.blocks, b)
	case c.Reasoning != nil:
		b := a.thought(i)
		b.sign.WriteString(c.Reasoning.Text.Signature)
		b.redacted = c.Reasoning.Redacted
		return a.think(b, c.Reasoning.Text.Text, emit)
	}

	return nil
}

// response returns the finished answer. requestSize, in bytes, serves to estimate
// the usage if the server did not report it.
func (a *answer) response(requestSize int) (*llm.Response, error) {
	if err := a.failed(); err != nil {
		return nil, err
	}

	m := llm.Message{Role: llm.Assistant, Origin: a.classify.Provider}
	var said, thought strings.Builder
	parts := make([]wire.Part, 0, len(a.blocks))
	for _, b := range a.blocks {
		switch b.kind {
		case wire.TextPart:
			said.WriteString(b.text.String())
			parts = append(parts, wire.Part{Kind: wire.TextPart, Text: b.text.String()})
		case wire.ThinkingPart:
			m.HasReasoning = true
			if thought.Len() > 0 && b.text.Len() > 0 {
				thought.WriteString(thoughtBreak)
			}
			thought.WriteString(b.text.String())
			parts = append(parts, wire.Part{Kind: wire.ThinkingPart, Raw: b.stored()})

		case wire.CallPart:
			if b.name == "" || b.name == dummyTool && !a.known[dummyTool] {
				continue
			}

			if b.id == "" {
				b.id = fmt.Sprintf("tooluse_%.22s", rand.Text())
			}

			args := b.text.String()
			if args == "" {
				args = "{}"
			}

			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: b.id, Name: b.name, Arguments: args})
			parts = append(parts, wire.Part{Kind: wire.CallPart, ID: b.id})
		}
	}

	m.Content, m.Reasoning, m.Thinking = llm.Text(said.String()), thought.String(), wire.StoreThinking(parts)
	u := a.counted()
	if u.Prompt == 0 && u.Completion == 0 {
		u = llm.Usage{Prompt: requestSize / 4, Completion: text.Tokens(said.String()) + text.Tokens(thought.String()), Estimated: true}
	}
	return &llm.Response{Message: m, Finish: a.finishReason(m.ToolCalls), Usage: u}, nil
}

// stored returns a thinking block as the message keeps it.
func (b *block) stored() json.RawMessage {
	if len(b.redacted) > 0 {
		return wire.RedactedBlock(base64.StdEncoding.EncodeToString(b.redacted))
	}
	return wire.ThinkingBlock(b.text.String(), b.sign.String())
}

// counted adds the cached tokens to the prompt; the service counts them apart.
func (a *answer) counted() llm.Usage {
	if a.usage == nil {
		return llm.Usage{}
	}

	u := a.usage
	return llm.Usage{
		Prompt:     llm.SumCounts(u.Input, u.CacheRead, u.CacheWrite),
		Completion: int(u.Output),
		Cached:     int(u.CacheRead),
		CacheWrite: int(u.CacheWrite),
	}
}

// failed returns the error in a stop reason. A malformed answer may come out right
// the next time; it counts as truncated, because then text that was already
// shown may be taken back.
func (a *answer) failed() error {
	e := &llm.Error{Provider: a.classify.Provider, Code: a.stop}
	switch a.stop {
	case "model_context_window_exceeded":
		e.Kind, e.Message = llm.ContextLength, "the conversation no longer fits the model's context window"
	case "malformed_tool_use", "malformed_model_output":
		e.Kind, e.Message = llm.StreamTruncated, "the model wrote an answer that the service cannot read ("+a.stop+")"
	default:
		return nil
	}

	return e
}

func (a *answer) finishReason(calls []llm.ToolCall) llm.Finish {
	f := llm.FinishStop
	switch a.stop {
	case "tool_use":
		if len(calls) > 0 {
			f = llm.FinishToolCalls
		}
	case "max_tokens":
		f = llm.FinishLength
	case "guardrail_intervened", "content_filtered":
		f = llm.FinishFilter
	case "refusal":
		f = llm.FinishRefusal
	}

	if f == llm.FinishToolCalls {
		wire.CloseCalls(calls)
	}

	if f.RunsTools() && wire.AnyCut(calls) {
		return llm.FinishLength // gateways rewrite the reason of a cut answer
	}
	return f
}

// exception returns an error inside the stream.
func (a *answer) exception(f frame) error {
	w := plainError(nil, f.payload)
	if f.exception != "" {
		w.code = f.exception
	}
	if f.message != "" {
		w.message = f.message
	}
	return w.classified(a.classify, 0, nil)
}

// trimmed returns a body without the white space around it.
func trimmed(b []byte) string { return string(bytes.TrimSpace(b)) }
