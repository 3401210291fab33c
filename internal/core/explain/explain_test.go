package explain

import (
	"strings"
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

// A person at the page is not sent to a terminal.
func TestPageNamesNoCommand(t *testing.T) {
	t.Parallel()
	for _, kind := range []llm.Kind{llm.Auth, llm.Billing, llm.NotFound, llm.Configuration, llm.BudgetExceeded} {
		for _, language := range []string{"", "zh"} {
			err := &llm.Error{Kind: kind, Provider: "acme"}
			got := In(Reader{Language: language, Page: true}, err, "model-x")
			if strings.Contains(got, "nanobot ") || strings.Contains(got, "--model") {
				t.Errorf("%s, language %q: %q names a command", kind, language, got)
			}
		}
	}
	spent := &llm.Error{Kind: llm.BudgetExceeded, Message: "the day's budget is used. To raise it: nanobot config set x 2 (0 is no limit)"}
	if got := In(Reader{Page: true}, spent, "m"); strings.Contains(got, "nanobot config") || !strings.Contains(got, "the day's budget is used") {
		t.Errorf("a spending limit: %q", got)
	}
}
