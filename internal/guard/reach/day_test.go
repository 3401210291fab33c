package reach_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/reach"
)

// packages is a request to a package host.
func packages(n int) httpsafe.Use {
	return httpsafe.Use{Host: "pypi.org", Class: httpsafe.ClassPackages, Requests: 1, Bytes: n}
}

// spendAll sends in turns of their own until nothing is allowed any more.
func spendAll(t *testing.T, access func(turn int) *httpsafe.Access, size int) int {
	t.Helper()
	sent := 0
	for turn := range 100 {
		a := access(turn)
		before := sent
		for a.Spend(t.Context(), packages(size)) == nil {
			sent += size
		}
		if sent == before {
			return sent
		}
	}
	t.Fatalf("100 turns sent %d bytes and nothing ended it", sent)
	return 0
}

// TestDay sends away in many turns what one may not send.
func TestDay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 22, 0, 0, 0, time.UTC)
	day := 8 * httpsafe.ClassPackages.Limit().Bytes
	setting := "tools.mcpServers.x.allowedHosts"
	for name, access := range map[string]func(p *reach.Policy, turn int) *httpsafe.Access{
		"the owner's turns": func(p *reach.Policy, turn int) *httpsafe.Access {
			c := call(nil, "s", fmt.Sprint(turn))
			c.Tainted = true
			return command(t, p, c)
		},
		"conversations": func(p *reach.Policy, turn int) *httpsafe.Access {
			c := call(nil, fmt.Sprint("s", turn), "1")
			c.Tainted = true
			return command(t, p, c)
		},
		"a guest": func(p *reach.Policy, turn int) *httpsafe.Access {
			return p.Guest(t.Context(), call(nil, "g", fmt.Sprint(turn)))
		},
		"a server": func(p *reach.Policy, _ int) *httpsafe.Access { return p.Server(setting, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, clock := t.TempDir(), now
			open := func() *reach.Policy {
				return reach.New(reach.Options{Sent: disk.Open(dir, nil), Now: func() time.Time { return clock }})
			}
			use := func(p *reach.Policy) int {
				return spendAll(t, func(turn int) *httpsafe.Access { return access(p, turn) }, 1000)
			}
			sent := use(open())
			if sent > day || sent < day/2 {
				t.Errorf("%d bytes left in a day, the limit is %d", sent, day)
			}
			clock = now.Add(time.Hour)
			if more := use(open()); sent+more > day {
				t.Errorf("%d more bytes left after a restart", more)
			}
			clock = now.Add(-24 * time.Hour)
			if more := use(open()); sent+more > day {
				t.Errorf("%d more bytes left after the clock went back", more)
			}
			clock = now.Add(3 * time.Hour)
			if use(open()) == 0 {
				t.Error("the next day allows nothing")
			}
		})
	}
}

// Processes of one data folder share the day.
func TestDayOfNeighbours(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	day := 8 * httpsafe.ClassPackages.Limit().Bytes
	var mu sync.Mutex
	var all int
	var both sync.WaitGroup
	for process := range 3 {
		p := reach.New(reach.Options{Sent: disk.Open(dir, nil)})
		both.Go(func() {
			sent := spendAll(t, func(turn int) *httpsafe.Access {
				c := call(nil, fmt.Sprint("s", process), fmt.Sprint(turn))
				c.Tainted = true
				return command(t, p, c)
			}, 1000)
			mu.Lock()
			defer mu.Unlock()
			all += sent
		})
	}
	both.Wait()
	if all > day || all < day/2 {
		t.Errorf("three processes sent %d bytes, the limit of the day is %d", all, day)
	}
}

// brokenStore cannot be written.
type brokenStore struct{ store.Store }

func (brokenStore) Doc(context.Context, string) ([]byte, store.Version, error) {
	return nil, "", errors.New("no disk")
}

// A person may allow more, also for the day; without sums nothing is sent.
func TestDayIsAsked(t *testing.T) {
	t.Parallel()
	who := &person{answers: []string{"yes", "yes", "yes", "yes", "no"}}
	p := reach.New(reach.Options{Sent: disk.Open(t.TempDir(), nil)})
	c := call(who, "s", "1")
	c.Tainted = true
	a := command(t, p, c)
	sent := 0
	for a.Spend(t.Context(), packages(4000)) == nil {
		sent += 4000
	}
	asked := 0
	for _, q := range who.asked {
		if strings.Contains(q.Text, "today") {
			asked++
		}
	}
	if limit := 8 * httpsafe.ClassPackages.Limit().Bytes; sent <= limit || asked == 0 {
		t.Errorf("%d bytes after %d questions about the day, want more than %d after a yes", sent, asked, limit)
	}

	c.TurnID = "2"
	c.Ask = nil
	p = reach.New(reach.Options{Sent: brokenStore{}})
	if command(t, p, c).Spend(t.Context(), packages(1)) == nil {
		t.Error("sent although the sums of the day cannot be read")
	}
}

// A request that strangers see something of is asked about, also at a package
// host, and refused where nobody can be asked.
func TestExposedRequests(t *testing.T) {
	t.Parallel()
	p := reach.New(reach.Options{})
	exposed := httpsafe.HostRequest{Host: "github.com", Port: 443, Exposes: "downloads are counted"}
	who := &person{answers: []string{"turn"}}
	if got, err := command(t, p, call(who, "s", "1")).Decide(t.Context(), exposed); got != httpsafe.ReachFull || err != nil {
		t.Errorf("after a yes: %v, %v", got, err)
	}
	if who.count() != 1 || !strings.Contains(who.asked[0].Text, "downloads are counted") {
		t.Errorf("asked %v", who.asked)
	}
	for name, a := range map[string]*httpsafe.Access{
		"a guest":  p.Guest(t.Context(), call(who, "g", "1")),
		"a server": p.Server("tools.mcpServers.x.allowedHosts", nil),
		"a job":    command(t, p, call(nil, "j", "1")),
	} {
		if got, err := a.Decide(t.Context(), exposed); got != httpsafe.ReachNone || err == nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Names below a wildcard of the owner carry data to whoever runs the zone.
func TestNamesCount(t *testing.T) {
	t.Parallel()
	p := reach.New(reach.Options{Allowed: rules(t, "*.wild.example.org")})
	c := call(nil, "s", "1")
	c.Tainted = true
	a := command(t, p, c)
	names := 0
	for i := range 1000 {
		if a.Spend(t.Context(), httpsafe.Use{Host: fmt.Sprintf("data%d.wild.example.org", i), Requests: 1}) != nil {
			break
		}
		names++
	}
	if limit := httpsafe.ClassNamed.Limit().Hosts; names > limit {
		t.Errorf("%d names were looked up, the limit is %d", names, limit)
	}
}
