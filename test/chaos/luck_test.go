//go:build unix

package chaos_test

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// fault is what goes wrong with a call.
type fault string

const (
	none   fault = ""
	busy   fault = "429"
	broken fault = "500"
	cut    fault = "cut"     // the connection, before anything was done
	slow   fault = "timeout" // the same, after a while
	lost   fault = "lost"    // Telegram: done, but the bot is not told
	torn   fault = "torn"    // model: the stream ends in the middle
)

// luck decides what goes wrong, by a seed, and counts it. When several calls
// come at once their order is not decided by the seed.
type luck struct {
	mu     sync.Mutex
	rng    *rand.Rand
	calm   bool
	counts map[fault]int
}

func newLuck(seed uint64) *luck {
	return &luck{rng: rand.New(rand.NewPCG(seed, 7)), counts: map[fault]int{}}
}

// mend ends all trouble.
func (l *luck) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calm = true
}

func (l *luck) within(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.rng.Int64N(int64(d)))
}

func (l *luck) float() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.Float64()
}

func (l *luck) index(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

// draw picks one of the faults with the given chance for all of them together.
func (l *luck) draw(chance float64, faults ...fault) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calm || l.rng.Float64() >= chance {
		return none
	}
	f := faults[l.rng.IntN(len(faults))]
	l.counts[f]++
	return f
}

func (l *luck) telegram(method string) fault {
	switch method {
	case "sendMessage", "editMessageText":
		return l.draw(0.15, busy, broken, cut, slow, lost)
	case "getUpdates":
		return l.draw(0.05, busy, broken, cut, slow)
	}
	return l.draw(0.05, busy, broken, cut, slow, lost)
}

func (l *luck) model() fault { return l.draw(0.15, busy, broken, cut, slow, torn, torn) }

func (l *luck) count() map[fault]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}
