package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// What is said in answer to a message tells times in the zone of the configuration,
// whether a command is answered beside a turn or in its place.
func TestTimesOfThePerson(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 4, 22, 30, 0, 0, time.UTC)
	h := newHouse(t, llmtest.NewScript(t))
	h.opts.Location = time.FixedZone("JST", 9*3600)
	say := func(ctx context.Context, _ *agent.Call) (agent.Reply, error) {
		return agent.Say(phrase.Moment(ctx, at)), nil
	}
	h.opts.Commands = append(h.opts.Commands, agent.Command{Name: "when", Run: say}, agent.Command{Name: "soon", Run: say, DuringTurn: true})
	h.start()
	for _, command := range []string{"/when", "/soon"} {
		if got := h.ask(in("1", command)); got != "2026-05-05 07:30" {
			t.Errorf("%s answers %q, want the time in Tokyo", command, got)
		}
	}
}
