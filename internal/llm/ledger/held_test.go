package ledger_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// greedy is a model that costs as much as a request allows: every byte of the
// prompt is a token, and the answer is as long as it may be. It tells when it
// was asked and waits for leave to answer.
func greedy(asked func(), leave <-chan struct{}) llm.Model {
	return llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			asked()
			select {
			case <-leave:
			case <-ctx.Done():
				yield(llm.Event{}, ctx.Err())
				return
			}
			answer := req.MaxTokens
			if answer == 0 {
				answer = 100_000
			}
			u := usage(len(req.System)+len(req.Messages[0].Content.Text), answer)
			u.CacheWrite = u.Prompt
			yield(done(u), nil)
		}
	})
}

func dearPrices(tb testing.TB) *ledger.Prices {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "prices.json")
	if err := os.WriteFile(file, []byte(`[{"model":"m","in":3,"out":15,"cacheWrite":3.75,"cacheRead":0.3}]`), 0o600); err != nil {
		tb.Fatal(err)
	}
	return ledger.NewPrices(file, nil)
}

func dearRequest(i int) llm.Request {
	return llm.Request{Model: "m", System: strings.Repeat("漢字-0x9f ", 900), Messages: user("go"), MaxTokens: 2000, Estimate: 400, TurnID: "t" + strconv.Itoa(i)}
}

// 24 turns at once, each as dear as it can get, stay within the limit.
func TestParallelTurnsStayWithinTheLimit(t *testing.T) {
	storetest.Each(t, testParallelTurnsStayWithinTheLimit)
}

func testParallelTurnsStayWithinTheLimit(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, bound := range []int{2000, 0} {
		s := newShop(t, open, ledger.Limits{DailyUSD: 0.50})
		leave := make(chan struct{})
		m := ledger.Meter(greedy(func() {}, leave), ledger.MeterOptions{Ledger: s.Ledger, Prices: dearPrices(t), Provider: "p"})
		var wg sync.WaitGroup
		var mu sync.Mutex
		refused, said := 0, ""
		for i := range 24 {
			wg.Go(func() {
				req := dearRequest(i)
				req.MaxTokens = bound
				for range 4 {
					if _, err := run(t.Context(), m, req); err != nil {
						mu.Lock()
						refused++
						said = err.Error()
						mu.Unlock()
						return
					}
				}
			})
		}
		close(leave)
		wg.Wait()
		today := s.today()
		if today.USD > 0.50 || today.USD < 0.2 || refused == 0 || !strings.Contains(said, "dailyUsd") {
			t.Errorf("bound %d: spent $%.4f of $0.50 in %d calls, %d refused: %s", bound, today.USD, today.Calls, refused, said)
		}
	}
}

const heldChild = "NANOBOT_LEDGER_CHILD"

// TestHeldChild is a process of TestProcessesStayWithinTheLimit.
func TestHeldChild(t *testing.T) {
	dir := os.Getenv(heldChild)
	if dir == "" {
		t.Skip("only for another test")
	}
	l := ledger.New(ledger.Options{Store: disk.Open(dir, nil), Limits: ledger.Limits{DailyUSD: 0.10}})
	prices := ledger.NewPrices(filepath.Join(dir, "..", "prices.json"), nil)
	leave := make(chan struct{})
	if os.Getenv(heldChild+"_HANG") == "" {
		close(leave)
	}
	m := ledger.Meter(greedy(func() { fmt.Fprintln(os.Stdout, "asked") }, leave), ledger.MeterOptions{Ledger: l, Prices: prices, Provider: "p"})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for range 3 {
				if _, err := run(t.Context(), m, dearRequest(i)); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func child(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHeldChild$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), append(env, heldChild+"="+dir)...)
	return cmd
}

func childDir(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "prices.json"), []byte(`[{"model":"m","in":3,"out":15,"cacheWrite":3.75,"cacheRead":0.3}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(home, "usage")
}

// Eight processes together stay within the limit, too.
func TestProcessesStayWithinTheLimit(t *testing.T) {
	t.Parallel()
	dir := childDir(t)
	var wg sync.WaitGroup
	for range 8 {
		cmd := child(t, dir)
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	l := ledger.New(ledger.Options{Store: disk.Open(dir, nil)})
	if today := spentToday(l); today.USD > 0.10 || today.USD < 0.04 {
		t.Errorf("spent $%.4f of $0.10 in %d calls", today.USD, today.Calls)
	}
	left, err := filepath.Glob(filepath.Join(dir, "held", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A process that is killed in the middle of a call costs what it had reserved:
// nobody will ever know better.
func TestKilledProcessIsBooked(t *testing.T) {
	t.Parallel()
	dir := childDir(t)
	cmd := child(t, dir, heldChild+"_HANG=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for text := ""; strings.Count(text, "asked") == 0; {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		text += string(buf[:n])
	}
	held, err := filepath.Glob(filepath.Join(dir, "held", "*.jsonl"))
	if err != nil || len(held) != 1 {
		t.Fatalf("reservations: %v, %v", held, err)
	}
	mine := ledger.New(ledger.Options{Store: disk.Open(dir, nil), Limits: ledger.Limits{DailyUSD: 0.10}})
	prices := ledger.NewPrices(filepath.Join(dir, "..", "prices.json"), nil)
	open := make(chan struct{})
	close(open)
	m := ledger.Meter(greedy(func() {}, open), ledger.MeterOptions{Ledger: mine, Prices: prices, Provider: "p"})
	for range 9 { // as long as it lives, its reservation counts
		if _, err := run(t.Context(), m, dearRequest(1)); err != nil {
			break
		}
	}
	before := spentToday(mine).USD
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	_, _ = run(t.Context(), m, dearRequest(2))
	after := spentToday(mine)
	if after.USD <= before || after.USD > 0.10+1e-9 {
		t.Errorf("before the end $%.4f, afterwards $%.4f", before, after.USD)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "held", "*.jsonl")); len(left) > 1 {
		t.Errorf("left behind: %v", left)
	}
	found := false
	for e, err := range mine.Entries(t.Context(), ledger.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || e.Outcome == "lost" && e.Estimated && e.USD > 0 && !math.IsInf(e.USD, 0)
	}
	if !found {
		t.Error("the log does not tell about the lost call")
	}
}

// What a process of the program before held in a document is booked once, if it died.
func TestReservationsOfTheProgramBefore(t *testing.T) {
	t.Parallel()
	dir := childDir(t)
	held := filepath.Join(dir, "held")
	if err := os.MkdirAll(held, 0o700); err != nil {
		t.Fatal(err)
	}
	doc := fmt.Sprintf(`[{"id":1,"at":%q,"source":"user","model":"m","billing":"priced","in":10,"out":10,"nanoUsd":20000000,"tokens":20}]`, time.Now().Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(held, "OLD.json"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	l := ledger.New(ledger.Options{Store: disk.Open(dir, nil), Limits: ledger.Limits{DailyUSD: 1}})
	leave := make(chan struct{})
	close(leave)
	m := ledger.Meter(greedy(func() {}, leave), ledger.MeterOptions{Ledger: l, Prices: ledger.NewPrices(filepath.Join(dir, "..", "prices.json"), nil), Provider: "p"})
	for i := range 2 {
		if _, err := run(t.Context(), m, dearRequest(i)); err != nil {
			t.Fatal(err)
		}
	}
	lost := 0
	for e, err := range l.Entries(t.Context(), ledger.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Outcome == "lost" {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("booked %d times, want once", lost)
	}
	if left, _ := filepath.Glob(filepath.Join(held, "*.json")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
