package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	chartWidth = 20 // length of the longest bar
	nameWidth  = 48 // longest name in a table
	namedFew   = 5  // how many models a note names
)

// Table writes a summary as lines for a terminal or a pipe, with a bar for
// each group, in the language of the context. The bars show cost, or tokens
// where no cost is known.
func (s Summary) Table(ctx context.Context) string {
	rows := [][]string{{
		heading(ctx, s.By),
		phrase.Of(ctx, "CALLS"),
		phrase.Of(ctx, "IN"),
		phrase.Of(ctx, "CACHED"),
		phrase.Of(ctx, "OUT"),
		phrase.Of(ctx, "COST"),
	}}
	for _, g := range s.Groups {
		if g.Name == unnamed {
			g.Name = phrase.Of(ctx, unnamed)
		}
		rows = append(rows, g.cells(ctx))
	}

	total := s.Total
	total.Name = phrase.Of(ctx, "TOTAL")
	rows = append(rows, total.cells(ctx))
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], markdown.Width(cell))
		}
	}

	bars := s.bars()
	var b strings.Builder
	for n, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			pad := strings.Repeat(" ", width[i]-markdown.Width(cell))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}

		if n > 0 && n <= len(bars) {
			line.WriteString("  " + bars[n-1])
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}

	return b.String()
}

// heading is the head of the column that names the groups.
func heading(ctx context.Context, by string) string {
	switch by {
	case "day":
		return phrase.Of(ctx, "DAY")
	case "month":
		return phrase.Of(ctx, "MONTH")
	case "model":
		return phrase.Of(ctx, "MODEL")
	case "provider":
		return phrase.Of(ctx, "PROVIDER")
	case "session":
		return phrase.Of(ctx, "SESSION")
	}
	return phrase.Of(ctx, "SOURCE")
}

func (g Group) cells(ctx context.Context) []string {
	cached := "-"
	if g.Usage.Prompt > 0 {
		cached = percent(g.cachedShare())
	}
	return []string{
		text.Label(g.Name, nameWidth),
		fmt.Sprint(g.Calls),
		shortCount(int64(g.Usage.Prompt)),
		cached,
		shortCount(int64(g.Usage.Completion)),
		g.cost(ctx),
	}
}

func percent(share float64) string { return fmt.Sprintf("%d %%", int(share*100+0.5)) }

// bars draws one bar per group; a group that cost anything has one.
func (s Summary) bars() []string {
	weight := func(g Group) float64 { return g.USD }
	if s.Total.USD == 0 {
		weight = func(g Group) float64 { return float64(g.Usage.Prompt + g.Usage.Completion) }
	}

	top := 0.0
	for _, g := range s.Groups {
		top = max(top, weight(g))
	}

	out := make([]string, len(s.Groups))
	for i, g := range s.Groups {
		if w := weight(g); w > 0 {
			out[i] = strings.Repeat("#", max(1, int(w/top*chartWidth+0.5)))
		}
	}
	return out
}

// Notes says what the table leaves out: which prices are missing and where
// they can be put, and what is an estimate. It is "" when nothing is.
func (s Summary) Notes(ctx context.Context, pricesFile string) string {
	var b strings.Builder
	if n := len(s.Unpriced); n > 0 {
		names := strings.Join(s.Unpriced[:min(n, namedFew)], ", ")
		if n > namedFew {
			names = phrase.Of(ctx, "%s and %d more", names, n-namedFew)
		}

		names = text.Label(names, 0)
		if pricesFile == "" {
			b.WriteString(phrase.Of(ctx, "Price unknown: %s. Calls without a price are missing in the cost.\n", names))
		} else {
			b.WriteString(phrase.Of(ctx, "Price unknown: %s. Calls without a price are missing in the cost; prices can be added in %s.\n", names, pricesFile))
		}
	}

	if s.Total.Usage.Estimated {
		b.WriteString(phrase.Of(ctx, "Some token counts are estimates, because the provider gave none.\n"))
	}
	return b.String()
}

