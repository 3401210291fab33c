//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// A session nobody asks for ends by a timer, not when it is looked at.
func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Workspace: t.TempDir(), Timeout: NoTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.sessions.idle = 300 * time.Millisecond
	call := func(name string, args map[string]any) tool.Result {
		b, _ := json.Marshal(args)
		for _, tl := range s.Tools() {
			if tl.Name == name {
				r, err := tl.Run(t.Context(), tool.Call{Input: b})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
		}
		t.Fatal("no tool " + name)
		return tool.Result{}
	}
	if r := call("exec", map[string]any{"command": "read x", "yield_time_ms": 0}); !strings.Contains(r.Content.Text, "no time limit") {
		t.Errorf("got %q, want a session without a time limit", r.Content.Text)
	}
	all := s.sessions.of("")
	if len(all) != 1 {
		t.Fatalf("%d sessions, want 1", len(all))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	select {
	case <-all[0].ended:
	case <-ctx.Done():
		t.Fatal("the session goes on")
	}
	if got := all[0].cause; !errors.Is(got, errIdle) {
		t.Errorf("cause = %v, want %v", got, errIdle)
	}
}
