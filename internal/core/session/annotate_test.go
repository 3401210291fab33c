package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

func setTitle(s string) func(*Session) error {
	return func(sess *Session) error { return sess.SetMeta("title", s) }
}

// A conversation gets its title in the middle of a turn, and keeps it.
func TestAnnotate(t *testing.T) { storetest.Each(t, testAnnotate) }

func testAnnotate(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, open, dir)
	must(t, st.Annotate(t.Context(), "test:k", setTitle("before")))
	if got := title(t, st); got != "before" {
		t.Errorf("before the first message: %q", got)
	}
	s := acquire(t, st, "test:k")
	must(t, s.BeginTurn("t", user("hi")))
	must(t, st.Annotate(t.Context(), "test:k", setTitle("during")))
	if got := title(t, openStore(t, open, dir)); got != "during" {
		t.Errorf("in a turn, for somebody who reads the file: %q", got)
	}
	if s.OpenTurn() == nil {
		t.Error("the turn is not open any more")
	}
	must(t, s.EndTurn(answer("done")))
	must(t, s.Release())
	s = acquire(t, openStore(t, open, dir), "test:k")
	var got string
	if !s.Meta("title", &got) || got != "during" || s.Len() != 2 || s.OpenTurn() != nil {
		t.Errorf("afterwards: title %q, %d messages, open %v", got, s.Len(), s.OpenTurn())
	}
	must(t, s.Release())
	boom := errors.New("no")
	// What is found in a session that was let go counts for nothing.
	if err := s.annotate(func(*Session) error { return boom }); !errors.Is(err, errReleased) {
		t.Errorf("of a released session: %v", err)
	}
	if err := st.Annotate(t.Context(), "test:k", func(*Session) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("a refusal: %v", err)
	}
}

// Another process is waited for only as long as the caller does.
func TestAnnotateElsewhere(t *testing.T) { storetest.Each(t, testAnnotateElsewhere) }

func testAnnotateElsewhere(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	s := acquire(t, openStore(t, open, dir), "test:k")
	ctx, cancel := context.WithTimeout(t.Context(), annotateWait/2)
	defer cancel()
	if err := openStore(t, open, dir).Annotate(ctx, "test:k", setTitle("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another has it: %v", err)
	}
	must(t, s.Release())
}

// Owners come and go while others annotate; no change is lost.
func TestAnnotateConcurrently(t *testing.T) { storetest.Each(t, testAnnotateConcurrently) }

func testAnnotateConcurrently(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir(), func(o *Options) { o.Fsync = FsyncNever })
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 25 {
				key := fmt.Sprintf("k%d-%d", i, n)
				if err := st.Annotate(t.Context(), "test:k", func(s *Session) error { return s.SetMeta(key, true) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		s := acquire(t, st, "test:k")
		must(t, s.BeginTurn("t", user("hi")))
		must(t, s.EndTurn(answer("done")))
		must(t, s.Release())
	}
	all.Wait()
	m, err := st.Metadata(t.Context(), "test:k")
	must(t, err)
	if len(m) != 100 {
		t.Errorf("%d changes are kept, want 100", len(m))
	}
}
