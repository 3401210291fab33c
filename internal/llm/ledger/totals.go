package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	totalsName    = "totals.json"
	totalsVersion = 2 // 1 did not know guests
	logSuffix     = ".jsonl"
	monthLayout   = "2006-01"
	dayLayout     = "2006-01-02"

	// checkpointBytes is how much log may follow the checkpoint before a new
	// one is written. It bounds what a start reads: about a dozen lines.
	checkpointBytes = 4 << 10
	// tailBytes of the log before Offset tell whether it is still the same log.
	tailBytes = 48
)

// totals are the running sums and how much of the log they cover.
type totals struct {
	Version int    `json:"version"`
	Zone    string `json:"zone"` // where days begin; another zone makes the sums stale
	Month   string `json:"month"`
	Day     string `json:"day"`
	Offset  int64  `json:"offset"` // bytes of the month's log that are counted
	Tail    []byte `json:"tail"`   // the last of them

	ThisMonth account            `json:"thisMonth"`
	Today     account            `json:"today"`
	Sources   map[string]account `json:"sources,omitempty"` // today, per source
	// Sessions is the same per conversation; nil unless a limit needs it.
	Sessions map[string]account `json:"sessions,omitzero"`
	// GuestsMonth is the part of ThisMonth that guests spent.
	GuestsMonth account `json:"guestsMonth"`
	// Warned remembers which notices were given, by limit and threshold, and
	// the period they were given for.
	Warned map[string]string `json:"warned,omitempty"`
	// Lost is how many bytes of the month's log cannot be read. What calls cost
	// that are in them is estimated and counted.
	Lost int64 `json:"lost,omitempty"`
}

func newTotals(zone string, at time.Time, warned map[string]string) totals {
	if warned == nil {
		warned = map[string]string{}
	}
	return totals{
		Version: totalsVersion, Zone: zone, Month: at.Format(monthLayout), Day: at.Format(dayLayout),
		Sources: map[string]account{}, Warned: warned,
	}
}

// add counts an entry if it belongs to the month and the day.
func (t *totals) add(e *Entry, loc *time.Location) {
	at := e.Time.In(loc)
	if at.Format(monthLayout) != t.Month {
		return
	}

	a := accountOf(e)
	t.ThisMonth = t.ThisMonth.plus(a)
	if llm.IsGuest(e.Source) {
		t.GuestsMonth = t.GuestsMonth.plus(a)
	}

	if at.Format(dayLayout) >= t.Day { // a later day: the clock was ahead, and the money is gone all the same
		t.Today = t.Today.plus(a)
		t.Sources[e.Source] = t.Sources[e.Source].plus(a)
		if t.Sessions != nil {
			t.Sessions[e.Session] = t.Sessions[e.Session].plus(a)
		}
	}
}

// zone names the location together with its present offset: "Local" alone
// does not say whether the computer moved.
func zoneName(at time.Time) string {
	_, off := at.Zone()
	return at.Location().String() + strconv.Itoa(off)
}

// refresh brings the sums up to date with the clock and with the log, to which
// other processes may have written. The caller holds the lock. Trouble with
// the disk is logged and leaves the sums as they are.
func (l *Ledger) refresh(now time.Time) {
	at := now.In(l.loc)
	zone := zoneName(at)
	if !l.loaded {
		l.loaded = true
		l.sums = l.readTotals()
		l.saved = l.sums.Offset
	}

	s := &l.sums
	if l.store == nil {
		s.Zone = zone // there is no log to sum up again
	}

	perSession := l.limits.PerSession != SourceLimits{}
	switch month, day := at.Format(monthLayout), at.Format(dayLayout); {
	case s.Version != totalsVersion || s.Zone != zone || s.Month != month || day < s.Day,
		perSession && s.Sessions == nil && l.store != nil: // the limit is new: sum up the day's log
		old := *s
		l.sums = newTotals(zone, at, s.Warned)
		if old.Version == totalsVersion && old.Month > month && at.AddDate(0, 0, 2).Format(dayLayout) >= old.Day {
			// The clock was set back over the end of a month, whose log is not read now.
			l.sums.Today = old.Today
			l.sums.ThisMonth = old.Today
			l.sums.Sources = old.Sources
			defer l.checkpoint()
		}

		l.saved = 0
	case day > s.Day:
		s.Day, s.Today = day, account{}
		clear(s.Sources)
		clear(s.Sessions)
		maps.DeleteFunc(s.Warned, func(mark, _ string) bool { return strings.HasPrefix(mark, "perSession.") })
	}

	if perSession && s.Sessions == nil {
		s.Sessions = map[string]account{}
	}

	if l.store == nil {
		return
	}

	if err := l.readOn(at); err != nil {
		l.log.Warn("the usage log cannot be read", "err", err)
	}
}

// readTotals reads the checkpoint; one that is missing or damaged is as good
// as none.
func (l *Ledger) readTotals() totals {
	var t totals
	if l.store == nil {
		return t
	}

	b, _, err := l.store.Doc(context.Background(), totalsName)
	if err != nil || json.Unmarshal(b, &t) != nil || t.Offset < 0 {
		return totals{}
	}

	if t.Sources == nil {
		t.Sources = map[string]account{}
	}
	if t.Warned == nil {
		t.Warned = map[string]string{}
	}
	return t
}

