package ledger

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/llm"
)

//go:embed prices.json
var embeddedPrices string

// embeddedAsOf is when the prices of our own table were last looked up.
const embeddedAsOf = "2026-01"

// Price holds what a model costs, in Currency per million tokens.
type Price struct {
	Billing    Billing // Priced, Free, Subscription or Unknown
	In         float64
	Out        float64
	CacheRead  float64
	CacheWrite float64
	Currency   string
	Rate       float64 // US dollars per unit of Currency
	AsOf       string  // when the price was last looked up, such as 2026-03
	Own        bool    // from the user's file
}

// Cost returns what a call cost, in Currency. The second result is the same in
// US dollars. Both are 0 unless the price is known.
func (p Price) Cost(u llm.Usage) (cost, usd float64) {
	if p.Billing != Priced {
		return 0, 0
	}
	cached := max(0, min(u.Cached, u.Prompt))
	written := max(0, min(u.CacheWrite, u.Prompt-cached))
	plain := max(0, u.Prompt-cached-written)
	cost = (float64(plain)*p.In + float64(cached)*p.CacheRead + float64(written)*p.CacheWrite + float64(max(0, u.Completion))*p.Out) / 1e6
	return cost, cost * p.Rate
}

// promptRate and answerRate are the most a token can cost, in US dollars.
func (p Price) promptRate() float64 { return max(p.In, p.CacheRead, p.CacheWrite) * p.Rate / 1e6 }
func (p Price) answerRate() float64 { return p.Out * p.Rate / 1e6 }

// Prices is the table of prices: the embedded one, with the user's file in
// front of it.
type Prices struct {
	file string
	log  *slog.Logger
	own  func() ([]priceRow, error) // of the user's file, read once
}

// NewPrices makes a table of prices. file may be missing or ""; it is read on
// first use.
func NewPrices(file string, log *slog.Logger) *Prices {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Prices{file: file, log: log}
	p.own = sync.OnceValues(p.read)
	return p
}

// priceRow is a row of a price file.
type priceRow struct {
	// Model is a pattern of path.Match, compared in lower case with the wire
	// name and with what follows its last slash.
	Model    string `json:"model"`
	Provider string `json:"provider"` // "": any
	// Billing may be "free" or "subscription"; then no price is needed.
	Billing    Billing  `json:"billing"`
	In         *float64 `json:"in"`
	Out        *float64 `json:"out"`
	CacheRead  *float64 `json:"cacheRead"`  // absent: like in
	CacheWrite *float64 `json:"cacheWrite"` // absent: like in
	Currency   string   `json:"currency"`   // absent: USD
	AsOf       string   `json:"asOf"`

	rate float64
	raw  string // the row as it stands in the embedded file
}

// priceFile is a whole price file. A bare list of rows will do as well.
type priceFile struct {
	AsOf   string             `json:"asOf"`  // of rows that do not say it themselves
	Rates  map[string]float64 `json:"rates"` // US dollars per unit of a currency
	Prices []priceRow         `json:"prices"`
}

// Err says what is wrong with the user's file, which is ignored then.
func (p *Prices) Err() error {
	_, err := p.own()
	return err
}

// Lookup finds the price of a model. Rows of the user come before ours, rows
// that name the provider before rows that do not, an exact name before a
// pattern, and a pattern with more letters before one with fewer.
func (p *Prices) Lookup(provider, model string) Price {
	own, err := p.own()
	if err != nil {
		p.log.Warn("the price file is ignored", "err", err)
	}

	names := spellings(model)
	if r, ok := bestRow(slices.Values(own), provider, names); ok {
		price := r.price()
		price.Own = true
		return price
	}

	if r, ok := bestRow(embeddedRows(), provider, names); ok {
		if err := r.decode(); err != nil {
			p.log.Error("the built-in price list is damaged", "model", r.Model, "err", err)
			return Price{Billing: Unknown}
		}
		return r.price()
	}

	return Price{Billing: Unknown}
}

// bestRow finds the row that fits a model best.
func bestRow(rows iter.Seq[priceRow], provider string, names []string) (found priceRow, ok bool) {
	best := 0
	for r := range rows {
		if r.Provider != "" && !strings.EqualFold(r.Provider, provider) {
			continue
		}
		if s := r.score(names); s > best {
			best, found = s, r
		}
	}

	return found, best > 0
}

