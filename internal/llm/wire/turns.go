package wire

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // makes ids, protects nothing
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Texts that stand in where a protocol of alternating turns demands something.
const (
	// EmptyText is the content of a message that has none.
	EmptyText = "(empty)"
	// NoResult answers a call whose result was never recorded.
	NoResult = "No result was recorded for this call; it may or may not have run."

	resumedText = "(The conversation goes on from here.)"
)

// PartKind says what a Part is.
type PartKind int

// The kinds of Part.
const (
	TextPart     PartKind = iota + 1
	ImagePart             // Text is a data: or https: URL
	RawPart               // a vendor's own block
	ThinkingPart          // a signed block as it is stored in Message.Thinking
	CallPart
	ResultPart
)

// Part is one content block of a Turn, not encoded yet.
type Part struct {
	Kind   PartKind
	Text   string          // TextPart; the URL of an ImagePart
	Raw    json.RawMessage // RawPart, ThinkingPart
	ID     string          // CallPart, ResultPart: the id on the wire
	Call   *llm.ToolCall   // CallPart
	Result *llm.Message    // ResultPart; nil for a result that is missing
}

// cacheable reports whether a cache marker may stand on the part.
func (p Part) cacheable() bool { return p.Kind != ThinkingPart && p.Kind != RawPart }

// Turn holds what one side says before the other answers.
type Turn struct {
	Role  llm.Role // User or Assistant
	Parts []Part
}

// Turns is a history for the protocols that want strictly alternating turns
// with the user first and last, tool results at the start of the user's turn,
// and every call answered.
type Turns struct {
	System  string
	List    []Turn
	Orphans int // results without a call, left out
	Missing int // calls without a result, answered with NoResult
}

// ArrangeTurns makes legal turns of any history, because one bad pair would
// otherwise be refused for ever. Orphans and Missing deserve a log line: they
// mean that a session was damaged. Signed thinking is kept if it came from
// origin. The same request always gives the same turns; parts point into its
// messages, which are never modified.
func ArrangeTurns(req llm.Request, origin string) Turns {
	p := planner{origin: origin, used: map[string]int{}}
	if strings.TrimSpace(req.System) != "" {
		p.system = append(p.system, req.System)
	}

	p.turns = make([]Turn, 0, len(req.Messages)+1)
	for i := range req.Messages {
		p.add(&req.Messages[i])
	}

	p.closeEnds()
	return Turns{System: strings.Join(p.system, "\n\n"), List: p.turns, Orphans: p.orphans, Missing: p.missing}
}

// openCall is a call that has no result yet.
type openCall struct{ id, wire string }

type planner struct {
	origin  string
	turns   []Turn
	system  []string
	used    map[string]int // wire ids, and how many calls wanted each
	open    []openCall
	orphans int
	missing int
}

func (p *planner) add(m *llm.Message) {
	switch m.Role {
	case llm.System:
		if s := m.Content.String(); strings.TrimSpace(s) != "" {
			p.system = append(p.system, s)
		}
	case llm.User:
		parts := ContentParts(nil, m.Content)
		if len(parts) == 0 {
			parts = []Part{{Kind: TextPart, Text: EmptyText}}
		}
		t := p.turn(llm.User)
		t.Parts = append(t.Parts, parts...)

	case llm.Assistant:
		p.close()
		if parts := p.assistantParts(m); len(parts) > 0 {
			t := p.turn(llm.Assistant)
			t.Parts = append(t.Parts, parts...)
		}

	case llm.ToolRole:
		i := slices.IndexFunc(p.open, func(c openCall) bool { return c.id == m.ToolCallID })
		if i < 0 {
			p.orphans++
			return
		}
		p.result(Part{Kind: ResultPart, ID: p.open[i].wire, Result: m})
		p.open = slices.Delete(p.open, i, i+1)
	}
}

// turn returns the current turn of a role, starting one if the other spoke last.
func (p *planner) turn(role llm.Role) *Turn {
	if n := len(p.turns); n == 0 || p.turns[n-1].Role != role {
		p.turns = append(p.turns, Turn{Role: role})
	}
	return &p.turns[len(p.turns)-1]
}

// result puts a tool result into the current user turn, behind the other
// results and before any text, where the protocol wants it.
func (p *planner) result(r Part) {
	t := p.turn(llm.User)
	i := slices.IndexFunc(t.Parts, func(q Part) bool { return q.Kind != ResultPart })
	if i < 0 {
		i = len(t.Parts)
	}
	t.Parts = slices.Insert(t.Parts, i, r)
}

