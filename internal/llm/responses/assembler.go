package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

const (
	// maxBadEvents is how many undecodable events a stream may contain.
	maxBadEvents = 3
	// maxReply bounds an answer that is not streamed.
	maxReply = 64 << 20
	// maxHidden bounds an output item that is kept to be sent back.
	maxHidden = 1 << 20
)

// assembler turns the pieces of one answer into events and a Response.
type assembler struct {
	d      *driver
	req    llm.Request
	emit   func(llm.Event) error
	idle   *wire.Idle
	header http.Header
	sent   int // size of the request, for estimates

	ev        event // the current one
	out       outputs
	text      strings.Builder
	reasoning strings.Builder
	lastText  *output // whose text came last
	lastPart  *partText
	refused   bool
	final     *reply
	bad       int
	size      wire.Size
}

// read plays a body: a stream, or whatever else the server sent instead.
func (a *assembler) read(ctx context.Context, contentType string, body io.Reader) error {
	r, streamed := wire.SniffSSE(contentType, body)
	if streamed {
		return a.stream(ctx, r, body)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxReply))
	if err != nil {
		return a.d.classify.Broken(ctx, err)
	}
	return a.whole(data)
}

// stream plays server-sent events until the one that ends the answer. raw is
// the body itself, which is drained so that its connection can be used again.
func (a *assembler) stream(ctx context.Context, r, raw io.Reader) error {
	for ev, err := range wire.SSE(r) {
		if err != nil {
			return a.d.classify.Broken(ctx, err)
		}

		data := bytes.TrimSpace(ev.Data)
		if len(data) == 0 || string(data) == "[DONE]" {
			continue
		}
		if err := a.event(ctx, ev.Name, data); err != nil {
			return err
		}
		if a.final != nil {
			a.idle.Drain(raw)
			return a.complete()
		}
	}
	return a.failure(llm.StreamTruncated, "the stream ended before the answer was complete")
}

// whole plays an answer that did not come as a stream.
func (a *assembler) whole(data []byte) error {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")))
	if len(data) == 0 {
		return a.failure(llm.Empty, "the server sent an empty answer")
	}

	r := &reply{}
	if data[0] != '{' || decode(data, r) != nil || present(r.Error) || r.Status == "" && r.Output == nil && r.OutputText == "" {
		return a.d.classify.Response(http.StatusOK, a.header, data)
	}
	if err := a.close(r); err != nil {
		return err
	}
	return a.complete()
}

func (a *assembler) failure(k llm.Kind, text string) *llm.Error {
	return &llm.Error{Kind: k, Provider: a.d.o.Name, Message: text}
}

// event plays one event.
func (a *assembler) event(ctx context.Context, name string, data []byte) error {
	ev := &a.ev
	*ev = event{OutputIndex: nowhere}
	if err := decode(data, ev); err != nil {
		if a.bad++; a.bad > maxBadEvents {
			return a.failure(llm.ServerError, "the stream is not readable")
		}
		a.d.o.Log.WarnContext(ctx, "skipped an undecodable event", "provider", a.d.o.Name, "err", err)
		return nil
	}

	if ev.Type == "" {
		ev.Type = name
	}

	switch ev.Type {
	case "response.completed", "response.incomplete", "response.done", "response.failed", "response.cancelled":
		if ev.Response == nil {
			ev.Response = &reply{}
		}
		if ev.Response.Status == "" {
			ev.Response.Status = strings.TrimPrefix(ev.Type, "response.")
		}
		return a.close(ev.Response)
	case "error", "response.error":
		return a.d.classify.Response(0, a.header, data)
	}

	if ev.Type == "" && present(ev.Error) {
		return a.d.classify.Response(0, a.header, data)
	}
	return a.piece(ev)
}