// embeddedRows yields the rows of our own table with only their Model and
// Provider read: decoding all of them to use one would be most of the work of
// a lookup. The file has one row per line, and these two members first.
func embeddedRows() iter.Seq[priceRow] {
	return func(yield func(priceRow) bool) {
		for line := range strings.Lines(embeddedPrices) {
			rest, ok := strings.CutPrefix(line, `{"model":"`)
			if !ok {
				continue
			}

			r := priceRow{raw: strings.TrimRight(line, ",\n")}
			r.Model, rest, _ = strings.Cut(rest, `"`)
			if rest, ok = strings.CutPrefix(rest, `,"provider":"`); ok {
				r.Provider, _, _ = strings.Cut(rest, `"`)
			}

			if !yield(r) {
				return
			}
		}
	}
}

// decode reads the rest of an embedded row.
func (r *priceRow) decode() error {
	if err := json.Unmarshal([]byte(r.raw), r); err != nil {
		return err
	}
	if r.AsOf == "" {
		r.AsOf = embeddedAsOf
	}
	return r.check(nil)
}

// spellings are the names a model may have in the table: as sent, without the
// folders in front, and without the tag behind.
func spellings(model string) []string {
	name := strings.ToLower(model)
	out := []string{name}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
		out = append(out, name)
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		out = append(out, name[:i])
	}
	return out
}

// score says how well a row fits; 0 is not at all.
func (r *priceRow) score(names []string) int {
	pattern := strings.ToLower(r.Model)
	for i, name := range names {
		ok, err := path.Match(pattern, name)
		if err != nil || !ok {
			continue
		}

		letters, inClass := 0, false
		for _, c := range pattern {
			switch {
			case c == '[':
				inClass = true
			case c == ']':
				inClass = false
				letters++
			case c != '*' && c != '?' && !inClass:
				letters++
			}
		}

		s := letters<<2 + len(names) - i
		if !strings.ContainsAny(pattern, "*?[") {
			s |= 1 << 20
		}
		if r.Provider != "" {
			s |= 1 << 21
		}
		return s
	}

	return 0
}

func (r *priceRow) price() Price {
	p := Price{Billing: r.Billing, Currency: r.Currency, Rate: r.rate, AsOf: r.AsOf}
	if p.Billing != Priced {
		return p
	}

	p.In, p.Out = *r.In, *r.Out
	p.CacheRead, p.CacheWrite = p.In, p.In
	if r.CacheRead != nil {
		p.CacheRead = *r.CacheRead
	}
	if r.CacheWrite != nil {
		p.CacheWrite = *r.CacheWrite
	}
	return p
}

func (p *Prices) read() ([]priceRow, error) {
	if p.file == "" {
		return nil, nil
	}

	b, err := os.ReadFile(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	f, err := parsePrices(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	return f.Prices, nil
}

// parsePrices reads a price file and checks every row.
func parsePrices(b []byte) (priceFile, error) {
	var f priceFile
	err := json.Unmarshal(b, &f.Prices)
	if err != nil {
		f = priceFile{}
		err = json.Unmarshal(b, &f)
	}

	if err != nil {
		return f, err
	}

	for i := range f.Prices {
		r := &f.Prices[i]
		if r.AsOf == "" {
			r.AsOf = f.AsOf
		}
		if err := r.check(f.Rates); err != nil {
			return f, fmt.Errorf("row %d (%s): %w", i+1, r.Model, err)
		}
	}

	return f, nil
}

// check fills in what a row leaves out and refuses what cannot be meant.
func (r *priceRow) check(rates map[string]float64) error {
	if _, err := path.Match(r.Model, ""); err != nil || r.Model == "" {
		return errors.New("model must be a name or a pattern")
	}

	if r.Billing == "" {
		r.Billing = Priced
	}

	switch r.Billing {
	case Free, Subscription:
		return nil
	case Priced:
	default:
		return fmt.Errorf("billing %q: want free or subscription, or leave it out", r.Billing)
	}

	if r.In == nil || r.Out == nil {
		return errors.New("in and out are needed, per million tokens")
	}

	for _, v := range []*float64{r.In, r.Out, r.CacheRead, r.CacheWrite} {
		if v != nil && !(*v >= 0 && *v <= maxPrice) {
			return fmt.Errorf("a price must be between 0 and %d per million tokens", maxPrice)
		}
	}

	if r.Currency = strings.ToUpper(r.Currency); r.Currency == "" {
		r.Currency = usd
	}

	if r.rate = 1; r.Currency == usd {
		return nil
	}
	if r.rate = rates[r.Currency]; r.rate > 0 && r.rate <= maxRate {
		return nil
	}
	return fmt.Errorf("rates must say how many US dollars one %s is", r.Currency)
}

const (
	usd = "USD"

	maxPrice = 1_000_000 // per million tokens, in any currency
	maxRate  = 1_000_000 // US dollars per unit of a currency
)
