package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// A model of 4,096 tokens on a local server that writes its calls as text
// still gets work done: short prompt, few tools, the call is run and answered.
func TestSmallLocalModel(t *testing.T) {
	t.Parallel()
	said := func(s string) llmtest.Answer {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return llmtest.Answer{Events: []string{
			`{"choices":[{"index":0,"delta":{"content":` + string(b) + `},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]",
		}}
	}
	srv := llmtest.NewServer(t,
		said("<longcat_tool_call>write_file <longcat_arg_key>path</longcat_arg_key> <longcat_arg_value>a.txt</longcat_arg_value> <longcat_arg_key>content</longcat_arg_key> <longcat_arg_value>one</longcat_arg_value></longcat_tool_call>"),
		said("<function=write_file>\n<parameter=path>\nb.txt\n</parameter>\n<parameter=content>\ntwo\n</parameter>\n</function>"),
		said("Done. <function=unknown></function>"))
	dir := t.TempDir()
	conf := filepath.Join(dir, "config.json")
	body := `{"agents":{"defaults":{"model":"custom/tiny","contextWindowTokens":4096}},"providers":{"custom":{"apiKey":"` + llmtest.Key + `","apiBase":"` + srv.URL + `"}}}`
	if err := os.WriteFile(conf, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	bot, err := nanobot.New(t.Context(), nanobot.WithConfigFile(conf), nanobot.WithWorkspace(filepath.Join(dir, "ws")), nanobot.WithEnv([]string{}))
	if err != nil {
		t.Fatal(err)
	}
	defer bot.Close()
	res, err := bot.Run(t.Context(), nanobot.Input{Text: "write two files"})
	if err != nil {
		t.Fatal(err)
	}
	if res.Text != "Done. <function=unknown></function>" {
		t.Errorf("answer = %q", res.Text)
	}
	for name, want := range map[string]string{"a.txt": "one", "b.txt": "two"} {
		got, err := os.ReadFile(filepath.Join(dir, "ws", name))
		if err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
	first := string(srv.Requests()[0].Body)
	if !strings.Contains(first, `"max_tokens":1024`) && !strings.Contains(first, `"max_completion_tokens":1024`) {
		t.Errorf("the answer is not bounded by a quarter of the window: %s", first)
	}
	if len(first) > 2*4096 || strings.Contains(first, `"name":"notebook_edit"`) || strings.Contains(first, "# Skills") {
		t.Errorf("the first request has %d bytes: %s", len(first), first)
	}
}
