package anthropic

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // makes ids, protects nothing
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Texts that stand in where the protocol demands something.
const (
	emptyText   = "(empty)"
	resumedText = "(The conversation goes on from here.)"
	noResult    = "No result was recorded for this call; it may or may not have run."
)

type partKind int

const (
	textPart partKind = iota + 1
	imagePart
	rawPart      // a vendor's own block, sent verbatim
	thinkingPart // a signed block, sent verbatim
	callPart
	resultPart
)

// part is one content block of a turn, not encoded yet.
type part struct {
	kind partKind
	text string          // textPart; the URL of an imagePart
	raw  json.RawMessage // rawPart, thinkingPart
	id   string          // callPart, resultPart: the id on the wire
	call *llm.ToolCall
	msg  *llm.Message // resultPart; nil for a result that is missing
}

// cacheable reports whether a cache marker may stand on the part.
func (p part) cacheable() bool { return p.kind != thinkingPart && p.kind != rawPart }

type turn struct {
	role  llm.Role // User or Assistant
	parts []part
}

// openCall is a call that has no result yet.
type openCall struct{ id, wire string }

// planner turns a history into legal, alternating turns. It never modifies
// the messages; parts point into them.
type planner struct {
	origin  string
	turns   []turn
	system  []string
	used    map[string]int // wire ids, and how many calls wanted each
	open    []openCall
	orphans int // results without a call
	missing int // calls without a result
}

// plan is a history ready to be encoded.
type plan struct {
	system string
	turns  []turn
}

// plan arranges a request's messages. Repairs are logged, because they mean
// that a session was damaged; one bad pair would otherwise be refused for ever.
func (d *driver) plan(ctx context.Context, req llm.Request) plan {
	p := planner{origin: d.name, used: map[string]int{}}
	if strings.TrimSpace(req.System) != "" {
		p.system = append(p.system, req.System)
	}
	p.turns = make([]turn, 0, len(req.Messages)+1)
	for i := range req.Messages {
		p.add(&req.Messages[i])
	}
	p.finish()
	if p.orphans > 0 || p.missing > 0 {
		d.log.WarnContext(ctx, "history repaired for the request", "session", req.SessionKey,
			"orphan_results", p.orphans, "missing_results", p.missing)
	}
	return plan{system: strings.Join(p.system, "\n\n"), turns: p.turns}
}

func (p *planner) add(m *llm.Message) {
	switch m.Role {
	case llm.System:
		if s := m.Content.String(); strings.TrimSpace(s) != "" {
			p.system = append(p.system, s)
		}
	case llm.User:
		parts := contentParts(nil, m.Content)
		if len(parts) == 0 {
			parts = []part{{kind: textPart, text: emptyText}}
		}
		t := p.turn(llm.User)
		t.parts = append(t.parts, parts...)
	case llm.Assistant:
		p.close()
		if parts := p.assistantParts(m); len(parts) > 0 {
			t := p.turn(llm.Assistant)
			t.parts = append(t.parts, parts...)
		}
	case llm.ToolRole:
		i := slices.IndexFunc(p.open, func(c openCall) bool { return c.id == m.ToolCallID })
		if i < 0 {
			p.orphans++
			return
		}
		p.result(part{kind: resultPart, id: p.open[i].wire, msg: m})
		p.open = slices.Delete(p.open, i, i+1)
	}
}

// turn returns the current turn of a role, starting one if the other spoke last.
func (p *planner) turn(role llm.Role) *turn {
	if n := len(p.turns); n == 0 || p.turns[n-1].role != role {
		p.turns = append(p.turns, turn{role: role})
	}
	return &p.turns[len(p.turns)-1]
}

// result puts a tool result into the current user turn, behind the other
// results and before any text, where the protocol wants it.
func (p *planner) result(r part) {
	t := p.turn(llm.User)
	i := slices.IndexFunc(t.parts, func(q part) bool { return q.kind != resultPart })
	if i < 0 {
		i = len(t.parts)
	}
	t.parts = slices.Insert(t.parts, i, r)
}

// close answers the calls that never got a result.
func (p *planner) close() {
	for _, c := range p.open {
		p.missing++
		p.result(part{kind: resultPart, id: c.wire})
	}
	p.open = p.open[:0]
}

// finish makes the turns begin and end with the user.
func (p *planner) finish() {
	var last turn
	if n := len(p.turns); n > 0 && p.turns[n-1].role == llm.Assistant {
		last, p.turns = p.turns[n-1], p.turns[:n-1]
		p.open = p.open[:0]
	}
	p.close()
	switch {
	case len(p.turns) > 0 && p.turns[0].role == llm.Assistant:
		p.turns = slices.Insert(p.turns, 0, turn{role: llm.User, parts: []part{{kind: textPart, text: resumedText}}})
	case len(p.turns) == 0:
		t := turn{role: llm.User}
		if !slices.ContainsFunc(last.parts, func(q part) bool { return q.kind == callPart }) {
			t.parts = slices.DeleteFunc(last.parts, func(q part) bool { return q.kind != textPart })
		}
		if len(t.parts) == 0 {
			t.parts = []part{{kind: textPart, text: resumedText}}
		}
		p.turns = append(p.turns, t)
	}
}

