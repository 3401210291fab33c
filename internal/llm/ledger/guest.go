package ledger

import (
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// guests returns what all guests and group chats spent today and what their
// calls under way may still spend. The caller holds the lock.
func (l *Ledger) guests() (spent, held account) {
	for source, a := range l.sums.Sources {
		if llm.IsGuest(source) {
			spent = spent.plus(a)
		}
	}

	for _, by := range []map[string]account{l.heldBy, l.shared.by} { // of this process, and of others
		for source, a := range by {
			if llm.IsGuest(source) {
				held = held.plus(a)
			}
		}
	}

	return spent, held
}

// counted returns what the common limits count for a call: of a guest
// everything, of the owner what guests did not spend. So guests can never use
// up what is the owner's, and never come on top of a limit that the owner used
// up.
func (l *Ledger) counted(source string) (today, month, held account) {
	today, month, held = l.sums.Today, l.sums.ThisMonth, l.held.plus(l.shared.sum)
	if llm.IsGuest(source) {
		return today, month, held
	}
	spent, theirs := l.guests()
	return today.minus(spent), month.minus(l.sums.GuestsMonth), held.minus(theirs)
}

// guestBounds are the limits that only calls of guests have: a share of each
// limit of a day for all of them, and a smaller one for each. They stop whatever
// OnExceed says, because guests do not decide about the owner's money.
func (l *Ledger) guestBounds(a *ask, midnight time.Time) []bound {
	if !llm.IsGuest(a.source) {
		return nil
	}

	lim, s := &l.limits, &l.sums
	all, allHeld := l.guests()
	own, ownHeld := s.Sources[a.source], l.heldBy[a.source].plus(l.shared.by[a.source])
	base := bound{stops: true, reset: midnight, period: s.Day, marks: map[string]string{}}
	var out []bound
	add := func(key string, limit int64, amount func(account) int64, money bool) {
		for _, b := range []struct {
			share      float64
			what, name string
			used, held account
		}{
			{lim.GuestShare, "today's share of all guests of the", "guestShare", all, allHeld},
			{lim.PerGuestShare, "today's share of this chat of the", "perGuestShare", own, ownHeld},
		} {
			part := int64(float64(limit) * b.share)
			if limit <= 0 || b.share <= 0 {
				continue
			}
			one := base.of(b.name+"/"+key, max(part, 1), amount(b.used), amount(b.held), money)
			one.what = b.what
			out = append(out, one)
		}
	}
	if a.price.Billing != Subscription {
		add("dailyUsd", toNano(lim.DailyUSD), func(a account) int64 { return a.Nano }, true)
	}

	add("dailyTokens", int64(lim.DailyTokens), func(a account) int64 { return a.Tokens }, false)
	if a.price.Billing == Unknown {
		add("unpricedDailyTokens", int64(lim.UnpricedDailyTokens), func(a account) int64 { return a.Unpriced }, false)
	}
	return out
}

// guestRefusal returns what a guest reads when a limit forbids a call. It says
// nothing about the owner's money.
func guestRefusal(b *bound, now time.Time) error {
	message := "this chat cannot use the model any more for now: the part of the budget that guests may use is spent. The owner of this bot can raise it"
	if !b.reset.IsZero() {
		message = fmt.Sprintf("this chat cannot use the model any more for now: the part of the budget that guests may use is spent. It starts afresh at %s, in %s. The owner of this bot can raise it",
			b.reset.Format("Mon 2 Jan 15:04"), span(b.reset.Sub(now)))
	}
	return &llm.Error{Kind: llm.BudgetExceeded, Code: b.key, Message: message}
}
