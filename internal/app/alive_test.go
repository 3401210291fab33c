package app_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
)

// Only what a new start may mend counts as dead: ending turns because the disk
// is full would cost work again and again.
func TestAlive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s    app.GatewayStatus
		want bool
	}{
		"well":                  {app.GatewayStatus{Model: "m", Ready: true}, true},
		"full disk":             {app.GatewayStatus{Model: "m", Queue: journal.Status{Err: fmt.Errorf("write: %w", syscall.ENOSPC)}}, true},
		"read-only disk":        {app.GatewayStatus{Model: "m", Queue: journal.Status{Err: fmt.Errorf("write: %w", syscall.EROFS)}}, true},
		"disk hangs":            {app.GatewayStatus{Model: "m", Queue: journal.Status{Err: errors.New("no answer")}}, false},
		"turn hangs":            {app.GatewayStatus{Model: "m", Agent: agent.Pulse{Stuck: []string{"a"}}}, false},
		"turn hangs, disk full": {app.GatewayStatus{Model: "m", Agent: agent.Pulse{Stuck: []string{"a"}}, Queue: journal.Status{Err: syscall.ENOSPC}}, false},
		"no agent":              {app.GatewayStatus{}, false},
	} {
		if got := c.s.Alive(); got != c.want {
			t.Errorf("%s: alive = %v, want %v", name, got, c.want)
		}
	}
}
