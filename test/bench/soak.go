package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	soakClients = 8
	soakChats   = 40              // each client changes its chat, so that sessions come and go
	soakLimit   = time.Hour       // beyond the time asked for
	soakRest    = 2 * time.Minute // what was worked with is given back by then, and what is new is in the index
	soakWarm    = 50000           // turns before the first look: until then conversations kept in memory become more and longer
)

// soak has many turns with one gateway and looks whether anything grows
// between the first tenth and the end.
func (b *bench) soak() error {
	m, err := b.startModel()
	if err != nil {
		return err
	}
	defer m.close()
	dir := filepath.Join(b.dir, "soak")
	conf, err := gatewayHome(dir, m.serve(0), "", "")
	if err != nil {
		return err
	}
	g, err := b.startGateway(dir, conf)
	if err != nil {
		return err
	}
	defer g.stop()
	ctx, cancel := context.WithTimeout(context.Background(), b.over+soakLimit)
	defer cancel()
	var marks []usage
	var done atomic.Int64
	step := max(1, b.turnsWanted/10)
	if err := g.burst(ctx, 0, soakWarm, 0, &done); err != nil {
		return fmt.Errorf("after %d turns: %w\n%s", done.Load(), err, &g.errs)
	}
	done.Store(0)
	begun := time.Now()
	for i := range 10 {
		if err := g.burst(ctx, soakWarm+i, step, b.over/10, &done); err != nil {
			return fmt.Errorf("after %d turns: %w\n%s", done.Load(), err, &g.errs)
		}
		pause := 2 * time.Second
		if i == 0 || i == 9 { // what is compared is what it keeps, not what it has not collected yet
			pause = soakRest
		}
		u, _, err := g.rest(pause)
		if err != nil {
			return err
		}
		marks = append(marks, u)
		fmt.Fprintf(os.Stderr, "  %7d turns, %s: RSS %s (%s own), %d goroutines, %d fds, disk %s\n",
			done.Load(), time.Since(begun).Round(time.Second), mib(u.rss), mib(u.own), u.goroutines, u.fds, mib(u.disk))
	}
	first, last := marks[0], marks[len(marks)-1]
	total := fmt.Sprintf("soak, %d turns in %s: ", done.Load(), time.Since(begun).Round(time.Second))
	flat := func(what string, a, z, slack int64, show func(int64) string) {
		b.add(total+what, show(z), show(a)+" after a tenth", "flat", z <= a+slack)
	}
	number := func(n int64) string { return fmt.Sprint(n) }
	flat("RSS", first.rss, last.rss, max(4<<20, first.rss/10), mib)
	flat("goroutines", int64(first.goroutines), int64(last.goroutines), 5, number)
	flat("file descriptors", int64(first.fds), int64(last.fds), 5, number)
	b.rows = append(b.rows, row{total + "disk", mib(last.disk), mib(first.disk) + " after a tenth", "", ""})
	return nil
}

// burst has so many turns with all clients, in chats that come again, evenly
// over some time or as fast as can be.
func (g *gateway) burst(ctx context.Context, round, turns int, over time.Duration, done *atomic.Int64) error {
	var wg sync.WaitGroup
	begun, each := time.Now(), over/time.Duration(turns/soakClients)
	errs := make(chan error, soakClients)
	for c := range soakClients {
		wg.Go(func() {
			for n := 0; n < turns/soakClients; {
				t, err := g.connect(ctx, fmt.Sprintf("soak-%d-%d", c, (n/25)%soakChats))
				if err != nil {
					errs <- err
					return
				}
				t.n = round*turns + n // message ids stay unique in a chat
				for range min(25, turns/soakClients-n) {
					if err := t.turn(ctx, n); err != nil {
						errs <- err
						t.close()
						return
					}
					n++
					done.Add(1)
					time.Sleep(time.Until(begun.Add(time.Duration(n) * each)))
				}
				t.close()
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}
