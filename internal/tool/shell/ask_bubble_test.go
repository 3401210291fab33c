package shell

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// The time of a command stands still while a person is asked, and goes on where
// it was.
func TestClockStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := tool.Call{Ask: func(context.Context, bus.Question) (string, error) {
			time.Sleep(time.Hour)
			return "yes", nil
		}}
		a := newAsking(t.Context(), &c)
		defer a.close()
		l := launch{limit: time.Minute, clock: &a.clock}
		ctx, cancel := l.bounded(t.Context())
		defer cancel()
		time.Sleep(40 * time.Second)
		if got, err := c.Ask(ctx, bus.Question{}); got != "yes" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if ctx.Err() != nil {
			t.Fatal("the command was ended while a person was asked")
		}
		began := time.Now()
		<-ctx.Done()
		if took := time.Since(began); took != 20*time.Second || !errors.Is(context.Cause(ctx), errTimeLimit) {
			t.Errorf("it ended after %v: %v", took, context.Cause(ctx))
		}
	})
}

// Nothing is asked through a call that is over: a command in the background
// has nobody to ask.
func TestCallsThatAreOverAskNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := tool.Call{Ask: func(ctx context.Context, _ bus.Question) (string, error) {
			asked++
			<-ctx.Done()
			return "", context.Cause(ctx)
		}}
		a := newAsking(t.Context(), &c)
		result := make(chan error, 1)
		go func() {
			_, err := c.Ask(t.Context(), bus.Question{})
			result <- err
		}()
		synctest.Wait()
		a.close()
		if err := <-result; err == nil {
			t.Error("an open question was answered by nobody")
		}
		if _, err := c.Ask(t.Context(), bus.Question{}); !errors.Is(err, tool.ErrNoAnswer) || asked != 1 {
			t.Errorf("%v, asked %d times", err, asked)
		}
		none := tool.Call{}
		newAsking(t.Context(), &none).close()
		if none.Ask != nil {
			t.Error("a call that cannot ask can now")
		}
	})
}
