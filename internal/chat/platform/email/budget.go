package email

import (
	"slices"
	"sync"
	"time"
)

// budget bounds what is sent to one address, so that two machines that answer
// each other do not do so all night.
type budget struct {
	most int
	per  time.Duration

	mu   sync.Mutex
	sent map[string][]time.Time
}

func newBudget(most int, per time.Duration) *budget {
	return &budget{most: most, per: per, sent: map[string][]time.Time{}}
}

// wait says how long it takes until one more mail may go to an address; 0
// takes it.
func (b *budget) wait(to string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()

	for k, list := range b.sent {
		list = slices.DeleteFunc(list, func(at time.Time) bool { return now.Sub(at) >= b.per || at.After(now) })
		if b.sent[k] = list; len(list) == 0 {
			delete(b.sent, k)
		}
	}

	list := b.sent[to]
	if len(list) >= b.most {
		return b.per - now.Sub(list[0])
	}

	b.sent[to] = append(list, now)
	return 0
}

// back returns what was taken for a mail that was not sent after all.
func (b *budget) back(to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if list := b.sent[to]; len(list) > 0 {
		b.sent[to] = list[:len(list)-1]
	}
}