// piece plays an event in the middle of the answer. Unknown ones are skipped.
func (a *assembler) piece(ev *event) error {
	switch ev.Type {
	case "response.output_item.added":
		o := a.out.open(ev.OutputIndex, ev.Item)
		return a.hosted(o, o.merge(ev.Item), "start")
	case "response.output_item.done":
		return a.item(a.out.find(ev.OutputIndex, itemID(ev.Item)), ev.Item)
	case "response.output_text.delta":
		return a.addText(a.at(ev), ev.ContentIndex, textOf(ev.Delta), false)
	case "response.output_text.done":
		return a.addText(a.at(ev), ev.ContentIndex, ev.Text, true)
	case "response.refusal.delta":
		a.refused = true
		return a.addText(a.at(ev), ev.ContentIndex, textOf(ev.Delta), false)
	case "response.refusal.done":
		a.refused = true
		return a.addText(a.at(ev), ev.ContentIndex, ev.Refusal, true)
	case "response.reasoning_summary_text.delta":
		return a.think(a.at(ev), ev.SummaryIndex, textOf(ev.Delta), false)
	case "response.reasoning_summary_text.done":
		return a.think(a.at(ev), ev.SummaryIndex, ev.Text, true)
	case "response.reasoning_summary_part.done":
		if ev.Part != nil {
			return a.think(a.at(ev), ev.SummaryIndex, ev.Part.Text, true)
		}
	case "response.reasoning_text.delta":
		return a.think(a.at(ev), rawThought-ev.ContentIndex, textOf(ev.Delta), false)
	case "response.reasoning_text.done":
		return a.think(a.at(ev), rawThought-ev.ContentIndex, ev.Text, true)
	case "response.function_call_arguments.delta":
		o := a.at(ev)
		o.kind = "function_call"
		piece := textOf(ev.Delta)
		o.args.WriteString(piece)
		if err := a.size.Add(piece); err != nil {
			return err
		}
		return a.write(o, piece)

	case "response.function_call_arguments.done":
		o := a.at(ev)
		o.kind = "function_call"
		o.setArguments(ev.Arguments)
	}
	return nil
}

// rawThought is the part index of the first piece of unsummarised thinking;
// further ones count down, summaries count up from zero.
const rawThought = -1

func (a *assembler) at(ev *event) *output { return a.out.find(ev.OutputIndex, ev.ItemID) }

// addText adds text to a part of a message; whole means that s is the complete
// part, of which only what is missing is added.
func (a *assembler) addText(o *output, index int, s string, whole bool) error {
	s = o.part(index).add(s, whole)
	if s == "" {
		return nil
	}

	if o != a.lastText {
		if a.lastText != nil && apart(&a.text, s) {
			s = "\n\n" + s // another message of the same answer
		}
		a.lastText = o
	}

	a.text.WriteString(s)
	return a.emit(llm.Event{Kind: llm.TextDelta, Text: s})
}

// think does the same for reasoning, whose parts stand on lines of their own.
func (a *assembler) think(o *output, index int, s string, whole bool) error {
	p := o.thought(index)
	if s = p.add(s, whole); s == "" {
		return nil
	}

	if p != a.lastPart {
		if a.lastPart != nil && apart(&a.reasoning, s) {
			s = "\n" + s
		}
		a.lastPart = p
	}

	a.reasoning.WriteString(s)
	return a.emit(llm.Event{Kind: llm.ReasoningDelta, Text: s})
}

// apart reports whether two texts would run together.
func apart(before *strings.Builder, s string) bool {
	last, n := utf8.DecodeLastRuneInString(before.String())
	first, _ := utf8.DecodeRuneInString(s)
	return n > 0 && !unicode.IsSpace(last) && !unicode.IsSpace(first)
}

// item takes a complete output item and adds what was not streamed.
func (a *assembler) item(o *output, raw json.RawMessage) error {
	it := o.merge(raw)
	switch it.Type {
	case "message":
		for i, p := range it.Content {
			s := p.Text
			if p.Type == "refusal" {
				a.refused = true
				s = p.Refusal
			}
			if err := a.addText(o, i, s, true); err != nil {
				return err
			}
		}

	case "function_call":
		o.setArguments(it.Arguments)
	case webSearch:
		phase := "end"
		if it.Status == "failed" {
			phase = "error"
		}
		if err := a.hosted(o, it, phase); err != nil {
			return err
		}

	case "reasoning":
		for i, p := range it.Summary {
			if err := a.think(o, i, p.Text, true); err != nil {
				return err
			}
		}
		for i, p := range it.Content {
			if err := a.think(o, rawThought-i, p.Text, true); err != nil {
				return err
			}
		}
	}

	o.hold(it, raw)
	return nil
}

