package provider

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// TestLimitsThatWereNotChosen: only what a file sets, or our setup has written,
// stops calls.
func TestLimitsThatWereNotChosen(t *testing.T) {
	t.Parallel()
	both := []string{"dailyUsd", "unpricedDailyTokens"}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a file of an older version": {`{"agents":{"defaults":{"model":"m"}}}`, both},
		"our setup":                  {string(config.NewFile()), nil},
		"one limit":                  {`{"agents":{"defaults":{"budget":{"dailyUsd":9}}}}`, both[1:]},
		"what happens":               {`{"agents":{"defaults":{"budget":{"onExceed":"stopAll"}}}}`, nil},
	} {
		if got := spendingLimits(modelsOf(t, c.text).loaded).Usual; !slices.Equal(got, c.want) {
			t.Errorf("%s: only warned at %v, want %v", name, got, c.want)
		}
	}

	l, err := config.Load(config.Options{Path: filepath.Join(t.TempDir(), "config.json"), Optional: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := spendingLimits(l).Usual; got != nil {
		t.Errorf("without a file: only warned at %v", got)
	}
}

// TestRatesAreShared: all models behind one key wait for one another.
func TestRatesAreShared(t *testing.T) {
	t.Parallel()
	m := modelsOf(t, `{"providers":{"p":{"perMinute":{"requests":3,"tokens":1000}}}}`)
	p, c := m.loaded.Config.Providers["p"], catalog.Choice{Name: "p", Base: "https://example.com"}
	one, two := httpsafe.NewSecret("one"), httpsafe.NewSecret("two")
	if a := m.limiter(c, p, one); a == nil || a != m.limiter(c, p, one) || a == m.limiter(c, p, two) {
		t.Error("a key does not have one limiter")
	}
	if l := m.limiter(c, config.Provider{}, one); l != nil {
		t.Error("a provider without a rate is limited")
	}
}
