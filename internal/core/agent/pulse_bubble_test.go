package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A person may think for long. Their answer is a movement; a tool that hangs
// after it is found out in time.
func TestPulseAfterAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 15 * time.Minute
		free := make(chan struct{})
		slow := textTool("slow", tool.Tool{}, func(ctx context.Context, c tool.Call, s string) (tool.Result, error) {
			answer, err := c.Ask(ctx, bus.Question{Text: s, Expires: time.Now().Add(time.Hour)})
			if err == nil {
				<-free
			}
			return tool.Text(answer), err
		})
		h := newHouse(t, llmtest.NewScript(t, llmtest.Call("slow", textIn{}), llmtest.Reply("done")), slow).start()
		done := make(chan error, 1)
		go func() {
			_, err := h.talk(in("1", "do it"), func(q bus.Outbound) {
				time.Sleep(20 * time.Minute)
				if p := h.agent.Pulse(limit); p.Turns != 1 || len(p.Stuck) > 0 {
					t.Errorf("while a person thinks: %+v", p)
				}
				if _, err := h.collect(answering(q, "yes")); err != nil {
					t.Error(err)
				}
			})
			done <- err
		}()
		time.Sleep(21 * time.Minute)
		if p := h.agent.Pulse(limit); p.Turns != 1 || len(p.Stuck) > 0 {
			t.Errorf("after the answer: %+v", p)
		}
		time.Sleep(limit)
		if p := h.agent.Pulse(limit); len(p.Stuck) != 1 {
			t.Errorf("long after the answer: %+v", p)
		}
		close(free)
		if err := <-done; err != nil {
			t.Error(err)
		}
		h.stop()
	})
}
