package responses

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// emptyText stands where a vendor rejects an empty message.
const emptyText = "(empty)"

// input writes the history as a list of items. Any list of messages becomes a
// legal one: results and calls without a partner are dropped, because one
// orphan would make every later request of the session fail. What is written
// for a message depends only on the messages before it and its own results, so
// a longer history continues the bytes of a shorter one.
func (d *driver) input(ctx context.Context, b []byte, req llm.Request, a adaptations) []byte {
	e := &encoder{b: append(b, '['), d: d, model: req.Model, a: a, noIDs: d.o.Codex || a&noIDs != 0, ids: map[string]bool{}, calls: map[string]bool{}}
	start := len(e.b)
	msgs := endWithInput(req.Messages)
	for i := 0; i < len(msgs); i++ {
		m := &msgs[i]
		switch m.Role {
		case llm.Assistant:
			n := i + 1
			for n < len(msgs) && msgs[n].Role == llm.ToolRole {
				n++
			}
			e.turn(m, msgs[i+1:n], i)
			i = n - 1

		case llm.ToolRole:
			e.dropped++
		case llm.System:
			e.message("developer", m.Content)
		default:
			e.message("user", m.Content)
		}
	}

	if len(e.b) == start {
		e.message("user", llm.Text(emptyText))
	}
	if e.dropped > 0 {
		d.o.Log.WarnContext(ctx, "dropped tool calls and results without a partner", "provider", d.o.Name, "count", e.dropped)
	}
	return append(e.b, ']')
}

// endWithInput leaves out trailing assistant turns, which were not answered.
// If there is no turn of the user or of a tool, the last one becomes the
// input.
func endWithInput(msgs []llm.Message) []llm.Message {
	n := len(msgs)
	for n > 0 && msgs[n-1].Role == llm.Assistant {
		n--
	}
	if n < len(msgs) && !slices.ContainsFunc(msgs[:n], func(m llm.Message) bool { return m.Role == llm.User || m.Role == llm.ToolRole }) {
		return append(slices.Clone(msgs[:n]), llm.Message{Role: llm.User, Content: msgs[len(msgs)-1].Content})
	}
	return msgs[:n]
}

// encoder writes input items.
type encoder struct {
	b       []byte
	d       *driver
	model   string
	a       adaptations
	noIDs   bool
	ids     map[string]bool // item ids in use
	calls   map[string]bool // call ids in use
	dropped int
}

// begin separates an item from the one before.
func (e *encoder) begin(s string) {
	if e.b[len(e.b)-1] != '[' {
		e.b = append(e.b, ',')
	}
	e.b = append(e.b, s...)
}

func (e *encoder) text(s string) { e.b = text.AppendJSON(e.b, s) }

func (e *encoder) raw(s string) { e.b = append(e.b, s...) }

// id writes an item id, made unique within the request.
func (e *encoder) id(id string) {
	if e.noIDs || id == "" {
		return
	}
	e.raw(`,"id":`)
	e.text(unique(e.ids, id, 64))
}

// unique registers a name that is not in use yet, with a number behind it if
// it must be.
func unique(used map[string]bool, name string, limit int) string {
	try := name
	for n := 2; used[try]; n++ {
		tail := "_" + strconv.Itoa(n)
		try = name[:min(len(name), limit-len(tail))] + tail
	}
	used[try] = true
	return try
}

// message writes a message from the user's side; blank ones are left out.
func (e *encoder) message(role string, c llm.Content) {
	if c.Blank() {
		return
	}
	e.begin(`{"role":"` + role + `","content":`)
	e.parts(c)
	e.raw("}")
}

