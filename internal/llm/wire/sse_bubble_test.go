package wire_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// blockingBody gives one byte each time it is fed and otherwise waits for the
// end of the context, like a response body.
type blockingBody struct {
	ctx  context.Context //nolint:containedctx // a response body knows its request
	feed chan byte
}

func (b *blockingBody) Read(p []byte) (int, error) {
	select {
	case c, ok := <-b.feed:
		if !ok {
			return 0, io.EOF
		}
		p[0] = c
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (b *blockingBody) Close() error { return nil }

func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, idle := wire.WatchIdle(t.Context(), time.Minute, 10*time.Second)
		defer idle.Stop()
		time.Sleep(50 * time.Second) // headers may take up to a minute
		b := &blockingBody{ctx: ctx, feed: make(chan byte)}
		body := idle.Body(ctx, b)
		go func() {
			for range 5 {
				time.Sleep(9 * time.Second)
				b.feed <- ':'
			}
		}()
		start := time.Now()
		data, err := io.ReadAll(body)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || e.Kind != llm.Timeout || len(data) != 5 {
			t.Errorf("read %q, %v; want 5 bytes and a timeout", data, err)
		}
		if got := time.Since(start); got != 55*time.Second {
			t.Errorf("fired after %s, want 10s after the last byte", got)
		}
	})
}

func TestIdleFirstByte(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, idle := wire.WatchIdle(t.Context(), time.Minute, 10*time.Second)
		defer idle.Stop()
		start := time.Now()
		<-ctx.Done()
		if got := time.Since(start); got != time.Minute {
			t.Errorf("gave up on the first byte after %s, want 1m", got)
		}
		err := wire.Classifier{Provider: "p"}.Transport(ctx, ctx.Err())
		if e := llm.AsError(err); e.Kind != llm.Timeout || e.Provider != "p" {
			t.Errorf("error = %+v, want a timeout of p", e)
		}
	})
}

func TestIdleUnlimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, idle := wire.WatchIdle(t.Context(), 0, 0)
		time.Sleep(24 * time.Hour)
		idle.Alive()
		if ctx.Err() != nil {
			t.Error("ended without a limit")
		}
		idle.Stop()
		if ctx.Err() == nil {
			t.Error("Stop does not end the context")
		}
	})
}

func TestIdleDrainIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, idle := wire.WatchIdle(t.Context(), time.Minute, time.Minute)
		defer idle.Stop()
		start := time.Now()
		idle.Drain(idle.Body(ctx, &blockingBody{ctx: ctx}))
		if got := time.Since(start); got > 100*time.Millisecond {
			t.Errorf("drained for %s", got)
		}
	})
}

func TestTransportPassesCancellation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (wire.Classifier{}).Transport(ctx, io.ErrUnexpectedEOF); err != context.Canceled { //nolint:errorlint // untouched means identical
		t.Errorf("error = %v, want context.Canceled itself", err)
	}
}
