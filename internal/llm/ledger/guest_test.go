package ledger_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// till is a ledger of $10 a day, and a model whose every call costs about a dollar.
type till struct {
	t     *testing.T
	l     *ledger.Ledger
	model llm.Model
}

func newTill(t *testing.T, open storetest.Open, dir string, lim ledger.Limits) *till {
	t.Helper()
	var kept store.Store // without a folder in memory only
	if dir != "" {
		kept = open(t, dir)
	}
	l := ledger.New(ledger.Options{Store: kept, Limits: lim, Location: time.UTC, Now: func() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }})
	t.Cleanup(func() { _ = l.Close() })
	m := llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			yield(llm.Event{Kind: llm.Done, Response: &llm.Response{
				Message: llm.Message{Role: llm.Assistant, Content: llm.Text("x")}, Finish: llm.FinishStop, Usage: llm.Usage{Prompt: 1000, Completion: 1000, Cost: 0.25},
			}}, nil)
		}
	})
	return &till{t, l, ledger.Meter(m, ledger.MeterOptions{Ledger: l, Provider: "test"})}
}

func (b *till) spend(source string) (err error) {
	b.t.Helper()
	_, err = llm.Collect(b.t.Context(), b.model, llm.Request{Model: "priceless", Source: source, Estimate: 1000, MaxTokens: 1000})
	return err
}

// until spends, at most 100 times, until a limit says no and returns how often it worked, and why not.
func (b *till) until(source string) (n int, why string) {
	b.t.Helper()
	for ; n < 100; n++ {
		if err := b.spend(source); err != nil {
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Kind != llm.BudgetExceeded {
				b.t.Fatal(err)
			}
			return n, e.Message
		}
	}
	return n, ""
}

func guestLimits() ledger.Limits {
	return ledger.Limits{DailyUSD: 10, MonthlyUSD: 12, GuestShare: 0.2, PerGuestShare: 0.1}
}

// One guest gets a tenth, all of them a fifth, and the owner has the whole day.
func TestGuestsHaveAShare(t *testing.T) { storetest.Each(t, testGuestsHaveAShare) }

func testGuestsHaveAShare(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir := t.TempDir()
	b := newTill(t, open, dir, guestLimits())
	if err := b.spend("user"); err != nil { // the price is known from now on
		t.Fatal(err)
	}
	one, why := b.until(llm.GuestSource("a"))
	if one < 2 || one > 4 {
		t.Errorf("one guest made %d calls of $0.25 with a share of $1", one)
	}
	if !strings.Contains(why, "guests") || strings.Contains(why, "$") || strings.Contains(why, "config") {
		t.Errorf("a guest reads: %s", why)
	}
	// Another process counts the same.
	b = newTill(t, open, dir, guestLimits())
	if err := b.spend("user"); err != nil {
		t.Fatal(err)
	}
	if n, _ := b.until(llm.GuestSource("a")); n > 0 {
		t.Errorf("after a new start the guest made %d calls more", n)
	}
	all := one
	for _, name := range []string{"b", "c", "d", "e"} {
		n, _ := b.until(llm.GuestSource(name))
		all += n
	}
	if all < 5 || all > 8 {
		t.Errorf("all guests made %d calls of $0.25 with a share of $2", all)
	}
	if n, why := b.until("user"); n < 36 || n > 40 {
		t.Errorf("the owner made %d calls of $0.25 of $10 after the guests: %s", n, why)
	}
	if n, _ := b.until(llm.GuestSource("f")); n > 0 {
		t.Error("a guest goes on when the day is used up")
	}
}

// The month is the owner's as well, and an older checkpoint is summed up again.
func TestGuestsDoNotUseUpTheMonth(t *testing.T) { storetest.Each(t, testGuestsDoNotUseUpTheMonth) }

func testGuestsDoNotUseUpTheMonth(t *testing.T, open storetest.Open) {
	t.Parallel()
	b := newTill(t, open, t.TempDir(), ledger.Limits{MonthlyUSD: 2, GuestShare: 0.2, PerGuestShare: 0.1})
	if err := b.spend("user"); err != nil {
		t.Fatal(err)
	}
	guests, _ := b.until(llm.GuestSource("a")) // no limit of a day: the common one of the month holds
	if guests > 7 {
		t.Errorf("guests made %d calls of $0.25 with $2 a month", guests)
	}
	if n, why := b.until("user"); n < 5 {
		t.Errorf("the owner made %d calls of $0.25 of $2 after the guests: %s", n, why)
	}
}

// Guests are stopped although the owner only wants warnings for themselves, and
// never hear about the owner's money.
func TestGuestsAreStoppedAlways(t *testing.T) { storetest.Each(t, testGuestsAreStoppedAlways) }

func testGuestsAreStoppedAlways(t *testing.T, open storetest.Open) {
	t.Parallel()
	lim := guestLimits()
	lim.OnExceed, lim.WarnAt = ledger.Warn, []float64{0.01}
	b := newTill(t, open, "", lim)
	if err := b.spend("user"); err != nil {
		t.Fatal(err)
	}
	for ev, err := range b.model.Stream(t.Context(), llm.Request{Model: "priceless", Source: llm.GuestSource("a"), Estimate: 1000, MaxTokens: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == llm.Waiting {
			t.Errorf("a guest hears: %s", ev.Text)
		}
	}
	if n, _ := b.until(llm.GuestSource("a")); n > 3 {
		t.Errorf("%d calls", n)
	}
}

// Many at once do not get more than their share.
func TestGuestsAtOnce(t *testing.T) { storetest.Each(t, testGuestsAtOnce) }

func testGuestsAtOnce(t *testing.T, open storetest.Open) {
	t.Parallel()
	b := newTill(t, open, "", guestLimits())
	if err := b.spend("user"); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 40 {
		work.Go(func() {
			source := llm.GuestSource(string(rune('a' + i%8)))
			_, err := llm.Collect(t.Context(), b.model, llm.Request{Model: "priceless", Source: source, Estimate: 1000, MaxTokens: 1000})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			}
		})
	}
	work.Wait()
	if done > 8 {
		t.Errorf("%d calls of $0.25 with a share of $2", done)
	}
}
