package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Reservations are shared by all processes that use one folder. Each process adds
// its own to a log in the folder "held", a line for each reservation and one when it
// is given back, and holds a lock beside the log for as long as it lives.
//
// Who reserves writes first and looks afterwards: if the logs of the others are as they
// were when the reservation was calculated, none of two processes can have missed the
// other's. If one of them changed, the reservation is given back and calculated again,
// one process at a time. So a call costs one line when it begins and one when it ends,
// and a lock only where processes really meet.
//
// A log whose lock can be taken was left by a process that died with calls
// under way. What these cost will not be known, so they are booked as spent
// with all that was reserved for them.

const (
	heldName   = "held"
	heldSuffix = ".jsonl"
	lockSuffix = ".lock"
	// heldBefore is the suffix of what programs wrote that replaced a document with each
	// call. One that died before it was updated may have left it.
	heldBefore = ".json"
	// heldWait bounds the wait for another process that reserves right now.
	heldWait = 5 * time.Second
	// heldTries bounds how often a reservation is calculated again because others
	// reserved meanwhile.
	heldTries = 50
	// heldBytes is how long our log may become before it starts again, which it does when
	// no call is under way: some 4,000 calls.
	heldBytes = 1 << 20
	// outcomeLost is the outcome of calls whose process died.
	outcomeLost = "lost"
)

// holding is a reservation in a file.
type holding struct {
	ID       int64     `json:"id"`
	At       time.Time `json:"at"`
	Source   string    `json:"source"`
	Turn     string    `json:"turn,omitempty"`
	Session  string    `json:"session,omitempty"`
	Provider string    `json:"provider,omitempty"`
	Model    string    `json:"model,omitempty"`
	Billing  Billing   `json:"billing"`
	Prompt   int       `json:"in"`
	Answer   int       `json:"out"`
	Nano     int64     `json:"nanoUsd,omitempty"`
	Tokens   int64     `json:"tokens,omitempty"`
	Unpriced int64     `json:"unpriced,omitempty"`
}

func (h *holding) account() account {
	return account{Calls: 1, Nano: h.Nano, Tokens: h.Tokens, Unpriced: h.Unpriced}
}

// givenBack is the line of a reservation that ended.
type givenBack struct {
	Done int64 `json:"done"` // its number
}

// shared is this process's part of the reservations of all, and what it knows of the
// others'.
type shared struct {
	name    string       // of our log, without its suffix
	release func() error // of the lock beside it; nil: nothing was reserved yet
	log     store.Log    // ours
	size    int64        // of it
	mine    []holding    // those that were not given back
	last    int64        // number of the last one

	others map[string]*other // by the names of their logs
	sum    account           // what they hold
	by     map[string]account
	talks  map[string]account // by conversation
}

// other is another process.
type other struct {
	log  store.Log
	seen store.Cursor
	held map[int64]holding
}

// heldFor returns what calls under way of one conversation may still spend.
func (l *Ledger) heldFor(session string) account {
	sum := l.shared.talks[session]
	for i := range l.shared.mine {
		if h := &l.shared.mine[i]; h.Session == session {
			sum = sum.plus(h.account())
		}
	}
	return sum
}

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
	l.dropHeld(h.id)
}

// othersChanged reports whether a reservation was calculated without something that
// another process did meanwhile. It looks at what they hold first: what moves from there
// to the log of the month meanwhile is seen twice, and never not at all.
func (l *Ledger) othersChanged() bool {
	if l.readOthers() {
		return true
	}
	if l.open == nil {
		return false
	}
	info, err := l.open.Info(context.Background())
	return err == nil && (info.ID != l.seen.ID || info.Size != l.sums.Offset)
}

// readOthers brings what other processes hold up to date, takes note of what the dead
// held, and reports whether anything was new.
func (l *Ledger) readOthers() (changed bool) {
	s := &l.shared
	ctx := context.Background()
	if s.others == nil {
		s.others = map[string]*other{}
		changed = l.readBefore(ctx)
	}

	found := 0
	for f, err := range l.store.Logs(ctx, heldName) {
		if err != nil {
			l.log.Warn("reservations of other processes cannot be read", "err", err)
			return changed
		}
		name := strings.TrimSuffix(f.Name, heldSuffix)
		if name == s.name {
			continue
		}
		o := s.others[name]
		if o == nil {
			log, err := l.store.Log(ctx, f.Name)
			if err != nil {
				l.log.Warn("reservations of another process cannot be read", "err", err)
				continue
			}
			o = &other{log: log}
			s.others[name] = o
		}
		if l.takeOver(ctx, name, o) {
			l.forgetOther(name)
			changed = true
			continue
		}
		found++
		changed = o.read(ctx) || changed
	}
	if found < len(s.others) {
		changed = l.forgetGone(ctx) || changed
	}
	if changed {
		s.add()
	}
	return changed
}

// readBefore takes note of what a process held that died before the program was updated.
func (l *Ledger) readBefore(ctx context.Context) (found bool) {
	for f, err := range l.store.Docs(ctx, heldName) {
		if err != nil {
			l.log.Warn("reservations of other processes cannot be read", "err", err)
			return found
		}
		data, _, err := l.store.Doc(ctx, f.Name)
		var held []holding
		if err != nil || json.Unmarshal(data, &held) != nil {
			continue // it went, or was never complete
		}
		release, err := l.store.Lock(ctx, strings.TrimSuffix(f.Name, heldBefore)+lockSuffix)
		if err != nil {
			continue // it lives
		}
		l.lost = append(l.lost, held...)
		found = true
		if err := errors.Join(l.store.Remove(ctx, f.Name), release()); err != nil {
			l.log.Warn("a reservation of a process that ended cannot be removed", "err", err)
		}
	}
	return found
}

