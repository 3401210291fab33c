package wire

import (
	"encoding/json"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// CallText finds tool calls that a model wrote into its answer as text, which
// small and badly templated models do, and takes them out of what the user
// sees. It works on a stream: Write returns what may be shown now and holds
// back what may be the beginning of a call. Understood are <tool_call> with
// JSON, with <function=name> parameters or with arg_key/arg_value pairs, bare
// <function=name>, and <longcat_tool_call>. Only calls of known tools count,
// and nothing inside Markdown code is a call.
type CallText struct {
	known func(name string) bool
	held  string // not shown yet; begins with a possible opening tag
	calls []llm.ToolCall

	shown     bool // something was shown
	last      byte // the last byte shown
	afterCall bool // white space after a call is dropped
	lead      bool // only blanks so far on this line
	ticks     int  // length of the run of backticks or tildes at the line's start
	fence     bool // inside a code fence
}

// NewCallText makes a filter for one answer. known says which tools exist.
func NewCallText(known func(name string) bool) *CallText {
	return &CallText{known: known, lead: true}
}

// Write takes a piece of the answer and returns what can be shown.
func (c *CallText) Write(piece string) string {
	c.held += piece
	return c.advance(false)
}

// Close returns the rest of the text and the calls, which have no ids. A call
// whose closing tag is missing counts if its content is complete.
func (c *CallText) Close() (rest string, calls []llm.ToolCall) {
	return c.advance(true), c.calls
}

func (c *CallText) advance(end bool) string {
	var out strings.Builder
	for {
		n, tag := c.plain(end)
		c.show(&out, c.held[:n])
		c.held = c.held[n:]
		if tag == "" {
			return out.String()
		}

		body, rest, ok := cutBody(c.held[len(tag):], closingTag(tag), end)
		if !ok {
			return out.String()
		}

		inner := body
		if tag == "<function=" {
			inner = tag + body
		}

		if call, ok := c.parse(inner); ok {
			c.calls = append(c.calls, call)
			c.held = rest
			c.afterCall = true
			continue
		}

		// Not a call: the tag is ordinary text, what follows is looked at again.
		c.show(&out, c.held[:len(tag)])
		c.held = c.held[len(tag):]
	}
}

// plain returns how much of the held text is certainly not part of a call, and
// the opening tag that follows it, "" if more text is needed or there is none.
// It keeps track of code fences.
func (c *CallText) plain(end bool) (n int, tag string) {
	prev := c.last
	for i := 0; i < len(c.held); i++ {
		b := c.held[i]
		if b == '<' && !c.fence && prev != '`' {
			t, partial := openingTag(c.held[i:])
			if t != "" || partial && !end {
				return i, t
			}
		}

		c.track(b)
		prev = b
	}

	return len(c.held), ""
}

// track notices lines that open or close a code fence.
func (c *CallText) track(b byte) {
	switch {
	case b == '\n':
		c.lead, c.ticks = true, 0
	case !c.lead:
	case b == '`' || b == '~':
		if c.ticks++; c.ticks == 3 {
			c.fence = !c.fence
			c.lead = false
		}

	case b != ' ' && b != '\t' || c.ticks > 0:
		c.lead = false
	}
}

func (c *CallText) show(out *strings.Builder, s string) {
	if c.afterCall {
		if s = strings.TrimLeft(s, " \t\r\n"); s == "" {
			return
		}
		c.afterCall = false
		if c.shown && c.last != '\n' && c.last != ' ' {
			out.WriteByte('\n')
		}
	}
	if s != "" {
		out.WriteString(s)
		c.shown, c.last = true, s[len(s)-1]
	}
}

// openingTag recognises a tag at the start of s; partial means that s ends
// before it can be told.
func openingTag(s string) (tag string, partial bool) {
	for _, t := range [...]string{"<tool_call>", "<function=", "<longcat_tool_call>"} {
		if strings.HasPrefix(s, t) {
			return t, false
		}
		if strings.HasPrefix(t, s) {
			partial = true
		}
	}
	return "", partial
}

func closingTag(tag string) string {
	if tag == "<function=" {
		return "</function>"
	}
	return "</" + tag[1:]
}

// cutBody splits at the closing tag; at the end of the answer it may be missing.
func cutBody(s, closing string, end bool) (body, rest string, ok bool) {
	if body, rest, ok = strings.Cut(s, closing); ok || !end {
		return body, rest, ok
	}
	return s, "", true
}

// parse reads the inside of a call.
func (c *CallText) parse(body string) (llm.ToolCall, bool) {
	body = strings.TrimSpace(body)
	var call llm.ToolCall
	ok := false
	switch {
	case strings.HasPrefix(body, "<function="):
		call, ok = parseParameters(body)
	case strings.Contains(body, "arg_key>"):
		call, ok = parsePairs(body)
	default:
		raw, err := ParseArguments(body)
		if err == nil {
			call, ok = parseCallJSON(raw, 0)
		}
	}

	if !ok || !c.known(call.Name) {
		return llm.ToolCall{}, false
	}
	return call, true
}

// parseCallJSON reads {"name","arguments"}, also when it is wrapped in
// "function" or "tool_call".
func parseCallJSON(raw json.RawMessage, depth int) (llm.ToolCall, bool) {
	var w struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
		Function   json.RawMessage `json:"function"`
		ToolCall   json.RawMessage `json:"tool_call"`
	}
	if depth > 2 || json.Unmarshal(raw, &w) != nil {
		return llm.ToolCall{}, false
	}

	for _, inner := range []json.RawMessage{w.Function, w.ToolCall} {
		if w.Name == "" && len(inner) > 0 && inner[0] == '{' {
			return parseCallJSON(inner, depth+1)
		}
	}

	args := w.Arguments
	if args == nil {
		args = w.Parameters
	}
	return llm.ToolCall{Name: w.Name, Arguments: argumentText(args)}, w.Name != ""
}

