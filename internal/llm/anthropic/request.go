package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// encode writes the request body. The same input gives the same bytes, and
// what seldom changes comes before the messages. soFar holds the blocks of a
// paused answer that is to be continued.
func (d *driver) encode(req llm.Request, p wire.Turns, soFar []*block) []byte {
	a := d.adapted(req.Model)
	g := generation(req, p, a)
	m := markers{off: a&noCache != 0, long: d.longTTL && a&noLongTTL == 0}

	w := wire.NewBody(wire.SizeOf(req), d.extra)
	w.Text("model", req.Model)
	w.Raw("max_tokens", strconv.Itoa(g.MaxTokens))
	if a&noStream == 0 {
		w.Raw("stream", "true")
	}

	writeGeneration(w, g)
	w.Extra("tools", "system", "tool_choice")
	if len(req.Tools) > 0 {
		w.Field("tools", func(b []byte) []byte { return m.appendTools(b, req.Tools, p.System != "") })
	}

	if p.System != "" {
		w.Field("system", func(b []byte) []byte {
			b = append(b, `[{"type":"text","text":`...)
			b = text.AppendJSON(b, p.System)
			return append(m.append(b, m.long), "}]"...)
		})
	}

	w.Extra("tool_choice")

	w.Name("messages")
	w.B = m.appendMessages(append(w.B, '['), p.List)
	w.B = append(appendPaused(w.B, soFar), ']')
	if choice := toolChoice(req, g.Thinks()); choice != "" && a&noToolChoice == 0 {
		w.Raw("tool_choice", choice)
	}

	w.Extra()
	return append(w.B, '}')
}

// generation returns how the model shall think and speak, as far as it lets itself be
// told.
func generation(req llm.Request, p wire.Turns, a adaptations) wire.ClaudeGeneration {
	if a&noThinking != 0 {
		req.Effort = ""
	}

	g := wire.GenerationForClaude(req)
	if g.Thinking == "enabled" && !wire.MayThink(p.List) {
		req.Effort = ""
		g = wire.GenerationForClaude(req)
	}
	if a&noTemperature != 0 {
		g.Temperature = nil
	}
	if a&noEffort != 0 {
		g.Effort = ""
	}
	return g
}

func writeGeneration(w *wire.Body, g wire.ClaudeGeneration) {
	if g.Temperature != nil {
		w.Raw("temperature", strconv.FormatFloat(*g.Temperature, 'f', -1, 64))
	}

	switch g.Thinking {
	case "":
	case "enabled":
		w.Raw("thinking", `{"type":"enabled","budget_tokens":`+strconv.Itoa(g.Budget)+`}`)
	default:
		w.Raw("thinking", `{"type":"`+g.Thinking+`"}`)
	}

	if g.Effort != "" {
		w.Raw("output_config", `{"effort":"`+g.Effort+`"}`)
	}
}

// markers puts marks of the prompt cache into a request.
type markers struct {
	off  bool
	long bool // one-hour entries for what seldom changes
}

func (m markers) append(b []byte, long bool) []byte {
	if m.off {
		return b
	}
	return wire.AppendCacheMark(b, long)
}

func (m markers) appendMessages(b []byte, list []wire.Turn) []byte {
	marks := wire.CacheMarks(list)
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(b, `{"role":`...)
		b = text.AppendJSON(b, string(t.Role))
		b = append(b, `,"content":[`...)
		for j, q := range t.Parts {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendPart(b, q)
			if slices.Contains(marks, wire.CacheMark{Turn: i, Part: j}) {
				b = append(m.append(b[:len(b)-1], false), '}')
			}
		}

		b = append(b, "]}"...)
	}

	return b
}

// appendTools writes the tools. With a system prompt behind them its marker
// covers the last tool, so only the last built-in one is marked.
func (m markers) appendTools(b []byte, tools []llm.ToolDef, system bool) []byte {
	builtin := -1
	for i, t := range tools {
		if !strings.HasPrefix(t.Name, "mcp_") {
			builtin = i
		}
	}

	b = append(b, '[')
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(b, `{"name":`...)
		b = text.AppendJSON(b, t.Name)
		if t.Description != "" {
			b = append(b, `,"description":`...)
			b = text.AppendJSON(b, t.Description)
		}

		b = append(b, `,"input_schema":`...)
		if len(t.Schema) == 0 || string(t.Schema) == "null" {
			b = append(b, `{"type":"object","properties":{}}`...)
		} else {
			b = append(b, t.Schema...)
		}

		if i == builtin || i == len(tools)-1 && !system {
			b = m.append(b, m.long)
		}
		b = append(b, '}')
	}

	return append(b, ']')
}

