package kit_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// shownSteps is a person who only looks.
type shownSteps []string

func (s *shownSteps) Tell(step chat.Step) { *s = append(*s, step.QR+step.Note) }

func (*shownSteps) Ask(context.Context, chat.Question) (string, error) {
	return "", errors.New("nothing is asked")
}

// Codes are shown one after the other until one is confirmed.
func TestQR(t *testing.T) {
	t.Parallel()
	noMore := errors.New("no more")
	const life = 10 * time.Second
	for name, c := range map[string]struct {
		polls []kit.Scan // one every two seconds; then nothing happens
		fails error      // instead, after the polls
		shown []string
		want  error
		took  time.Duration
	}{
		"confirmed":       {polls: []kit.Scan{kit.ScanWaits, kit.ScanConfirmed}, shown: []string{"code 0"}, took: 4 * time.Second},
		"seen first":      {polls: []kit.Scan{kit.ScanSeen, kit.ScanSeen, kit.ScanConfirmed}, shown: []string{"code 0", "confirm"}, took: 6 * time.Second},
		"expired once":    {polls: []kit.Scan{kit.ScanExpired, kit.ScanConfirmed}, shown: []string{"code 0", "code 1"}, took: 4 * time.Second},
		"seen each time":  {polls: []kit.Scan{kit.ScanSeen, kit.ScanExpired, kit.ScanSeen, kit.ScanConfirmed}, shown: []string{"code 0", "confirm", "code 1", "confirm"}, took: 8 * time.Second},
		"asked too often": {polls: []kit.Scan{kit.ScanSlower, kit.ScanConfirmed}, shown: []string{"code 0"}, took: 9 * time.Second},
		"never scanned":   {shown: []string{"code 0", "code 1"}, want: kit.ErrExpired, took: 2 * life},
		"refused":         {polls: []kit.Scan{kit.ScanWaits}, fails: noMore, shown: []string{"code 0"}, want: noMore, took: 4 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var shown shownSteps
			began := time.Now()
			q := kit.QR{Dialog: &shown, Now: time.Now, Codes: 2, Seen: "confirm"}
			polls := c.polls
			q.Show = func(_ context.Context, n int) (kit.Code, error) {
				return kit.Code{
					Step:  chat.Step{QR: "code " + strconv.Itoa(n), Expires: time.Now().Add(life)},
					Every: 2 * time.Second,
					Poll: func(context.Context) (kit.Scan, error) {
						if len(polls) == 0 {
							return kit.ScanWaits, c.fails
						}
						scan := polls[0]
						polls = polls[1:]
						return scan, nil
					},
				}, nil
			}
			if err := q.Run(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%s: the error is %v, want %v", name, err, c.want)
			}
			if d := cmp.Diff(c.shown, []string(shown)); d != "" {
				t.Errorf("%s: shown (-want +got):\n%s", name, d)
			}
			if took := time.Since(began); took != c.took {
				t.Errorf("%s: it took %s, want %s", name, took, c.took)
			}
		})
	}
}

// The person who leaves ends it at once, also while the platform is asked; what the platform
// said meanwhile does not count. A code that cannot be had is the end, too.
func TestQREnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := errors.New("it took too long")
		begin := func() context.Context {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, left)
			t.Cleanup(cancel)
			return ctx
		}
		q := kit.QR{Dialog: new(shownSteps), Now: time.Now, Codes: 1}
		q.Show = func(context.Context, int) (kit.Code, error) {
			return kit.Code{Every: time.Hour, Poll: func(context.Context) (kit.Scan, error) { return kit.ScanConfirmed, nil }}, nil
		}
		if err := q.Run(begin()); !errors.Is(err, left) {
			t.Errorf("between two questions the error is %v", err)
		}

		q.Show = func(context.Context, int) (kit.Code, error) {
			poll := func(ctx context.Context) (kit.Scan, error) {
				<-ctx.Done()
				return kit.ScanConfirmed, nil
			}
			return kit.Code{Every: time.Second, Poll: poll}, nil
		}
		if err := q.Run(begin()); !errors.Is(err, left) {
			t.Errorf("during a question the error is %v", err)
		}

		noCode := errors.New("no code")
		q.Show = func(context.Context, int) (kit.Code, error) { return kit.Code{}, noCode }
		if err := q.Run(begin()); !errors.Is(err, noCode) {
			t.Errorf("without a code the error is %v", err)
		}
	})
}

// What a platform says about times counts within reason.
func TestSeconds(t *testing.T) {
	t.Parallel()
	const usual = 3 * time.Second
	for n, want := range map[int]time.Duration{-1: usual, 0: usual, 1: time.Second, 60: time.Minute, 61: usual, 1 << 62: usual} {
		if got := kit.Seconds(n, usual, time.Minute); got != want {
			t.Errorf("%d are %s, want %s", n, got, want)
		}
	}
}
