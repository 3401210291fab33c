package ledger_test

import (
	"math"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// Numbers that cannot be count as all that was reserved, so that a limit stops such
// calls as well, and the user is told once.
func TestUsageThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]llm.Usage{
		"negative prompt":       {Prompt: -1, Completion: 5},
		"negative answer":       {Prompt: 5, Completion: -1},
		"the least number":      {Prompt: math.MinInt, Completion: math.MinInt},
		"the largest number":    {Prompt: math.MaxInt, Completion: math.MaxInt},
		"beyond any window":     {Prompt: 5, Completion: 900_000_000},
		"negative cached":       {Prompt: 5000, Completion: 5, Cached: -1},
		"negative written":      {Prompt: 5000, Completion: 5, CacheWrite: -7},
		"absurd cached":         {Prompt: 5, Completion: 5, Cached: math.MaxInt},
		"absurd thinking":       {Prompt: 5, Completion: 5, Reasoning: math.MaxInt},
		"negative cost":         {Prompt: 5, Completion: 5, Cost: -3},
		"a cost of 1e300":       {Prompt: 5, Completion: 5, Cost: 1e300},
		"an infinite cost":      {Prompt: 5, Completion: 5, Cost: math.Inf(1)},
		"less than nothing":     {Prompt: 5, Completion: 5, Cost: math.Inf(-1)},
		"a cost of no number":   {Prompt: 5, Completion: 5, Cost: math.NaN()},
		"nothing, at a bad sum": {Cost: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, onDisk, ledger.Limits{DailyUSD: 0.05})
			m := s.meter(answering(u))
			var notices, stopped int
			for range 200 {
				err := collect(t, m, &notices)
				if err != nil {
					stopped++
				}
			}
			got := s.today()
			if stopped == 0 || got.USD <= 0 || got.USD > 0.05 || got.Tokens <= 0 {
				t.Errorf("%d calls were stopped; today %+v", stopped, got)
			}
			if notices != 1 {
				t.Errorf("%d notices, want 1", notices)
			}
			for _, e := range s.log() {
				if e.Prompt < 0 || e.Completion < 0 || e.USD <= 0 || e.USD > 0.05 {
					t.Errorf("recorded: %+v", e)
				}
			}
		})
	}
}

func collect(t *testing.T, m llm.Model, notices *int) error {
	t.Helper()
	var resp *llm.Response
	for ev, err := range m.Stream(t.Context(), llm.Request{Model: "m", MaxTokens: 1000, System: "be kind"}) {
		switch {
		case err != nil:
			return err
		case ev.Kind == llm.Waiting && strings.Contains(ev.Text, "cannot be"):
			*notices++
		case ev.Kind == llm.Done:
			resp = ev.Response
		}
	}
	if u := resp.Usage; u.Prompt < 0 || u.Completion < 0 || u.Prompt > 1e8 || u.Completion > 1e8 {
		t.Errorf("the turn is told %+v", u)
	}
	return nil
}

// A provider that bills more than its estimate is reserved for at what it bills.
func TestBillsAboveTheEstimate(t *testing.T) {
	t.Parallel()
	s := newShop(t, onDisk, ledger.Limits{DailyUSD: 0.5})
	m := s.meter(answering(llm.Usage{Prompt: 100, Completion: 100, Cost: 0.1}))
	var notices int
	for range 24 {
		_ = collect(t, m, &notices)
	}
	if got := s.today(); got.USD > 0.5 || got.Calls < 2 {
		t.Errorf("%d calls for $%v, the limit is $0.5", got.Calls, got.USD)
	}
}
