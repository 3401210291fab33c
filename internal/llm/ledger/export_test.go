package ledger

// ShortCount is shortCount for the tests, which are outside of the package.
var ShortCount = shortCount

// SetLimits replaces the limits, for calls that begin from now on.
func (l *Ledger) SetLimits(lim Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = lim
}
