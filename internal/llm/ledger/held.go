package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// reserveAmongOthers reserves so that all processes together keep the limits.
func (l *Ledger) reserveAmongOthers(ctx context.Context, a ask) (hold, []string, error) {
	h, notices, err := l.reserveNow(a)
	if !l.othersChanged() {
		return h, notices, err
	}

	if err == nil {
		l.giveBack(&h)
	}

	release, lockErr := store.WaitLock(context.WithoutCancel(ctx), l.store, heldName+lockSuffix, heldWait)
	if _, busy := errors.AsType[*store.LockedError](lockErr); busy {
		return hold{}, notices, undecided(lockErr)
	}

	if lockErr != nil {
		// Trouble with the disk does not stop the caller, as with the log itself.
		l.log.WarnContext(ctx, "reservations cannot be shared with other processes", "err", lockErr)
	} else {
		defer func() {
			if err := release(); err != nil {
				l.log.WarnContext(ctx, "the lock of reservations", "err", err)
			}
		}()
	}

	for range heldTries {
		var more []string
		h, more, err = l.reserveNow(a)
		notices = append(notices, more...)
		if !l.othersChanged() {
			return h, notices, err
		}

		if err == nil {
			l.giveBack(&h)
		}
	}

	return hold{}, notices, undecided(errors.New("other processes reserve all the time"))
}

// undecided is the error of a call whose limits cannot be looked up: they would mean
// nothing if it was made.
func undecided(err error) error {
	return &llm.Error{Kind: llm.BudgetExceeded, Message: fmt.Sprintf("what may be spent cannot be found out: %v. End that process, or wait", err)}
}

// giveBack ends a reservation whose call is not made.
func (l *Ledger) giveBack(h *hold) {
	l.move(h, -1)
	l.shared.drop(h.id)
}

// othersChanged reports whether a reservation was calculated without something that
// another process did meanwhile. It looks at what they hold first: what moves from there
// to the log of the month meanwhile is seen twice, and never not at all.
func (l *Ledger) othersChanged() bool {
	if l.shared.look() {
		return true
	}
	if l.open == nil {
		return false
	}
	info, err := l.open.Info(context.Background())
	return err == nil && (info.ID != l.seen.ID || info.Size != l.sums.Offset)
}

// bookLost writes down the calls of processes that died. The sums are fresh.
func (l *Ledger) bookLost() {
	for _, h := range l.shared.lost {
		e := Entry{
			Time: h.At, Turn: h.Turn, Session: h.Session, Source: h.Source, Provider: h.Provider, Model: h.Model, Prompt: h.Prompt, Completion: h.Answer,
			Estimated: true, Billing: h.Billing, Outcome: outcomeLost,
		}
		if h.Billing == Priced {
			e.Cost = fromNano(h.Nano)
			e.USD = fromNano(h.Nano)
			e.Currency = usd
		}

		if at := l.now(); h.At.After(at) || h.At.In(l.loc).Format(monthLayout) != at.In(l.loc).Format(monthLayout) {
			e.Time = at // the log is that of this month
		}

		l.record(&e)
		l.log.Warn("a model call was under way when its process ended; it counts with all that was reserved for it", "model", h.Model, "usd", e.USD)
	}
	l.shared.lost = nil
}
