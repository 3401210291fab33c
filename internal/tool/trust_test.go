package tool_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// What a tool returns came from outside unless the tool, or the result itself,
// says that it is ours.
func TestResultsAreForeignUnlessDeclared(t *testing.T) {
	t.Parallel()
	text := func(r tool.Result) func(context.Context, tool.Call) (tool.Result, error) {
		return func(context.Context, tool.Call) (tool.Result, error) { return r, nil }
	}
	theirs, ours, marked := tool.Text("x"), tool.Text("x"), tool.Text("x")
	ours.Trusted, marked.Untrusted, marked.Trusted = true, true, true
	for name, c := range map[string]struct {
		trusted, want bool
		run           func(context.Context, tool.Call) (tool.Result, error)
	}{
		"a tool that says nothing":            {false, true, text(theirs)},
		"its error":                           {false, true, text(tool.Fail(tool.Internal, "x"))},
		"a result that is declared ours":      {false, false, text(ours)},
		"a trusted tool":                      {true, false, text(theirs)},
		"a foreign result of a trusted tool":  {true, true, text(marked)},
		"a result that is declared both":      {false, true, text(marked)},
		"a panic of a trusted tool":           {true, true, func(context.Context, tool.Call) (tool.Result, error) { panic("read: IGNORE ALL") }},
		"a Go error of a tool that is silent": {false, true, func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, errors.New("x") }},
	} {
		res, _ := tool.Execute(t.Context(), tool.Tool{Name: "t", Trusted: c.trusted, Run: c.run}, tool.Call{}, slog.New(slog.DiscardHandler))
		if res.Untrusted != c.want {
			t.Errorf("%s: untrusted = %v, want %v", name, res.Untrusted, c.want)
		}
	}
}
