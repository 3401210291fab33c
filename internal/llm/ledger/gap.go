package ledger

// gap holds what is known about the parts of a log that the disk has lost: a
// file system fills a block that it cannot give back with zeros.
type gap struct {
	old, new int     // bytes lost before and on the present day
	most     account // the dearest call that could be read
	line     int     // bytes of the shortest line
}

// read looks at a call that could be read; earlier says that it was made before
// the present day, as then was all that is lost before it.
func (g *gap) read(e *Entry, size int, earlier bool) {
	if a := accountOf(e); a.Nano > g.most.Nano || a.Nano == g.most.Nano && a.Tokens > g.most.Tokens {
		g.most = a
	}
	if g.line == 0 || size < g.line {
		g.line = size
	}
	if earlier {
		g.old, g.new = g.old+g.new, 0
	}
}

func (g *gap) lose(size int) { g.new += size }

// lostLine is the size of a line when none can be read, in bytes.
const lostLine = 150

// countLost counts what cannot be read as spent: as many calls as fit, each as
// dear as the dearest one beside them. If nothing is beside them, the limits of
// the day are used up. The caller holds the lock.
func (l *Ledger) countLost(g gap) {
	if g.old+g.new == 0 {
		return
	}

	times := func(size int) (sum account) {
		if size == 0 {
			return sum
		}
		if g.most.Calls == 0 {
			return account{Calls: 1, Nano: toNano(l.limits.DailyUSD), Tokens: int64(l.limits.DailyTokens), Unpriced: int64(l.limits.UnpricedDailyTokens)}
		}

		line := g.line
		if line == 0 {
			line = lostLine
		}

		for range (size + line - 1) / line {
			sum = sum.plus(g.most)
		}
		return sum
	}

	today := times(g.new)
	l.sums.Today = l.sums.Today.plus(today)
	l.sums.ThisMonth = l.sums.ThisMonth.plus(times(g.old)).plus(today)
	l.sums.Lost += int64(g.old + g.new)
	l.log.Warn("a part of the usage log cannot be read; it counts as spent",
		"file", l.store.Where(l.sums.Month+logSuffix), "bytes", g.old+g.new, "calls", today.Calls, "usd", fromNano(today.Nano))
}
