package ledger

import (
	"context"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// Run holds what one run of a recurring job cost.
type Run struct {
	USD    float64
	Tokens int
	Known  bool // every call had a known price, a flat fee or none
}

// Runs groups the calls a query selects by turn, in the order the turns began.
// Calls outside of a turn are runs of their own.
func (l *Ledger) Runs(ctx context.Context, q Query) ([]Run, error) {
	var out []Run
	at := map[string]int{}
	for e, err := range l.Entries(ctx, q) {
		if err != nil {
			return nil, err
		}

		i, ok := at[e.Turn]
		if !ok || e.Turn == "" {
			i = len(out)
			at[e.Turn] = i
			out = append(out, Run{Known: true})
		}

		r := &out[i]
		r.USD += e.USD
		r.Tokens += e.Prompt + e.Completion
		if e.Billing == Unknown && e.Prompt+e.Completion > 0 {
			r.Known = false
		}
	}

	return out, nil
}

// Preview holds what a recurring job will cost per month if it goes on as it
// did.
type Preview struct {
	Samples  int     // runs it is based on
	PerMonth float64 // runs per month
	USD      float64 // a month at the average cost of a run
	High     float64 // a month at the cost of an expensive run
	Tokens   int     // a month at the average size of a run
	Known    bool    // every run had a known price
}

// Project says what a job that runs perMonth times a month will cost, judged
// by runs that were made. High uses a run that nine of ten do not exceed.
func Project(runs []Run, perMonth float64) Preview {
	p := Preview{Samples: len(runs), PerMonth: perMonth, Known: len(runs) > 0}
	if len(runs) == 0 {
		return p
	}

	costs := make([]float64, 0, len(runs))
	sum, tokens := 0.0, 0
	for _, r := range runs {
		costs = append(costs, r.USD)
		sum += r.USD
		tokens += r.Tokens
		p.Known = p.Known && r.Known
	}

	slices.Sort(costs)
	n := float64(len(runs))
	p.USD = sum / n * perMonth
	p.High = costs[min(len(costs)-1, len(costs)*9/10)] * perMonth
	p.Tokens = int(float64(tokens) / n * perMonth)
	return p
}

// String is the preview in one English sentence.
func (p Preview) String() string { return p.Sentence().String() }

// Sentence is the preview in one sentence.
func (p Preview) Sentence() phrase.Sentence {
	if p.Samples == 0 {
		return phrase.Later("cost per month not known yet: the job has not run")
	}

	var cost phrase.Sentence
	switch {
	case !p.Known && p.USD == 0:
		cost = phrase.Later("about %s tokens a month at an unknown price", shortCount(int64(p.Tokens)))
	case !p.Known:
		cost = phrase.Later("at least %s a month, some prices are unknown", Dollars(p.USD))
	case p.High > 1.5*p.USD:
		cost = phrase.Later("about %s a month, up to %s", Dollars(p.USD), Dollars(p.High))
	default:
		cost = phrase.Later("about %s a month", Dollars(p.USD))
	}

	return phrase.Later("%s (runs a month: %.0f, judged by %d)", cost, p.PerMonth, p.Samples)
}
