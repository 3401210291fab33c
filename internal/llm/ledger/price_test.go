package ledger_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

func TestPriceLookup(t *testing.T) {
	t.Parallel()
	own := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(own, []byte(`{"asOf":"2026-10","rates":{"XAU":2000,"CNY":0.14},"prices":[
		{"model":"house-*","in":1,"out":2},
		{"model":"house-big*","in":3,"out":4},
		{"model":"house-big","in":5,"out":6},
		{"model":"house-*","provider":"here","in":7,"out":8},
		{"model":"gpt-4o*","in":9,"out":9},
		{"model":"yuan","in":10,"out":20,"currency":"cny"},
		{"model":"gold","in":1,"out":1,"currency":"XAU"},
		{"model":"plan-*","billing":"subscription"},
		{"model":"mine","billing":"free"}
	]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := ledger.NewPrices(own, nil)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, provider, model string
		billing               ledger.Billing
		in                    float64
	}{
		{"our table", "anthropic", "claude-sonnet-4-5-20250929", ledger.Priced, 3},
		{"a dot for a dash, behind a folder", "openrouter", "anthropic/claude-opus-4.5", ledger.Priced, 5},
		{"an older one is dearer", "anthropic", "claude-opus-4-1-20250805", ledger.Priced, 15},
		{"an older one by its date", "anthropic", "claude-opus-4-20250514", ledger.Priced, 15},
		{"a region and a version around it", "bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", ledger.Priced, 3},
		{"capitals", "openai", "GPT-5-Mini", ledger.Priced, 0.25},
		{"the longer pattern", "openai", "gpt-4.1-mini-2025-04-14", ledger.Priced, 0.4},
		{"a dated version", "openai", "gpt-4.1-2025-04-14", ledger.Priced, 2},
		{"a future version is not guessed", "openai", "gpt-5.9", ledger.Unknown, 0},
		{"nobody's model", "custom", "frobnicator-7b", ledger.Unknown, 0},
		{"an empty name", "custom", "", ledger.Unknown, 0},
		{"only for one provider", "groq", "llama-3.3-70b-versatile", ledger.Priced, 0.59},
		{"not for another one", "custom", "llama-3.3-70b-versatile", ledger.Unknown, 0},
		{"free tag", "openrouter", "deepseek/deepseek-r1:free", ledger.Priced, 0},
		{"another tag", "openrouter", "deepseek/deepseek-r1:nitro", ledger.Priced, 0.55},
		{"own pattern", "custom", "house-small", ledger.Priced, 1},
		{"own longer pattern", "custom", "house-bigger", ledger.Priced, 3},
		{"own exact name", "custom", "house-big", ledger.Priced, 5},
		{"own row of the provider", "here", "house-big", ledger.Priced, 7},
		{"own pattern before our exact name", "openai", "gpt-4o", ledger.Priced, 9},
		{"other currency", "custom", "yuan", ledger.Priced, 10},
		{"flat fee", "custom", "plan-b", ledger.Subscription, 0},
		{"free", "custom", "mine", ledger.Free, 0},
	} {
		got := p.Lookup(c.provider, c.model)
		if got.Billing != c.billing || got.In != c.in {
			t.Errorf("%s: Lookup(%s, %s) = %s %v, want %s %v", c.name, c.provider, c.model, got.Billing, got.In, c.billing, c.in)
		}
	}
	if got := p.Lookup("custom", "house-big"); !got.Own || got.AsOf != "2026-10" || got.Currency != "USD" || got.CacheRead != 5 {
		t.Errorf("own row = %+v, want it marked, dated, in USD and its cache priced like the input", got)
	}
	if cost, usd := p.Lookup("x", "yuan").Cost(llm.Usage{Prompt: 1_000_000}); cost != 10 || usd < 1 || usd > 2 {
		t.Errorf("yuan cost = %v, usd %v, want 10 and about 1.4", cost, usd)
	}
	if _, usd := p.Lookup("x", "gold").Cost(llm.Usage{Completion: 1_000_000}); usd != 2000 {
		t.Errorf("gold usd = %v, want 2000 by the file's own rate", usd)
	}
}

func TestPriceCost(t *testing.T) {
	t.Parallel()
	p := ledger.Price{Billing: ledger.Priced, In: 10, Out: 100, CacheRead: 1, CacheWrite: 20, Rate: 2}
	for _, c := range []struct {
		name  string
		usage llm.Usage
		cost  float64
	}{
		{"nothing", llm.Usage{}, 0},
		{"plain", llm.Usage{Prompt: 1e6, Completion: 1e5}, 20},
		{"cached", llm.Usage{Prompt: 1e6, Cached: 1e6}, 1},
		{"all kinds", llm.Usage{Prompt: 1e6, Cached: 5e5, CacheWrite: 2e5}, 3 + 0.5 + 4},
		{"a vendor that counts the cache beside the prompt", llm.Usage{Prompt: 10, Cached: 1e6}, 1e-5},
		{"negative", llm.Usage{Prompt: -5, Completion: -5, Cached: -1}, 0},
	} {
		cost, usd := p.Cost(c.usage)
		if diff := cost - c.cost; diff > 1e-9 || diff < -1e-9 || usd != 2*cost {
			t.Errorf("%s: cost = %v, usd %v, want %v and twice that", c.name, cost, usd, c.cost)
		}
	}
}

func TestPriceFileErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, want string }{
		{"no JSON", `{`, "unexpected end"},
		{"no model", `[{"in":1,"out":2}]`, "row 1 (): model"},
		{"bad pattern", `[{"model":"[","in":1,"out":2}]`, "model must be"},
		{"no price", `[{"model":"a","in":1}]`, "row 1 (a): in and out"},
		{"below zero", `[{"model":"a","in":1,"out":-2}]`, "between 0 and"},
		{"absurd price", `[{"model":"a","in":1e300,"out":2}]`, "between 0 and"},
		{"absurd rate", `{"rates":{"CNY":1e300},"prices":[{"model":"a","in":1,"out":2,"currency":"CNY"}]}`, "rates must say"},
		{"no rate", `[{"model":"a","in":1,"out":2,"currency":"SEK"}]`, "one SEK is"},
		{"billing", `[{"model":"a","billing":"maybe"}]`, `billing "maybe"`},
	} {
		file := filepath.Join(t.TempDir(), "prices.json")
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		p := ledger.NewPrices(file, nil)
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: error = %v, want %q and the file's name", c.name, err, c.want)
		}
		if got := p.Lookup("openai", "gpt-4o"); got.Billing != ledger.Priced {
			t.Errorf("%s: our own table is gone: %+v", c.name, got)
		}
	}
	if err := ledger.NewPrices(filepath.Join(t.TempDir(), "none.json"), nil).Err(); err != nil {
		t.Errorf("a missing file is an error: %v", err)
	}
}

// Our own table, read as a user's file would be, has no errors, and every row
// of it is found by its own name.
func TestEmbeddedPrices(t *testing.T) {
	t.Parallel()
	if err := ledger.NewPrices("prices.json", nil).Err(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("prices.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		AsOf   string
		Prices []struct {
			Model, Provider string
			In              float64
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Prices) < 100 {
		t.Fatalf("only %d rows", len(file.Prices))
	}
	seen := map[string]bool{}
	for _, r := range file.Prices {
		if key := r.Provider + " " + r.Model; seen[key] {
			t.Errorf("%s is there twice", key)
		} else {
			seen[key] = true
		}
		name := strings.NewReplacer("*", "", "?", "-", "[56]", "5", "[01]", "1", "[57]", "5", "[056]", "5", "[567]", "6").Replace(r.Model)
		got := ledger.NewPrices("", nil).Lookup(r.Provider, name)
		if got.Billing != ledger.Priced || got.In != r.In || got.AsOf != file.AsOf || got.Own {
			t.Errorf("%s as %s: %+v, want %v", r.Model, name, got, r.In)
		}
	}
}

func BenchmarkFirstLookup(b *testing.B) {
	for b.Loop() {
		ledger.NewPrices("", nil).Lookup("anthropic", "claude-sonnet-4-5")
	}
}
