package gateway

import (
	"context"
	"slices"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// Menus offer what people know from the older program, also what channels
// answer without the agent.
func TestMenuOfChannels(t *testing.T) {
	t.Parallel()
	all := menu(app.Commands(app.Options{Link: app.Link{Submit: func(context.Context, bus.Inbound) error { return nil }}}))
	for _, name := range []string{"new", "stop", "restart", "status", "dream", "dream-log", "dream-restore", "help", "history", "goal", "trigger", "pairing", "model", "skill"} {
		if !slices.ContainsFunc(all, func(c chat.Command) bool { return c.Name == name && c.About != "" }) {
			t.Errorf("/%s is not in the menu", name)
		}
	}
	if i := slices.IndexFunc(all, func(c chat.Command) bool { return c.Name == "goal" }); all[i].Args != "[text|stop]" {
		t.Errorf("/goal takes %q, want the hint of the command table", all[i].Args)
	}
}
