package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// ErrArgumentsCut says that a call's JSON was cut off; such a call never runs.
var ErrArgumentsCut = errors.New("the arguments were cut off before they were complete; make the call again with shorter arguments (for a long file, write it in several parts)")

// ErrArgumentsShape says that a call's arguments are not a JSON object.
var ErrArgumentsShape = errors.New("the arguments must be one JSON object with named parameters")

// maxNesting bounds arguments inside arguments and the depth of one value.
const (
	maxNesting = 3
	maxDepth   = 500
)

// ParseArguments turns the argument text of a tool call into a JSON object.
// Valid objects are returned as they are. Damage that can be undone without
// guessing is mended: a code fence, single quotes, unquoted keys, trailing
// commas, comments, raw control characters in strings, Python's True, False and
// None, JSON inside a JSON string, and a list that holds one object. Anything cut
// off is refused with ErrArgumentsCut, because a completed half of a call
// would do half of the work; everything else with ErrArgumentsShape.
func ParseArguments(s string) (json.RawMessage, error) { return parseArguments(s, false, 0) }

// CloseCalls completes calls that lack only closing brackets. It is for answers
// that ended with calls by their own account: a model that forgets a bracket has
// said all it wanted to say. An open string, key, word or comma stays cut.
func CloseCalls(calls []llm.ToolCall) {
	for i, c := range calls {
		if _, err := ParseArguments(c.Arguments); !errors.Is(err, ErrArgumentsCut) {
			continue
		}
		if raw, err := parseArguments(c.Arguments, true, 0); err == nil {
			calls[i].Arguments = string(raw)
		}
	}
}

// AnyCut reports whether the arguments of one of the calls were cut off.
func AnyCut(calls []llm.ToolCall) bool {
	return slices.ContainsFunc(calls, func(c llm.ToolCall) bool {
		_, err := ParseArguments(c.Arguments)
		return errors.Is(err, ErrArgumentsCut)
	})
}

func parseArguments(s string, brackets bool, nesting int) (json.RawMessage, error) {
	t := strings.TrimSpace(s)
	if t == "" || t == "null" || t == "None" {
		return json.RawMessage("{}"), nil
	}
	if t[0] == '{' && json.Valid([]byte(t)) {
		return json.RawMessage(t), nil
	}

	m := mender{in: unfence(t), brackets: brackets}
	if err := m.document(); err != nil {
		return nil, err
	}
	if !json.Valid(m.out) {
		return nil, ErrArgumentsShape
	}

	switch m.out[0] {
	case '{':
		return m.out, nil
	case '"':
		var inner string
		if nesting >= maxNesting || json.Unmarshal(m.out, &inner) != nil {
			return nil, ErrArgumentsShape
		}
		return parseArguments(inner, brackets, nesting+1)

	case '[':
		var list []json.RawMessage
		if nesting >= maxNesting || json.Unmarshal(m.out, &list) != nil || len(list) != 1 || list[0][0] != '{' {
			return nil, ErrArgumentsShape
		}
		return list[0], nil
	}

	return nil, ErrArgumentsShape
}

// ReplayArguments gives the arguments of an old call in the form vendors
// accept in a history: always the text of a JSON object. Cut text is closed
// where it ends, so that the model sees how far it came; what cannot be read
// at all becomes {}. The result must never be executed.
func ReplayArguments(s string) string {
	raw, err := ParseArguments(s)
	if err == nil {
		return string(raw)
	}

	if errors.Is(err, ErrArgumentsCut) {
		m := mender{in: unfence(strings.TrimSpace(s)), closing: true}
		if m.document() == nil && m.out[0] == '{' && json.Valid(m.out) {
			return string(m.out)
		}
	}
	return "{}"
}