// toolChoice comes last because it differs from call to call. The default, auto, is
// not written; a thinking model cannot be forced to a tool.
func toolChoice(req llm.Request, thinks bool) string {
	switch {
	case len(req.Tools) == 0 || req.ToolChoice == "" || req.ToolChoice == "auto":
		return ""
	case req.ToolChoice == "none":
		return `{"type":"none"}`
	case thinks:
		return ""
	case req.ToolChoice == "required":
		return `{"type":"any"}`
	}
	return string(append(text.AppendJSON([]byte(`{"type":"tool","name":`), req.ToolChoice), '}'))
}

func appendPart(b []byte, q wire.Part) []byte {
	switch q.Kind {
	case wire.TextPart:
		return appendText(b, q.Text)
	case wire.ImagePart:
		return appendImage(b, q.Text)
	case wire.CallPart:
		b = append(b, `{"type":"tool_use","id":`...)
		b = text.AppendJSON(b, q.ID)
		b = append(b, `,"name":`...)
		b = text.AppendJSON(b, q.Call.Name)
		b = append(b, `,"input":`...)
		b = append(b, wire.ReplayArguments(q.Call.Arguments)...)
		return append(b, '}')

	case wire.ResultPart:
		return appendResult(b, q)
	default:
		return append(b, q.Raw...)
	}
}

func appendResult(b []byte, q wire.Part) []byte {
	b = append(b, `{"type":"tool_result","tool_use_id":`...)
	b = text.AppendJSON(b, q.ID)
	if q.Result == nil || q.Result.IsError {
		b = append(b, `,"is_error":true`...)
	}

	b = append(b, `,"content":`...)
	switch {
	case q.Result == nil:
		b = text.AppendJSON(b, wire.NoResult)
	case q.Result.Content.Blocks == nil && strings.TrimSpace(q.Result.Content.Text) != "":
		b = text.AppendJSON(b, q.Result.Content.Text)
	default:
		parts := wire.ContentParts(nil, q.Result.Content)
		if len(parts) == 0 {
			b = text.AppendJSON(b, wire.EmptyText)
			break
		}

		b = append(b, '[')
		for i, p := range parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendPart(b, p)
		}

		b = append(b, ']')
	}

	return append(b, '}')
}

func appendText(b []byte, s string) []byte {
	b = append(b, `{"type":"text","text":`...)
	b = text.AppendJSON(b, s)
	return append(b, '}')
}

// appendImage writes a data URL as base64 data and any other as a link. A data
// URL that is not base64 cannot be sent and leaves a word in its place.
func appendImage(b []byte, u string) []byte {
	rest, isData := strings.CutPrefix(u, "data:")
	if !isData {
		if u == "" {
			return appendText(b, "[image missing]")
		}
		b = append(b, `{"type":"image","source":{"type":"url","url":`...)
		b = text.AppendJSON(b, u)
		return append(b, "}}"...)
	}

	head, data, found := strings.Cut(rest, ",")
	media, isBase64 := strings.CutSuffix(head, ";base64")
	if !found || !isBase64 || data == "" {
		return appendText(b, "[image could not be sent]")
	}

	media, _, _ = strings.Cut(media, ";")
	if media == "" || media == "image/jpg" {
		media = "image/jpeg"
	}

	b = append(b, `{"type":"image","source":{"type":"base64","media_type":`...)
	b = text.AppendJSON(b, media)
	b = append(b, `,"data":`...)
	b = text.AppendJSON(b, data)
	return append(b, "}}"...)
}

// appendPaused writes the answer so far as the last turn, as the server sent it.
func appendPaused(b []byte, blocks []*block) []byte {
	n := 0
	for _, blk := range blocks {
		raw := blk.verbatim()
		if raw == nil {
			continue
		}

		if n == 0 {
			b = append(b, `,{"role":"assistant","content":[`...)
		} else {
			b = append(b, ',')
		}

		b = append(b, raw...)
		n++
	}

	if n > 0 {
		b = append(b, "]}"...)
	}
	return b
}
