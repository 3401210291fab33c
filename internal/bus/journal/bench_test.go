package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// BenchmarkTurn is what a message costs the journal: kept, received, answered,
// delivered. It needs a quiet disk to say something.
func BenchmarkTurn(b *testing.B) {
	for _, clients := range []int{1, 50} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			dir, err := os.MkdirTemp(".", "bench") //nolint:usetesting // temporary directories may be in memory
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			j, err := Open(disk.Open(dir, nil), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			benchTurns(b, j, clients)
		})
	}
}

func benchTurns(b *testing.B, j *Journal, clients int) {
	b.Helper()
	ctx := b.Context()
	go func() {
		for d := range j.Outgoing(ctx, "ws") {
			_ = j.Delivered(ctx, d.ID)
		}
	}()
	go func() {
		for {
			if _, err := j.Receive(ctx); err != nil {
				return
			}
		}
	}()
	var n atomic.Int64
	took := make([]time.Duration, b.N)
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				begun := time.Now()
				in := bus.Inbound{ID: fmt.Sprint("ws:", i), Route: bus.Route{Channel: "ws", ChatID: "x"}, Text: "How are you?", At: begun}
				if err := j.Submit(ctx, in); err != nil {
					b.Error(err)
				}
				if err := j.Complete(ctx, in.ID, bus.Outbound{Kind: bus.Final, Route: in.Route, Text: strings.Repeat("fine ", 40), Turn: &bus.Turn{ID: "t"}}); err != nil {
					b.Error(err)
				}
				took[i-1] = time.Since(begun)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkOpen opens a journal just before it would be compacted, with all
// the ids it ever remembers.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	full(b, dir)
	for b.Loop() {
		j, err := Open(disk.Open(dir, nil), Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if len(j.outs) != 0 || len(j.inbound) != 1 || len(j.seen.order) < j.opts.MaxSeen {
			b.Fatalf("%d outs, %d inbound, %d seen", len(j.outs), len(j.inbound), len(j.seen.order))
		}
		_ = j.release()
		b.StartTimer()
	}
}

func full(tb testing.TB, dir string) {
	tb.Helper()
	j, err := Open(disk.Open(dir, nil), Options{CompactAt: 1 << 40})
	if err != nil {
		tb.Fatal(err)
	}
	turns := func(from, n int) {
		for i := from; i < from+n; i++ {
			in := bus.Inbound{ID: fmt.Sprint("ws:", i), Route: bus.Route{Channel: "ws", ChatID: fmt.Sprint("chat", i%10000)}, Text: strings.Repeat("word ", 20)}
			out := bus.Outbound{ID: "o" + in.ID, Kind: bus.Final, Route: in.Route, Text: strings.Repeat("word ", 60), Turn: &bus.Turn{ID: "t"}}
			for _, err := range []error{j.Submit(tb.Context(), in), j.Complete(tb.Context(), in.ID, out), j.Delivered(tb.Context(), out.ID)} {
				if err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
	turns(0, 20000)
	if err := j.rewrite(); err != nil {
		tb.Fatal(err)
	}
	for i := 20000; j.file.size < 1<<20; i += 10 {
		turns(i, 10)
	}
	if err := j.Submit(tb.Context(), bus.Inbound{ID: "last"}); err != nil {
		tb.Fatal(err)
	}
	if err := j.release(); err != nil {
		tb.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "journal.jsonl")); err != nil || fi.Size() < 1<<20 {
		tb.Fatalf("journal: %v, %v", fi, err)
	}
}