// openMonth is the log of the month. It stays open, because every call of a model
// adds a line.
func (l *Ledger) openMonth() (store.Log, error) {
	if l.open != nil && l.month == l.sums.Month {
		return l.open, nil
	}

	if l.open != nil {
		if err := l.open.Close(); err != nil {
			return nil, err
		}
	}

	var err error
	l.open, err = l.store.Log(context.Background(), l.sums.Month+logSuffix)
	l.month, l.seen = l.sums.Month, store.Cursor{}
	if err != nil {
		l.open = nil
	}
	return l.open, err
}

// readOn counts what the log holds behind Offset. A log that is shorter or
// another one than the sums were made from is read from its beginning.
func (l *Ledger) readOn(at time.Time) error {
	log, err := l.openMonth()
	if err != nil {
		return err
	}

	look := l.seen.Inspect
	if l.seen.ID == "" || l.seen.At != l.sums.Offset {
		l.seen = store.Cursor{At: l.sums.Offset, Tail: l.sums.Tail}
		look = l.seen.Resume
	}

	info, change, err := look(context.Background(), log)
	if err != nil {
		return err
	}

	if change == store.Another {
		// The disk lost a part of the log, or the log was replaced: what was counted
		// on this day and in this month stays spent.
		before := l.sums
		l.sums = newTotals(l.sums.Zone, at, l.sums.Warned)
		defer func() {
			l.sums.keepLarger(&before)
			l.checkpoint()
		}()
	}

	if info.Size > l.sums.Offset {
		var g gap
		for line, err := range store.Lines(log, l.sums.Offset, info.Size) {
			if err != nil {
				return err
			}

			var e Entry
			if len(line.Bytes) > 0 && json.Unmarshal(line.Bytes, &e) == nil {
				g.read(&e, len(line.Bytes), e.Time.In(l.loc).Format(dayLayout) < l.sums.Day)
				l.sums.add(&e, l.loc)
			} else if bytes.IndexByte(line.Bytes, 0) >= 0 {
				g.lose(len(line.Bytes))
			}

			l.sums.passed(line.Bytes, line.End())
		}

		l.countLost(g)
	}

	l.seen = store.Cursor{ID: info.ID, At: l.sums.Offset, Changed: info.Changed, Tail: l.sums.Tail}
	return nil
}

// keepLarger raises the sums to those of earlier ones of the same day and month.
func (t *totals) keepLarger(o *totals) {
	if t.Month != o.Month {
		return
	}

	t.ThisMonth = t.ThisMonth.larger(o.ThisMonth)
	t.GuestsMonth = t.GuestsMonth.larger(o.GuestsMonth)
	if t.Day != o.Day {
		return
	}

	t.Today = t.Today.larger(o.Today)
	for name, a := range o.Sources {
		t.Sources[name] = t.Sources[name].larger(a)
	}

	for name, a := range o.Sessions {
		if t.Sessions != nil {
			t.Sessions[name] = t.Sessions[name].larger(a)
		}
	}
}

// passed notes that the log is counted up to end, where line and its newline stop.
func (t *totals) passed(line []byte, end int64) {
	t.Offset = end
	if len(line) > tailBytes {
		line = line[len(line)-tailBytes:]
	}
	t.Tail = append(append(t.Tail[:0], line...), '\n')
}

// checkpoint writes the sums down. It is only a shortcut for the next start:
// it is compared with the log there, so it need not be durable, and a failure
// is logged and nothing more.
func (l *Ledger) checkpoint() {
	if l.store == nil {
		return
	}

	b, err := json.Marshal(l.sums)
	if err == nil {
		_, err = l.store.Put(context.Background(), totalsName, append(b, '\n'), store.Any, false)
	}

	if err != nil {
		l.log.Warn("the sums of the usage log cannot be saved", "err", err)
		return
	}
	l.saved = l.sums.Offset
}

// record counts an entry and appends it to the log. The caller holds the lock
// and has refreshed the sums.
func (l *Ledger) record(e *Entry) {
	if l.store == nil {
		l.sums.add(e, l.loc)
		return
	}

	before := l.sums.Offset
	if err := l.append(e); err != nil {
		l.log.Warn("a model call is missing in the usage log", "err", err)
		if l.sums.Offset == before {
			l.sums.add(e, l.loc) // it was spent all the same
		}
	}

	if l.sums.Offset-l.saved >= checkpointBytes {
		l.checkpoint()
	}
}

// append adds one line. Whoever finds that another process was faster counts
// its lines and tries again.
func (l *Ledger) append(e *Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}

	at := e.Time.In(l.loc)
	data := append(slices.Clip(line), '\n')
	for {
		if err := l.readOn(at); err != nil {
			return err
		}

		err := l.open.Append(context.Background(), l.sums.Offset, data, false)
		if errors.Is(err, store.ErrMoved) {
			continue
		}
		if err != nil {
			return err
		}

		l.sums.add(e, l.loc)
		l.sums.passed(line, l.sums.Offset+int64(len(data)))
		return nil
	}
}

// Close gives the log back.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.shared.close()
	if l.open != nil {
		err = errors.Join(err, l.open.Close())
		l.open = nil
	}
	return err
}

// maxNano keeps sums of limits and prices far from overflow.
const maxNano = math.MaxInt64 / 1024

// toNano rounds up: a call is never counted as cheaper than it was.
func toNano(usd float64) int64 {
	n := math.Ceil(usd*1e9 - 1e-3)
	switch {
	case !(n > 0): // also NaN
		return 0
	case n > maxNano:
		return maxNano
	}
	return int64(n)
}

func fromNano(n int64) float64 { return float64(n) / 1e9 }