// parts writes the content of a message, or of a result, as a list.
func (e *encoder) parts(c llm.Content) {
	e.raw("[")
	if c.Blocks == nil {
		e.textPart(c.Text)
	}

	for _, blk := range c.Blocks {
		switch {
		case blk.Type == "text" && blk.Text == "", blk.Type == "image_url" && blk.ImageURL == "":
		case blk.Type == "text":
			e.textPart(blk.Text)
		case blk.Type == "image_url":
			e.begin(`{"type":"input_image","image_url":`)
			e.text(blk.ImageURL)
			e.raw(`,"detail":"auto"}`)
		case strings.HasPrefix(blk.Type, "input_") && len(blk.Raw) > 0:
			e.begin(string(blk.Raw))
		case len(blk.Raw) > 0:
			e.textPart(string(blk.Raw))
		}
	}

	e.raw("]")
}

func (e *encoder) textPart(s string) {
	e.begin(`{"type":"input_text","text":`)
	e.text(s)
	e.raw("}")
}

// pairing is a call with the result that answers it.
type pairing struct {
	call   *llm.ToolCall
	at     int // place in the turn
	result int
	id     string
}

// turn writes an assistant turn and the results of its calls. index is the
// turn's place in the history.
func (e *encoder) turn(m *llm.Message, results []llm.Message, index int) {
	pairs := e.pair(m, results)
	ours := m.Origin == "" || m.Origin == e.d.o.Name
	var hidden []hiddenItem
	if ours && e.a&noReasoning == 0 {
		hidden = hiddenItems(m.Thinking, e.model)
	}

	said := !m.Content.Blank()
	if e.d.o.PlainReasoning && ours && m.Reasoning != "" && (said || len(pairs) > 0) {
		e.begin(`{"type":"reasoning","content":[{"type":"output_text","text":`)
		e.text(m.Reasoning)
		e.raw("}]}")
	}

	if said {
		hidden = e.hidden(hidden, 0)
		e.begin(`{"type":"message","role":"assistant","status":"completed"`)
		e.id("msg_" + strconv.Itoa(index))
		e.raw(`,"content":[{"type":"output_text","text":`)
		e.text(m.Content.String())
		e.raw("}]}")
	}

	for _, p := range pairs {
		hidden = e.hidden(hidden, p.at+1)
		e.call(p, ours)
	}
	e.results(pairs, results)
}

// pair finds the result of each call; what has no partner is dropped.
func (e *encoder) pair(m *llm.Message, results []llm.Message) []pairing {
	var pairs []pairing
	taken := make([]bool, len(results))
	for k := range m.ToolCalls {
		c := &m.ToolCalls[k]
		r := -1
		for j := range results {
			if !taken[j] && results[j].ToolCallID == c.ID {
				r = j
				break
			}
		}

		if r < 0 || strings.TrimSpace(c.Name) == "" {
			continue
		}

		taken[r] = true
		pairs = append(pairs, pairing{call: c, at: k, result: r, id: unique(e.calls, callID(c.ID), 64)})
	}

	e.dropped += len(m.ToolCalls) + len(results) - 2*len(pairs)
	return pairs
}

// callID returns the part of a canonical id that joins a call and its result, in
// the form the protocol takes.
func callID(id string) string {
	id, _, _ = strings.Cut(id, "|")
	if id == "" {
		return "call_0"
	}

	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' || r == ':' {
			return r
		}
		return '_'
	}, id)
	if len(clean) > 64 {
		sum := sha256.Sum256([]byte(id))
		return "call_" + hex.EncodeToString(sum[:16])
	}
	return clean
}

// call writes a function call. The item's own id goes back only where it came
// from, and only if it looks like one.
func (e *encoder) call(p pairing, ours bool) {
	e.begin(`{"type":"function_call"`)
	if _, item, ok := strings.Cut(p.call.ID, "|"); ok && ours && strings.HasPrefix(item, "fc") && len(item) <= 64 {
		e.id(item)
	}

	e.raw(`,"call_id":`)
	e.text(p.id)
	e.raw(`,"name":`)
	e.text(p.call.Name)
	e.raw(`,"arguments":`)
	e.text(wire.ReplayArguments(p.call.Arguments))
	e.raw("}")
}

