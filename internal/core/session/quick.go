package session

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// quick reads a line of the form that this program and the older one write, in
// one pass. Logs are read whole when a conversation is opened and indexed, so
// this counts. It reports false, with r in any state, for whatever is unusual;
// then the general way decides. What it does read it reads as that would.
func (r *Record) quick(line []byte) bool {
	*r = Record{}
	s := scanner{data: line}
	if !s.is('{') {
		return false
	}

	var stamp []byte
	for {
		key, ok := s.plain()
		if !ok || !s.is(':') {
			return false
		}

		raw := s.value()
		if raw == nil {
			return false
		}

		if string(key) == "timestamp" {
			stamp = raw
		} else if !r.member(string(key), raw) {
			return false
		}

		if s.is(',') {
			continue
		}
		if !s.is('}') || len(s.data) > 0 {
			return false
		}
		return r.Role != "" && r.stamped(stamp)
	}
}

// stamped takes the time from the readable form if there is no other.
func (r *Record) stamped(raw []byte) bool {
	var s string
	if raw != nil && !quoted(raw, &s) {
		return false
	}
	if r.Time.IsZero() {
		r.Time, _ = parseTime(s)
	}
	return true
}

// member takes one key and its value, and reports whether it could.
func (r *Record) member(key string, raw []byte) bool {
	switch key {
	case "role":
		r.Role = roleOf(raw)
		return r.Role != ""
	case "content":
		if raw[0] == '"' {
			r.Content = llm.Content{}
			return quoted(raw, &r.Content.Text)
		}
		return json.Unmarshal(raw, &r.Content) == nil

	case "tool_calls":
		return raw[0] == '[' && json.Unmarshal(raw, &r.ToolCalls) == nil
	case "tool_call_id":
		return quoted(raw, &r.ToolCallID)
	case "name":
		return quoted(raw, &r.Name)
	case "is_error":
		return flag(raw, &r.IsError)
	case "reasoning_content":
		r.HasReasoning = true
		return quoted(raw, &r.Reasoning)
	case "_origin":
		return quoted(raw, &r.Origin)
	}
	return r.ownMember(key, raw)
}

func (r *Record) ownMember(key string, raw []byte) bool {
	switch key {
	case "ts":
		ms, ok := number(raw)
		r.Time = time.UnixMilli(ms)
		return ok
	case "turn_id":
		return quoted(raw, &r.TurnID)
	case "inbound_id":
		return quoted(raw, &r.InboundID)
	case "sender_id":
		return quoted(raw, &r.SenderID)
	case "latency_ms":
		n, ok := number(raw)
		r.LatencyMS = n
		return ok
	case "_command":
		return flag(raw, &r.Command)
	case "_internal":
		return flag(raw, &r.Internal)
	case "_channel_delivery":
		return flag(raw, &r.Delivery)
	case "_hidden_history":
		return flag(raw, &r.Hidden)
	case "_denied":
		return flag(raw, &r.Denied)
	case "_interrupted":
		return flag(raw, &r.Interrupted)
	case "_failure":
		return quoted(raw, &r.Failure)
	case store.SumKey:
		return true
	case "_runtime_context":
		return raw[0] == '{' && r.Runtime == nil && json.Unmarshal(raw, &r.Runtime) == nil
	}
	return false
}

func roleOf(raw []byte) llm.Role {
	switch string(raw) {
	case `"user"`:
		return llm.User
	case `"assistant"`:
		return llm.Assistant
	case `"tool"`:
		return llm.ToolRole
	case `"system"`:
		return llm.System
	}
	return ""
}

func flag(raw []byte, to *bool) bool {
	*to = string(raw) == "true"
	return *to || string(raw) == "false"
}

// number reads a whole number above zero that a float holds as well.
func number(raw []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(raw), 10, 53)
	return n, err == nil && raw[0] > '0' && raw[0] <= '9'
}

// quoted reads a string with its quotes.
func quoted(raw []byte, to *string) bool {
	if raw[0] != '"' {
		return false
	}

	in := raw[1 : len(raw)-1]
	at := bytes.IndexByte(in, '\\')
	if !utf8.Valid(in) {
		return false
	}
	if at < 0 {
		*to = string(in)
		return true
	}

	out := append(make([]byte, 0, len(in)), in[:at]...)
	for i := at; i < len(in); i++ {
		c := in[i]
		if c == '\\' {
			i++ // the scanner saw a character behind it
			switch in[i] {
			case '"', '\\', '/':
				c = in[i]
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'r':
				c = '\r'
			default:
				return json.Unmarshal(raw, to) == nil
			}
		}

		out = append(out, c)
	}

	*to = string(out)
	return true
}

// scanner cuts JSON into members and values. What it takes for a string, a
// number or a word may still be none; what it takes for an object or a list
// must be read by a real decoder.
type scanner struct{ data []byte }

// is skips spaces and, if it is next, the character.
func (s *scanner) is(c byte) bool {
	for len(s.data) > 0 && s.data[0] == ' ' {
		s.data = s.data[1:]
	}
	if len(s.data) == 0 || s.data[0] != c {
		return false
	}
	s.data = s.data[1:]
	return true
}

// plain reads a string that has no escapes.
func (s *scanner) plain() ([]byte, bool) {
	if !s.is('"') {
		return nil, false
	}

	end := bytes.IndexByte(s.data, '"')
	if end < 0 || bytes.IndexByte(s.data[:end], '\\') >= 0 {
		return nil, false
	}

	key := s.data[:end]
	s.data = s.data[end+1:]
	return key, true
}

// value returns the bytes of the next value, nil if there is none.
func (s *scanner) value() []byte {
	for len(s.data) > 0 && s.data[0] == ' ' {
		s.data = s.data[1:]
	}

	n := valueEnd(s.data)
	if n <= 0 {
		return nil
	}

	raw := s.data[:n]
	s.data = s.data[n:]
	return raw
}

func valueEnd(b []byte) int {
	if len(b) == 0 {
		return 0
	}

	switch b[0] {
	case '"':
		return stringEnd(b)
	case '{', '[':
		depth := 0
		for i := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				n := stringEnd(b[i:])
				if n <= 0 {
					return 0
				}
				i += n - 1

			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}

		return 0
	}

	return max(0, bytes.IndexAny(b, ",} "))
}

// stringEnd is behind the closing quote of the string that b begins with.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i++
		case c < ' ':
			return 0
		}
	}
	return 0
}
