package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
	"github.com/nanobot-go/nanobot/internal/text"
)

// encode writes the request body. The same input gives the same bytes, and
// what seldom changes comes before the messages. soFar holds the blocks of a
// paused answer that is to be continued.
func (d *driver) encode(req llm.Request, p wire.Turns, soFar []*block) []byte {
	g := wire.GenerationForClaude(req)
	if g.Thinking == "enabled" && !wire.MayThink(p.List) {
		quiet := req
		quiet.Effort = ""
		g = wire.GenerationForClaude(quiet)
	}
	b := make([]byte, 0, wire.SizeOf(req))
	b = append(b, `{"model":`...)
	b = text.AppendJSON(b, req.Model)
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, int64(g.MaxTokens), 10)
	b = append(b, `,"stream":true`...)
	b = appendGeneration(b, g)
	b = d.appendTools(b, req.Tools, p.System != "")
	if p.System != "" {
		b = append(b, `,"system":[{"type":"text","text":`...)
		b = text.AppendJSON(b, p.System)
		b = append(d.appendMarker(b, d.longTTL), "}]"...)
	}
	b = append(b, `,"messages":[`...)
	marks := wire.CacheMarks(p.List)
	for i, t := range p.List {
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
				b = append(d.appendMarker(b[:len(b)-1], false), '}')
			}
		}
		b = append(b, "]}"...)
	}
	b = appendPaused(b, soFar)
	b = append(b, ']')
	b = appendToolChoice(b, req, g.Thinks())
	return append(b, '}')
}

func appendGeneration(b []byte, g wire.ClaudeGeneration) []byte {
	if g.Temperature != nil {
		b = append(b, `,"temperature":`...)
		b = strconv.AppendFloat(b, *g.Temperature, 'f', -1, 64)
	}
	if g.Thinking != "" {
		b = append(b, `,"thinking":{"type":"`...)
		b = append(b, g.Thinking...)
		b = append(b, '"')
		if g.Thinking == "enabled" {
			b = append(b, `,"budget_tokens":`...)
			b = strconv.AppendInt(b, int64(g.Budget), 10)
		}
		b = append(b, '}')
	}
	if g.Effort != "" {
		b = append(b, `,"output_config":{"effort":"`...)
		b = append(b, g.Effort...)
		b = append(b, `"}`...)
	}
	return b
}

func (d *driver) appendMarker(b []byte, long bool) []byte {
	if long {
		return append(b, `,"cache_control":{"type":"ephemeral","ttl":"1h"}`...)
	}
	return append(b, `,"cache_control":{"type":"ephemeral"}`...)
}

// appendTools writes the tools. With a system prompt behind them its marker
// covers the last tool, so only the last built-in one is marked.
func (d *driver) appendTools(b []byte, tools []llm.ToolDef, system bool) []byte {
	if len(tools) == 0 {
		return b
	}
	builtin := -1
	for i, t := range tools {
		if !strings.HasPrefix(t.Name, "mcp_") {
			builtin = i
		}
	}
	b = append(b, `,"tools":[`...)
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
			b = d.appendMarker(b, d.longTTL)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendToolChoice comes last because it differs from call to call. The
// default, auto, is not written; a thinking model cannot be forced to a tool.
func appendToolChoice(b []byte, req llm.Request, thinks bool) []byte {
	if len(req.Tools) == 0 {
		return b
	}
	switch req.ToolChoice {
	case "", "auto":
		return b
	case "none":
		return append(b, `,"tool_choice":{"type":"none"}`...)
	}
	if thinks {
		return b
	}
	if req.ToolChoice == "required" {
		return append(b, `,"tool_choice":{"type":"any"}`...)
	}
	b = append(b, `,"tool_choice":{"type":"tool","name":`...)
	b = text.AppendJSON(b, req.ToolChoice)
	return append(b, '}')
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
