package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/chattest/venue"
)

const (
	platformChats = 100                   // on each of five platforms
	platformGap   = 10 * time.Millisecond // between two messages
	platformWait  = 2 * time.Minute       // for the last answer
	readyWait     = time.Minute
)

// crowd is many people on several platforms who write to one gateway.
type crowd struct {
	*gateway
	venues []*venue.Venue
	aside  int           // the platform whose answers do not count
	hangs  bool          // it never answers
	mend   chan struct{} // closed at the end

	mu    sync.Mutex
	asked map[place]time.Time // messages without an answer
	took  []time.Duration     // of answers that count
	left  int                 // answers to wait for
	full  chan struct{}       // closed when all of them are there
}

// place is a chat.
type place struct{ venue, chat int }

// startCrowd starts five platforms and a gateway that is on all of them. One is
// put aside, and may hang from then on.
func (b *bench) startCrowd(m *model, name, aside string, hangs bool) (*crowd, error) {
	c := &crowd{venues: venue.Five(platformChats), hangs: hangs, mend: make(chan struct{}), asked: map[place]time.Time{}}
	c.aside = slices.IndexFunc(c.venues, func(v *venue.Venue) bool { return v.Name == aside })
	if c.aside < 0 {
		c.close()
		return nil, fmt.Errorf("unknown platform %q", aside)
	}
	for v, where := range c.venues {
		chats := map[string]int{}
		for n := range platformChats {
			chats[where.ID(n)] = n
		}
		where.Line.Watch(func(id, text string) {
			if n, ok := chats[id]; ok && strings.Contains(text, "How can I help?") {
				c.answered(place{v, n})
			}
		})
	}
	conf, err := platformHome(filepath.Join(b.dir, name), m.serve(loadDelay), c.venues)
	if err != nil {
		c.close()
		return nil, err
	}
	if c.gateway, err = b.startGateway(filepath.Join(b.dir, name), conf); err != nil {
		c.close()
		return nil, err
	}
	for end := time.Now().Add(readyWait); slices.ContainsFunc(c.venues, func(v *venue.Venue) bool { return !v.Ready() }); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.close()
			return nil, fmt.Errorf("the gateway is not on all platforms after %s\n%s", readyWait, &c.errs)
		}
	}
	if hangs {
		c.venues[c.aside].Line.Stall(c.mend)
	}
	return c, nil
}

// platformHome writes the configuration of a gateway on these platforms.
func platformHome(dir, url string, venues []*venue.Venue) (string, error) {
	var more strings.Builder
	for _, v := range venues {
		v.Section["enabled"] = true
		section, err := json.Marshal(v.Section)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&more, ",%q:%s", v.Name, section)
	}
	return gatewayHome(dir, url, more.String(), "")
}

func (c *crowd) close() {
	close(c.mend)
	if c.gateway != nil {
		c.stop()
	}
	for _, v := range c.venues {
		v.Close()
	}
}

func (c *crowd) answered(p place) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	start, ok := c.asked[p]
	if !ok {
		return // it was there before and has changed its form
	}
	delete(c.asked, p)
	if p.venue != c.aside {
		c.took = append(c.took, now.Sub(start))
	}
	if c.left--; c.left == 0 {
		close(c.full)
	}
}

// round has every person write once, and waits for the answers of the platforms
// that give any.
func (c *crowd) round() (measured, error) {
	all := platformChats * len(c.venues)
	c.mu.Lock()
	clear(c.asked) // those of the platform that hangs
	c.took, c.full, c.left = nil, make(chan struct{}), all
	if c.hangs {
		c.left -= platformChats
	}
	c.mu.Unlock()

	begun := time.Now()
	for n := range all {
		time.Sleep(time.Until(begun.Add(time.Duration(n) * platformGap)))
		p := place{n % len(c.venues), n / len(c.venues)}
		c.mu.Lock()
		c.asked[p] = time.Now()
		c.mu.Unlock()
		c.venues[p.venue].Say(p.chat, "hello")
	}

	select {
	case <-c.full:
	case <-time.After(platformWait):
		c.mu.Lock()
		defer c.mu.Unlock()
		return measured{}, fmt.Errorf("%d answers are missing after %s\n%s", c.left, platformWait, &c.errs)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := measured{took: c.took, wall: time.Since(begun)}
	slices.Sort(m.took)
	return m, nil
}

// platforms compares the answers on four platforms while a fifth one hangs with
// those while it does not. Both gateways are measured in turn.
func (b *bench) platforms() error {
	m, err := b.startModel()
	if err != nil {
		return err
	}
	defer m.close()
	well, err := b.startCrowd(m, "platforms-well", b.hanging, false)
	if err != nil {
		return err
	}
	defer well.close()
	ill, err := b.startCrowd(m, "platforms-ill", b.hanging, true)
	if err != nil {
		return err
	}
	defer ill.close()

	rounds, err := inTurn(b.times(7, 3), well.round, ill.round)
	if err != nil {
		return err
	}
	if n := ill.venues[ill.aside].Line.Stalled(); n == 0 {
		return fmt.Errorf("%s does not hang: the gateway sent nothing to it", b.hanging)
	}
	r := rounds[len(rounds)/2]
	w, h := r[0].at(0.99), r[1].at(0.99)
	b.add(fmt.Sprintf("%d chats on five platforms while %s hangs: p99 of the other four", platformChats*len(well.venues), b.hanging),
		fmt.Sprintf("%s, %.2fx", ms(h), ratio(h, w)), ms(w)+" without", "<= 1.1x", ratio(h, w) <= 1.1)
	return nil
}

// inTurn measures two things alternately, once more than asked for to warm up.
// The rounds are sorted by the ratio of their p99.
func inTurn(n int, first, second func() (measured, error)) (rounds [][2]measured, err error) {
	for i := range n + 1 {
		var r [2]measured
		if r[0], err = first(); err != nil {
			return nil, err
		}
		if r[1], err = second(); err != nil {
			return nil, err
		}
		if i > 0 {
			rounds = append(rounds, r)
		}
	}
	late := func(r [2]measured) float64 { return ratio(r[1].at(0.99), r[0].at(0.99)) }
	slices.SortStableFunc(rounds, func(x, y [2]measured) int { return cmp.Compare(late(x), late(y)) })
	return rounds, nil
}
