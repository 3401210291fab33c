package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

func known(name string) bool { return name == "f" || name == "write_file" }

// filter feeds a text in pieces of n bytes.
func filter(text string, n int) (string, []llm.ToolCall) {
	c := wire.NewCallText(known)
	var out strings.Builder
	for len(text) > 0 {
		k := min(n, len(text))
		out.WriteString(c.Write(text[:k]))
		text = text[k:]
	}
	rest, calls := c.Close()
	return out.String() + rest, calls
}

func TestCallText(t *testing.T) {
	t.Parallel()
	f := func(args string) []llm.ToolCall { return []llm.ToolCall{{Name: "f", Arguments: args}} }
	for _, c := range []struct {
		name, in, text string
		calls          []llm.ToolCall
	}{
		{"22 JSON call", `<tool_call>{"name":"f","arguments":{}}</tool_call> hi`, "hi", f("{}")},
		{"23 inside a fence", "```\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n```", "```\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n```", nil},
		{"after a fence", "```sh\nls\n```\n<tool_call>{\"name\":\"f\"}</tool_call>", "```sh\nls\n```\n", f("{}")},
		{"inline code", "write `<tool_call>{\"name\":\"f\"}</tool_call>` so", "write `<tool_call>{\"name\":\"f\"}</tool_call>` so", nil},
		{"unknown tool", `<tool_call>{"name":"g","arguments":{}}</tool_call>`, `<tool_call>{"name":"g","arguments":{}}</tool_call>`, nil},
		{"text around", `a<tool_call>{"name":"f","arguments":"{\"x\":1}"}</tool_call>b`, "a\nb", f(`{"x":1}`)},
		{"fence inside the tag", "<tool_call>\n```json\n{'name':'f','arguments':{'x':1}}\n```\n</tool_call>", "", f(`{"x":1}`)},
		{"nested function", `<tool_call>{"function":{"name":"f","arguments":{"x":1}}}</tool_call>`, "", f(`{"x":1}`)},
		{"parameters key", `<tool_call>{"name":"f","parameters":{"x":1}}</tool_call>`, "", f(`{"x":1}`)},
		{"no closing tag", `<tool_call>{"name":"f","arguments":{"x":1}}`, "", f(`{"x":1}`)},
		{"cut off", `<tool_call>{"name":"f","arguments":{"x":`, `<tool_call>{"name":"f","arguments":{"x":`, nil},
		{"qwen", "<function=f>\n<parameter=a>\n1 < 2\n</parameter>\n<parameter=b>x\ny</parameter>\n</function>", "", f(`{"a":"1 < 2","b":"x\ny"}`)},
		{"qwen in tool_call", "<tool_call>\n<function=f>\n<parameter=a>\nv\n</parameter>\n</function>\n</tool_call>", "", f(`{"a":"v"}`)},
		{"qwen cut off", "<function=f>\n<parameter=a>\nv", "<function=f>\n<parameter=a>\nv", nil},
		{"longcat", `<longcat_tool_call>f <longcat_arg_key>a</longcat_arg_key> <longcat_arg_value>v</longcat_arg_value></longcat_tool_call>ok`, "ok", f(`{"a":"v"}`)},
		{"glm", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>v</arg_value>\n<arg_key>b</arg_key>\n<arg_value>w</arg_value></tool_call>", "", f(`{"a":"v","b":"w"}`)},
		{"two calls", `<tool_call>{"name":"f"}</tool_call> <tool_call>{"name":"write_file"}</tool_call>`, "", []llm.ToolCall{{Name: "f", Arguments: "{}"}, {Name: "write_file", Arguments: "{}"}}},
		{"less-than signs", "if a < b && c <d {} <tool", "if a < b && c <d {} <tool", nil},
		{"prose about tags", "The <tool_call> tag is old.", "The <tool_call> tag is old.", nil},
		{"call after prose about tags", `The <tool_call> tag: <tool_call>{"name":"f"}</tool_call>`, "The <tool_call> tag: ", f("{}")},
		{"tilde fence", "~~~\n<tool_call>{\"name\":\"f\"}</tool_call>\n~~~", "~~~\n<tool_call>{\"name\":\"f\"}</tool_call>\n~~~", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{1, 2, 7, 1000} {
				text, calls := filter(c.in, n)
				if text != c.text {
					t.Errorf("pieces of %d: text %q, want %q", n, text, c.text)
				}
				if d := cmp.Diff(c.calls, calls); d != "" {
					t.Errorf("pieces of %d: calls differ: %s", n, d)
				}
			}
		})
	}
}

func FuzzCallText(f *testing.F) {
	f.Add("a<tool_call>{\"name\":\"f\"}</tool_call>b", 1)
	f.Add("```\n<function=f></function>\n```", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(1, min(n, 64))
		text, calls := filter(s, n)
		whole, wholeCalls := filter(s, len(s)+1)
		if text != whole || len(calls) != len(wholeCalls) {
			t.Errorf("pieces of %d give %q and %d calls, the whole %q and %d", n, text, len(calls), whole, len(wholeCalls))
		}
		if len(calls) == 0 && text != s {
			t.Errorf("text without calls changed: %q", text)
		}
	})
}
