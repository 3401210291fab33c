package runner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// notes writes down in which order things happen to a call.
type notes struct {
	list  []string
	begin func() *tool.Result
	end   func()
}

func (n *notes) Begin(_ context.Context, t tool.Tool, c tool.Call) *tool.Result {
	n.list = append(n.list, "begin "+t.Name+" "+string(c.Input))
	return n.begin()
}

func (n *notes) End(_ context.Context, _ tool.Call, r tool.Result) {
	n.list = append(n.list, "end: "+r.Content.String())
	n.end()
}

// The guard is asked behind the hooks that can refuse a call, and End follows every
// Begin behind the hooks that are told the result.
func TestGuard(t *testing.T) {
	t.Parallel()
	allow, rest := func() *tool.Result { return nil }, func() {}
	refuse := func() *tool.Result {
		no := tool.Fail(tool.DeniedApproval, "not today")
		return &no
	}
	const begin = `begin do {"text":"x"}`
	for name, c := range map[string]struct {
		begin func() *tool.Result
		end   func()
		veto  error
		want  []string
	}{
		"allowed":       {allow, rest, nil, []string{"hook", begin, "run", "told: done", "end: done"}},
		"refused":       {refuse, rest, nil, []string{"hook", begin, "told: Error: not today", "end: Error: not today"}},
		"vetoed":        {allow, rest, errors.New("by a hook"), []string{"hook", "told: Error: by a hook"}},
		"begin panics":  {func() *tool.Result { panic("x") }, rest, nil, []string{"hook", begin, "told: Error: the check of this call failed", "end: Error: the check of this call failed"}},
		"its end fails": {allow, func() { panic("x") }, nil, []string{"hook", begin, "run", "told: done", "end: done"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &notes{begin: c.begin, end: c.end}
			do := tool.Func(tool.Tool{Name: "do", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
				n.list = append(n.list, "run")
				return tool.Text("done"), nil
			})
			b := newBench(t, llmtest.NewScript(t, llmtest.Call("do", `{"text":"x"}`), llmtest.Reply("ok")), do)
			b.spec.Guard = n
			b.spec.Hooks = append(b.spec.Hooks, runner.Hooks{
				BeforeTool: func(context.Context, tool.Call) error {
					n.list = append(n.list, "hook")
					return c.veto
				},
				AfterTool: func(_ context.Context, _ tool.Call, r tool.Result, _ time.Duration) {
					n.list = append(n.list, "told: "+r.Content.String())
				},
			})
			if res := b.run(t); res.Text != "ok" {
				t.Errorf("the turn ended with %q", res.Text)
			}
			if d := cmp.Diff(c.want, n.list); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
