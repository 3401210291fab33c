package anthropic

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// block is one content block of an answer, as far as it has arrived.
type block struct {
	index int
	kind  string          // the vendor's type
	raw   json.RawMessage // the block as it was announced
	text  strings.Builder // text or thinking
	sign  strings.Builder
	id    string
	name  string
	args  strings.Builder
}

// answer assembles what the server streams. Several exchanges may feed one
// answer when the server pauses it.
type answer struct {
	classify wire.Classifier
	log      *slog.Logger
	blocks   []*block
	first    int // where the blocks of the current exchange begin
	stop     string
	ended    bool // message_stop was seen
	usage    usage
	total    llm.Usage // of the exchanges before the current one
	garbage  int       // events that were not JSON
	size     wire.Size
	deltas   bool // calls are shown while they are written
}

// begin prepares for one more exchange.
func (a *answer) begin() {
	if a.first < len(a.blocks) || a.stop != "" {
		a.total = a.total.Add(a.usage.counted())
	}
	a.first = len(a.blocks)
	a.stop = ""
	a.ended = false
	a.usage = usage{}
}

type usage struct {
	Input      *llm.Count `json:"input_tokens"`
	Output     *llm.Count `json:"output_tokens"`
	CacheWrite *llm.Count `json:"cache_creation_input_tokens"`
	CacheRead  *llm.Count `json:"cache_read_input_tokens"`
}

// update takes over the fields that are present. A zero never replaces a
// count: some servers repeat the prompt's fields empty at the end.
func (u *usage) update(o usage) {
	for _, f := range []struct{ dst, src **llm.Count }{
		{&u.Input, &o.Input}, {&u.Output, &o.Output}, {&u.CacheWrite, &o.CacheWrite}, {&u.CacheRead, &o.CacheRead},
	} {
		if *f.src != nil && (*f.dst == nil || **f.src != 0) {
			*f.dst = *f.src
		}
	}
}

func (u *usage) counted() llm.Usage {
	n := func(p *llm.Count) llm.Count {
		if p == nil {
			return 0
		}
		return *p
	}
	return llm.Usage{
		Prompt:     llm.SumCounts(n(u.Input), n(u.CacheWrite), n(u.CacheRead)),
		Completion: int(n(u.Output)),
		Cached:     int(n(u.CacheRead)),
		CacheWrite: int(n(u.CacheWrite)),
	}
}

// event is the union of all stream events.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage           `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// maxGarbage is how many unreadable events a stream may hold.
const maxGarbage = 3

// read takes in one reply: an event stream, or a whole message from a server
// that does not stream.
func (a *answer) read(ctx context.Context, body io.Reader, h http.Header, emit func(llm.Event) error) error {
	br := bufio.NewReader(body)
	if lead, err := firstByte(br); err != nil {
		return err
	} else if lead == '{' || lead == '<' || lead == '[' {
		return a.readWhole(br, h, emit)
	}

	for sse, err := range wire.SSE(br) {
		if err != nil {
			return err
		}
		if err := a.event(ctx, sse.Data, emit); err != nil {
			return err
		}
		if a.ended {
			break
		}
	}

	if a.stop == "" {
		return &llm.Error{Kind: llm.StreamTruncated, Provider: a.classify.Provider, Message: "the answer ended before it was complete"}
	}
	return nil
}

// firstByte returns the first byte that is not white space; 0 at the end.
func firstByte(br *bufio.Reader) (byte, error) {
	for {
		c, err := br.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return 0, nil
		case err != nil:
			return 0, err
		}

		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, br.UnreadByte()
		}
	}
}

func (a *answer) event(ctx context.Context, data []byte, emit func(llm.Event) error) error {
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		if string(data) == "[DONE]" { // a habit of servers that also speak chat
			a.ended = a.stop != ""
			return nil
		}
		if a.garbage++; a.garbage >= maxGarbage {
			return &llm.Error{Kind: llm.ServerError, Provider: a.classify.Provider, Message: "the server's stream cannot be read", Err: err}
		}

		a.log.WarnContext(ctx, "unreadable stream event skipped", "provider", a.classify.Provider, "err", err.Error())
		return nil
	}

	if ev.Type == "error" || len(ev.Error) > 0 && string(ev.Error) != "null" {
		return a.classify.Response(0, nil, data)
	}

	switch ev.Type {
	case "message_start":
		a.usage.update(ev.Message.Usage)
	case "content_block_start":
		return a.open(ev.Index, ev.ContentBlock, emit)
	case "content_block_delta":
		return a.delta(&ev, emit)
	case "message_delta":
		if ev.Delta.StopReason != "" {
			a.stop = ev.Delta.StopReason
		}
		a.usage.update(ev.Usage)

	case "message_stop":
		a.ended = true
	}

	return nil
}

