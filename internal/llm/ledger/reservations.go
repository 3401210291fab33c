package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
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

// reservations are this process's part of those of all, and what it knows of the others'.
// The owner's lock guards them.
type reservations struct {
	store store.Store
	log   *slog.Logger

	name    string       // of our log, without its suffix
	release func() error // of the lock beside it; nil: nothing was reserved yet
	own     store.Log    // ours
	size    int64        // of it
	mine    []holding    // those that were not given back
	last    int64        // number of the last one

	others map[string]*other // by the names of their logs
	sum    account           // what they hold
	by     map[string]account
	talks  map[string]account // by conversation

	lost []holding // of processes that died, to be booked
}

// other is another process.
type other struct {
	log  store.Log
	seen store.Cursor
	held map[int64]holding
}

// heldFor returns what calls under way of one conversation may still spend.
func (r *reservations) heldFor(session string) account {
	sum := r.talks[session]
	for i := range r.mine {
		if h := &r.mine[i]; h.Session == session {
			sum = sum.plus(h.account())
		}
	}
	return sum
}

// look brings what other processes hold up to date, takes note of what the dead
// held, and reports whether anything was new.
func (r *reservations) look() (changed bool) {
	ctx := context.Background()
	if r.others == nil {
		r.others = map[string]*other{}
		changed = r.readBefore(ctx)
	}

	found := 0
	for f, err := range r.store.Logs(ctx, heldName) {
		if err != nil {
			r.log.Warn("reservations of other processes cannot be read", "err", err)
			return changed
		}

		name := strings.TrimSuffix(f.Name, heldSuffix)
		if name == r.name {
			continue
		}

		o := r.others[name]
		if o == nil {
			log, err := r.store.Log(ctx, f.Name)
			if err != nil {
				r.log.Warn("reservations of another process cannot be read", "err", err)
				continue
			}
			o = &other{log: log}
			r.others[name] = o
		}

		if r.takeOver(ctx, name, o) {
			r.forgetOther(name)
			changed = true
			continue
		}

		found++
		changed = o.read(ctx) || changed
	}

	if found < len(r.others) {
		changed = r.forgetGone(ctx) || changed
	}
	if changed {
		r.sumUp()
	}
	return changed
}

// readBefore takes note of what a process held that died before the program was updated.
func (r *reservations) readBefore(ctx context.Context) (found bool) {
	for f, err := range r.store.Docs(ctx, heldName) {
		if err != nil {
			r.log.WarnContext(ctx, "reservations of other processes cannot be read", "err", err)
			return found
		}

		data, _, err := r.store.Doc(ctx, f.Name)
		var held []holding
		if err != nil || json.Unmarshal(data, &held) != nil {
			continue // it went, or was never complete
		}

		release, err := r.store.Lock(ctx, strings.TrimSuffix(f.Name, heldBefore)+lockSuffix)
		if err != nil {
			continue // it lives
		}

		r.lost = append(r.lost, held...)
		found = true
		if err := errors.Join(r.store.Remove(ctx, f.Name), release()); err != nil {
			r.log.WarnContext(ctx, "a reservation of a process that ended cannot be removed", "err", err)
		}
	}
	return found
}

// takeOver reports whether another process is dead. Then what it held is to be booked,
// and its log is removed.
func (r *reservations) takeOver(ctx context.Context, name string, o *other) bool {
	release, err := r.store.Lock(ctx, name+lockSuffix)
	if err != nil {
		return false // it lives
	}

	o.read(ctx) // nothing, if a third process was faster and removed it
	for _, h := range o.held {
		r.lost = append(r.lost, h)
	}

	if err := errors.Join(r.store.Remove(ctx, name+heldSuffix), release()); err != nil {
		r.log.WarnContext(ctx, "a reservation of a process that ended cannot be removed", "err", err)
	}
	return true
}

// forgetGone forgets processes that ended and removed their logs.
func (r *reservations) forgetGone(ctx context.Context) (changed bool) {
	for name, o := range r.others {
		if info, err := o.log.Info(ctx); err == nil && !info.Exists() {
			changed = changed || len(o.held) > 0
			r.forgetOther(name)
		}
	}
	return changed
}

func (r *reservations) forgetOther(name string) {
	if err := r.others[name].log.Close(); err != nil {
		r.log.Warn("close the reservations of another process", "err", err)
	}
	delete(r.others, name)
}

// read reads on in the log of another process and reports whether there was more.
func (o *other) read(ctx context.Context) (changed bool) {
	info, change, err := o.seen.Inspect(ctx, o.log)
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

// sumUp adds up what the others hold.
func (r *reservations) sumUp() {
	r.sum = account{}
	r.by = map[string]account{}
	r.talks = map[string]account{}

	for _, o := range r.others {
		for _, h := range o.held {
			held := h.account()
			r.sum = r.sum.plus(held)
			r.by[h.Source] = r.by[h.Source].plus(held)
			r.talks[h.Session] = r.talks[h.Session].plus(held)
		}
	}
}

// add reserves something and returns its number.
func (r *reservations) add(h holding) int64 {
	r.last++
	h.ID = r.last
	r.mine = append(r.mine, h)
	r.write(h)
	return h.ID
}

// drop gives a reservation back.
func (r *reservations) drop(id int64) {
	i := slices.IndexFunc(r.mine, func(h holding) bool { return h.ID == id })
	if i < 0 {
		return
	}
	r.mine = slices.Delete(r.mine, i, i+1)
	r.write(givenBack{Done: id})
}

// write adds a line to our log. Trouble is logged: the call is counted afterwards
// all the same.
func (r *reservations) write(line any) {
	if r.store == nil {
		return
	}

	ctx := context.Background()
	data, err := json.Marshal(line)
	if err == nil {
		err = r.open(ctx)
	}
	if err == nil {
		data = append(data, '\n')
		err = r.own.Append(ctx, r.size, data, false)
	}

	if err != nil {
		r.log.Warn("a reservation cannot be shared with other processes", "err", err)
		return
	}

	r.size += int64(len(data))

	if r.size > heldBytes && len(r.mine) == 0 {
		if err := r.own.Replace(ctx, r.size, nil); err != nil {
			r.log.Warn("start the log of reservations again", "err", err)
			return
		}
		r.size = 0
	}
}

// open makes our log and takes the lock beside it.
func (r *reservations) open(ctx context.Context) error {
	if r.release != nil {
		return nil
	}

	name := heldName + "/" + rand.Text()
	release, err := r.store.Lock(ctx, name+lockSuffix)
	if err != nil {
		return err
	}

	log, err := r.store.Log(ctx, name+heldSuffix)
	if err != nil {
		return errors.Join(err, release())
	}

	r.name = name
	r.release = release
	r.own = log
	return nil
}

// close gives our log back; calls under way are over for us.
func (r *reservations) close() error {
	var err error
	for name := range r.others {
		r.forgetOther(name)
	}

	r.others = nil
	if r.release != nil {
		err = errors.Join(r.own.Close(), r.store.Remove(context.Background(), r.name+heldSuffix), r.release())
	}

	r.release = nil
	r.mine = nil
	r.size = 0
	return err
}