// results writes the answers to the calls, in the order in which they came.
func (e *encoder) results(pairs []pairing, results []llm.Message) {
	var images []llm.Block
	for j := range results {
		i := slices.IndexFunc(pairs, func(p pairing) bool { return p.result == j })
		if i < 0 {
			continue
		}

		r := &results[j]
		e.begin(`{"type":"function_call_output","call_id":`)
		e.text(pairs[i].id)
		e.raw(`,"output":`)
		pictures := slices.DeleteFunc(slices.Clone(r.Content.Blocks), func(b llm.Block) bool { return b.Type != "image_url" || b.ImageURL == "" })
		switch {
		case r.Content.Blank():
			e.text(emptyText)
		case len(pictures) > 0 && e.a&flatOutput == 0:
			e.parts(r.Content)
		default:
			e.text(flat(r.Content))
			if len(pictures) > 0 {
				images = append(images, llm.Block{Type: "text", Text: "Image from the result of " + r.Name + ":"})
				images = append(images, pictures...)
			}
		}

		e.raw("}")
	}

	if len(images) > 0 {
		e.message("user", llm.Content{Blocks: images})
	}
}

// flat returns a content as one text.
func flat(c llm.Content) string {
	if c.Blocks == nil {
		return c.Text
	}

	var parts []string
	for _, b := range c.Blocks {
		switch {
		case b.Type == "text":
			parts = append(parts, b.Text)
		case b.Type == "image_url":
			parts = append(parts, "(the image follows)")
		case len(b.Raw) > 0:
			parts = append(parts, string(b.Raw))
		}
	}

	return strings.Join(parts, "\n")
}

// hiddenItem is an output item that only its own model can read: encrypted
// reasoning, or the record of a tool the server ran itself. It travels in
// Message.Thinking.
type hiddenItem struct {
	Type  string          `json:"type"`
	Model string          `json:"model"`
	At    int             `json:"at"` // 0: before the text; n: before call n-1
	Item  json.RawMessage `json:"item"`
}

// hiddenType marks our entries among the thinking blocks of a message.
const hiddenType = "openai_responses"

func (h hiddenItem) block() json.RawMessage {
	b := append([]byte(nil), `{"type":"`+hiddenType+`","model":`...)
	b = text.AppendJSON(b, h.Model)
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, int64(h.At), 10)
	b = append(b, `,"item":`...)
	b = append(b, h.Item...)
	return append(b, '}')
}

// hiddenItems reads what a model may have back: what it made itself.
func hiddenItems(blocks []json.RawMessage, model string) []hiddenItem {
	var out []hiddenItem
	for _, raw := range blocks {
		var h hiddenItem
		if json.Unmarshal(raw, &h) == nil && h.Type == hiddenType && h.Model == model && len(h.Item) > 1 && h.Item[0] == '{' {
			out = append(out, h)
		}
	}
	return out
}

// hidden writes the items that stand before a place in the turn and returns
// the rest. They are written only in front of something, because a server
// refuses reasoning that led to nothing.
func (e *encoder) hidden(list []hiddenItem, at int) []hiddenItem {
	for len(list) > 0 && list[0].At <= at {
		e.hiddenItem(list[0].Item)
		list = list[1:]
	}
	return list
}

func (e *encoder) hiddenItem(item json.RawMessage) {
	var m map[string]json.RawMessage
	if json.Unmarshal(item, &m) != nil {
		return
	}

	var id string
	_ = json.Unmarshal(m["id"], &id)
	switch {
	case e.noIDs:
		delete(m, "id")
	case id == "":
	case e.ids[id]:
		m["id"] = text.AppendJSON(nil, unique(e.ids, id, 64))
	default:
		e.ids[id] = true
		e.begin(string(item))
		return
	}

	e.begin(string(encoded(m, item)))
}
