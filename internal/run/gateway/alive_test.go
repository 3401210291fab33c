package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// Only what a new start may mend counts as dead: ending turns because the disk
// is full would cost work again and again.
func TestAlive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s    control.Status
		want bool
	}{
		"well":                  {control.Status{Model: "m", Ready: true}, true},
		"full disk":             {control.Status{Model: "m", Queue: journal.Status{Err: fmt.Errorf("write: %w", syscall.ENOSPC)}}, true},
		"read-only disk":        {control.Status{Model: "m", Queue: journal.Status{Err: fmt.Errorf("write: %w", syscall.EROFS)}}, true},
		"disk hangs":            {control.Status{Model: "m", Queue: journal.Status{Err: errors.New("no answer")}}, false},
		"turn hangs":            {control.Status{Model: "m", Agent: agent.Pulse{Stuck: []string{"a"}}}, false},
		"turn hangs, disk full": {control.Status{Model: "m", Agent: agent.Pulse{Stuck: []string{"a"}}, Queue: journal.Status{Err: syscall.ENOSPC}}, false},
		"no agent":              {control.Status{}, false},
	} {
		if got := gateway.Alive(&c.s); got != c.want {
			t.Errorf("%s: alive = %v, want %v", name, got, c.want)
		}
	}
}

// A schedule that has not looked at its jobs for long, and a disk that is
// nearly full, are told; only the first is a reason to send nobody here.
func TestReadiness(t *testing.T) {
	t.Parallel()
	var jump atomic.Int64
	h := newHost(t, llmtest.NewScript(t))
	h.now = func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
	h.configure(strings.Replace(partyConfig, `{"agents"`, `{"api": {"apiKey": "0123456789abcdef"}, "agents"`, 1))
	h.start()
	<-h.party.joined
	a, err := h.g.Current(t.Context())
	h.must(err)
	for a.Schedule.LastCheck().IsZero() {
		<-time.After(time.Millisecond)
	}
	gateway.PretendFree(h.g, 1<<40)
	if got := h.read("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got, `{"name":"disk","ok":true,"optional":true}`) {
		t.Errorf("at first: %s", got)
	}
	gateway.PretendFree(h.g, 5<<20)
	if got := h.read("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got, "only 5 MB are free") {
		t.Errorf("with a full disk: %s", got)
	}
	// The schedule may look at its jobs just after the clock jumped, and is
	// then well again: the clock jumps until the answer comes first.
	for {
		jump.Add(int64(6 * time.Minute))
		got := h.read("/readyz")
		if !strings.Contains(got, `"status":"ready"`) && strings.Contains(got, "the schedule has not moved for 5m0s") {
			break
		}
		if jump.Load() > int64(1000*time.Minute) {
			t.Fatalf("with a schedule that hangs: %s", got)
		}
	}
	h.must(h.end())
}
