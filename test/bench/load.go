package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	loadClients = 50
	loadDelay   = 20 * time.Millisecond // of the model under load
	knownChats  = 10000
)

// turner is somebody who can have turns with a model, through us or directly.
type turner interface {
	turn(ctx context.Context, i int) error
	close()
}

// measured is what a driver saw.
type measured struct {
	took []time.Duration // sorted
	wall time.Duration
	size int64 // bytes of a request
}

func (m measured) at(q float64) time.Duration {
	return m.took[min(len(m.took)-1, int(q*float64(len(m.took))))]
}
func (m measured) rate() float64 { return float64(len(m.took)) / m.wall.Seconds() }

// drive lets every client have that many turns, all clients at once.
func drive[T turner](ctx context.Context, clients []T, each int) (measured, error) {
	took := make([][]time.Duration, len(clients))
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	begun := time.Now()
	for i, c := range clients {
		took[i] = make([]time.Duration, 0, each)
		wg.Go(func() {
			for n := range each {
				start := time.Now()
				if errs[i] = c.turn(ctx, n); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	m := measured{took: slices.Concat(took...), wall: time.Since(begun)}
	slices.Sort(m.took)
	return m, errors.Join(errs...)
}

// through drives a gateway and notes how large the requests were that it made
// of the messages.
func (g *gateway) through(ctx context.Context, m *model, name string, clients, each int) (measured, error) {
	var list []*talker
	defer func() {
		for _, t := range list {
			t.close()
		}
	}()
	for i := range clients {
		t, err := g.connect(ctx, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return measured{}, err
		}
		list = append(list, t)
	}
	if _, err := drive(ctx, list, 5); err != nil { // warm-up
		return measured{}, err
	}
	before, err := m.stats()
	if err != nil {
		return measured{}, err
	}
	out, err := drive(ctx, list, each)
	if err != nil {
		return out, err
	}
	after, err := m.stats()
	out.size = (after.Bytes - before.Bytes) / max(1, after.Requests-before.Requests)
	return out, err
}

// straight drives the model itself with requests of the same size.
func (m *model) straight(ctx context.Context, delay time.Duration, like measured, clients, each int) (measured, error) {
	var list []*direct
	for range clients {
		d := newDirect(m.serve(delay), like.size)
		defer d.close()
		list = append(list, d)
	}
	if _, err := drive(ctx, list, 5); err != nil {
		return measured{}, err
	}
	return drive(ctx, list, each)
}

// pair is a run through us and one beside us.
type pair struct{ ours, floor measured }

func (p pair) own() time.Duration  { return max(0, p.ours.at(0.5)-p.floor.at(0.5)) }
func (p pair) late() time.Duration { return max(0, p.ours.at(0.99)-p.floor.at(0.5)) }

func (b *bench) pairs(g *gateway, m *model, name string, delay time.Duration, clients, each int) ([]pair, error) {
	var out []pair
	for i := range b.times(3, 1) {
		ours, err := g.through(context.Background(), m, fmt.Sprintf("%s-%d", name, i), clients, each)
		if err != nil {
			return nil, err
		}
		floor, err := m.straight(context.Background(), delay, ours, clients, each)
		if err != nil {
			return nil, err
		}
		out = append(out, pair{ours, floor})
	}
	return out, nil
}

// load measures a gateway at work: one client, many at once, with many chats
// known, and beside things that hang.
func (b *bench) load() error {
	m, err := b.startModel()
	if err != nil {
		return err
	}
	defer m.close()
	own, err := b.loadOne(m, "load-one", 0)
	if err != nil {
		return err
	}
	b.add("WebSocket turn, one client: own time (median)", ms(own.own()), ms(own.floor.at(0.5))+" direct", "<= 1.5 ms", own.own() <= 1500*time.Microsecond)
	b.add("the same, p99 beyond the direct median", ms(own.late()), ms(own.floor.at(0.99))+" direct p99", "<= 6 ms", own.late() <= 6*time.Millisecond)
	known, err := b.loadOne(m, "load-known", knownChats)
	if err != nil {
		return err
	}
	r := ratio(known.own(), own.own())
	b.add(fmt.Sprintf("the same with %d chats known (median)", knownChats), fmt.Sprintf("%s, %.2fx", ms(known.own()), r), "", "<= 1.2x", r <= 1.2)
	if err := b.loadMany(m, loadDelay, true); err != nil {
		return err
	}
	if err := b.loadMany(m, 0, false); err != nil {
		return err
	}
	return b.hangs(m)
}

func (b *bench) loadOne(m *model, name string, chats int) (pair, error) {
	dir := filepath.Join(b.dir, name)
	conf, err := gatewayHome(dir, m.serve(0), "", "")
	if err != nil {
		return pair{}, err
	}
	if err := knowChats(dir, chats); err != nil {
		return pair{}, err
	}
	g, err := b.startGateway(dir, conf)
	if err != nil {
		return pair{}, err
	}
	defer g.stop()
	list, err := b.pairs(g, m, "one", 0, 1, b.times(300, 100))
	if err != nil {
		return pair{}, err
	}
	slices.SortStableFunc(list, func(x, y pair) int { return cmp.Compare(x.own(), y.own()) })
	return list[len(list)/2], nil
}

// knowChats writes short conversations of many chats.
func knowChats(dir string, n int) error {
	if n == 0 {
		return nil
	}
	store, err := session.Open(session.Options{DataDir: filepath.Join(dir, ".nanobot"), Store: disk.Open(filepath.Join(dir, ".nanobot"), nil), Workspace: filepath.Join(dir, "workspace"), Fsync: session.FsyncNever})
	if err != nil {
		return err
	}
	defer store.Close()
	for i := range n {
		s, err := store.Acquire(context.Background(), fmt.Sprint("websocket:known-", i))
		if err != nil {
			return err
		}
		err = s.Append(
			session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text("What is the weather like?")}},
			session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("I cannot look out of the window.")}},
		)
		if err := errors.Join(err, s.Release()); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) loadMany(m *model, delay time.Duration, judged bool) error {
	dir := filepath.Join(b.dir, fmt.Sprint("load-many-", delay))
	conf, err := gatewayHome(dir, m.serve(delay), "", "")
	if err != nil {
		return err
	}
	g, err := b.startGateway(dir, conf)
	if err != nil {
		return err
	}
	defer g.stop()
	list, err := b.pairs(g, m, "many", delay, loadClients, b.times(100, 40))
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(x, y pair) int {
		return cmp.Compare(x.ours.rate()/x.floor.rate(), y.ours.rate()/y.floor.rate())
	})
	p := list[len(list)/2]
	share, late := 100*p.ours.rate()/p.floor.rate(), ratio(p.ours.at(0.99), p.floor.at(0.99))
	what := fmt.Sprintf("%d clients, model answers after %s", loadClients, delay)
	ours, floor := fmt.Sprintf("%.0f turns/s, %.0f %%", p.ours.rate(), share), fmt.Sprintf("%.0f turns/s", p.floor.rate())
	slow := fmt.Sprintf("%s / %s, %.2fx", ms(p.ours.at(0.5)), ms(p.ours.at(0.99)), late)
	direct := fmt.Sprintf("%s / %s", ms(p.floor.at(0.5)), ms(p.floor.at(0.99)))
	if !judged {
		b.rows = append(b.rows, row{what, ours, floor, "", ""}, row{"the same, median / p99", slow, direct, "", ""})
		return nil
	}
	b.add(what, ours, floor, ">= 40 % of direct", share >= 40)
	b.add("the same, median / p99", slow, direct, "p99 <= 2.5x direct", late <= 2.5)
	return nil
}

