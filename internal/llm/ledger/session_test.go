package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

func inSession(key string) llm.Request {
	return llm.Request{Model: "m", Messages: user("hi"), MaxTokens: 300, SessionKey: key, TurnID: key + "-turn"}
}

// TestConversationHasALimit: one conversation cannot spend the day's budget of all.
func TestConversationHasALimit(t *testing.T) {
	t.Parallel()
	limits := ledger.Limits{PerSession: ledger.SourceLimits{DailyTokens: 2000}}
	s := newShop(t, storetest.Disk, limits)
	m := s.meter(answering(usage(1900, 50)))
	if _, err := run(t.Context(), m, inSession("cli:a")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := run(t.Context(), m, inSession("cli:a"))
		budgetError(t, err, "this conversation's daily budget of 2.0k tokens", "nanobot config set agents.defaults.budget.perSession.dailyTokens 4000")
		s.Ledger = s.open(limits) // another process knows
		m = s.meter(answering(usage(1900, 50)))
	}
	if _, err := run(t.Context(), m, inSession("cli:b")); err != nil {
		t.Errorf("another conversation: %v", err)
	}
	s.clock.add(24 * time.Hour)
	if _, err := run(t.Context(), m, inSession("cli:a")); err != nil {
		t.Errorf("the next day: %v", err)
	}
}

// TestConversationLimitIsNew: what was spent before the limit was set counts.
func TestConversationLimitIsNew(t *testing.T) {
	t.Parallel()
	s := newShop(t, storetest.Disk, ledger.Limits{})
	if _, err := run(t.Context(), s.meter(answering(usage(5000, 100))), inSession("cli:a")); err != nil {
		t.Fatal(err)
	}
	s.SetLimits(ledger.Limits{PerSession: ledger.SourceLimits{DailyUSD: 0.001}})
	_, err := run(t.Context(), s.meter(answering(usage(1, 1))), inSession("cli:a"))
	budgetError(t, err, "perSession.dailyUsd")
	if got := s.today().Calls; got != 1 {
		t.Errorf("%d calls are counted today, want 1", got)
	}
}

// TestUsualLimitOnlyWarns: a limit that the user did not choose warns once a day.
func TestUsualLimitOnlyWarns(t *testing.T) {
	t.Parallel()
	s := newShop(t, storetest.Disk, ledger.Limits{DailyUSD: 0.01, WarnAt: []float64{0.8}, Usual: []string{"dailyUsd"}})
	m := s.meter(answering(usage(9000, 10)))
	var notices []string
	for range 4 {
		told, err := run(t.Context(), m, inSession("cli:a"))
		if err != nil {
			t.Fatal(err)
		}
		notices = append(notices, told...)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "nanobot config set agents.defaults.budget.dailyUsd 0.01") {
		t.Errorf("told %q, want one notice that says how to set the limit", notices)
	}

	s.clock.add(24 * time.Hour)
	for range 2 {
		told, err := run(t.Context(), m, inSession("cli:a"))
		if err != nil {
			t.Fatal(err)
		}
		notices = append(notices, told...)
	}
	if len(notices) != 2 {
		t.Errorf("on the next day %d notices, want 1", len(notices)-1)
	}
}