// announced is the beginning of a block, or all of it.
type announced struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// open starts a block. Servers that do not stream put its whole content here.
func (a *answer) open(index int, raw json.RawMessage, emit func(llm.Event) error) error {
	var w announced
	if err := json.Unmarshal(raw, &w); err != nil {
		return &llm.Error{Kind: llm.ServerError, Provider: a.classify.Provider, Message: "the server announced an unreadable block", Err: err}
	}

	b := &block{index: index, kind: w.Type, raw: bytes.Clone(raw), id: w.ID, name: w.Name}
	b.sign.WriteString(w.Signature)
	// A second thought reads as a paragraph of its own.
	if b.kind == "thinking" && slices.ContainsFunc(a.blocks, func(o *block) bool { return o.kind == "thinking" && o.text.Len() > 0 }) {
		if err := emit(llm.Event{Kind: llm.ReasoningDelta, Text: thoughtBreak}); err != nil {
			return err
		}
	}

	a.blocks = append(a.blocks, b)
	switch b.kind {
	case "text":
		return b.addText(llm.TextDelta, w.Text, emit)
	case "thinking":
		return b.addText(llm.ReasoningDelta, w.Thinking, emit)
	case "tool_use":
		if in := string(w.Input); in != "{}" && in != "null" {
			b.args.WriteString(in)
		}
		return a.write(b, b.args.String(), emit)

	case "server_tool_use":
		return emit(wire.Hosted("start", w.ID, w.Name, nil, nil))
	}

	return a.found(&w, emit)
}

// found tells what a tool that the server runs brought.
func (a *answer) found(w *announced, emit func(llm.Event) error) error {
	name, ok := strings.CutSuffix(w.Type, "_tool_result")
	if !ok {
		return nil
	}

	var list []wire.Source
	phase, asked := "end", []string(nil)
	if json.Unmarshal(w.Content, &list) != nil {
		var one struct {
			Type string `json:"type"`
			URL  string `json:"url"`
		}
		_ = json.Unmarshal(w.Content, &one) // of other tools
		if strings.HasSuffix(one.Type, "_error") {
			phase = "error"
		}
		list = []wire.Source{{URL: one.URL}}
	}

	for _, b := range a.blocks {
		var in struct {
			Query string `json:"query"`
			URL   string `json:"url"`
		}
		if b.id == w.ToolUseID && json.Unmarshal([]byte(b.args.String()), &in) == nil {
			asked = []string{cmp.Or(in.Query, in.URL)}
		}
	}

	return emit(wire.Hosted(phase, w.ToolUseID, name, asked, list))
}

// write shows a piece of a call.
func (a *answer) write(b *block, piece string, emit func(llm.Event) error) error {
	if !a.deltas || b.kind != "tool_use" {
		return nil
	}
	return emit(llm.Event{Kind: llm.ToolDelta, Text: piece, Tool: &llm.ToolPart{ID: b.id, Name: b.name, Index: b.index}})
}

// thoughtBreak separates two thinking blocks in the text of the reasoning.
const thoughtBreak = "\n\n"

func (b *block) addText(kind llm.EventKind, s string, emit func(llm.Event) error) error {
	if s == "" {
		return nil
	}
	b.text.WriteString(s)
	return emit(llm.Event{Kind: kind, Text: s})
}

// delta extends a block. Some servers forget to announce one, or use an index
// twice; text and thoughts then open a block of their own.
func (a *answer) delta(ev *event, emit func(llm.Event) error) error {
	b := a.block(ev.Index)
	kind, _ := strings.CutSuffix(ev.Delta.Type, "_delta")
	if (kind == "text" || kind == "thinking") && (b == nil || b.kind != kind) {
		if err := a.open(ev.Index, json.RawMessage(`{"type":"`+kind+`"}`), emit); err != nil {
			return err
		}
		b = a.block(ev.Index)
	}

	switch {
	case b == nil:
	case kind == "text":
		return b.addText(llm.TextDelta, ev.Delta.Text, emit)
	case kind == "thinking":
		return b.addText(llm.ReasoningDelta, ev.Delta.Thinking, emit)
	case kind == "signature" && b.kind == "thinking":
		b.sign.WriteString(ev.Delta.Signature)
	case kind == "input_json":
		b.args.WriteString(ev.Delta.PartialJSON)
		if err := a.size.Add(ev.Delta.PartialJSON); err != nil {
			return err
		}
		return a.write(b, ev.Delta.PartialJSON, emit)
	}

	return nil
}

