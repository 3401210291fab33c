package daemon

import "testing"

func TestQuiet(t *testing.T) {
	t.Parallel()
	var q quiet
	for i, c := range []struct {
		now         uint64
		rest, sleep bool
	}{
		{5 << 20, true, false},          // after the start
		{5<<20 + 1000, false, false},    // nothing happened
		{9 << 20, false, false},         // at work
		{12 << 20, false, false},        // still
		{12<<20 + 1000, true, false},    // at rest
		{12<<20 + 2000, false, false},   // nothing since
		{12<<20 + 300000, false, false}, // a little
		{12<<20 + 310000, false, false}, // not worth it
		{14 << 20, false, false},        // at work
		{14<<20 + 10, true, false},
		{14<<20 + 20, false, false},
		{14<<20 + 30, false, false},
		{14<<20 + 40, false, true}, // asleep
		{14<<20 + 50, false, false},
		{14<<20 + 300000, false, false}, // a little
		{14<<20 + 300010, false, false},
		{14<<20 + 300020, false, false},
		{14<<20 + 300030, false, false},
		{14<<20 + 300040, false, false}, // nothing to let go of
		{16 << 20, false, false},        // at work
		{16<<20 + 10, true, false},
		{16<<20 + 20, false, false},
		{16<<20 + 30, false, false},
		{16<<20 + 40, false, true}, // asleep again
	} {
		rest, sleep := q.check(c.now)
		if rest != c.rest || sleep != c.sleep {
			t.Errorf("look %d: rest %v, sleep %v, want %v, %v", i, rest, sleep, c.rest, c.sleep)
		}
		if rest || sleep {
			q.released = c.now
		}
	}
	if allocated() == 0 {
		t.Error("nothing was ever allocated")
	}
}
