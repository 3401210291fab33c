package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

const (
	// maxBadChunks is how many undecodable events a stream may contain.
	maxBadChunks = 3
	// tailPatience is how long to wait for usage and the end mark once the
	// model has finished.
	tailPatience = 5 * time.Second
	// maxReply bounds an answer that is not streamed.
	maxReply = 64 << 20
)

// assembler turns the pieces of one answer into events and a Response.
type assembler struct {
	d      *driver
	req    llm.Request
	emit   func(llm.Event) error
	idle   *wire.Idle
	header http.Header
	filter *wire.CallText // nil when no tools are offered
	sent   int            // size of the request, for estimates

	text         strings.Builder
	reasoning    strings.Builder
	hasReasoning bool
	details      detailList
	calls        callSet
	finish       llm.Finish
	refused      bool
	answered     bool // a choice, or any content, was seen
	usage        *usage
	bad          int
	common       ordinary
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
	return a.reply(contentType, data)
}

// stream plays server-sent events. raw is the body itself, which is drained
// so that its connection can be used again.
func (a *assembler) stream(ctx context.Context, r, raw io.Reader) error {
	done := false
	for ev, err := range wire.SSE(r) {
		if err != nil {
			if a.finish != "" && ctx.Err() == nil || isTimeout(err) && a.finish != "" {
				done = true
				break
			}
			return a.d.classify.Broken(ctx, err)
		}

		data := bytes.TrimSpace(ev.Data)
		if len(data) == 0 {
			continue
		}
		if string(data) == "[DONE]" {
			done = true
			break
		}
		if err := a.event(ctx, data); err != nil {
			return err
		}
	}

	if !done && a.finish == "" {
		return a.failure(llm.StreamTruncated, "the stream ended before the answer was complete")
	}

	a.idle.Drain(raw)
	return a.complete()
}

func isTimeout(err error) bool { return llm.AsError(err).Kind == llm.Timeout }

func (a *assembler) event(ctx context.Context, data []byte) error {
	c, err := &a.common.chunk, error(nil)
	if !a.common.decode(data) {
		c, err = decodeChunk(data)
	}

	if err != nil {
		if a.bad++; a.bad > maxBadChunks {
			return a.failure(llm.ServerError, "the stream is not readable")
		}
		a.d.o.Log.WarnContext(ctx, "skipped an undecodable event", "provider", a.d.o.Name, "err", err)
		return nil
	}

	if c.failed() {
		return a.d.classify.Response(0, a.header, data)
	}

	if c.Usage != nil {
		a.usage = c.Usage
	}

	if len(c.Choices) == 0 {
		a.hurry()
		return a.loose(c)
	}

	for _, ch := range c.Choices {
		if ch.Index != c.Choices[0].Index {
			continue // other candidates of the same answer
		}
		if err := a.choice(ch); err != nil {
			return err
		}
	}

	a.hurry()
	return nil
}

// hurry shortens the wait once the model has finished: what follows is at most
// the usage and the end mark, and some servers send neither.
func (a *assembler) hurry() {
	switch {
	case a.finish == "":
	case a.usage != nil:
		a.idle.Limit(tailPatience / 20)
	default:
		a.idle.Limit(tailPatience)
	}
}

// reply plays an answer that did not come as a stream.
func (a *assembler) reply(contentType string, data []byte) error {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")))
	var plain string
	switch {
	case len(data) == 0:
		return a.failure(llm.Empty, "the server sent an empty answer")
	case data[0] == '"' && json.Unmarshal(data, &plain) == nil:
		return a.plain(plain)
	case data[0] != '{' && data[0] != '[':
		if data[0] == '<' || strings.Contains(contentType, "html") {
			return a.d.classify.Response(http.StatusOK, a.header, data)
		}
		return a.plain(string(data))
	}

	c, err := decodeChunk(data)
	if err != nil || c.failed() {
		return a.d.classify.Response(http.StatusOK, a.header, data)
	}

	a.usage = c.Usage
	if len(c.Choices) == 0 {
		if err := a.loose(c); err != nil {
			return err
		}
	}

	for _, ch := range c.Choices {
		// Some gateways spread one answer over several choices: calls are
		// collected from all, text only from the first that has any.
		if a.text.Len() > 0 && ch.Message != nil {
			ch.Message.Content = nil
		}
		if err := a.choice(ch); err != nil {
			return err
		}
	}

	return a.complete()
}

func (a *assembler) plain(s string) error {
	a.finish = llm.FinishStop
	if err := a.addText(s); err != nil {
		return err
	}
	return a.complete()
}

// loose takes the text of an answer without choices.
func (a *assembler) loose(c *chunk) error {
	for _, raw := range []json.RawMessage{c.Content, c.OutputText} {
		text, thinking := contentText(raw)
		if err := a.addReasoning(thinking, thinking != ""); err != nil {
			return err
		}
		if text != "" {
			return a.addText(text)
		}
	}
	return nil
}

