package daemon

import "testing"

func TestQuiet(t *testing.T) {
	t.Parallel()
	var q quiet
	for i, c := range []struct {
		now  uint64
		want bool
	}{
		{5 << 20, true},          // after the start
		{5<<20 + 1000, false},    // nothing happened
		{9 << 20, false},         // at work
		{12 << 20, false},        // still
		{12<<20 + 1000, true},    // at rest
		{12<<20 + 2000, false},   // nothing since
		{12<<20 + 300000, false}, // a little
		{12<<20 + 310000, false}, // not worth it
		{14 << 20, false},        // at work
		{14<<20 + 10, true},
	} {
		if got := q.look(c.now); got != c.want {
			t.Errorf("look %d: %v, want %v", i, got, c.want)
		} else if got {
			q.released = c.now
		}
	}
	if allocated() == 0 {
		t.Error("nothing was ever allocated")
	}
}
