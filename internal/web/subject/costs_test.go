package subject_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// prices are those of models, by provider and name.
type prices map[string]ledger.Price

func (p prices) Price(provider, model string) ledger.Price { return p[provider+" "+model] }

// What is spent and what is left, and what the next message costs.
func TestCosts(t *testing.T) {
	t.Parallel()
	priced := ledger.Price{Billing: ledger.Priced, In: 3, Out: 15, CacheRead: 0.3, Currency: "USD", Rate: 1}
	prompt := subject.Prompt{Model: "m", Window: 200000, Tokens: 20000, Cached: 20000}
	program := &subject.Program{
		Agent:    worker{prompts: map[string]subject.Prompt{"websocket:a": prompt, "websocket:b": prompt, "websocket:new": prompt}},
		Model:    "usual",
		Provider: "q",
		Prices:   prices{"p m": priced, "q usual": priced},
	}
	h := newSubject(t, subject.Costs{
		Now:   func(context.Context) (*subject.Program, error) { return program, nil },
		Clock: noon,
	})
	h.refused(t, "budget", 501, "costs_missing")
	h.refused(t, "sessions/websocket:a/estimate?bytes=10", 501, "costs_missing")

	dir := t.TempDir()
	var lines strings.Builder
	lines.WriteString(`{"time":"2026-05-03T12:00:00Z","turn":"s","session":"websocket:b","source":"user","provider":"p","model":"m","in":9,"out":9,"billing":"subscription","ms":5,"outcome":"ok"}` + "\n")
	for i := range 6 {
		fmt.Fprintf(&lines, `{"time":"2026-05-04T0%d:00:00Z","turn":"t%d","session":"websocket:a","source":"user","provider":"p","model":"m","in":1000,"out":100,"billing":"priced","usd":0.%d,"ms":5,"outcome":"ok"}`+"\n", i, i, i+1)
	}
	must(t, os.WriteFile(filepath.Join(dir, "2026-05.jsonl"), []byte(lines.String()), 0o600))
	limits := ledger.Limits{DailyUSD: 5, PerSession: ledger.SourceLimits{DailyTokens: 10000}, OnExceed: ledger.StopBackground}
	record := ledger.New(ledger.Options{Store: disk.Open(dir, nil), Location: time.UTC, Now: noon, Limits: limits})
	t.Cleanup(func() { must(t, record.Close()) })
	program.Ledger = record

	type limit struct {
		Name, Unit  string
		Limit, Left float64
		Spent       float64
		Stops       bool
	}
	got := read[struct {
		Today    ledger.Spent
		Limits   []limit
		OnExceed string `json:"on_exceed"`
	}](t, h, "budget")
	if len(got.Limits) != 1 || got.Limits[0].Name != "dailyUsd" || got.Limits[0].Unit != "usd" || got.OnExceed != "stopBackground" || got.Limits[0].Stops || got.Today.Calls != 6 {
		t.Fatalf("budget = %+v", got)
	}
	if d := got.Limits[0]; d.Limit != 5 || d.Spent < 2.09 || d.Spent > 2.11 || d.Left < 2.89 || d.Left > 2.91 {
		t.Errorf("the daily limit = %+v", d)
	}
	type estimate struct {
		Model          string
		Tokens         int
		Billing, Basis string
		Low            float64 `json:"low_usd"`
		High           float64 `json:"high_usd"`
		Limits         []limit
	}
	e := read[estimate](t, h, "sessions/websocket:a/estimate?bytes=4000")
	if e.Tokens != 21000 || e.Basis != "turns" || e.High != 0.6 || e.Low < 0.011 || e.Low > 0.013 || len(e.Limits) != 2 {
		t.Errorf("estimate = %+v", e)
	}
	e = read[estimate](t, h, "sessions/websocket:new/estimate?bytes=4000")
	if e.Basis != "price" || e.High < 0.3 || e.High > 0.5 || e.Low > e.High {
		t.Errorf("estimate of a new conversation = %+v", e)
	}
	e = read[estimate](t, h, "sessions/websocket:none/estimate?bytes=4000")
	if e.Model != "usual" || e.Tokens != 4000 || e.Billing != "priced" {
		t.Errorf("estimate of a conversation that the message begins = %+v", e)
	}
	if e := read[estimate](t, h, "sessions/websocket:b/estimate"); e.Billing != "subscription" || e.High != 0 {
		t.Errorf("estimate after a call under a subscription = %+v", e)
	}
	program.Prices = prices{"p m": {Billing: ledger.Subscription}}
	if e := read[estimate](t, h, "sessions/websocket:a/estimate"); e.Billing != "subscription" || e.High != 0 {
		t.Errorf("estimate under a subscription = %+v", e)
	}
	h.refused(t, "sessions/websocket:a/estimate?bytes=-1", 400, "not_a_number")
	h.refused(t, "sessions/websocket:a/estimate?bytes=99999999999", 413, "message_too_large")
}
