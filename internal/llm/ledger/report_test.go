package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

func TestReport(t *testing.T) { storetest.Each(t, testReport) }

func testReport(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{DailyUSD: 0.1, MonthlyUSD: 2, UnpricedDailyTokens: 10_000})
	report := func() string {
		t.Helper()
		r, err := s.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if got := report(); !strings.HasPrefix(got, "No model was called this month.") {
		t.Errorf("empty report = %q", got)
	}
	s.clock.add(-24 * time.Hour)
	s.spend(1)
	s.clock.add(24 * time.Hour)
	s.spend(2)
	if _, err := run(t.Context(), s.meter(answering(llm.Usage{Prompt: 2000, Completion: 10})), llm.Request{Model: "odd"}); err != nil {
		t.Fatal(err)
	}
	want := `Today       $0.0200 of $0.1000 (20 %), 3 calls, 4.0k tokens, 2.0k of them at an unknown price
This month  $0.0300 of $2.00 (2 %), 4 calls, 5.0k tokens, 2.0k of them at an unknown price
Unpriced tokens today: 2.0k of 10.0k (20 %)

MODEL  CALLS    IN  CACHED   OUT               COST
m          3     0       -  3.0k            $0.0300  ####################
odd        1  2.0k     0 %    10            unknown
TOTAL      4  2.0k     0 %  3.0k  $0.0300 + unknown
Price unknown: p/odd. Calls without a price are missing in the cost.
`
	if got := report(); got != want {
		t.Errorf("report =\n%s\nwant\n%s", got, want)
	}
}

// The report speaks the language of the context; columns count what a terminal shows.
func TestReportInChinese(t *testing.T) { storetest.Each(t, testReportInChinese) }

func testReportInChinese(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{DailyUSD: 0.1, UnpricedDailyTokens: 10_000})
	ctx := phrase.With(t.Context(), phrase.Chinese)
	s.spend(2)
	for _, model := range []string{"odd", "m"} {
		if _, err := run(t.Context(), s.meter(answering(llm.Usage{Prompt: 2000, Completion: 10})), llm.Request{Model: model}); err != nil {
			t.Fatal(err)
		}
	}
	want := `今天        $0.0221，上限 $0.1000（22 %），4 次调用，6.0k 个词元，其中 2.0k 个价格未知
本月        $0.0221，4 次调用，6.0k 个词元，其中 2.0k 个价格未知
今日价格未知的词元：2.0k / 10.0k（20 %）

模型  次数  输入  缓存  输出            费用
m        3  2.0k   0 %  2.0k         $0.0221  ####################
odd      1  2.0k   0 %    10            未知
合计     4  4.0k   0 %  2.0k  $0.0221 + 未知
价格未知：p/odd。没有价格的调用未计入费用。
`
	got, err := s.Report(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("report =\n%s\nwant\n%s", got, want)
	}
	if got, want := ledger.Project([]ledger.Run{{USD: 0.02, Known: true}}, 30).Sentence().In(phrase.Chinese), "每月约 $0.6000（每月运行 30 次，依据 1 次运行）"; got != want {
		t.Errorf("preview = %q, want %q", got, want)
	}
}

// Tokens that were free are not shown as none.
func TestFreeOfCharge(t *testing.T) { storetest.Each(t, testFreeOfCharge) }

func testFreeOfCharge(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{})
	local := ledger.Meter(answering(llm.Usage{Prompt: 1000, Completion: 200}), ledger.MeterOptions{
		Ledger: s.Ledger, Prices: s.prices, Provider: "p", Billing: ledger.Free,
	})
	if _, err := run(t.Context(), local, llm.Request{Model: "m"}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Balance(t.Context()), "Today       $0, 1 call, 1.2k tokens, free of charge\n"; !strings.HasPrefix(got, want) {
		t.Errorf("balance = %q, want %q", got, want)
	}
	s.spend(1)
	if got, want := s.Balance(t.Context()), "Today       $0.0100, 2 calls, 1.0k tokens, and 1.2k free of charge\n"; !strings.HasPrefix(got, want) {
		t.Errorf("balance = %q, want %q", got, want)
	}
}

// Logs of other months are read only when they can matter, and strange files
// in the folder never.
func TestSummaryFiles(t *testing.T) { storetest.Each(t, testSummaryFiles) }

