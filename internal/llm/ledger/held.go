package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Reservations are shared by all processes that use one folder. Each process
// keeps its own in a file of the folder "held" and holds a lock beside it for as
// long as it lives; whoever reserves reads the files of the others first. One
// lock, taken for a moment, makes looking and reserving one step.
//
// A file whose lock can be taken was left by a process that died with calls
// under way. What these cost will not be known, so they are booked as spent
// with all that was reserved for them.

const (
	heldName   = "held"
	heldSuffix = ".json"
	lockSuffix = ".lock"
	// heldWait bounds the wait for another process that reserves right now.
	heldWait = 5 * time.Second
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

// shared is this process's part of the reservations of all.
type shared struct {
	name    string       // of our document, without its suffix
	release func() error // of the lock beside it; nil: nothing was reserved yet
	mine    []holding    // as they stand in our file
	last    int64        // number of the last one
	sum     account      // what the others hold
	by      map[string]account
	talks   map[string]account // by conversation
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

// together does something while no other process reserves. Trouble with the
// disk is logged and does not stop the caller, as with the log itself; a lock
// that another process keeps is an error, because limits would mean nothing
// then.
func (l *Ledger) together(ctx context.Context, do func() error) error {
	if l.store == nil {
		return do()
	}
	release, err := store.WaitLock(context.WithoutCancel(ctx), l.store, heldName+lockSuffix, heldWait)
	if err != nil {
		if _, busy := errors.AsType[*store.LockedError](err); busy {
			return &llm.Error{Kind: llm.BudgetExceeded, Message: fmt.Sprintf("what may be spent cannot be found out: %v. End that process, or wait", err)}
		}
		l.log.WarnContext(ctx, "reservations cannot be shared with other processes", "err", err)
		return do()
	}
	defer func() {
		if err := release(); err != nil {
			l.log.WarnContext(ctx, "the lock of reservations", "err", err)
		}
	}()
	l.readOthers()
	return do()
}

// readOthers sums up what other processes hold, and books what the dead held.
// It comes before the log is read: what moves from here to there meanwhile is
// counted twice, and never not at all.
func (l *Ledger) readOthers() {
	s := &l.shared
	s.sum = account{}
	s.by = map[string]account{}
	s.talks = map[string]account{}
	ctx := context.Background()
	for f, err := range l.store.Docs(ctx, heldName) {
		if err != nil {
			l.log.Warn("reservations of other processes cannot be read", "err", err)
			return
		}
		name := strings.TrimSuffix(f.Name, heldSuffix)
		if name == s.name {
			continue
		}
		data, _, err := l.store.Doc(ctx, f.Name)
		var held []holding
		if err != nil || json.Unmarshal(data, &held) != nil {
			continue // it went, or was never complete
		}
		if release, err := l.store.Lock(ctx, name+lockSuffix); err == nil {
			l.lost = append(l.lost, held...)
			if err := errors.Join(l.store.Remove(ctx, f.Name), release()); err != nil {
				l.log.Warn("a reservation of a process that ended cannot be removed", "err", err)
			}
			continue
		}
		for i := range held {
			s.sum = s.sum.plus(held[i].account())
			s.by[held[i].Source] = s.by[held[i].Source].plus(held[i].account())
			s.talks[held[i].Session] = s.talks[held[i].Session].plus(held[i].account())
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

// keepHeld adds a reservation to our file.
func (l *Ledger) keepHeld(h *hold, a *ask) {
	s := &l.shared
	s.last++
	h.id = s.last
	s.mine = append(s.mine, holding{
		ID: h.id, At: l.now().In(l.loc).Round(0).Truncate(time.Millisecond), Source: h.source, Turn: h.turn, Session: a.session, Provider: a.provider, Model: a.model,
		Billing: a.price.Billing, Prompt: a.prompt, Answer: h.reserved, Nano: h.Nano, Tokens: h.Tokens, Unpriced: h.Unpriced,
	})
	l.writeHeld()
}

// dropHeld removes a reservation from our file.
func (l *Ledger) dropHeld(id int64) {
	s := &l.shared
	for i := range s.mine {
		if s.mine[i].ID == id {
			s.mine = append(s.mine[:i], s.mine[i+1:]...)
			l.writeHeld()
			return
		}
	}
}

func (l *Ledger) writeHeld() {
	if l.store == nil {
		return
	}
	s := &l.shared
	ctx := context.Background()
	if s.release == nil {
		name := heldName + "/" + rand.Text()
		release, err := l.store.Lock(ctx, name+lockSuffix)
		if err != nil {
			l.log.Warn("a reservation cannot be shared with other processes", "err", err)
			return
		}
		s.name, s.release = name, release
	}
	data, err := json.Marshal(s.mine)
	if err == nil {
		_, err = l.store.Put(ctx, s.name+heldSuffix, data, store.Any, false)
	}
	if err != nil {
		l.log.Warn("a reservation cannot be shared with other processes", "err", err)
	}
}

// closeHeld gives our file back; calls under way are over for us.
func (l *Ledger) closeHeld() error {
	s := &l.shared
	if s.release == nil {
		return nil
	}
	err := errors.Join(l.store.Remove(context.Background(), s.name+heldSuffix), s.release())
	s.release, s.mine = nil, nil
	return err
}
