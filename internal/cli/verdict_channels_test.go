package cli

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// A channel of which a check failed does not work, whoever it is on the platform.
func TestFailedChecks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		checks []chat.Check
		want   string // the error
		says   string
	}{
		"well": {[]chat.Check{{Name: "token", OK: true}}, "", "works as @bot"},
		"one":  {[]chat.Check{{Name: "token", OK: true}, {Name: "scopes"}}, "the check scopes failed", "does not work yet"},
		"two":  {[]chat.Check{{Name: "events"}, {Name: "scopes"}}, "the checks events, scopes failed", "does not work yet"},
	} {
		r := chat.Report{Identity: "@bot", Checks: c.checks}
		got := ""
		if err := failedChecks(r); err != nil {
			got = err.Error()
		}
		out := newPrinted(t)
		call := newProgram(Stdio{Out: out.File}, "", "")
		(&channelAccounts{call.console, call.home}).printReport("slack", r)
		if got != c.want || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %q, %q", name, got, out.String())
		}
	}
}
