package ledger

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
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
	// GuestsMonth is the part of ThisMonth that guests spent.
	GuestsMonth account `json:"guestsMonth"`
	// Warned remembers which notices were given, by limit and threshold, and
	// the period they were given for.
	Warned map[string]string `json:"warned,omitempty"`
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
	if at.Format(dayLayout) == t.Day {
		t.Today = t.Today.plus(a)
		t.Sources[e.Source] = t.Sources[e.Source].plus(a)
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
	if l.dir == "" {
		s.Zone = zone // there is no log to sum up anew
	}
	switch month, day := at.Format(monthLayout), at.Format(dayLayout); {
	case s.Version != totalsVersion || s.Zone != zone || s.Month != month || day < s.Day:
		l.sums = newTotals(zone, at, s.Warned)
		l.saved = 0
	case day > s.Day:
		s.Day, s.Today = day, account{}
		clear(s.Sources)
	}
	if l.dir == "" {
		return
	}
	if err := l.catchUp(at); err != nil {
		l.log.Warn("the usage log cannot be read", "err", err)
	}
}

// readTotals reads the checkpoint; one that is missing or damaged is as good
// as none.
func (l *Ledger) readTotals() totals {
	var t totals
	if l.dir == "" {
		return t
	}
	b, err := os.ReadFile(filepath.Join(l.dir, totalsName))
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

func (l *Ledger) logPath(month string) string { return filepath.Join(l.dir, month+logSuffix) }

// catchUp counts what the log holds beyond the sums.
func (l *Ledger) catchUp(at time.Time) error {
	fi, err := os.Stat(l.logPath(l.sums.Month))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if l.sums.Offset > 0 {
			l.sums = newTotals(l.sums.Zone, at, l.sums.Warned)
		}
		return nil
	case err != nil:
		return err
	case fi.Size() == l.sums.Offset && (l.verified || l.sums.Offset == 0):
		return nil
	}
	f, err := os.Open(l.logPath(l.sums.Month))
	if err != nil {
		return err
	}
	_, err = l.readOn(f, at)
	return errors.Join(err, f.Close())
}

// readOn counts the lines of an open log behind Offset. A log that is shorter
// or another one than the sums were made from is read from its beginning. torn
// says that the log ends in the middle of a line, which is not counted yet.
func (l *Ledger) readOn(f *os.File, at time.Time) (torn bool, err error) {
	fi, err := f.Stat()
	if err != nil {
		return false, err
	}
	same := fi.Size() >= l.sums.Offset
	if same && l.sums.Offset > 0 {
		if same, err = diskio.SameTail(f, l.sums.Offset, l.sums.Tail); err != nil {
			return false, err
		}
	}
	if !same {
		l.sums = newTotals(l.sums.Zone, at, l.sums.Warned)
	}
	l.verified = true
	if fi.Size() == l.sums.Offset {
		return false, nil
	}
	for line, err := range diskio.Lines(io.NewSectionReader(f, l.sums.Offset, fi.Size()-l.sums.Offset), l.sums.Offset) {
		if err != nil {
			return false, err
		}
		if !line.Whole {
			return true, nil
		}
		var e Entry
		if len(line.Bytes) > 0 && json.Unmarshal(line.Bytes, &e) == nil {
			l.sums.add(&e, l.loc)
		}
		l.sums.passed(line.Bytes, line.End())
	}
	return false, nil
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
	if l.dir == "" {
		return
	}
	b, err := json.Marshal(l.sums)
	if err == nil {
		err = replaceFile(filepath.Join(l.dir, totalsName), append(b, '\n'))
	}
	if err != nil {
		l.log.Warn("the sums of the usage log cannot be saved", "err", err)
		return
	}
	l.saved = l.sums.Offset
}

// replaceFile puts a whole file in place of another without waiting for the disk.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is what matters
	}
	return err
}

// record counts an entry and appends it to the log. The caller holds the lock
// and has refreshed the sums.
func (l *Ledger) record(e *Entry) {
	if l.dir == "" {
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

// append adds one line in one write. A torn line at the end, left by a crash,
// is closed first, so that it spoils nothing but itself.
func (l *Ledger) append(e *Entry) (err error) {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	at := e.Time.In(l.loc)
	f, err := l.openLog()
	if err != nil {
		return err
	}
	torn, err := l.readOn(f, at)
	if err != nil {
		return err
	}
	data := make([]byte, 0, len(line)+2)
	if torn {
		data = append(data, '\n')
	}
	data = append(append(data, line...), '\n')
	if _, err := f.Write(data); err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if end := l.sums.Offset + int64(len(data)); !torn && fi.Size() == end {
		l.sums.add(e, l.loc)
		l.sums.passed(line, end)
	} else if _, err := l.readOn(f, at); err != nil { // others wrote at the same moment
		return err
	}
	return nil
}

// openLog is the log of the month, open for appending. It stays open, because
// every call of a model adds a line; when the file was removed or replaced
// meanwhile, the new one is opened.
func (l *Ledger) openLog() (*os.File, error) {
	path := l.logPath(l.sums.Month)
	if l.open != nil {
		held, herr := l.open.Stat()
		named, nerr := os.Stat(path)
		if herr == nil && nerr == nil && os.SameFile(held, named) {
			return l.open, nil
		}
		if err := l.open.Close(); err != nil {
			return nil, err
		}
		l.open = nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(l.dir, 0o700); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	}
	l.open = f
	return f, err
}

// Close gives the log back.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.closeHeld()
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