// block finds a block of the current exchange.
func (a *answer) block(index int) *block {
	for _, b := range slices.Backward(a.blocks[a.first:]) {
		if b.index == index {
			return b
		}
	}
	return nil
}

// maxReply bounds a reply that is not a stream.
const maxReply = 32 << 20

func (a *answer) readWhole(r io.Reader, h http.Header, emit func(llm.Event) error) error {
	data, err := io.ReadAll(io.LimitReader(r, maxReply))
	if err != nil {
		return err
	}

	var w struct {
		Type       string            `json:"type"`
		Content    []json.RawMessage `json:"content"`
		StopReason string            `json:"stop_reason"`
		Usage      usage             `json:"usage"`
	}
	if err := json.Unmarshal(data, &w); err != nil || w.Type == "error" || w.Content == nil {
		return a.classify.Response(0, h, data)
	}

	for i, raw := range w.Content {
		if err := a.open(i, raw, emit); err != nil {
			return err
		}
	}

	a.usage.update(w.Usage)
	a.stop, a.ended = w.StopReason, true
	if a.stop == "" {
		a.stop = "end_turn"
	}
	return nil
}

// verbatim returns the block as the server sent it, for continuing a paused answer;
// nil if it has nothing that may be sent.
func (b *block) verbatim() json.RawMessage {
	switch b.kind {
	case "text":
		if strings.TrimSpace(b.text.String()) == "" {
			return nil
		}
		return appendText(nil, b.text.String())
	case "thinking":
		if b.sign.Len() == 0 {
			return nil
		}
		return wire.ThinkingBlock(b.text.String(), b.sign.String())
	}

	if b.args.Len() == 0 {
		return b.raw
	}

	var m map[string]json.RawMessage
	if json.Unmarshal(b.raw, &m) != nil || !json.Valid([]byte(b.args.String())) {
		return b.raw
	}

	m["input"] = json.RawMessage(b.args.String())
	raw, err := json.Marshal(m)
	if err != nil {
		return b.raw
	}
	return raw
}

// part returns the block as the message remembers its place.
func (b *block) part() wire.Part {
	switch b.kind {
	case "text":
		return wire.Part{Kind: wire.TextPart, Text: b.text.String()}
	case "thinking":
		return wire.Part{Kind: wire.ThinkingPart, Raw: wire.ThinkingBlock(b.text.String(), b.sign.String())}
	case "redacted_thinking":
		return wire.Part{Kind: wire.ThinkingPart, Raw: b.raw}
	case "tool_use":
		if b.name != "" {
			return wire.Part{Kind: wire.CallPart, ID: b.id}
		}
	}
	return wire.Part{Kind: wire.RawPart}
}

// response returns the finished answer. requestSize, in bytes, serves to estimate
// the usage of servers that do not report it.
func (a *answer) response(requestSize int) (*llm.Response, error) {
	if a.stop == "model_context_window_exceeded" {
		return nil, &llm.Error{
			Kind: llm.ContextLength, Provider: a.classify.Provider, Code: a.stop,
			Message: "the conversation no longer fits the model's context window",
		}
	}

	m := llm.Message{Role: llm.Assistant, Origin: a.classify.Provider}
	var said, thought strings.Builder
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			said.WriteString(b.text.String())
		case "thinking":
			if thought.Len() > 0 {
				thought.WriteString(thoughtBreak)
			}
			thought.WriteString(b.text.String())
			m.HasReasoning = true

		case "redacted_thinking":
			m.HasReasoning = true
		case "tool_use":
			if b.name == "" {
				continue
			}

			if b.id == "" {
				b.id = fmt.Sprintf("toolu_%.22s", rand.Text())
			}

			args := b.args.String()
			if args == "" {
				args = "{}"
			}
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: b.id, Name: b.name, Arguments: args})
		}
	}

	parts := make([]wire.Part, 0, len(a.blocks))
	for _, b := range a.blocks {
		parts = append(parts, b.part())
	}

	m.Content, m.Reasoning = llm.Text(said.String()), thought.String()
	m.Thinking = wire.StoreThinking(parts)
	u := a.total.Add(a.usage.counted())
	if u.Prompt == 0 && u.Completion == 0 {
		u = llm.Usage{Prompt: requestSize / 4, Completion: text.Tokens(said.String()) + text.Tokens(thought.String()), Estimated: true}
	}
	return &llm.Response{Message: m, Finish: a.finishReason(m.ToolCalls), Usage: u}, nil
}

func (a *answer) finishReason(calls []llm.ToolCall) llm.Finish {
	f := llm.FinishStop
	switch a.stop {
	case "tool_use":
		f = llm.FinishToolCalls
	case "max_tokens":
		f = llm.FinishLength
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
