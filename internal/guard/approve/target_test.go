package approve_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/guard/approve"
)

// TestAllowedTargets: only the chats that the user listed are written to without a
// question.
func TestAllowedTargets(t *testing.T) {
	t.Parallel()
	const here = "slack"
	b := newBench(t, approve.Options{Mode: approve.Auto, Targets: []string{"telegram:-100123", here + ":7"}})
	b.call.Route.Channel, b.call.Route.ChatID = here, "1"
	for _, c := range []struct {
		args args
		want string
	}{
		{args{"content": "x"}, "allowed"},
		{args{"content": "x", "channel": "telegram", "chat_id": "-100123"}, "allowed"},
		{args{"content": "x", "chat_id": "7"}, "allowed"},
		{args{"content": "x", "channel": "telegram", "chat_id": "7"}, "denied_approval asked"},
		{args{"content": "x", "chat_id": "-100123"}, "denied_approval asked"},
		{args{"content": "x", "channel": "telegram", "chat_id": "-100123", "thread_id": "5"}, "denied_approval asked"},
		{args{"content": "x", "channel": "telegram", "chat_id": "-100123", "session_key": "cli:x"}, "denied_approval asked"},
	} {
		var answers []string
		if c.want != "allowed" {
			answers = []string{"no"}
		}
		if got := b.check(sendTool, c.args, answers...); got != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
}
