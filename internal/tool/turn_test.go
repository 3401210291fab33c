package tool_test

import (
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
)

func TestTurn(t *testing.T) {
	t.Parallel()
	var none *tool.Turn
	none.AfterEnd(func() { t.Error("a turn that never ends has ended") })

	var turn tool.Turn
	var n atomic.Int32
	for range 3 {
		turn.AfterEnd(func() { n.Add(1) })
	}
	if n.Load() != 0 {
		t.Error("called before the end")
	}
	turn.End()
	if n.Load() != 3 {
		t.Errorf("%d of 3 were called", n.Load())
	}
	turn.AfterEnd(func() { n.Add(1) })
	turn.End()
	if n.Load() != 4 {
		t.Errorf("%d of 4 were called", n.Load())
	}
}