func testSummaryFiles(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{})
	for _, at := range []time.Time{
		time.Date(2026, 8, 31, 23, 0, 0, 0, time.UTC), time.Date(2026, 9, 1, 1, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	} {
		s.clock.set(at)
		s.spend(1)
	}
	for _, name := range []string{"notes.jsonl", "2026-13.jsonl", "2026-09.jsonl.bak"} {
		s.put(name, []byte(`{"time":"2026-09-02T00:00:00Z"}`+"\n"))
	}
	for _, c := range []struct {
		name string
		q    ledger.Query
		want string
	}{
		{"all by month", ledger.Query{By: "month"}, "2026-08 2026-09 2026-11"},
		{"by day is the default", ledger.Query{}, "2026-08-31 2026-09-01 2026-11-01"},
		{"since", ledger.Query{Since: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)}, "2026-09-01 2026-11-01"},
		{"until", ledger.Query{Until: time.Date(2026, 9, 1, 1, 0, 0, 0, time.UTC)}, "2026-08-31"},
		{"from another zone", ledger.Query{Since: time.Date(2026, 9, 1, 0, 0, 0, 0, time.FixedZone("", 2*3600))}, "2026-08-31 2026-09-01 2026-11-01"},
		{"session", ledger.Query{By: "session", Session: "cli:direct"}, "cli:direct"},
		{"no such source", ledger.Query{Source: "dream"}, ""},
	} {
		sum, err := s.Summarize(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, g := range sum.Groups {
			names = append(names, g.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: groups = %q, want %q", c.name, got, c.want)
		}
	}
	if _, err := s.Summarize(t.Context(), ledger.Query{By: "colour"}); err == nil {
		t.Error("grouping by anything is allowed")
	}
	n := 0
	for range s.Entries(t.Context(), ledger.Query{}) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d entries before the break", n)
	}
}

func TestPreview(t *testing.T) { storetest.Each(t, testPreview) }

func testPreview(t *testing.T, open storetest.Open) {
	t.Parallel()
	steady := []ledger.Run{{USD: 0.02, Tokens: 1000, Known: true}, {USD: 0.02, Tokens: 3000, Known: true}}
	for _, c := range []struct {
		name     string
		runs     []ledger.Run
		perMonth float64
		want     string
	}{
		{"no run yet", nil, 30, "cost per month not known yet: the job has not run"},
		{"steady", steady, 30, "about $0.6000 a month (runs a month: 30, judged by 2)"},
		{"uneven", append([]ledger.Run{{USD: 0.2, Known: true}}, steady...), 100, "about $8.00 a month, up to $20.00 (runs a month: 100, judged by 3)"},
		{"unknown price", []ledger.Run{{Tokens: 5000}}, 720, "about 3.6M tokens a month at an unknown price (runs a month: 720, judged by 1)"},
		{"partly unknown", append([]ledger.Run{{USD: 0.02}}, steady...), 100, "at least $2.00 a month, some prices are unknown (runs a month: 100, judged by 3)"},
		{"costs nothing", []ledger.Run{{Tokens: 5000, Known: true}}, 1, "about $0 a month (runs a month: 1, judged by 1)"},
	} {
		if got := ledger.Project(c.runs, c.perMonth).String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}

	s := newShop(t, open, ledger.Limits{})
	m := s.meter(answering(usage(0, 1000)))
	for _, turn := range []string{"a", "a", "b", "", ""} {
		if _, err := run(t.Context(), m, llm.Request{Model: "m", Source: "cron", SessionKey: "cron:1", TurnID: turn}); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := s.Runs(t.Context(), ledger.Query{Session: "cron:1"})
	if err != nil || len(runs) != 4 || runs[0].USD != 0.02 || runs[0].Tokens != 2000 || !runs[1].Known {
		t.Errorf("runs = %+v, %v, want four, the first of two calls", runs, err)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "$0", 0.00001: "<$0.0001", 0.00123: "$0.0012", 0.5: "$0.5000", 0.9994: "$0.9994", 0.99999: "$1.00", 1: "$1.00", 12.345: "$12.35", 1234.5: "$1234.50",
	} {
		if got := ledger.Dollars(v); got != want {
			t.Errorf("Dollars(%v) = %q, want %q", v, got, want)
		}
	}
	for v, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 999_949: "999.9k", 999_950: "1.0M", 5_000_000: "5.0M", 2_000_000_000: "2.0G"} {
		if got := ledger.ShortCount(v); got != want {
			t.Errorf("Tokens(%v) = %q, want %q", v, got, want)
		}
	}
}
