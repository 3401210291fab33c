package turn

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// The longest unused conversation gives its messages up, and nothing else; one
// that is worked on or asked for does not.
func TestShrink(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	state := &tool.State{}
	s := newConversations(func(key string) bool { return key == "busy" }, time.Now)
	s.live = map[string]*conversation{
		"busy": {used: at, size: liveSize / 2, state: state},
		"mine": {used: at.Add(1), size: liveSize / 4, state: state},
		"old":  {used: at.Add(2), size: liveSize / 4, state: state},
		"new":  {used: at.Add(3), size: 1, state: state},
	}
	s.shrink("mine")
	if c := s.live["old"]; c.size != 0 || c.state != state || !c.used.Equal(at.Add(2)) {
		t.Errorf("old: %+v, want its messages gone and the rest kept", c)
	}
	s.shrink("mine") // there is room now
	for _, k := range []string{"busy", "mine", "new"} {
		if s.live[k].size == 0 {
			t.Errorf("%s lost its messages", k)
		}
	}
	s.dropAll()
	for k, want := range map[string]int{"busy": liveSize / 2, "mine": 0, "new": 0} {
		if c := s.live[k]; c.size != want || c.state != state {
			t.Errorf("%s: %+v, want %d messages and its state", k, c, want)
		}
	}
}