// argumentText returns the argument string of a call whose arguments came as any
// JSON value.
func argumentText(raw json.RawMessage) string {
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	if len(raw) == 0 || string(raw) == "null" {
		return "{}"
	}
	return string(raw)
}

// parseParameters reads <function=name><parameter=key>value</parameter>...
func parseParameters(body string) (llm.ToolCall, bool) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(body, "<function="), ">")
	if !ok {
		return llm.ToolCall{}, false
	}

	rest, _, _ = strings.Cut(rest, "</function>")
	args := newPairs()
	for {
		_, after, found := strings.Cut(rest, "<parameter=")
		if !found {
			break
		}

		key, after, found := strings.Cut(after, ">")
		if !found {
			return llm.ToolCall{}, false
		}

		value, after, found := strings.Cut(after, "</parameter>")
		if !found {
			return llm.ToolCall{}, false // cut off
		}

		args.add(key, oneNewline(value))
		rest = after
	}

	return llm.ToolCall{Name: strings.TrimSpace(name), Arguments: args.String()}, true
}

// parsePairs reads name <arg_key>k</arg_key><arg_value>v</arg_value>..., with
// or without LongCat's prefix.
func parsePairs(body string) (llm.ToolCall, bool) {
	body = strings.ReplaceAll(body, "longcat_arg_", "arg_")
	name, rest, _ := strings.Cut(body, "<arg_key>")
	args := newPairs()
	for found := true; found; {
		key, after, ok := strings.Cut(rest, "</arg_key>")
		if !ok {
			return llm.ToolCall{}, false
		}

		_, after, ok = strings.Cut(after, "<arg_value>")
		value, after, closed := strings.Cut(after, "</arg_value>")
		if !ok || !closed {
			return llm.ToolCall{}, false
		}

		args.add(key, oneNewline(value))
		_, rest, found = strings.Cut(after, "<arg_key>")
	}

	return llm.ToolCall{Name: strings.TrimSpace(name), Arguments: args.String()}, true
}

// oneNewline drops the line breaks that templates put around a value.
func oneNewline(s string) string {
	return strings.TrimSuffix(strings.TrimPrefix(s, "\n"), "\n")
}

// pairs builds a JSON object of strings; the tool's schema casts them.
type pairs struct{ b []byte }

func newPairs() *pairs { return &pairs{[]byte{'{'}} }

func (p *pairs) add(key, value string) {
	if len(p.b) > 1 {
		p.b = append(p.b, ',')
	}
	p.b = text.AppendJSON(p.b, strings.TrimSpace(key))
	p.b = append(p.b, ':')
	p.b = text.AppendJSON(p.b, value)
}

func (p *pairs) String() string { return string(p.b) + "}" }
