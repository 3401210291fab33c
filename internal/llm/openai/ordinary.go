package openai

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// ordinary reads the one shape that nearly all chunks of a stream have: one
// choice with a piece of text, of reasoning or of the arguments of a call, and
// nothing else that matters. It is strict: at the first byte it does not expect
// it gives up, and the chunk is read by encoding/json, which costs several
// times as much. Both give the same chunk.
//
// The chunk lives in the ordinary itself and points into the data; it is valid
// until the next call.
type ordinary struct {
	chunk     chunk
	choices   [1]choice
	delta     delta
	text      [2]string // of reasoning_content and reasoning
	calls     [1]callDelta
	callIndex int

	data []byte
	pos  int
	seen uint32 // keys of the objects, one bit each
}

// The keys, each a bit; a repeated one is not ordinary.
const (
	keyHarmless = 1 << iota
	keyObject
	keyError
	keyUsage
	keyChoices
	keyIndex
	keyDelta
	keyNull // null, or the chunk is not ordinary
	keyContent
	keyReasoningContent
	keyReasoning
	keyRefusal
	keyToolCalls
	keyFunctionCall
	keyCallIndex
	keyFunction
	keyArguments
	keyFinish
)

// decode reads a chunk; false means that it is not ordinary.
func (o *ordinary) decode(data []byte) bool {
	o.data = data
	o.pos = 0
	o.seen = 0
	o.chunk = chunk{}
	o.choices[0] = choice{}
	o.delta = delta{}
	o.calls[0] = callDelta{}
	return o.object(o.top) && o.pos == len(o.data) && o.chunk.Choices != nil
}

// object reads an object, handing each key to member, which reads its value.
func (o *ordinary) object(member func(key []byte) bool) bool {
	if !o.accept('{') {
		return false
	}
	if o.accept('}') {
		return true
	}

	for {
		key, ok := o.string()
		if !ok || !o.accept(':') || !member(key[1:len(key)-1]) {
			return false
		}
		if o.accept('}') {
			return true
		}
		if !o.accept(',') {
			return false
		}
	}
}

// first notes a key and reports whether it is new.
func (o *ordinary) first(key uint32) bool {
	if key == keyHarmless || key == keyNull {
		return true
	}
	fresh := o.seen&key == 0
	o.seen |= key
	return fresh
}

func (o *ordinary) top(key []byte) bool {
	k := topKey(key)
	if !o.first(k) {
		return false
	}

	switch k {
	case keyHarmless:
		return o.scalar()
	case keyObject:
		s, ok := o.string()
		o.chunk.Object = "chat.completion.chunk"
		return ok && string(s) == `"chat.completion.chunk"`
	case keyError:
		o.chunk.Error = nullJSON()
		return o.null()
	case keyUsage:
		return o.null()
	case keyChoices:
		if !o.accept('[') || !o.object(o.choice) || !o.accept(']') {
			return false
		}
		o.chunk.Choices = o.choices[:]
		return true
	}

	return false
}

func topKey(key []byte) uint32 {
	switch string(key) {
	case "id", "created", "model", "system_fingerprint", "service_tier", "provider", "obfuscation":
		return keyHarmless
	case "object":
		return keyObject
	case "error":
		return keyError
	case "usage":
		return keyUsage
	case "choices":
		return keyChoices
	}
	return 0
}

func (o *ordinary) choice(key []byte) bool {
	k := uint32(0)
	switch string(key) {
	case "index":
		k = keyIndex
	case "delta":
		k = keyDelta
	case "finish_reason":
		k = keyFinish
	case "logprobs", "native_finish_reason", "stop_reason", "token_ids":
		k = keyNull
	}

	if !o.first(k) {
		return false
	}

	switch k {
	case keyIndex:
		n, ok := o.digits()
		o.choices[0].Index = n
		return ok
	case keyDelta:
		o.choices[0].Delta = &o.delta
		return o.object(o.member)
	case keyFinish, keyNull:
		return o.null()
	}

	return false
}

// member reads a key of the delta.
func (o *ordinary) member(key []byte) bool {
	k := deltaKey(key)
	if !o.first(k) {
		return false
	}

	switch k {
	case keyHarmless:
		_, ok := o.string()
		return ok
	case keyRefusal, keyFunctionCall:
		return o.null()
	case keyContent:
		raw, ok := o.stringOrNull()
		o.delta.Content = raw
		return ok
	case keyReasoningContent:
		return o.thought(&o.delta.ReasoningContent, &o.text[0])
	case keyReasoning:
		return o.thought(&o.delta.Reasoning, &o.text[1])
	case keyToolCalls:
		if o.peek() == 'n' {
			return o.null()
		}
		if !o.accept('[') || !o.object(o.call) || !o.accept(']') {
			return false
		}
		o.delta.ToolCalls = o.calls[:]
		return true
	}

	return false
}

