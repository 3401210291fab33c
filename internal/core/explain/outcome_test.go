package explain

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	exited := func(text string, code int) tool.Result {
		r := tool.Text(text)
		r.Exit = &code
		return r
	}
	for name, c := range map[string]struct {
		r            tool.Result
		want, output string
	}{
		"one line":       {tool.Text("wrote 3 bytes"), "", ""},
		"some lines":     {tool.Text("a\nb\n"), "2 lines", ""},
		"a command":      {exited("fine\n\nExit code: 0", 0), "exit 0", ""},
		"a failed one":   {exited("a\nb\n\nExit code: 3", 3), "exit 3", "a\nb"},
		"a long failure": {exited(strings.Repeat("x\n", 100)+"last\n\nExit code: 1\n[ended after 2 s]", 1), "exit 1", strings.Repeat("x\n", 7) + "last"},
		"a silent one":   {exited("Exit code: 1", 1), "exit 1", ""},
	} {
		if got, output := Outcome(c.r), FailedOutput(c.r, c.r.Content.String()); got != c.want || output != c.output {
			t.Errorf("%s: %q %q, want %q %q", name, got, output, c.want, c.output)
		}
	}
	for _, code := range []tool.Code{
		tool.InvalidArgs, tool.UnknownTool, tool.NotFound, tool.DeniedPolicy, tool.DeniedSSRF, tool.DeniedApproval,
		tool.Conflict, tool.TooLarge, tool.TimedOut, tool.Cancelled, tool.Unsupported, tool.Internal, "",
	} {
		r := tool.Fail(code, "this is for the model")
		if got := Outcome(r); got == "" || strings.Contains(got, "model") || FailedOutput(r, "x") != "" {
			t.Errorf("%s: %q", code, got)
		}
	}
}