// webSearch is an item about a search that the server ran.
const webSearch = "web_search_call"

// hosted tells of a search, once for its beginning and once for its end.
func (a *assembler) hosted(o *output, it item, phase string) error {
	if it.Type != webSearch || o.announced == phase || o.announced == "end" || o.announced == "error" {
		return nil
	}

	o.announced = phase
	queries := it.Action.Queries
	if len(queries) == 0 && it.Action.Query != "" {
		queries = []string{it.Action.Query}
	}
	if it.Action.URL != "" {
		queries = append(queries, it.Action.URL)
	}
	return a.emit(wire.Hosted(phase, it.ID, "web_search", queries, it.Action.Sources))
}

// write shows a piece of a call.
func (a *assembler) write(o *output, piece string) error {
	if !a.req.ToolDeltas || piece == "" {
		return nil
	}
	id := o.callID
	if id != "" && o.id != "" {
		id += "|" + o.id
	}
	return a.emit(llm.Event{Kind: llm.ToolDelta, Text: piece, Tool: &llm.ToolPart{ID: id, Name: o.name, Index: slices.Index(a.out.list, o)}})
}

// close applies the final state of the answer: items that were never announced
// are used, a failure becomes an error.
func (a *assembler) close(r *reply) error {
	switch r.Status {
	case "failed", "cancelled":
		raw := []byte(`{"error":{"code":"server_error","message":"the model server gave the answer up"}}`)
		if present(r.Error) {
			raw = append(append([]byte(`{"error":`), r.Error...), '}')
		}
		return a.d.classify.Response(0, a.header, raw)
	}

	for i, raw := range r.Output {
		if err := a.item(a.out.match(i, raw), raw); err != nil {
			return err
		}
	}

	if a.text.Len() == 0 && r.OutputText != "" {
		if err := a.addText(a.out.find(nowhere, ""), 0, r.OutputText, true); err != nil {
			return err
		}
	}

	a.final = r
	return nil
}

// complete builds the response and emits it.
func (a *assembler) complete() error {
	calls := a.out.calls()
	finish := a.finishReason(calls)
	if len(a.out.list) == 0 && finish == llm.FinishStop {
		return a.failure(llm.Empty, "the server sent an empty answer")
	}
	return a.emit(llm.Event{Kind: llm.Done, Response: &llm.Response{
		Message: llm.Message{
			Role: llm.Assistant, Content: llm.Text(a.text.String()), ToolCalls: calls,
			Reasoning: a.reasoning.String(), HasReasoning: a.reasoning.Len() > 0,
			Thinking: a.out.hidden(a.req.Model, a.d.o.PlainReasoning), Origin: a.d.o.Name,
		},
		Finish: finish,
		Usage:  a.count(),
	}})
}

// finishReason returns why the answer ended.
func (a *assembler) finishReason(calls []llm.ToolCall) llm.Finish {
	if a.final.Status == "incomplete" {
		if a.final.Incomplete.Reason == "content_filter" {
			return llm.FinishFilter
		}
		return llm.FinishLength
	}

	if a.refused {
		return llm.FinishRefusal
	}

	if a.final.Status == "completed" {
		wire.CloseCalls(calls)
	}

	if wire.AnyCut(calls) {
		return llm.FinishLength
	}
	if len(calls) > 0 {
		return llm.FinishToolCalls
	}
	return llm.FinishStop
}

// count gives the usage, or an estimate if the server sent none.
func (a *assembler) count() llm.Usage {
	if u := a.final.Usage; u != nil && (u.Input != 0 || u.Output != 0) {
		return u.normal()
	}
	n := a.text.Len() + a.reasoning.Len()
	for _, o := range a.out.list {
		n += len(o.name) + o.args.Len()
	}
	return llm.Usage{Prompt: a.sent / 4, Completion: (n + 3) / 4, Estimated: true}
}
