package subject

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Costs are what model calls cost, what they may, and what the next one will.
type Costs struct {
	Now   Source
	Clock func() time.Time
}

// Bounds of an estimate.
const (
	estimateBytes  = 64 << 20
	estimateDays   = 30
	estimateTurns  = 5    // from so many on, earlier turns say what one costs
	shortAnswer    = 200  // tokens
	longAnswer     = 4000 // tokens
	estimateCalls  = 3    // model calls of a turn that uses tools
	firstPrompt    = 3000 // tokens, about, of the first prompt of a conversation
	bytesPerToken  = 4
	bytesPerTokenL = 2 // of text in other scripts
)

// Routes implements web.Subject.
func (c Costs) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"budget": c.budget, "sessions/{key}/estimate": c.estimate}}
}

// program returns the one in use, if it records costs.
func (c Costs) program(ctx context.Context) (*Program, error) {
	now, err := c.Now(ctx)
	if err == nil && now.Ledger == nil {
		err = web.Refuse(http.StatusNotImplemented, "costs are not recorded here")
	}
	return now, err
}

// budget tells the limits and how much of them is used.
func (c Costs) budget(ctx context.Context, r *http.Request) (any, error) {
	now, err := c.program(ctx)
	if err != nil {
		return nil, err
	}
	today, month := now.Ledger.Spent()
	limits, onExceed := ledger.Standings(now.Ledger, r.URL.Query().Get("session"))
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
	now, err := c.program(ctx)
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
	used, err := now.Agent.Prompt(ctx, key)
	if errors.Is(err, session.ErrNotFound) { // the message would begin it
		used, err = Prompt{Model: now.Model, Tokens: firstPrompt}, nil
	}

	if err != nil {
		return nil, err
	}

	price, err := c.price(ctx, now, key)
	if err != nil {
		return nil, err
	}

	out := estimated{
		Model:   used.Model,
		Window:  used.Window,
		Tokens:  used.Tokens + size/bytesPerToken,
		Billing: price.Billing,
		Basis:   "price",
	}

	out.Limits, _ = ledger.Standings(now.Ledger, key)
	low := llm.Usage{Prompt: out.Tokens, Cached: used.Cached, Completion: shortAnswer}
	high := llm.Usage{Prompt: estimateCalls * (used.Tokens + size/bytesPerTokenL), Completion: estimateCalls * longAnswer}
	_, out.LowUSD = price.Cost(low)
	_, out.HighUSD = price.Cost(high)
	if price.Billing != ledger.Priced {
		return out, nil
	}

	runs, err := now.Ledger.Runs(ctx, ledger.Query{Session: key, Source: "user", Since: c.since()})
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

// since is from when on earlier calls count.
func (c Costs) since() time.Time { return c.Clock().AddDate(0, 0, -estimateDays) }

// price returns what the model of a conversation costs. Which provider answers, and how it
// is paid, is judged by the last call.
func (c Costs) price(ctx context.Context, now *Program, key string) (ledger.Price, error) {
	last := ledger.Entry{Model: now.Model, Provider: now.Provider}
	for e, err := range now.Ledger.Entries(ctx, ledger.Query{Session: key, Since: c.since()}) {
		if err != nil {
			return ledger.Price{}, err
		}
		last = e
	}

	if last.Billing == ledger.Free || last.Billing == ledger.Subscription {
		return ledger.Price{Billing: last.Billing}, nil
	}
	return now.Prices.Price(last.Provider, last.Model), nil
}

// Prompt is what the next message of a conversation is sent with.
type Prompt struct {
	Model  string // for people
	Window int    // in tokens; 0 is not known
	Tokens int
	Cached int // of the last prompt, which the provider may have kept
}
