package subject

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Costs are what model calls cost, what they may, and what the next one will.
type Costs struct {
	// Ledger is the record of model calls of the agent in use, nil if there is none.
	Ledger func(ctx context.Context) (*ledger.Ledger, error)
	// Prompt says what the next message of a conversation is sent with.
	Prompt func(ctx context.Context, key string) (Prompt, error)
	Now    func() time.Time
}

// Bounds of an estimate.
const (
	estimateBytes  = 64 << 20
	estimateDays   = 30
	estimateTurns  = 5    // from so many on, earlier turns say what one costs
	shortAnswer    = 200  // tokens
	longAnswer     = 4000 // tokens
	estimateCalls  = 3    // model calls of a turn that uses tools
	bytesPerToken  = 4
	bytesPerTokenL = 2 // of text in other scripts
)

// Routes implements web.Subject.
func (c Costs) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"budget": c.budget, "sessions/{key}/estimate": c.estimate}}
}

// ledger is the record, or a refusal.
func (c Costs) ledger(ctx context.Context) (*ledger.Ledger, error) {
	l, err := c.Ledger(ctx)
	if err == nil && l == nil {
		err = web.Refuse(http.StatusNotImplemented, "costs are not recorded here")
	}
	return l, err
}

// budget tells the limits and how much of them is used.
func (c Costs) budget(ctx context.Context, r *http.Request) (any, error) {
	record, err := c.ledger(ctx)
	if err != nil {
		return nil, err
	}
	today, month := record.Spent()
	limits, onExceed := ledger.Standings(record, r.URL.Query().Get("session"))
	return map[string]any{"today": today, "month": month, "limits": limits, "on_exceed": onExceed}, nil
}

// estimated is what a message would cost.
type estimated struct {
	Model   string         `json:"model"`
	Tokens  int            `json:"tokens"` // of the first prompt
	Window  int            `json:"window,omitempty"`
	Billing ledger.Billing `json:"billing"`
	LowUSD  float64        `json:"low_usd"`
	HighUSD float64        `json:"high_usd"`
	// Basis is turns, if earlier turns of the conversation say it, or price.
	Basis  string            `json:"basis"`
	Limits []ledger.Standing `json:"limits"` // Left is what remains of each
}

// estimate says what a message of so many bytes would cost in a conversation.
func (c Costs) estimate(ctx context.Context, r *http.Request) (any, error) {
	record, err := c.ledger(ctx)
	if err != nil {
		return nil, err
	}
	size, err := number(r, "bytes", 0)
	if err != nil {
		return nil, err
	}
	if size > estimateBytes {
		return nil, web.Refuse(http.StatusRequestEntityTooLarge, "a message cannot have more than %d bytes", estimateBytes)
	}
	key := r.PathValue("key")
	out := estimated{Basis: "price"}
	out.Limits, _ = ledger.Standings(record, key)
	used, err := c.Prompt(ctx, key)
	if err != nil {
		return nil, err
	}
	out.Model, out.Window, out.Tokens = used.Model, used.Window, used.Tokens+size/bytesPerToken
	out.Billing = used.Price.Billing
	low := llm.Usage{Prompt: out.Tokens, Cached: used.Cached, Completion: shortAnswer}
	high := llm.Usage{Prompt: estimateCalls * (used.Tokens + size/bytesPerTokenL), Completion: estimateCalls * longAnswer}
	_, out.LowUSD = used.Price.Cost(low)
	_, out.HighUSD = used.Price.Cost(high)
	if used.Price.Billing != ledger.Priced {
		return out, nil
	}
	runs, err := record.Runs(ctx, ledger.Query{Session: key, Source: "user", Since: c.Now().Add(-estimateDays * 24 * time.Hour)})
	if err != nil {
		return nil, err
	}
	costs := []float64{}
	for _, run := range runs {
		if run.Known && run.USD > 0 {
			costs = append(costs, run.USD)
		}
	}
	if len(costs) >= estimateTurns {
		slices.Sort(costs)
		out.Basis = "turns"
		out.HighUSD = max(out.LowUSD, costs[len(costs)*9/10])
	}
	return out, nil
}

// Prompt is what the model would be shown of a conversation, and its price.
type Prompt struct {
	Model  string // for people
	Window int    // in tokens; 0 is not known
	Tokens int
	Cached int // of the last prompt, which the provider may have kept
	Price  ledger.Price
}
