package journal

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/bustest"
)

func opener(o Options) bustest.Open {
	return func(tb testing.TB, dir string) (bus.Queue, func()) {
		tb.Helper()
		j, err := Open(dir, o)
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

func TestQueue(t *testing.T) { t.Parallel(); bustest.Run(t, opener(Options{})) }

// The same with a file that is rewritten all the time.
func TestQueueCompacting(t *testing.T) { t.Parallel(); bustest.Run(t, opener(Options{CompactAt: 1})) }

func TestKill(t *testing.T) { t.Parallel(); bustest.RunKill(t, opener(Options{}), "TestChild", 8) }

func TestKillCompacting(t *testing.T) {
	t.Parallel()
	bustest.RunKill(t, opener(Options{CompactAt: 1}), "TestChildCompacting", 8)
}

func TestChild(t *testing.T) { bustest.Child(t, opener(Options{})) }

func TestChildCompacting(t *testing.T) { bustest.Child(t, opener(Options{CompactAt: 1})) }
