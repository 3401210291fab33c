package ledger

import (
	"fmt"
	"math"

	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	// passes is how often a provider may count the same window for one call: it reads the
	// prompt again after each of its own searches.
	passes = 8
	// largestWindow is assumed where the window is unknown, in tokens.
	largestWindow = 2 << 20
	// dearestCall is more than any call costs, in US dollars.
	dearestCall = 1000
	// mostOver bounds how many times its estimate a provider is expected to bill.
	mostOver = 1000
)

// isBelievable reports whether a call can have the numbers that its provider reports.
func (c *call) isBelievable(u llm.Usage) bool {
	most := passes * max(c.window, c.mostPrompt)
	if c.window == 0 {
		most = max(most, passes*largestWindow)
	}

	for _, n := range []int{u.Prompt, u.Completion, u.Cached, u.CacheWrite, u.Reasoning} {
		if n < 0 || n > most {
			return false
		}
	}
	return u.Cost >= 0 && u.Cost <= dearestCall // not NaN either
}

// worst is the usage of a call that has everything that was reserved for it.
func (c *call) worst() llm.Usage {
	return llm.Usage{Prompt: c.mostPrompt, Completion: c.hold.reserved, Estimated: true}
}

// disbelief tells the user, once per model, that a report was not used.
func (c *call) disbelief() []string {
	c.l.log.Warn("the provider reported usage that cannot be; the call counts as all that was reserved for it",
		"provider", c.entry.Provider, "model", c.entry.Model, "tokens", c.mostPrompt+c.hold.reserved, "usd", fromNano(c.hold.Nano))
	if c.tariff.doubted.Swap(true) || llm.IsGuest(c.entry.Source) {
		return nil
	}
	return []string{fmt.Sprintf("%s reported token counts or costs of %s that cannot be. Such a call counts as the most that it could cost.", c.entry.Provider, c.entry.Model)}
}

// billed learns how many times what was reserved a provider bills, so that the next
// reservations are high enough.
func (t *tariff) billed(h hold, e *Entry) {
	actual := toNano(e.USD)
	if h.Nano <= 0 || actual <= h.Nano {
		return
	}

	over := math.Float64bits(min(t.factor()*float64(actual)/float64(h.Nano), mostOver))
	for {
		old := t.over.Load()
		if over <= old || t.over.CompareAndSwap(old, over) { // of positive numbers, the bits are in their order
			return
		}
	}
}

// factor returns how many times its price a call is expected to cost; at least
// 1.
func (t *tariff) factor() float64 {
	if bits := t.over.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	return 1
}
