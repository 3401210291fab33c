package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// daily is how many times the limit of a turn may leave in a day.
const daily = 8

// block is the part of a day's limit that a process reserves at a time, so that
// not every request is written down. What a process that ends has left of it is
// lost to the day.
const block = 32

// errDay says that the limit of the day is reached.
var errDay = errors.New("as much was sent today as may be")

// day sums up what leaves in a day, over restarts and together with other
// processes of the same data folder.
type day struct {
	store store.Store // nil: nothing is counted
	now   func() time.Time

	mu       sync.Mutex
	date     string
	reserved map[string]httpsafe.Cost // and not used yet, by party and class
}

func newDay(s store.Store, now func() time.Time) *day {
	return &day{store: s, now: now, reserved: map[string]httpsafe.Cost{}}
}

// sums is the document of a day.
type sums struct {
	Date    string            `json:"date"`
	Parties map[string]*party `json:"parties"`
}

// party holds what the owner's turns, a guest or a server have sent.
type party struct {
	Spent      [httpsafe.Classes]httpsafe.Cost `json:"spent"`
	Extensions int                             `json:"extensions,omitempty"` // by the owner; each allows a day's limit more
}

// limit returns what a party may send in a day.
func (p *party) limit(class httpsafe.Class) httpsafe.Cost {
	return class.Limit().Times(daily * (1 + p.Extensions))
}

// spend counts what is about to be sent. The error is errDay if it does not fit,
// or why the sums cannot be kept.
func (d *day) spend(ctx context.Context, who string, class httpsafe.Class, cost httpsafe.Cost) error {
	if d.store == nil {
		return nil
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if today := d.today(); today != d.date {
		d.date = today
		clear(d.reserved)
	}

	key := fmt.Sprintf("%d %s", class, who)
	if !cost.Within(d.reserved[key]) {
		if err := d.reserve(ctx, key, who, class, cost); err != nil {
			return err
		}
	}

	d.reserved[key] = d.reserved[key].Add(cost.Times(-1))
	return nil
}

// reserve takes a block of the day's limit, or what is left of it, so that there
// is enough for a cost.
func (d *day) reserve(ctx context.Context, key, who string, class httpsafe.Class, cost httpsafe.Cost) error {
	have, limit := d.reserved[key], class.Limit()
	lack := httpsafe.Cost{
		Requests: max(0, cost.Requests-have.Requests),
		Bytes:    max(0, cost.Bytes-have.Bytes),
		Hosts:    max(0, cost.Hosts-have.Hosts),
	}

	part := httpsafe.Cost{
		Requests: atLeast(lack.Requests, limit.Requests),
		Bytes:    atLeast(lack.Bytes, limit.Bytes),
		Hosts:    atLeast(lack.Hosts, limit.Hosts),
	}

	var granted httpsafe.Cost
	err := d.change(ctx, func(s *sums) error {
		p := s.party(who)
		for _, want := range []httpsafe.Cost{part, lack} {
			if sum := p.Spent[class].Add(want); sum.Within(p.limit(class)) {
				p.Spent[class] = sum
				granted = want
				return nil
			}
		}

		return errDay
	})
	if err != nil {
		return err
	}

	d.reserved[key] = d.reserved[key].Add(granted)
	return nil
}

// atLeast returns what to reserve of a measure that lacks something.
func atLeast(lack, limit int) int {
	if lack == 0 {
		return 0
	}
	return max(lack, limit*daily/block)
}

// extend allows the amount of a day once more, because a person said so.
func (d *day) extend(ctx context.Context, who string) error {
	if d.store == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.change(ctx, func(s *sums) error {
		s.party(who).Extensions++
		return nil
	})
}

func (s *sums) party(who string) *party {
	if s.Parties == nil {
		s.Parties = map[string]*party{}
	}
	if s.Parties[who] == nil {
		s.Parties[who] = &party{}
	}
	return s.Parties[who]
}

// maxTries bounds how often the document is read again because another process
// wrote it.
const maxTries = 50

// change reads the document of today, changes it and writes it back. fn is
// called again if another process was faster.
func (d *day) change(ctx context.Context, fn func(s *sums) error) error {
	name := string(datadir.Sent)
	for range maxTries {
		data, version, err := d.store.Doc(ctx, name)
		if err != nil {
			return fmt.Errorf("read what was sent today: %w", err)
		}

		var s sums
		if len(data) > 0 {
			if err := json.Unmarshal(data, &s); err != nil {
				return fmt.Errorf("read what was sent today: %s: %w", d.store.Where(name), err)
			}
		}

		if !s.covers(d.now()) {
			s = sums{Date: d.today()}
		}

		if err := fn(&s); err != nil {
			return err
		}

		if data, err = json.Marshal(s); err != nil {
			return fmt.Errorf("write what was sent today: %w", err)
		}

		_, err = d.store.Put(ctx, name, data, version, false)
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrChanged) {
			return fmt.Errorf("write what was sent today: %w", err)
		}
	}

	return errors.New("write what was sent today: other processes are always faster")
}

// covers reports whether the sums are those of today. A clock that goes back
// over midnight starts no new day.
func (s *sums) covers(now time.Time) bool {
	today, tomorrow := now.Format(time.DateOnly), now.AddDate(0, 0, 1).Format(time.DateOnly)
	return s.Date == today || s.Date == tomorrow
}

func (d *day) today() string { return d.now().Format(time.DateOnly) }
