package runner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// The same page or search is looked up twice in a turn, not more often, however
// it is spelled and whatever happens in between.
func TestLookupsAreThrottled(t *testing.T) {
	t.Parallel()
	type in struct {
		URL string `json:"url"`
	}
	ran := 0
	fetch := tool.Func(tool.Tool{Name: "web_fetch", Description: "d", ReadOnly: true}, func(context.Context, tool.Call, in) (tool.Result, error) {
		ran++
		return tool.Textf("page %d", ran), nil
	})
	var steps []llmtest.Step
	for _, url := range []string{"https://a.example/x", "https://b.example", " https://A.example/X", "https://c.example", "https://a.example/x"} {
		steps = append(steps, llmtest.Call("web_fetch", fmt.Sprintf(`{"url":%q}`, url)))
	}
	b := newBench(t, llmtest.NewScript(t, append(steps, llmtest.Reply("ok"))...), fetch)
	b.run(t)
	if ran != 4 {
		t.Errorf("%d lookups ran, want 4", ran)
	}
	var refused []int
	for i, m := range b.recorded {
		if strings.Contains(m.Content.String(), "looked up twice already") {
			refused = append(refused, i)
		}
	}
	if fmt.Sprint(refused) != "[9]" { // the result of the fifth call
		t.Errorf("refused results: %v of %s", refused, roles(b.recorded))
	}
}

// The third refusal about one target says that it is a boundary; refusals about
// others, and failures that are no refusals, do not count.
func TestBoundaryEscalates(t *testing.T) {
	t.Parallel()
	type in struct {
		Path string `json:"path"`
		N    int    `json:"n"` // makes every call another one
	}
	deny := tool.Func(tool.Tool{Name: "open", Description: "d", ReadOnly: true}, func(_ context.Context, _ tool.Call, in in) (tool.Result, error) {
		if in.Path == "/lost" {
			return tool.Fail(tool.NotFound, "no such file"), nil
		}
		return tool.Fail(tool.DeniedPolicy, "outside of the workspace"), nil
	})
	var steps []llmtest.Step
	paths := []string{"/etc/x", "/etc/x/", "/other", "/lost", "/lost", "/lost", "/etc/x"}
	for i, path := range paths {
		steps = append(steps, llmtest.Call("open", fmt.Sprintf(`{"path":%q,"n":%d}`, path, i)))
	}
	b := newBench(t, llmtest.NewScript(t, append(steps, llmtest.Reply("ok"))...), deny)
	if res := b.run(t); res.Stop != runner.Completed {
		t.Fatalf("stop %s", res.Stop)
	}
	for i := range paths {
		said := b.recorded[2*i+1].Content.String()
		if hard := strings.Contains(said, "hard boundary"); hard != (i == len(paths)-1) {
			t.Errorf("call %d: %q", i+1, said)
		}
	}
}