// unfence removes a Markdown code fence around the text. A missing end of the
// fence loses nothing: whether the JSON is complete is for the mender to say.
func unfence(s string) string {
	if !strings.HasPrefix(s, "```") {
		return s
	}
	line, rest, ok := strings.Cut(s, "\n")
	if !ok || strings.ContainsAny(strings.TrimPrefix(line, "```"), "{}[]\"'") {
		return s
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
}

// mender copies almost-JSON to JSON.
type mender struct {
	in       string
	pos      int
	out      []byte
	depth    int
	brackets bool // add brackets that are missing after a complete value
	closing  bool // complete what was cut off instead of refusing it
}

// document reads one value and nothing after it.
func (m *mender) document() error {
	if err := m.value(); err != nil {
		return err
	}
	if c := m.peek(); c != 0 || m.pos < len(m.in) {
		return m.unexpected()
	}
	return nil
}

// peek skips white space and comments and returns the next byte, 0 at the end.
func (m *mender) peek() byte {
	for m.pos < len(m.in) {
		rest := m.in[m.pos:]
		switch c := rest[0]; {
		case c == ' ', c == '\t', c == '\n', c == '\r':
			m.pos++
		case c == '#', strings.HasPrefix(rest, "//"):
			m.skip("\n", 1)
		case strings.HasPrefix(rest, "/*"):
			m.skip("*/", 2)
		default:
			return c
		}
	}
	return 0
}

// skip goes past the next end after the first n bytes, or to the end of the text.
func (m *mender) skip(end string, n int) {
	if i := strings.Index(m.in[m.pos+n:], end); i >= 0 {
		m.pos += n + i + len(end)
	} else {
		m.pos = len(m.in)
	}
}

func (m *mender) ended() bool { return m.pos >= len(m.in) }

func (m *mender) unexpected() error {
	r, _ := utf8.DecodeRuneInString(m.in[m.pos:])
	return fmt.Errorf("%w (unexpected %q after %d bytes)", ErrArgumentsShape, r, m.pos)
}

func (m *mender) value() error {
	c := m.peek()
	switch {
	case m.ended():
		if m.closing {
			m.out = append(m.out, "null"...)
			return nil
		}
		return ErrArgumentsCut

	case c == '{':
		return m.container('}', m.member)
	case c == '[':
		return m.container(']', m.value)
	case c == '"' || c == '\'':
		return m.text(c)
	}

	return m.literal()
}

// container copies an object or a list; a trailing comma is dropped.
func (m *mender) container(end byte, item func() error) error {
	if m.depth++; m.depth > maxDepth {
		return fmt.Errorf("%w (nested too deeply)", ErrArgumentsShape)
	}

	defer func() { m.depth-- }()
	m.out = append(m.out, m.in[m.pos])
	m.pos++
	complete := false // a value was read, and no comma promises another one
	for n := 0; ; n++ {
		switch c := m.peek(); {
		case m.ended():
			if !m.closing && (!m.brackets || !complete) {
				return ErrArgumentsCut
			}
			m.out = append(m.out, end)
			return nil
		case c == end:
			m.pos++
			m.out = append(m.out, end)
			return nil
		}

		if n > 0 {
			m.out = append(m.out, ',')
		}

		if err := item(); err != nil {
			return err
		}

		complete = true
		switch c := m.peek(); {
		case c == ',':
			complete = false
			m.pos++
			if m.peek() == ',' {
				return m.unexpected()
			}
		case c != end && !m.ended():
			return m.unexpected()
		}
	}
}

// member copies "key": value.
func (m *mender) member() error {
	switch c := m.peek(); c {
	case '"', '\'':
		if err := m.text(c); err != nil {
			return err
		}
	default:
		if err := m.bareKey(); err != nil {
			return err
		}
	}

	c := m.peek()
	if m.ended() && !m.closing {
		return ErrArgumentsCut
	}
	if c != ':' && !m.ended() {
		return m.unexpected()
	}

	if c == ':' {
		m.pos++
	}

	m.out = append(m.out, ':')
	return m.value()
}

func (m *mender) bareKey() error {
	start := m.pos
	for !m.ended() && isWord(m.in[m.pos], m.pos > start) {
		m.pos++
	}

	if m.pos == start {
		return m.unexpected()
	}
	if m.ended() && !m.closing {
		return ErrArgumentsCut
	}

	m.out = text.AppendJSON(m.out, m.in[start:m.pos])
	return nil
}

func isWord(c byte, inner bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || inner && (c >= '0' && c <= '9' || c == '-')
}

// literal copies a number or one of the words that stand for a value.
func (m *mender) literal() error {
	start := m.pos
	for !m.ended() && !strings.ContainsRune(" \t\r\n,:]}{[\"'/#", rune(m.in[m.pos])) {
		m.pos++
	}

	word := m.in[start:m.pos]
	switch word {
	case "true", "false", "null":
	case "True":
		word = "true"
	case "False":
		word = "false"
	case "None":
		word = "null"
	default:
		if len(word) > 0 && (word[0] == '-' || word[0] >= '0' && word[0] <= '9') && json.Valid([]byte(word)) {
			break
		}

		if m.ended() && m.depth > 0 && (m.closing || cutLiteral(word)) {
			if !m.closing {
				return ErrArgumentsCut
			}
			word = "null"
			break
		}

		m.pos = start
		return m.unexpected()
	}

	m.out = append(m.out, word...)
	return nil
}

// cutLiteral reports whether a word is the beginning of a literal.
func cutLiteral(w string) bool {
	for _, full := range [...]string{"true", "false", "null", "True", "False", "None"} {
		if strings.HasPrefix(full, w) {
			return true
		}
	}
	return strings.Trim(w, "-+.eE0123456789") == ""
}

// text copies a string in either kind of quotes.
func (m *mender) text(quote byte) error {
	m.pos++
	m.out = append(m.out, '"')
	for !m.ended() {
		c := m.in[m.pos]
		switch {
		case c == quote:
			m.pos++
			m.out = append(m.out, '"')
			return nil
		case c == '\\':
			if err := m.escape(); err != nil {
				return err
			}
		case c == '"':
			m.pos++
			m.out = append(m.out, '\\', '"')
		case c < ' ':
			m.pos++
			esc := text.AppendJSON(nil, string(rune(c)))
			m.out = append(m.out, esc[1:len(esc)-1]...)
		default:
			m.pos++
			m.out = append(m.out, c)
		}
	}

	if !m.closing {
		return ErrArgumentsCut
	}

	m.out = append(m.out, '"')
	return nil
}

// escape copies one escape sequence as it is.
func (m *mender) escape() error {
	size := 2
	if m.pos+1 < len(m.in) && m.in[m.pos+1] == 'u' {
		size = 6
	}

	if m.pos+size > len(m.in) {
		m.pos = len(m.in)
		if m.closing {
			return nil
		}
		return ErrArgumentsCut
	}

	seq := m.in[m.pos : m.pos+size]
	switch seq[1] {
	case '\'':
		m.out = append(m.out, '\'')
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't', 'u':
		if size == 6 && strings.Trim(seq[2:], "0123456789abcdefABCDEF") != "" {
			return m.unexpected()
		}
		m.out = append(m.out, seq...)

	default:
		return m.unexpected()
	}

	m.pos += size
	return nil
}

// maxArguments bounds the arguments of all tool calls of one answer, in bytes.
// What a call writes to a file is a part of them.
const maxArguments = 8 << 20

// Size counts the arguments of the tool calls of one answer.
type Size int

// Add counts a piece. An error means that the answer is too long to be kept.
func (s *Size) Add(piece string) error {
	if *s += Size(len(piece)); *s > maxArguments {
		return &llm.Error{Kind: llm.InvalidRequest, Message: "the tool calls of the model's answer are longer than 8 MiB; none of them was run"}
	}
	return nil
}