// takeOver reports whether another process is dead. Then what it held is to be booked,
// and its log is removed.
func (l *Ledger) takeOver(ctx context.Context, name string, o *other) bool {
	release, err := l.store.Lock(ctx, name+lockSuffix)
	if err != nil {
		return false // it lives
	}
	o.read(ctx) // nothing, if a third process was faster and removed it
	for _, h := range o.held {
		l.lost = append(l.lost, h)
	}
	if err := errors.Join(l.store.Remove(ctx, name+heldSuffix), release()); err != nil {
		l.log.Warn("a reservation of a process that ended cannot be removed", "err", err)
	}
	return true
}

// forgetGone forgets processes that ended and removed their logs.
func (l *Ledger) forgetGone(ctx context.Context) (changed bool) {
	for name, o := range l.shared.others {
		if info, err := o.log.Info(ctx); err == nil && !info.Exists() {
			changed = changed || len(o.held) > 0
			l.forgetOther(name)
		}
	}
	return changed
}

func (l *Ledger) forgetOther(name string) {
	if err := l.shared.others[name].log.Close(); err != nil {
		l.log.Warn("close the reservations of another process", "err", err)
	}
	delete(l.shared.others, name)
}

// read reads on in the log of another process and reports whether there was more.
func (o *other) read(ctx context.Context) (changed bool) {
	info, change, err := o.seen.Look(ctx, o.log)
	if err != nil || change == store.Same {
		return false
	}
	from := o.seen.At
	if change == store.Another { // it started again
		from = 0
		o.held = nil
	}
	if o.held == nil {
		o.held = map[int64]holding{}
	}
	for line, err := range store.Lines(o.log, from, info.Size) {
		var entry struct {
			holding
			givenBack
		}
		switch {
		case err != nil || json.Unmarshal(line.Bytes, &entry) != nil:
		case entry.Done != 0:
			delete(o.held, entry.Done)
		default:
			o.held[entry.ID] = entry.holding
		}
	}
	if o.seen.Reached(o.log, info) != nil {
		o.held = nil // it is read again
	}
	return true
}

// add sums up what the others hold.
func (s *shared) add() {
	s.sum = account{}
	s.by = map[string]account{}
	s.talks = map[string]account{}
	for _, o := range s.others {
		for _, h := range o.held {
			held := h.account()
			s.sum = s.sum.plus(held)
			s.by[h.Source] = s.by[h.Source].plus(held)
			s.talks[h.Session] = s.talks[h.Session].plus(held)
		}
	}
}

// bookLost writes down the calls of processes that died. The sums are fresh.
func (l *Ledger) bookLost() {
	for _, h := range l.lost {
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
	l.lost = nil
}

// keepHeld adds a reservation to our log.
func (l *Ledger) keepHeld(h *hold, a *ask) {
	s := &l.shared
	s.last++
	h.id = s.last
	held := holding{
		ID:       h.id,
		At:       l.now().In(l.loc).Round(0).Truncate(time.Millisecond),
		Source:   h.source,
		Turn:     h.turn,
		Session:  a.session,
		Provider: a.provider,
		Model:    a.model,
		Billing:  a.price.Billing,
		Prompt:   a.prompt,
		Answer:   h.reserved,
		Nano:     h.Nano,
		Tokens:   h.Tokens,
		Unpriced: h.Unpriced,
	}
	s.mine = append(s.mine, held)
	l.writeHeld(held)
}

// dropHeld gives a reservation back.
func (l *Ledger) dropHeld(id int64) {
	s := &l.shared
	i := slices.IndexFunc(s.mine, func(h holding) bool { return h.ID == id })
	if i < 0 {
		return
	}
	s.mine = slices.Delete(s.mine, i, i+1)
	l.writeHeld(givenBack{Done: id})
}

// writeHeld adds a line to our log. Trouble is logged: the call is counted afterwards
// all the same.
func (l *Ledger) writeHeld(line any) {
	if l.store == nil {
		return
	}
	s := &l.shared
	ctx := context.Background()
	data, err := json.Marshal(line)
	if err == nil {
		err = l.openHeld(ctx)
	}
	if err == nil {
		data = append(data, '\n')
		err = s.log.Append(ctx, s.size, data, false)
	}
	if err != nil {
		l.log.Warn("a reservation cannot be shared with other processes", "err", err)
		return
	}
	s.size += int64(len(data))

	if s.size > heldBytes && len(s.mine) == 0 {
		if err := s.log.Replace(ctx, s.size, nil); err != nil {
			l.log.Warn("start the log of reservations again", "err", err)
			return
		}
		s.size = 0
	}
}

// openHeld makes our log and takes the lock beside it.
func (l *Ledger) openHeld(ctx context.Context) error {
	s := &l.shared
	if s.release != nil {
		return nil
	}
	name := heldName + "/" + rand.Text()
	release, err := l.store.Lock(ctx, name+lockSuffix)
	if err != nil {
		return err
	}
	log, err := l.store.Log(ctx, name+heldSuffix)
	if err != nil {
		return errors.Join(err, release())
	}
	s.name = name
	s.release = release
	s.log = log
	return nil
}

// closeHeld gives our log back; calls under way are over for us.
func (l *Ledger) closeHeld() error {
	s := &l.shared
	var err error
	for name := range s.others {
		l.forgetOther(name)
	}
	s.others = nil
	if s.release != nil {
		err = errors.Join(s.log.Close(), l.store.Remove(context.Background(), s.name+heldSuffix), s.release())
	}
	s.release = nil
	s.mine = nil
	s.size = 0
	return err
}