func (a *assembler) choice(ch choice) error {
	if ch.Finish == "error" || present(ch.Error) {
		raw := []byte(`{"error":{"message":"the model stopped with an error","type":"server_error"}}`)
		if present(ch.Error) {
			raw = append(append([]byte(`{"error":`), ch.Error...), '}')
		}
		return a.d.classify.Response(0, a.header, raw)
	}

	a.answered = true
	for _, d := range []*delta{ch.Delta, ch.Message} {
		if d == nil {
			continue
		}
		if err := a.delta(d); err != nil {
			return err
		}
	}

	if ch.Text != "" {
		if err := a.addText(ch.Text); err != nil {
			return err
		}
	}

	if f := finishOf(ch.Finish); f != "" && (a.finish == "" || f != llm.FinishStop) {
		a.finish = f
	}
	return nil
}

func (a *assembler) delta(d *delta) error {
	text, thinking := contentText(d.Content)
	thought := d.ReasoningContent
	if thought == nil || *thought == "" && d.Reasoning != nil {
		thought = d.Reasoning
	}
	if thought != nil {
		thinking = *thought + thinking
	}

	if err := a.addReasoning(thinking, thought != nil || thinking != ""); err != nil {
		return err
	}

	a.details.add(d.Details)
	if err := a.addText(text); err != nil {
		return err
	}

	if d.Refusal != "" {
		a.refused = true
		if err := a.addText(d.Refusal); err != nil {
			return err
		}
	}

	for i, c := range d.ToolCalls {
		if err := a.calls.add(c, i); err != nil {
			return err
		}
	}

	if f := d.FunctionCall; f != nil {
		zero := 0
		return a.calls.add(callDelta{Index: &zero, Function: *f}, 0)
	}
	return nil
}

func (a *assembler) addText(s string) error {
	if s == "" {
		return nil
	}

	a.answered = true
	if a.filter != nil {
		if s = a.filter.Write(s); s == "" {
			return nil
		}
	}

	a.text.WriteString(s)
	return a.emit(llm.Event{Kind: llm.TextDelta, Text: s})
}

func (a *assembler) addReasoning(s string, has bool) error {
	a.hasReasoning = a.hasReasoning || has
	if s == "" {
		return nil
	}
	a.answered = true
	a.reasoning.WriteString(s)
	return a.emit(llm.Event{Kind: llm.ReasoningDelta, Text: s})
}

func (a *assembler) failure(k llm.Kind, text string) *llm.Error {
	return &llm.Error{Kind: k, Provider: a.d.o.Name, Message: text}
}

// complete builds the response and emits it.
func (a *assembler) complete() error {
	calls := a.calls.calls()
	if a.filter != nil {
		rest, written := a.filter.Close()
		a.filter = nil
		if err := a.addText(rest); err != nil {
			return err
		}

		if len(a.calls.list) == 0 {
			for _, c := range written {
				c.ID = newID()
				calls = append(calls, c)
			}
		}
	}

	if !a.answered {
		return a.failure(llm.Empty, "the server sent an empty answer")
	}

	if a.d.o.Quirks.ReasoningAsContent && a.text.Len() == 0 && len(calls) == 0 && a.reasoning.Len() > 0 {
		if err := a.addText(a.reasoning.String()); err != nil {
			return err
		}
		a.reasoning.Reset()
		a.hasReasoning = false
	}

	r := &llm.Response{
		Message: llm.Message{
			Role: llm.Assistant, Content: llm.Text(a.text.String()), ToolCalls: calls, Reasoning: a.reasoning.String(),
			HasReasoning: a.hasReasoning, ReasoningDetails: a.details.json(), Origin: a.d.o.Name,
		},
		Usage: a.count(),
	}

	r.Finish = a.reason(calls, r.Usage)
	return a.emit(llm.Event{Kind: llm.Done, Response: r})
}

// count gives the usage, or an estimate if the server sent none.
func (a *assembler) count() llm.Usage {
	if a.usage != nil && (a.usage.Prompt != 0 || a.usage.Completion != 0) {
		return a.usage.normal()
	}
	n := a.text.Len() + a.reasoning.Len()
	for _, b := range a.calls.list {
		n += len(b.name) + b.args.Len()
	}
	return llm.Usage{Prompt: a.sent / 4, Completion: (n + 3) / 4, Estimated: true}
}

// reason decides why the answer ended. Gateways rewrite the reason of an
// answer that hit the token limit; cut arguments, or nothing said after the
// whole budget was used, give it away.
func (a *assembler) reason(calls []llm.ToolCall, u llm.Usage) llm.Finish {
	f := a.finish
	switch {
	case f == llm.FinishFilter, f == llm.FinishLength:
		return f
	case a.refused:
		return llm.FinishRefusal
	}

	spent := a.req.MaxTokens > 0 && !u.Estimated && u.Completion >= a.req.MaxTokens
	if f == llm.FinishToolCalls && !spent {
		wire.CloseCalls(calls)
	}

	if wire.AnyCut(calls) {
		return llm.FinishLength
	}

	switch {
	case len(calls) > 0 && (f == "" || f == llm.FinishStop):
		return llm.FinishToolCalls
	case len(calls) == 0 && spent && llm.Text(a.text.String()).Blank():
		return llm.FinishLength
	case f == "":
		return llm.FinishStop
	}

	return f
}
