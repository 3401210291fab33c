package kit_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// A token is fetched when there is none, early before its end, after it was refused and
// after it was forgotten, and not otherwise.
func TestTokens(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 9, 0, 0, 0, time.UTC)
	fetched := 0
	tokens := kit.NewTokens(func() time.Time { return now }, time.Minute, func(context.Context) (string, time.Duration, error) {
		fetched++
		return strconv.Itoa(fetched), time.Hour, nil
	})
	get := func(refused, want, why string) {
		t.Helper()
		if got, err := tokens.Get(t.Context(), refused); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", why, got, err, want)
		}
	}
	get("", "1", "at first")
	now = now.Add(58 * time.Minute)
	get("", "1", "while it is good")
	now = now.Add(2 * time.Minute)
	get("", "2", "early before its end")
	get("1", "2", "an old one was refused")
	get("2", "3", "this one was refused")
	tokens.Forget()
	get("", "4", "after it was forgotten")
}

// A token whose life is shorter than the time before its end serves one call at least.
func TestTokensShort(t *testing.T) {
	t.Parallel()
	fetched := 0
	now := time.Now()
	tokens := kit.NewTokens(func() time.Time { return now }, time.Minute, func(context.Context) (string, time.Duration, error) {
		fetched++
		return "t", time.Second, nil
	})
	for range 2 {
		if _, err := tokens.Get(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if fetched != 1 {
		t.Errorf("%d tokens were fetched", fetched)
	}
}

// One request is enough for all who wait, and one that failed is made again.
func TestTokensShared(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	fetched := 0
	failed := errors.New("no network")
	begun := make(chan struct{})
	tokens := kit.NewTokens(time.Now, time.Minute, func(context.Context) (string, time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		fetched++
		if fetched == 1 {
			return "", 0, failed
		}
		<-begun
		return "t", time.Hour, nil
	})
	if _, err := tokens.Get(t.Context(), ""); !errors.Is(err, failed) {
		t.Errorf("the first error is %v", err)
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if got, err := tokens.Get(t.Context(), ""); got != "t" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	close(begun)
	wg.Wait()
	if fetched != 2 {
		t.Errorf("%d requests were made", fetched)
	}
}