// close answers the calls that never got a result.
func (p *planner) close() {
	for _, c := range p.open {
		p.missing++
		p.result(Part{Kind: ResultPart, ID: c.wire})
	}
	p.open = p.open[:0]
}

// closeEnds makes the turns begin and end with the user.
func (p *planner) closeEnds() {
	var last Turn
	if n := len(p.turns); n > 0 && p.turns[n-1].Role == llm.Assistant {
		last, p.turns = p.turns[n-1], p.turns[:n-1]
		p.open = p.open[:0]
	}

	p.close()
	switch {
	case len(p.turns) > 0 && p.turns[0].Role == llm.Assistant:
		p.turns = slices.Insert(p.turns, 0, Turn{Role: llm.User, Parts: []Part{{Kind: TextPart, Text: resumedText}}})
	case len(p.turns) == 0:
		t := Turn{Role: llm.User}
		if !slices.ContainsFunc(last.Parts, func(q Part) bool { return q.Kind == CallPart }) {
			t.Parts = slices.DeleteFunc(last.Parts, func(q Part) bool { return q.Kind != TextPart })
		}
		if len(t.Parts) == 0 {
			t.Parts = []Part{{Kind: TextPart, Text: resumedText}}
		}
		p.turns = append(p.turns, t)
	}
}

// assistantParts arranges an assistant message: signed thinking first, then
// text, then calls. A message whose blocks came in another order has that
// order in its Thinking list (see StoreThinking) and is replayed in it, because the
// vendor checks that nothing was moved.
func (p *planner) assistantParts(m *llm.Message) []Part {
	calls := make([]Part, 0, len(m.ToolCalls))
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if c.Name == "" {
			continue
		}
		wire := p.wireID(c, i)
		p.open = append(p.open, openCall{id: c.ID, wire: wire})
		calls = append(calls, Part{Kind: CallPart, ID: wire, Call: c})
	}

	var parts []Part
	ordered := false
	if m.Origin == p.origin {
		for _, raw := range m.Thinking {
			switch b := peekStored(raw); b.Type {
			case "thinking", "redacted_thinking":
				if b.signed() {
					parts = append(parts, Part{Kind: ThinkingPart, Raw: raw})
				}
			case "text":
				ordered = true
				if strings.TrimSpace(b.Text) != "" {
					parts = append(parts, Part{Kind: TextPart, Text: b.Text})
				}

			case "tool_use":
				if i := slices.IndexFunc(calls, func(q Part) bool { return q.Call.ID == b.ID }); i >= 0 {
					parts = append(parts, calls[i])
					calls = slices.Delete(calls, i, i+1)
				}
			}
		}
	}

	if !ordered {
		at := len(parts)
		if i := slices.IndexFunc(parts, func(q Part) bool { return q.Kind == CallPart }); i >= 0 {
			at = i
		}
		parts = slices.Insert(parts, at, spoken(m.Content)...)
	}

	return append(parts, calls...)
}

// spoken returns the content of an assistant turn, where the protocol knows no images.
func spoken(c llm.Content) []Part {
	parts := ContentParts(nil, c)
	for i, q := range parts {
		if q.Kind == ImagePart {
			parts[i] = Part{Kind: TextPart, Text: "[image]"}
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
		id = base[:min(len(base), longestID-16)] + "__dedupe_" + strconv.Itoa(p.used[base]-1)
	}

	p.used[id]++
	return id
}

// longestID is the longest id that all vendors accept.
const longestID = 64

// sanitiseID keeps an id of at most 64 letters, digits, _ and -; any other is
// replaced by a readable one with a hash of the original.
func sanitiseID(id string) string {
	ok := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if len(id) <= longestID && !strings.ContainsFunc(id, func(r rune) bool { return !ok(r) }) {
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

// ContentParts appends the parts of a content; blank text is left out because
// vendors refuse it.
func ContentParts(parts []Part, c llm.Content) []Part {
	text := func(s string) {
		if strings.TrimSpace(s) != "" {
			parts = append(parts, Part{Kind: TextPart, Text: s})
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
			parts = append(parts, Part{Kind: ImagePart, Text: b.ImageURL})
		case b.Type == "":
			text(sortedJSON(b.Raw))
		case len(b.Raw) > 0:
			parts = append(parts, Part{Kind: RawPart, Raw: b.Raw})
		}
	}

	return parts
}

// sortedJSON returns a block of no known type as text, the same for the same content.
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