// Spent is a sum of calls as the limits count it.
type Spent struct {
	Calls          int     `json:"calls"`
	USD            float64 `json:"usd"`
	Tokens         int64   `json:"tokens"`         // of calls that are not free
	UnpricedTokens int64   `json:"unpricedTokens"` // of calls whose price is unknown
}

func (a account) spent() Spent {
	return Spent{Calls: a.Calls, USD: fromNano(a.Nano), Tokens: a.Tokens, UnpricedTokens: a.Unpriced}
}

// Spent says what today and this month cost so far.
func (l *Ledger) Spent() (today, month Spent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(l.now())
	return l.sums.Today.spent(), l.sums.ThisMonth.spent()
}

// Balance says in a few lines what today and this month cost and how much the
// limits leave, in the language of the context.
func (l *Ledger) Balance(ctx context.Context) string {
	today, month := l.Spent()
	l.mu.Lock()
	lim, lost := l.limits, l.sums.Lost
	freeToday, freeMonth := l.sums.Today.Free, l.sums.ThisMonth.Free
	l.mu.Unlock()

	var b strings.Builder
	line := func(name string, spent string) {
		const column = 11
		b.WriteString(name + strings.Repeat(" ", max(0, column-markdown.Width(name))) + " " + spent + "\n")
	}
	line(phrase.Of(ctx, "Today"), today.line(ctx, freeToday, lim.DailyUSD))
	line(phrase.Of(ctx, "This month"), month.line(ctx, freeMonth, lim.MonthlyUSD))
	if lost > 0 {
		b.WriteString(phrase.Of(ctx, "%d bytes of this month's usage log cannot be read; what was in them is estimated and counted as spent\n", lost))
	}
	if used, most := today.Tokens, int64(lim.DailyTokens); most > 0 && used > 0 {
		b.WriteString(phrase.Of(ctx, "Tokens today: %s of %s (%s)\n", shortCount(used), shortCount(most), shareOf(used, most)))
	}
	if used, most := today.UnpricedTokens, int64(lim.UnpricedDailyTokens); most > 0 && used > 0 {
		b.WriteString(phrase.Of(ctx, "Unpriced tokens today: %s of %s (%s)\n", shortCount(used), shortCount(most), shareOf(used, most)))
	}
	return b.String()
}

func shareOf(used, most int64) string { return percent(float64(used) / float64(most)) }

// line says what was spent, of which limit, and how many tokens were free besides.
func (s Spent) line(ctx context.Context, free int64, limit float64) string {
	cost := Dollars(s.USD)
	if limit > 0 {
		cost = phrase.Of(ctx, "%s of %s (%s)", cost, Dollars(limit), percent(s.USD/limit))
	}

	calls := phrase.Count(ctx, s.Calls, "call")
	if s.Tokens == 0 && free > 0 {
		return phrase.Of(ctx, "%s, %s, %s tokens, free of charge", cost, calls, shortCount(free))
	}

	said := phrase.Of(ctx, "%s, %s, %s tokens", cost, calls, shortCount(s.Tokens))
	if s.UnpricedTokens > 0 {
		said = phrase.Of(ctx, "%s, %s of them at an unknown price", said, shortCount(s.UnpricedTokens))
	}
	if free > 0 {
		said = phrase.Of(ctx, "%s, and %s free of charge", said, shortCount(free))
	}
	return said
}

// Report is a short answer to "what did I spend": today, this month, the
// limits, and the models of this month.
func (l *Ledger) Report(ctx context.Context) (string, error) {
	at := l.now().In(l.loc)
	y, m, _ := at.Date()
	s, err := l.Summarize(ctx, Query{By: "model", Since: time.Date(y, m, 1, 0, 0, 0, 0, l.loc)})
	if err != nil {
		return "", err
	}
	if s.Total.Calls == 0 {
		return phrase.Of(ctx, "No model was called this month.\n") + l.Balance(ctx), nil
	}
	return l.Balance(ctx) + "\n" + s.Table(ctx) + s.Notes(ctx, ""), nil
}
