package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// Calls that weak models write into their text, through the driver, whole and
// in small pieces. The offered tools are f and g.
func TestCallsAsText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, shown string
		calls             []string
	}{
		{"JSON", `Look: <tool_call>{"name":"f","arguments":{"p":"a < b"}}</tool_call>`, "Look: ", []string{`f {"p":"a < b"}`}},
		{"JSON in a fence", "<tool_call>\n```json\n{\"name\":\"f\",\"arguments\":{\"p\":1}}\n```\n</tool_call>", "", []string{`f {"p":1}`}},
		{"nested in function", `<tool_call>{"function":{"name":"f","arguments":"{\"p\":1}"}}</tool_call>`, "", []string{`f {"p":1}`}},
		{"nested in tool_call", `<tool_call>{"tool_call":{"name":"g","arguments":{}}}</tool_call>`, "", []string{`g {}`}},
		{"LongCat", `<longcat_tool_call>f <longcat_arg_key>p</longcat_arg_key> <longcat_arg_value>v w</longcat_arg_value> <longcat_arg_key>q</longcat_arg_key> <longcat_arg_value>2</longcat_arg_value></longcat_tool_call>`, "", []string{`f {"p":"v w","q":"2"}`}},
		{"Qwen", "<function=f>\n<parameter=p>\nline 1\nline 2\n</parameter>\n</function>", "", []string{`f {"p":"line 1\nline 2"}`}},
		{"Qwen in tool_call", "<tool_call>\n<function=f>\n<parameter=p>\nv\n</parameter>\n</function>\n</tool_call>", "", []string{`f {"p":"v"}`}},
		{"two forms", `<tool_call>{"name":"f","arguments":{}}</tool_call><function=g><parameter=x>y</parameter></function>`, "", []string{`f {}`, `g {"x":"y"}`}},
		{"unknown JSON", `<tool_call>{"name":"rm","arguments":{}}</tool_call>`, `<tool_call>{"name":"rm","arguments":{}}</tool_call>`, nil},
		{"unknown LongCat", `<longcat_tool_call>rm <longcat_arg_key>p</longcat_arg_key> <longcat_arg_value>v</longcat_arg_value></longcat_tool_call>`, `<longcat_tool_call>rm <longcat_arg_key>p</longcat_arg_key> <longcat_arg_value>v</longcat_arg_value></longcat_tool_call>`, nil},
		{"unknown Qwen", "<function=rm><parameter=p>v</parameter></function>", "<function=rm><parameter=p>v</parameter></function>", nil},
		{"in code", "Write\n```\n<function=f></function>\n```\nso", "Write\n```\n<function=f></function>\n```\nso", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{1, 4, 4000} {
				var events []string
				for rest := tt.text; rest != ""; {
					k := min(n, len(rest))
					b, err := json.Marshal(map[string]string{"content": rest[:k]})
					if err != nil {
						t.Fatal(err)
					}
					events, rest = append(events, piece(string(b))), rest[k:]
				}
				s := llmtest.NewServer(t, llmtest.Answer{Events: append(events, end("stop"), "[DONE]")})
				w := llmtest.Watch(t.Context(), t, model(t, s), request("f", "g"))
				want := outcome{text: tt.shown, calls: tt.calls, finish: llm.FinishStop}
				if tt.calls != nil {
					want.finish = llm.FinishToolCalls
				}
				compare(t, w, want)
				if w.Err == nil && w.Response.Message.Content.String() != tt.shown {
					t.Errorf("pieces of %d: content %q, want %q", n, w.Response.Message.Content.String(), tt.shown)
				}
			}
		})
	}
}
