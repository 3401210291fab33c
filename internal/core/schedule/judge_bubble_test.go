package schedule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// A model that never judges holds up the end of a heartbeat only for a while.
func TestJudgeHangs(t *testing.T) { storetest.Each(t, testJudgeHangs) }

func testJudgeHangs(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := newFake(t, open, Options{Heartbeat: Heartbeat{Judge: func(ctx context.Context, _, _ string) (bool, error) {
			<-ctx.Done()
			return true, ctx.Err()
		}}})
		start := time.Now()
		_, deliver := s.Outcome(context.WithoutCancel(t.Context()), bus.Inbound{ID: idPrefix + heartbeatID + ":1", Event: eventHeartbeat}, bus.Outbound{Kind: bus.Final, Text: "something"})
		if took := time.Since(start); deliver || took > 5*time.Minute {
			t.Errorf("delivered %v after %s", deliver, took)
		}
	})
}
