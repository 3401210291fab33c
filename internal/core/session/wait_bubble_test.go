package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

func TestAcquireGivesUpAfterLockWait(t *testing.T) {
	storetest.Each(t, testAcquireGivesUpAfterLockWait)
}

func testAcquireGivesUpAfterLockWait(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t, open, dir, func(o *Options) { o.LockWait = 30 * time.Second })
		other := store.Under(open(t, st.opt.DataDir), dirRoot, st.place.ID) // as another process has it
		release, err := other.Lock(t.Context(), "aw")
		must(t, err)
		begun := time.Now()
		told := 0
		_, err = st.AcquireTelling(t.Context(), "k", func(*BusyError) {
			told++
			if waited := time.Since(begun); waited < time.Second || waited > 2*time.Second {
				t.Errorf("told after %v", waited)
			}
		})
		if told != 1 {
			t.Errorf("told %d times, want once", told)
		}
		if _, ok := errors.AsType[*BusyError](err); !ok {
			t.Errorf("got %v, want a BusyError", err)
		}
		if waited := time.Since(begun); waited != 30*time.Second {
			t.Errorf("waited %v, want 30 s", waited)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := st.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}

		got := make(chan *Session)
		go func() {
			s, err := st.Acquire(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		time.Sleep(time.Second)
		begun = time.Now()
		must(t, release())
		s := <-got
		if waited := time.Since(begun); waited > 50*time.Millisecond {
			t.Errorf("noticed the free lock after %v", waited)
		}
		must(t, s.Release())
	})
}