// assistantParts arranges an assistant message: signed thinking first, then
// text, then calls. A message whose blocks came in another order has that
// order in its Thinking list (see layout) and is replayed in it, because the
// vendor checks that nothing was moved.
func (p *planner) assistantParts(m *llm.Message) []part {
	calls := make([]part, 0, len(m.ToolCalls))
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if c.Name == "" {
			continue
		}
		wire := p.wireID(c, i)
		p.open = append(p.open, openCall{id: c.ID, wire: wire})
		calls = append(calls, part{kind: callPart, id: wire, call: c})
	}
	var parts []part
	ordered := false
	if m.Origin == p.origin {
		for _, raw := range m.Thinking {
			switch b := peekBlock(raw); b.Type {
			case "thinking", "redacted_thinking":
				if b.signed() {
					parts = append(parts, part{kind: thinkingPart, raw: raw})
				}
			case "text":
				ordered = true
				if strings.TrimSpace(b.Text) != "" {
					parts = append(parts, part{kind: textPart, text: b.Text})
				}
			case "tool_use":
				if i := slices.IndexFunc(calls, func(q part) bool { return q.call.ID == b.ID }); i >= 0 {
					parts = append(parts, calls[i])
					calls = slices.Delete(calls, i, i+1)
				}
			}
		}
	}
	if !ordered {
		at := len(parts)
		if i := slices.IndexFunc(parts, func(q part) bool { return q.kind == callPart }); i >= 0 {
			at = i
		}
		parts = slices.Insert(parts, at, spoken(m.Content)...)
	}
	return append(parts, calls...)
}

// spoken is the content of an assistant turn, where the protocol knows no images.
func spoken(c llm.Content) []part {
	parts := contentParts(nil, c)
	for i, q := range parts {
		if q.kind == imagePart {
			parts[i] = part{kind: textPart, text: "[image]"}
		}
	}
	return parts
}

// wireID gives a call an id the protocol accepts and that no earlier call of
// the history has. The same history always gets the same ids.
func (p *planner) wireID(c *llm.ToolCall, index int) string {
	id := sanitiseID(c.ID)
	if id == "" {
		sum := sha1.Sum([]byte(c.Name + "\x00" + c.Arguments + "\x00" + strconv.Itoa(index))) //nolint:gosec // an id
		id = "toolu_" + hex.EncodeToString(sum[:])[:22]
	}
	base := id
	for p.used[id] > 0 {
		p.used[base]++
		id = base + "__dedupe_" + strconv.Itoa(p.used[base]-1)
	}
	p.used[id]++
	return id
}

// sanitiseID keeps an id of at most 64 letters, digits, _ and -; any other is
// replaced by a readable one with a hash of the original.
func sanitiseID(id string) string {
	ok := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool { return !ok(r) }) {
		return id
	}
	clean := strings.Map(func(r rune) rune {
		if ok(r) {
			return r
		}
		return '_'
	}, id)
	const longest = 48
	clean = strings.Trim(clean[:min(len(clean), longest)], "_")
	sum := sha1.Sum([]byte(id)) //nolint:gosec // an id
	return clean + "_" + hex.EncodeToString(sum[:4])
}

// contentParts appends the parts of a content; blank text is left out because
// the vendor refuses it.
func contentParts(parts []part, c llm.Content) []part {
	text := func(s string) {
		if strings.TrimSpace(s) != "" {
			parts = append(parts, part{kind: textPart, text: s})
		}
	}
	if c.Blocks == nil {
		text(c.Text)
		return parts
	}
	for _, b := range c.Blocks {
		switch {
		case b.Type == "text":
			text(b.Text)
		case b.Type == "image_url":
			parts = append(parts, part{kind: imagePart, text: b.ImageURL})
		case b.Type == "":
			text(sortedJSON(b.Raw))
		case len(b.Raw) > 0:
			parts = append(parts, part{kind: rawPart, raw: b.Raw})
		}
	}
	return parts
}

// sortedJSON is a block of no known type as text, the same for the same content.
func sortedJSON(raw json.RawMessage) string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return string(raw)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return string(raw)
	}
	return strings.TrimSpace(b.String())
}

// peeked is what replay must know of a stored block.
type peeked struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	ID        string `json:"id"`
	Signature string `json:"signature"`
	Data      string `json:"data"`
}

// signed reports whether the vendor can check the block. One that was cut
// before its signature would be refused.
func (b peeked) signed() bool { return b.Signature != "" || b.Data != "" }

// signedHead begins the thinking blocks this driver stores. The signature
// stands first so that replay need not parse a long thought to see it.
const signedHead = `{"type":"thinking","signature":"`

func peekBlock(raw json.RawMessage) peeked {
	if bytes.HasPrefix(raw, []byte(signedHead)) && len(raw) > len(signedHead) && raw[len(signedHead)] != '"' {
		return peeked{Type: "thinking", Signature: "present"}
	}
	var b peeked
	_ = json.Unmarshal(raw, &b) // a block that is not an object has no type and is left out
	return b
}
