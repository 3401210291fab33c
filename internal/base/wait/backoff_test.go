package wait_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := wait.Backoff{Least: time.Second, Most: 5 * time.Second}
	var got []time.Duration
	if !b.Fresh() {
		t.Error("a new one is not fresh")
	}
	for range 5 {
		got = append(got, b.Next()/time.Second)
	}
	if b.Fresh() {
		t.Error("fresh after a failure")
	}
	b.Reset()
	if !b.Fresh() {
		t.Error("not fresh after a success")
	}
	got = append(got, b.Next()/time.Second)
	if want := []time.Duration{1, 2, 4, 5, 5, 1}; !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
	if b.Most = 1500 * time.Millisecond; b.Next() != b.Most {
		t.Error("a lower bound does not count at once")
	}
	if b = (wait.Backoff{Least: time.Second, Most: time.Millisecond}); b.Next() != time.Millisecond {
		t.Error("the bound is less than the shortest pause, and does not count")
	}
}

func TestBackoffSpreads(t *testing.T) {
	t.Parallel()
	b := wait.Backoff{Least: time.Second, Most: time.Second, Spread: 0.2}
	seen := map[time.Duration]bool{}
	for range 100 {
		d := b.Next()
		if d < 800*time.Millisecond || d > 1200*time.Millisecond {
			t.Fatalf("a pause of %s", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different pauses of 100", len(seen))
	}
}
