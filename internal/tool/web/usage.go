package web

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Usage is what a search account has used of its plan, in credits.
type Usage struct {
	Plan    string
	Used    int
	Limit   int // 0 is no limit, or not known
	Search  int
	Extract int
	Crawl   int
}

// String words the usage for a status line.
func (u Usage) String() string {
	s := fmt.Sprintf("%d credits used", u.Used)
	if u.Limit > 0 {
		s = fmt.Sprintf("%d of %d credits used", u.Used, u.Limit)
	}
	return s + fmt.Sprintf(" (search %d, extract %d, crawl %d)", u.Search, u.Extract, u.Crawl)
}

// TavilyUsage asks Tavily how much of the plan is used. It takes the key like a
// search does and is worth calling only when Tavily is the configured service.
func TavilyUsage(ctx context.Context, o Options) (Usage, error) {
	f, err := newFamily(o)
	if err != nil {
		return Usage{}, err
	}
	b, _ := findBackend("tavily")
	a := &asking{family: f, key: o.Search.APIKey}
	if a.key.IsZero() {
		a.key = f.envKey(b)
	}
	if a.key.IsZero() {
		return Usage{}, errors.New("tavily has no key")
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	var out struct {
		Account struct {
			Plan    string `json:"current_plan"`
			Used    int    `json:"plan_usage"`
			Limit   int    `json:"plan_limit"`
			Search  int    `json:"search_usage"`
			Extract int    `json:"extract_usage"`
			Crawl   int    `json:"crawl_usage"`
		} `json:"account"`
	}
	if err := a.call(ctx, f.client, "https://api.tavily.com/usage", nil, &out, a.bearer()...); err != nil {
		return Usage{}, fmt.Errorf("tavily usage: %w", err)
	}
	return Usage(out.Account), nil
}
