package llm

import (
	"encoding/json"
	"errors"
	"strings"
)

// ErrArgumentsCut says that a call's JSON was cut off; such a call never runs.
var ErrArgumentsCut = errors.New("the arguments were cut off before they were complete; make the call again with shorter arguments (for a long file, write it in several parts)")

// ErrArgumentsShape says that a call's arguments are not a JSON object.
var ErrArgumentsShape = errors.New("the arguments must be one JSON object with named parameters")

// ParseArguments turns the argument text of a tool call into a JSON object.
// Damage that can be undone without guessing is mended; anything cut off is refused.
func ParseArguments(s string) (json.RawMessage, error) {
	t := strings.TrimSpace(s)
	if t == "" || t == "null" {
		return json.RawMessage("{}"), nil
	}
	if json.Valid([]byte(t)) && t[0] == '{' {
		return json.RawMessage(t), nil
	}
	return nil, ErrArgumentsShape
}
