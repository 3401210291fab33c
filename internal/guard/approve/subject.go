package approve

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// subject is the call that is decided about, with its arguments decoded.
type subject struct {
	tool tool.Tool
	call tool.Call
	args map[string]any // numbers as written

	outside   []Outside // that the command runs, once a question is to be asked
	byOutside bool      // that is all it is asked for
}

func newSubject(t tool.Tool, c tool.Call) *subject {
	s := &subject{tool: t, call: c}
	dec := json.NewDecoder(bytes.NewReader(c.Input))
	dec.UseNumber()
	if dec.Decode(&s.args) != nil {
		s.args = map[string]any{}
	}
	return s
}

func (s *subject) text(name string) string {
	v, _ := s.args[name].(string)
	return v
}

func (s *subject) flag(name string) bool {
	v, _ := s.args[name].(bool)
	return v
}

// person returns who the call is made for, as far as that is proven.
func (s *subject) person() string { return cmp.Or(s.call.Person, s.call.SenderID) }

// list returns an argument that is one text or several.
func (s *subject) list(name string) (out []string) {
	switch v := s.args[name].(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, item := range v {
			if text, ok := item.(string); ok {
				out = append(out, text)
			}
		}
	}
	return out
}

// command returns the text a command tool runs, "" for other calls.
func (s *subject) command() string {
	if s.tool.Sink != tool.SinkCommand {
		return ""
	}
	return s.text("command")
}

// paths returns the files the call changes or sends, as the model wrote them, or
// in full when they do not begin in the workspace.
func (s *subject) paths() []string {
	var out []string
	if s.tool.Paths != nil {
		out = s.tool.Paths(s.call.Input)
	}
	if s.tool.Sink == tool.SinkMessage {
		out = append(out, s.list("media")...)
	}

	if s.call.Project.Dir != "" {
		out = slices.Clone(out)
		for i, name := range out {
			out[i] = s.call.Project.Path(name)
		}
	}
	return out
}

// texts are all texts in the arguments, names of fields included.
func (s *subject) texts() iter.Seq[string] {
	return func(yield func(string) bool) { walkTexts(s.args, yield) }
}

func walkTexts(v any, yield func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return yield(v)
	case []any:
		for _, item := range v {
			if !walkTexts(item, yield) {
				return false
			}
		}

	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !yield(key) || !walkTexts(v[key], yield) {
				return false
			}
		}
	}
	return true
}

// canonical returns the arguments in one spelling.
func (s *subject) canonical() json.RawMessage {
	b, err := json.Marshal(s.args) // sorts the names
	if err != nil {
		return s.call.Input
	}
	return b
}

// without returns the arguments in one spelling, but for one of them.
func (s *subject) without(name string) json.RawMessage {
	args := maps.Clone(s.args)
	delete(args, name)
	return (&subject{call: s.call, args: args}).canonical()
}

func (s *subject) argsHash() string {
	sum := sha256.Sum256(s.canonical())
	return hex.EncodeToString(sum[:])
}

// contains reports whether a text occurs in the call: in an argument, or in
// its command as the shell would read it.
func (s *subject) contains(text string) bool {
	for t := range s.texts() {
		if strings.Contains(t, text) {
			return true
		}
	}

	if cmd := s.command(); cmd != "" {
		for _, words := range parseCommand(cmd).simple {
			if strings.Contains(strings.Join(words, " "), text) {
				return true
			}
		}
	}

	return false
}

// quiet reports calls that are not read-only by their tool but touch nothing
// outside the conversation: talking to the user, looking at a running command,
// listing.
func (s *subject) quiet() bool {
	switch s.tool.Sink {
	case "":
		switch s.tool.Name {
		case "ask_user", "create_goal", "update_goal":
			return true
		}

	case tool.SinkCommand:
		_, runs := s.args["command"]
		return !runs && s.text("session_id") != "" && s.text("chars") == "" && !s.flag("close_stdin")
	case tool.SinkSchedule, tool.SinkMemory:
		switch s.text("action") {
		case "list", "get", "check", "show", "status":
			return true
		}
	}
	return false
}

// outgoing reports calls whose arguments leave the process: to the network, a
// person, a program or a server.
func (s *subject) outgoing() bool {
	switch s.tool.Sink {
	case tool.SinkWrite, tool.SinkMemory:
		return false
	case "":
		if !s.tool.ReadOnly {
			return !s.quiet() || s.tool.Name == "ask_user"
		}
		_, fetches := s.args["url"]
		return fetches || strings.HasPrefix(s.tool.Name, "web_") || strings.HasPrefix(s.tool.Name, "mcp_")
	}
	return true
}
