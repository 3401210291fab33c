package mcp

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// probed holds what a short connection to servers found out.
type probed struct {
	Status []Status
	Tools  []tool.Tool
	Took   time.Duration // until the last server had answered
	Odd    []string      // what servers printed where only messages belong
}

// probeTime bounds a probe: a server has 15 s to greet, and one that ends
// at a question it does not know is greeted a second time.
const probeTime = 30 * time.Second

// probe connects to the servers of o, waits until every one of them is ready or
// has failed twice, and disconnects.
func probe(ctx context.Context, o Options) (probed, error) {
	lines := &oddLines{next: o.Log.Handler()}
	o.Log = slog.New(lines)
	pool, err := New(o)
	if err != nil {
		return probed{}, err
	}

	ctx, cancel := context.WithTimeout(ctx, probeTime)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = pool.Run(ctx) }) // ends with ctx
	began := time.Now()
	p := probed{}
	p.Tools, _ = pool.Tools(ctx)
	failed := map[string]map[time.Time]bool{}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()

	for {
		p.Status = pool.Status()
		if !slices.ContainsFunc(p.Status, func(s Status) bool { return pending(s, failed) }) {
			break
		}

		select {
		case <-look.C:
			continue
		case <-ctx.Done():
		}
		break
	}

	p.Took = time.Since(began)
	p.Tools, _ = pool.Tools(ctx)
	p.Odd = lines.collected()
	return p, nil
}

// pending reports whether it is worth to wait for a server. failed collects
// when attempts of each ended.
func pending(s Status, failed map[string]map[time.Time]bool) bool {
	switch s.State {
	case Idle, Connecting:
		return true
	case Backoff:
		if failed[s.Name] == nil {
			failed[s.Name] = map[time.Time]bool{}
		}
		failed[s.Name][s.Since] = true
		// What was never started will not start the second time.
		never := s.Transport != Stdio || strings.Contains(s.Error, "is not in PATH") || strings.HasPrefix(s.Error, "start ")
		return len(failed[s.Name]) < 2 && !never
	}
	return false
}

// oddLines is a log handler that keeps the warnings about lines of a server
// which are not messages.
type oddLines struct {
	next slog.Handler

	mu    sync.Mutex
	lines []string
}

// Enabled implements slog.Handler.
func (o *oddLines) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || o.next.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (o *oddLines) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "line" {
			o.mu.Lock()
			o.lines = append(o.lines, a.Value.String())
			o.mu.Unlock()
		}
		return true
	})
	if !o.next.Enabled(ctx, r.Level) {
		return nil
	}
	return o.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler. What is added is not of interest here.
func (o *oddLines) WithAttrs([]slog.Attr) slog.Handler { return o }

// WithGroup implements slog.Handler.
func (o *oddLines) WithGroup(string) slog.Handler { return o }

func (o *oddLines) collected() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines
}
