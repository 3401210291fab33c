package deliver_test

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// stub is a queue that hands out the same message n times.
type stub struct {
	bus.Queue
	n    int
	done chan struct{}
}

func (s *stub) Outgoing(context.Context, string) iter.Seq2[bus.Delivery, error] {
	return func(yield func(bus.Delivery, error) bool) {
		for range s.n {
			if !yield(bus.Delivery{Outbound: bus.Outbound{ID: "x", Kind: bus.Final, Route: route("a", "c"), Text: "hi"}}, nil) {
				return
			}
		}
		close(s.done)
	}
}

func (*stub) Delivered(context.Context, string) error { return nil }

type sink struct{ platform }

func (*sink) Send(context.Context, bus.Outbound) (string, error) { return "", nil }

// BenchmarkWhole is what the manager adds to a message for a program of ours.
func BenchmarkWhole(b *testing.B) {
	q := &stub{n: b.N, done: make(chan struct{})}
	p := &sink{platform{caps: chat.Caps{Whole: true}}}
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Store: disk.Open(b.TempDir(), nil), DataDir: b.TempDir(), Sections: map[string]json.RawMessage{"a": json.RawMessage(`{"enabled":true}`)},
		Drivers: map[string]chat.Driver{"a": {New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) { p.deps = d; return p, nil }}},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { done <- m.Run(ctx) }()
	<-q.done
	b.StopTimer()
	cancel()
	<-done
}
