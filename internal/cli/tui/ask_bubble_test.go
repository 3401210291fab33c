package tui

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// What the model sends on purpose and what a turn asks are shown, and the
// person is told that the turn waits.
func TestChatMessageAndQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Banner: Banner{Name: "nanobot"}}, func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			if in.Answer != nil {
				return
			}
			yield(bus.Outbound{Kind: bus.Message, Text: "a file for you", Media: []bus.Media{{Path: "plot.png"}}}, nil)
			yield(bus.Outbound{Kind: bus.Ask, Text: "May I?\n\n    | rm x", Question: &bus.Question{ID: "q", Options: []string{"yes", "no"}}}, nil)
			pause(ctx, 5*time.Second)
			yield(bus.Outbound{Kind: bus.Final, Turn: &bus.Turn{ID: "t"}}, nil)
		})
		s.press("go\r")
		s.wait(time.Second)
		seen := s.vt.text(t)
		for _, want := range []string{"a file for you", "+ plot.png", "? May I?", "| rm x", "yes / no", "waiting for your answer"} {
			if !strings.Contains(seen, want) {
				t.Errorf("%q is not on the screen:\n%s", want, seen)
			}
		}
		if !s.asked[0].Interactive {
			t.Error("the chat does not say that somebody can answer")
		}
		s.wantText("Answer: ▮")
		s.press("yes")
		s.press("\r")
		if got := s.answers(); len(got) != 1 || got[0] != "q=yes" {
			t.Errorf("answers %q", got)
		}
		s.wait(10 * time.Second)
		s.press("\x04")
		s.wantLeft()
	})
}
