package wire_test

import (
	"errors"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// TestStreamed: an exchange is made again only for an error before its first event.
func TestStreamed(t *testing.T) {
	t.Parallel()
	refused, other := &llm.Error{Kind: llm.UnsupportedParam}, errors.New("other")
	thrice := func(before int, _ *llm.Error) bool { return before < 2 }
	for _, c := range []struct {
		name   string
		emits  bool // one event comes before the error
		err    error
		again  func(before int, e *llm.Error) bool
		leave  bool // with the first event
		want   int  // exchanges
		passed bool // the error reaches the consumer
	}{
		{"no error", true, nil, thrice, false, 1, false},
		{"again", false, refused, thrice, false, 3, true},
		{"after an event", true, refused, thrice, false, 1, true},
		{"not of a server", false, other, thrice, false, 1, true},
		{"never", false, refused, nil, false, 1, true},
		{"consumer leaves", true, refused, nil, true, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			made := 0
			var got error
			for _, err := range wire.Streamed(func(emit func(llm.Event) error) error {
				made++
				if c.emits {
					if err := emit(llm.Event{Kind: llm.TextDelta}); err != nil {
						return err
					}
				}
				return c.err
			}, c.again) {
				if got = err; c.leave {
					break
				}
			}
			if made != c.want || errors.Is(got, c.err) != (c.passed || c.err == nil) {
				t.Errorf("%d exchanges, error %v; want %d", made, got, c.want)
			}
		})
	}
}
