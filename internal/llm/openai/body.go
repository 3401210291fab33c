package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// encode writes the request. What never changes in a conversation comes first
// and the messages last, so that the bytes of the previous request are a
// prefix of this one. The draft, if there is one, goes back to d.drafts when
// the answer was read.
func (d *driver) encode(ctx context.Context, req llm.Request) ([]byte, *draft) {
	a := d.adapted(req.Model)
	g := d.generation(req, a)
	e := encoder{d: d, model: req.Model, mark: d.marks(req.Model) && a&noCacheControl == 0, g: g, noReasoning: d.o.Quirks.NoReasoningBack || a&noReasoning != 0}
	e.role = "system"
	if d.o.Quirks.DeveloperRole && isOSeries(slug(req.Model)) && a&systemRole == 0 {
		e.role = "developer"
	}

	if e.mark || d.o.Quirks.ShortIDs || req.SessionKey == "" || d.extra.Has("messages") {
		return d.whole(ctx, &e, req, a), nil
	}

	dr := d.drafts.acquire(req.SessionKey)
	if b, ok := dr.extend(&e, d.opening(&e, req, a), req.Messages); ok {
		return b, dr
	}
	return d.whole(ctx, &e, req, a), nil
}

// whole writes a request without a draft.
func (d *driver) whole(ctx context.Context, e *encoder, req llm.Request, a adaptations) []byte {
	w := d.fields(e, req, a)
	w.Field("messages", func(b []byte) []byte { return e.messages(ctx, b, req) })
	return append(w.B, '}')
}

// opened is the beginning of a request, up to the first message, and what it
// was made of.
type opened struct {
	a           adaptations
	model       string
	system      string
	choice      string
	effort      string
	maxTokens   int
	temperature float64
	warm        bool // a temperature was given
	tools       []llm.ToolDef
	b           []byte
}

// opening is the beginning of a request. It is the same for all conversations
// with one prompt, so the last one is kept. Callers must not change it.
func (d *driver) opening(e *encoder, req llm.Request, a adaptations) []byte {
	o := opened{a: a, model: req.Model, system: req.System, choice: req.ToolChoice, effort: req.Effort, maxTokens: req.MaxTokens, tools: req.Tools}
	if req.Temperature != nil {
		o.temperature, o.warm = *req.Temperature, true
	}

	if last := d.opened.Load(); last != nil && !d.o.Quirks.CacheKey && last.same(&o) {
		return last.b
	}

	w := d.fields(e, req, a)
	w.Name("messages")
	o.b = e.opening(w.B, req.System)
	o.b = o.b[:len(o.b):len(o.b)]
	d.opened.Store(&o)
	return o.b
}

func (o *opened) same(p *opened) bool {
	if o.a != p.a || o.model != p.model || o.choice != p.choice || o.effort != p.effort || o.maxTokens != p.maxTokens ||
		o.temperature != p.temperature || o.warm != p.warm || o.system != p.system || len(o.tools) != len(p.tools) {
		return false
	}
	// Tool lists are immutable: the same array is the same list.
	return len(o.tools) == 0 || &o.tools[0] == &p.tools[0]
}

// fields writes everything before the messages.
func (d *driver) fields(e *encoder, req llm.Request, a adaptations) *wire.Body {
	g := e.g
	w := wire.NewBody(size(llm.Request{System: req.System, Tools: req.Tools}), d.extra)
	w.Text("model", req.Model)

	if a&noStream == 0 {
		w.Raw("stream", "true")
		if a&noStreamOptions == 0 {
			w.Raw("stream_options", `{"include_usage":true}`)
		}
	}

	if req.MaxTokens != 0 {
		w.Raw(g.maxField, strconv.Itoa(max(1, req.MaxTokens)))
	}
	if g.temperature != nil {
		w.Raw("temperature", strconv.FormatFloat(*g.temperature, 'f', -1, 64))
	}
	if g.effort != "" {
		w.Text("reasoning_effort", g.effort)
	}

	if g.gateway != "" {
		w.Field("reasoning", func(b []byte) []byte {
			return append(text.AppendJSON(append(b, `{"effort":`...), g.gateway), '}')
		})
	}

	for _, st := range g.thinking {
		appendSwitch(w, st, g.thinkingOn)
	}

	if d.o.Quirks.CacheKey && req.SessionKey != "" && a&noCacheKey == 0 {
		sum := sha256.Sum256([]byte(req.SessionKey)) // session keys name chats and people
		w.Text("prompt_cache_key", hex.EncodeToString(sum[:16]))
	}

	if len(req.Tools) > 0 {
		if d.o.Quirks.ToolStream && a&noToolStream == 0 {
			w.Raw("tool_stream", "true")
		}
		if req.ToolChoice != "" && a&noToolChoice == 0 {
			w.Field("tool_choice", func(b []byte) []byte { return toolChoice(b, req.ToolChoice) })
		}
	}

	w.Extra("tools", "messages")
	if len(req.Tools) > 0 {
		w.Field("tools", func(b []byte) []byte { return e.tools(b, req.Tools) })
	} else {
		w.Extra("messages")
	}
	return w
}

// size estimates the length of the request, so that it is written into one
// buffer.
func size(req llm.Request) int {
	n := 1024 + len(req.System)
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema) + 80
	}

	for _, m := range req.Messages {
		n += len(m.Content.Text) + len(m.Reasoning) + 80
		for _, b := range m.Content.Blocks {
			n += len(b.Text) + len(b.ImageURL) + 40
		}
		for _, c := range m.ToolCalls {
			n += len(c.Arguments) + 120
		}
	}

	return n + n/16 // escapes
}

// marks says whether prompt-cache markers are understood for this model.
func (d *driver) marks(model string) bool {
	return d.o.Quirks.Caching && (strings.HasPrefix(model, "anthropic/") || strings.HasPrefix(model, "claude"))
}

func toolChoice(b []byte, choice string) []byte {
	switch choice {
	case "auto", "none", "required":
		return text.AppendJSON(b, choice)
	}
	b = append(b, `{"type":"function","function":{"name":`...)
	b = text.AppendJSON(b, choice)
	return append(b, "}}"...)
}
