package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	chartWidth = 20 // length of the longest bar
	nameWidth  = 48 // longest name in a table
	namedFew   = 5  // how many models a note names
)

// Table writes a summary as lines for a terminal or a pipe, with a bar for
// each group. The bars show cost, or tokens where no cost is known.
func (s Summary) Table() string {
	rows := [][]string{{strings.ToUpper(s.By), "CALLS", "IN", "CACHED", "OUT", "COST"}}
	for _, g := range s.Groups {
		rows = append(rows, g.cells())
	}
	total := s.Total
	total.Name = "TOTAL"
	rows = append(rows, total.cells())
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	bars := s.bars()
	var b strings.Builder
	for n, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
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

func (g Group) cells() []string {
	cached := "-"
	if g.Usage.Prompt > 0 {
		cached = percent(g.cachedShare())
	}
	return []string{text.Label(g.Name, nameWidth), fmt.Sprint(g.Calls), Tokens(int64(g.Usage.Prompt)), cached, Tokens(int64(g.Usage.Completion)), g.Cost()}
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
func (s Summary) Notes(pricesFile string) string {
	var b strings.Builder
	if n := len(s.Unpriced); n > 0 {
		names := strings.Join(s.Unpriced[:min(n, namedFew)], ", ")
		if n > namedFew {
			names += fmt.Sprintf(" and %d more", n-namedFew)
		}
		fmt.Fprintf(&b, "Price unknown: %s. Calls without a price are missing in the cost", text.Label(names, 0))
		if pricesFile != "" {
			fmt.Fprintf(&b, "; prices can be added in %s", pricesFile)
		}
		b.WriteString(".\n")
	}
	if s.Total.Usage.Estimated {
		b.WriteString("Some token counts are estimates, because the provider gave none.\n")
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
// limits leave.
func (l *Ledger) Balance() string {
	today, month := l.Spent()
	l.mu.Lock()
	lim, lost := l.limits, l.sums.Lost
	freeToday, freeMonth := l.sums.Today.Free, l.sums.ThisMonth.Free
	l.mu.Unlock()
	var b strings.Builder
	line := func(name string, s Spent, free int64, limit float64) {
		fmt.Fprintf(&b, "%-11s %s", name, Dollars(s.USD))
		if limit > 0 {
			fmt.Fprintf(&b, " of %s (%s)", Dollars(limit), percent(s.USD/limit))
		}
		fmt.Fprintf(&b, ", %s, %s tokens", calls(s.Calls), Tokens(s.Tokens))
		if s.UnpricedTokens > 0 {
			fmt.Fprintf(&b, ", %s of them at an unknown price", Tokens(s.UnpricedTokens))
		}
		if free > 0 {
			fmt.Fprintf(&b, ", and %s free of charge", Tokens(free))
		}
		b.WriteString("\n")
	}
	line("Today", today, freeToday, lim.DailyUSD)
	line("This month", month, freeMonth, lim.MonthlyUSD)
	if lost > 0 {
		fmt.Fprintf(&b, "%d bytes of this month's usage log cannot be read; what was in them is estimated and counted as spent\n", lost)
	}
	for _, t := range []struct {
		name       string
		used, most int64
	}{{"Tokens today", today.Tokens, int64(lim.DailyTokens)}, {"Unpriced tokens today", today.UnpricedTokens, int64(lim.UnpricedDailyTokens)}} {
		if t.most > 0 && t.used > 0 {
			fmt.Fprintf(&b, "%s: %s of %s (%s)\n", t.name, Tokens(t.used), Tokens(t.most), percent(float64(t.used)/float64(t.most)))
		}
	}
	return b.String()
}

func calls(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
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
		return "No model was called this month.\n" + l.Balance(), nil
	}
	return l.Balance() + "\n" + s.Table() + s.Notes(""), nil
}
