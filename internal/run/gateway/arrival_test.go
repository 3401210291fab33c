package gateway

import (
	"errors"
	"slices"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// What is said in a turn that begins while its message is still being taken is
// shown after the message, in its order, and also if the message was not taken.
func TestShownAfterItsMessage(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"taken": nil, "not taken": errors.New("the disk is full")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPublisher(deliver.NewDirectory(nil), func(bus.Inbound) string { return "k" }, func(string) {}, func() {})
			in := bus.Inbound{Route: bus.Route{Channel: "party", ChatID: "ann", MessageID: "1"}}
			var shown []string
			say := func(r bus.Route, text string) { p.afterArrival(r, func() { shown = append(shown, text) }) }
			err := p.submit(&in, func() error {
				say(in.Route, "the beginning")
				say(in.Route, "the end")
				say(bus.Route{Channel: "party", ChatID: "eve", MessageID: "1"}, "another chat")
				shown = append(shown, "the message")
				return refused
			})
			if !errors.Is(err, refused) {
				t.Errorf("got %v", err)
			}
			say(in.Route, "the next turn")
			if want := []string{"another chat", "the message", "the beginning", "the end", "the next turn"}; !slices.Equal(shown, want) {
				t.Errorf("shown: %q", shown)
			}
			if len(p.coming) > 0 {
				t.Errorf("%d messages are still coming", len(p.coming))
			}
		})
	}
}