func deltaKey(key []byte) uint32 {
	switch string(key) {
	case "role":
		return keyHarmless
	case "content":
		return keyContent
	case "reasoning_content":
		return keyReasoningContent
	case "reasoning":
		return keyReasoning
	case "refusal":
		return keyRefusal
	case "function_call":
		return keyFunctionCall
	case "tool_calls":
		return keyToolCalls
	}
	return 0
}

func (o *ordinary) thought(into **string, text *string) bool {
	raw, ok := o.stringOrNull()
	if !ok || raw[0] == 'n' {
		return ok
	}
	*text = unquote(raw)
	*into = text
	return true
}

// call reads a later piece of a call: its place and more of its arguments.
func (o *ordinary) call(key []byte) bool {
	c := &o.calls[0]
	switch string(key) {
	case "index":
		n, ok := o.digits()
		o.callIndex = n
		c.Index = &o.callIndex
		return ok && o.first(keyCallIndex)

	case "type":
		_, ok := o.string()
		return ok
	case "function":
		return o.first(keyFunction) && o.object(func(key []byte) bool {
			if string(key) != "arguments" || !o.first(keyArguments) {
				return false
			}
			raw, ok := o.string()
			c.Function.Arguments = raw
			return ok
		})
	}

	return false
}

func nullJSON() json.RawMessage { return json.RawMessage("null") }

func (o *ordinary) space() {
	for o.pos < len(o.data) {
		switch o.data[o.pos] {
		case ' ', '\t', '\n', '\r':
			o.pos++
		default:
			return
		}
	}
}

func (o *ordinary) peek() byte {
	o.space()
	if o.pos >= len(o.data) {
		return 0
	}
	return o.data[o.pos]
}

func (o *ordinary) accept(c byte) bool {
	if o.peek() != c {
		return false
	}
	o.pos++
	if c == '}' || c == ']' {
		o.space()
	}
	return true
}

func (o *ordinary) null() bool {
	if o.peek() != 'n' || len(o.data)-o.pos < 4 || string(o.data[o.pos:o.pos+4]) != "null" {
		return false
	}
	o.pos += 4
	return true
}

// digits reads a small natural number.
func (o *ordinary) digits() (int, bool) {
	o.space()
	n, start := 0, o.pos
	for o.pos < len(o.data) && o.data[o.pos] >= '0' && o.data[o.pos] <= '9' {
		n = n*10 + int(o.data[o.pos]-'0')
		o.pos++
	}
	size := o.pos - start
	return n, size == 1 || size > 1 && size < 10 && o.data[start] != '0'
}

// scalar skips a string, a natural number or null.
func (o *ordinary) scalar() bool {
	switch c := o.peek(); {
	case c == '"':
		_, ok := o.string()
		return ok
	case c == 'n':
		return o.null()
	case c >= '1' && c <= '9':
		for o.pos < len(o.data) && o.data[o.pos] >= '0' && o.data[o.pos] <= '9' {
			o.pos++
		}
		return true
	}
	return false
}

func (o *ordinary) stringOrNull() ([]byte, bool) {
	if o.peek() == 'n' {
		start := o.pos
		ok := o.null()
		return o.data[start:o.pos], ok
	}
	return o.string()
}

// string reads a string with its quotes.
func (o *ordinary) string() ([]byte, bool) {
	if o.peek() != '"' {
		return nil, false
	}

	start := o.pos
	for i := start + 1; i < len(o.data); i++ {
		switch c := o.data[i]; {
		case c == '"':
			o.pos = i + 1
			return o.data[start:o.pos:o.pos], true
		case c < ' ':
			return nil, false
		case c == '\\':
			i++
			if i >= len(o.data) || unescaped(o.data[i]) == 0 {
				return nil, false // \u and nonsense are read the slow way
			}
		}
	}

	return nil, false
}

// unescaped returns the character that an escape stands for, 0 if it is not simple.
func unescaped(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	}
	return 0
}

// unquote decodes a JSON string; text that is none gives "".
func unquote(raw []byte) string {
	if len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
		if s, ok := simpleText(raw[1 : len(raw)-1]); ok {
			return s
		}
	}
	var text string
	_ = json.Unmarshal(raw, &text)
	return text
}

// simpleText decodes the inside of a string that has only short escapes.
func simpleText(inner []byte) (string, bool) {
	escapes := 0
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"' || c < ' ':
			return "", false
		case c == '\\':
			escapes++
			if i++; i >= len(inner) || unescaped(inner[i]) == 0 {
				return "", false
			}
		}
	}

	switch {
	case !utf8.Valid(inner):
		return "", false
	case escapes == 0:
		return string(inner), true
	}

	var b strings.Builder
	b.Grow(len(inner) - escapes)
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		if c == '\\' {
			i++
			c = unescaped(inner[i])
		}
		b.WriteByte(c)
	}

	return b.String(), true
}
