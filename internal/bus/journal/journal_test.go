package journal

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/bustest"
)

func opener(open storetest.Open, o Options) bustest.Open {
	return func(tb testing.TB, dir string) (bus.Queue, func()) {
		tb.Helper()
		j, err := Open(open(tb, dir), o)
		if err != nil {
			tb.Fatal(err)
		}
		return j, func() {
			if err := j.Close(); err != nil {
				tb.Error(err)
			}
		}
	}
}

func TestQueue(t *testing.T) {
	storetest.Each(t, func(t *testing.T, open storetest.Open) { bustest.Run(t, opener(open, Options{})) })
}

// The same with a file that is rewritten all the time.
func TestQueueCompacting(t *testing.T) {
	storetest.Each(t, func(t *testing.T, open storetest.Open) { bustest.Run(t, opener(open, Options{CompactAt: 1})) })
}

func TestKill(t *testing.T) {
	t.Parallel()
	bustest.RunKill(t, opener(storetest.Disk, Options{}), "TestChild", 8)
}

func TestKillCompacting(t *testing.T) {
	t.Parallel()
	bustest.RunKill(t, opener(storetest.Disk, Options{CompactAt: 1}), "TestChildCompacting", 8)
}

func TestChild(t *testing.T) { bustest.Child(t, opener(storetest.Disk, Options{})) }

func TestChildCompacting(t *testing.T) {
	bustest.Child(t, opener(storetest.Disk, Options{CompactAt: 1}))
}

func TestRedeliver(t *testing.T) { storetest.Each(t, testRedeliver) }

func testRedeliver(t *testing.T, open storetest.Open) {
	t.Parallel()
	j, err := Open(open(t, t.TempDir()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	receive := func(want string) {
		t.Helper()
		if in, err := j.Receive(t.Context()); err != nil || in.ID != want {
			t.Fatalf("got %q, %v, want %q", in.ID, err, want)
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		if err := j.Submit(t.Context(), bus.Inbound{ID: id, Route: bus.Route{Channel: "x", ChatID: "1"}}); err != nil {
			t.Fatal(err)
		}
	}
	receive("a")
	receive("b")
	receive("c")
	if err := j.Complete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	j.Redeliver()
	receive("a")
	receive("c")
	receive("d")
}