// hangs compares a gateway where all is well with one where much hangs.
func (b *bench) hangs(m *model) error {
	deaf, err := deafServer()
	if err != nil {
		return err
	}
	defer deaf.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // who waits for what hangs, waits in vain
	defer cancel()
	well, err := b.hangGateway(m, "load-well", "", "")
	if err != nil {
		return err
	}
	defer well.stop()
	ill, err := b.hangGateway(m, "load-ill",
		fmt.Sprintf(`,"telegram":{"enabled":true,"token":"123456:benchbenchbenchbenchbenchbenchbench","allowFrom":["*"],"apiBase":"http://%s"}`, deaf.Addr()),
		`,"tools":{"mcpServers":{"hung":{"command":"sleep","args":["600"]}}}`)
	if err != nil {
		return err
	}
	defer ill.stop()
	for i, text := range []string{hangModel, hangModel, hangModel, hangModel, hangTool, hangTool, largeWord, largeWord} {
		t, err := ill.connect(ctx, fmt.Sprint("hang-", i))
		if err != nil {
			return err
		}
		defer t.close()
		if err := t.say(ctx, text); err != nil { // and read nothing any more
			return err
		}
	}
	time.Sleep(2 * time.Second) // until everything hangs
	type round struct{ well, ill measured }
	var rounds []round
	for i := range b.times(5, 2) {
		w, err := well.through(ctx, m, fmt.Sprint("r", i), 10, b.times(150, 60))
		if err != nil {
			return err
		}
		h, err := ill.through(ctx, m, fmt.Sprint("r", i), 10, b.times(150, 60))
		if err != nil {
			return fmt.Errorf("beside things that hang: %w\n%s", err, &ill.errs)
		}
		rounds = append(rounds, round{w, h})
	}
	slices.SortStableFunc(rounds, func(x, y round) int {
		return cmp.Compare(ratio(x.ill.at(0.99), x.well.at(0.99)), ratio(y.ill.at(0.99), y.well.at(0.99)))
	})
	r := rounds[len(rounds)/2]
	x := ratio(r.ill.at(0.99), r.well.at(0.99))
	b.add("10 clients beside models, a tool, an MCP server, a platform and peers that hang: p99", fmt.Sprintf("%s, %.2fx", ms(r.ill.at(0.99)), x), ms(r.well.at(0.99))+" without", "<= 1.1x", x <= 1.1)
	return nil
}

func (b *bench) hangGateway(m *model, name, more, top string) (*gateway, error) {
	dir := filepath.Join(b.dir, name)
	conf, err := gatewayHome(dir, m.serve(loadDelay), more, top)
	if err != nil {
		return nil, err
	}
	return b.startGateway(dir, conf)
}

// deafServer takes connections and never says anything.
func deafServer() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		var held []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range held {
					_ = c.Close()
				}
				return
			}
			held = append(held, c)
		}
	}()
	return l, nil
}
