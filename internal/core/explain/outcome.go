package explain

import (
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// Outcome says for people how a tool call ended, in a few words. The text of
// the result is for the model, which is told what to do next.
func Outcome(r tool.Result) string {
	switch {
	case r.IsError:
		return failure(r.Code)
	case r.Exit != nil:
		return fmt.Sprintf("exit %d", *r.Exit)
	}

	if n := strings.Count(strings.TrimSpace(r.Content.String()), "\n") + 1; n > 1 {
		return fmt.Sprintf("%d lines", n)
	}
	return ""
}

func failure(code tool.Code) string {
	switch code {
	case tool.InvalidArgs, tool.UnknownTool:
		return "not understood"
	case tool.NotFound:
		return "not found"
	case tool.DeniedPolicy:
		return "not allowed"
	case tool.DeniedSSRF:
		return "address not allowed"
	case tool.DeniedApproval:
		return "not approved"
	case tool.Conflict:
		return "does not fit the present content"
	case tool.TooLarge:
		return "too large"
	case tool.TimedOut:
		return "timed out"
	case tool.Cancelled:
		return "stopped"
	case tool.Unsupported:
		return "not supported"
	}
	return "failed"
}

// FailedOutput returns the end of what a command printed before it failed; said is
// the text of its result, without secrets.
func FailedOutput(r tool.Result, said string) string {
	const most = 8 // lines
	if r.IsError || r.Exit == nil || *r.Exit == 0 {
		return ""
	}
	if i := strings.LastIndex(said, "Exit code: "); i >= 0 {
		said = said[:i]
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
