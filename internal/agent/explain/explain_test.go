package explain

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

func TestExplainCoversEveryKind(t *testing.T) {
	t.Parallel()
	seen := map[string]llm.Kind{}
	for _, k := range llm.Kinds() {
		s := Error(&llm.Error{Kind: k, Provider: "p"}, "m")
		if s == "" || s == "The model call failed." {
			t.Errorf("kind %s has no explanation", k)
		}
		seen[s] = k
	}
}

// Calls that look the same stand once, with their number.
func TestHintFolds(t *testing.T) {
	t.Parallel()
	h := Hint{Redact: func(s string) string { return s }, Workspace: "/w", Chars: 40}
	read := func(path string) llm.ToolCall {
		return llm.ToolCall{Name: "read_file", Arguments: `{"path":"/w/` + path + `"}`}
	}
	for want, calls := range map[string][]llm.ToolCall{
		"read a × 3, read b":     {read("a"), read("a"), read("a"), read("b")},
		"read a, read b, read a": {read("a"), read("b"), read("a")},
		"read a":                 {read("a")},
	} {
		if got := h.Calls(calls); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
