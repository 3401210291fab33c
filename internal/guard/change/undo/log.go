package undo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// record is the header of an entry in the log: one line of JSON, followed by a
// body and a newline when N is not 0. The line ends with a checksum, see store.Seal.
type record struct {
	Op      string   `json:"op"`
	Pos     int64    `json:"pos,omitempty"` // where the entry begins, which no content of a file can say
	N       int64    `json:"n,omitempty"`   // length of the body plus one; 0 means that there is none
	Sum     string   `json:"sum,omitempty"` // of a body that is not content, which has its hash
	Hash    string   `json:"hash,omitempty"`
	Turn    string   `json:"turn,omitempty"`
	Session string   `json:"session,omitempty"`
	At      int64    `json:"at,omitempty"` // Unix milliseconds; of a command, by the system's clock
	Undoes  string   `json:"undoes,omitempty"`
	Call    string   `json:"call,omitempty"`
	Late    bool     `json:"late,omitempty"`
	Why     string   `json:"why,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
}

// The operations of the log.
const (
	opBlob    = "blob"    // a content; the body is it
	opTree    = "tree"    // what is new in the workspace since the last; the body is []delta
	opTurn    = "turn"    // a turn begins
	opCommand = "command" // a command begins; the workspace is as the trees so far say
	opChanges = "changes" // what a call found or left; the body is []change
	opDone    = "done"    // a command ended
	opGap     = "gap"     // something is not covered
)

// span is the place of a body in the log.
type span struct{ off, size int64 }

// logFile is the log of a store and what it says.
type logFile struct {
	dir string
	log *slog.Logger
	now func() time.Time

	f     *os.File // nil: not open
	size  int64    // up to where it was read
	model *model
}

func (l *logFile) close() error {
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	l.size = 0
	l.model = newModel()
	return err
}

const (
	lockWait = 10 * time.Second
	lockPoll = 3 * time.Millisecond
)

// enter takes the store for the caller, against this process and others, and
// brings it up to date. Without create a store that does not exist stays so.
func (s *Store) enter(ctx context.Context, create bool) (leave func(), err error) {
	leave, err = s.hold(ctx, create)
	if err != nil {
		return nil, err
	}
	if err := s.recover(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// hold is enter without closing commands whose process died.
func (s *Store) hold(ctx context.Context, create bool) (leave func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errBusy)
	defer cancel()
	select {
	case s.slot <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}

	defer func() {
		if err != nil {
			<-s.slot
		}
	}()
	if create {
		if err := diskio.MkdirAll(s.Dir, 0o700); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return func() { <-s.slot }, s.log.close() // nothing is kept, or no longer
	}

	lock, err := diskio.WaitLock(ctx, filepath.Join(s.Dir, "lock"), lockPoll)
	if err != nil {
		return nil, err
	}
	if err = s.log.refresh(ctx); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return func() {
		if err := lock.Unlock(); err != nil {
			s.Log.ErrorContext(ctx, "cannot unlock the undo store", "err", err)
		}
		<-s.slot
	}, nil
}

func (l *logFile) path() string { return filepath.Join(l.dir, "log") }

// refresh reads what others wrote since this process looked last.
func (l *logFile) refresh(ctx context.Context) error {
	named, err := os.Stat(l.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	if l.f != nil {
		held, herr := l.f.Stat()
		if err == nil && herr == nil && os.SameFile(named, held) && named.Size() >= l.size {
			return l.replay(ctx)
		}
		if cerr := l.close(); cerr != nil {
			return cerr
		}
	}

	f, err := os.OpenFile(l.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}

	l.f = f
	if named == nil { // it was just made
		if err := diskio.SyncDir(l.dir); err != nil {
			return err
		}
	}
	return l.replay(ctx)
}

// replay reads the log from where it was read last and cuts off an entry that
// was not finished: the call it was made for never ran. Damaged entries are kept
// aside, and the log is written again without them.
func (l *logFile) replay(ctx context.Context) error {
	info, err := l.f.Stat()
	if err != nil || info.Size() == l.size {
		return err
	}

	damaged, err := l.read(info.Size())
	if err != nil {
		return fmt.Errorf("read the undo log: %w", err)
	}

	if rest := info.Size() - l.size; rest > 0 {
		l.log.WarnContext(ctx, "an unfinished entry of the undo log is dropped", "bytes", rest)
		if err := l.f.Truncate(l.size); err != nil {
			return err
		}
	}

	if len(damaged) > 0 {
		return l.mend(ctx, damaged)
	}
	return nil
}

// read brings the model up to date with a log of a size, as far as its entries are
// finished.
func (l *logFile) read(size int64) (damaged []span, err error) {
	r := &scanner{r: l.f, pos: l.size, size: size}
	for {
		found, err := r.next()
		if err != nil {
			return nil, err
		}

		if found.is == whole && !l.replayed(found.record, found.body) {
			found.is = damage
		}

		if found.is == unfinished {
			break
		}

		if found.is == damage {
			l.model.damaged(found.record)
			damaged = append(damaged, span{off: l.size, size: r.pos - l.size})
		}
		l.size = r.pos
	}

	if len(damaged) > 0 {
		l.model.repairDamage()
	}
	return damaged, nil
}

// mend keeps damaged entries aside and writes the log again without them.
func (l *logFile) mend(ctx context.Context, damaged []span) error {
	aside := filepath.Join(l.dir, nameDamaged)
	l.log.ErrorContext(ctx, "the undo log is damaged; turns that this may concern are not undone", "entries", len(damaged), "kept", aside)
	f, err := os.OpenFile(aside, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	for _, d := range damaged {
		_, cerr := io.Copy(f, io.NewSectionReader(l.f, d.off, d.size))
		_, werr := f.Write([]byte{'\n'})
		err = errors.Join(err, cerr, werr)
	}

	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return l.rewrite(ctx, l.model.ordered())
}

// nameDamaged is the file with damaged entries in the folder of a log.
const nameDamaged = "log.bad"

// Damaged returns the file with entries that could not be used of a log that is kept
// in a folder, "" if there is none.
func Damaged(dir string) string {
	file := filepath.Join(dir, nameDamaged)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// replayed brings a record to the model; false means that it cannot be understood.
func (l *logFile) replayed(rec record, body span) bool {
	var decoded any
	switch rec.Op {
	case opTree:
		decoded = &[]delta{}
	case opChanges:
		decoded = &[]change{}
	}

	if decoded != nil {
		raw := make([]byte, body.size)
		_, err := l.f.ReadAt(raw, body.off)
		switch {
		case err != nil:
			return false
		case rec.Sum != "" && rec.Sum != string(store.Sum(raw)):
			return false
		case json.Unmarshal(raw, decoded) != nil:
			return false
		}
	}

	l.model.goesOn(rec)
	switch d := decoded.(type) {
	case *[]delta:
		l.model.applyTree(*d)
	case *[]change:
		l.model.applyChanges(rec.Turn, *d)
	default:
		l.model.apply(rec, body)
	}

	return true
}

// scanner reads the headers of a log and skips the bodies.
type scanner struct {
	r         io.ReaderAt
	pos, size int64
	window    []byte // what is known of the log from base on
	base      int64
}

const (
	scanWindow = 64 << 10
	maxHeader  = 1 << 20 // a header with thousands of skipped folders is not ours
)

// finding says what a scanner finds.
type finding int

const (
	unfinished finding = iota // the end, or an entry that was not written to its end
	whole
	damage
)

// found is an entry, or what stands where one should be.
type found struct {
	is finding
	record
	body span
}

// next goes on to the next entry.
func (s *scanner) next() (found, error) {
	line, err := s.line(s.pos)
	if err != nil {
		return found{}, err
	}

	ended := line != nil
	if !ended {
		if line, err = s.bytes(s.pos, min(s.size-s.pos, maxHeader)); err != nil {
			return found{}, err
		}
	}

	rec, length, sealed, ok := header(line, s.pos)
	switch {
	case ok && (ended || sealed):
		return s.entry(rec, length, sealed)
	case !ended:
		return found{}, nil
	}

	s.pos, err = s.resync(s.pos + 1)
	return found{is: damage}, err
}

// entry goes on behind an entry whose header was read.
func (s *scanner) entry(rec record, length int64, sealed bool) (found, error) {
	body, end := span{}, s.pos+length
	if rec.N > 0 {
		body = span{off: end, size: rec.N - 1}
		end += rec.N // the newline behind the body is the one more
		if end > s.size {
			return found{}, nil
		}

		last, err := s.bytes(end-1, 1)
		if err != nil || !sealed && last[0] != '\n' {
			return found{}, err
		}
	}

	s.pos = min(end, s.size)
	return found{whole, rec, body}, nil
}

// header reads the header at an offset; length is that of its line. Where the newline
// is damaged, its checksum shows where it ends.
func header(line []byte, at int64) (rec record, length int64, sealed, ok bool) {
	raw := bytes.Clone(line)
	_, sealed, ok = store.Unseal(raw)
	length = int64(len(raw)) + 1
	if !ok || !sealed {
		if first, _ := store.SplitSealed(bytes.Clone(line)); first != nil {
			raw = first
			sealed = true
			ok = true
			length = int64(len(first)+store.SealSize) + 1
		}
	}

	if !ok || json.Unmarshal(raw, &rec) != nil || rec.Op == "" || rec.N < 0 || sealed && rec.Pos != at {
		return record{}, 0, false, false
	}
	return rec, length, sealed, true
}

// resync finds where the next entry begins. Only a header with a checksum that says
// that it stands there is one: the contents of files are in the log, too.
func (s *scanner) resync(from int64) (int64, error) {
	begin := []byte(`{"op":"`)
	for ; from < s.size; from += scanWindow {
		chunk, err := s.bytes(from, min(scanWindow+int64(len(begin)), s.size-from))
		if err != nil {
			return 0, err
		}

		chunk = bytes.Clone(chunk)
		for i := 0; ; i++ {
			next := bytes.Index(chunk[i:], begin)
			if next < 0 {
				break
			}

			i += next
			at := from + int64(i)
			line, err := s.line(at)
			if err != nil {
				return 0, err
			}
			if _, _, sealed, ok := header(line, at); ok && sealed {
				return at, nil
			}
		}
	}

	return s.size, nil
}

// line returns the line at an offset without its newline, nil if it does not end.
func (s *scanner) line(at int64) ([]byte, error) {
	for n := int64(512); ; n *= 4 {
		chunk, err := s.bytes(at, min(n, s.size-at))
		if err != nil {
			return nil, err
		}
		if line, _, ok := bytes.Cut(chunk, []byte{'\n'}); ok {
			return line, nil
		}
		if n >= s.size-at || n > maxHeader {
			return nil, nil
		}
	}
}

// bytes returns n bytes at off, valid until the next call.
func (s *scanner) bytes(off, n int64) ([]byte, error) {
	if off < s.base || off+n > s.base+int64(len(s.window)) {
		want := min(max(n, scanWindow), s.size-off)
		if int64(cap(s.window)) < want {
			s.window = make([]byte, want)
		}
		s.window, s.base = s.window[:want], off
		if _, err := s.r.ReadAt(s.window, off); err != nil {
			return nil, err
		}
	}
	return s.window[off-s.base : off-s.base+n], nil
}

// batch holds what one call adds to the log: all of it or nothing.
type batch struct {
	l     *logFile
	ctx   context.Context //nolint:containedctx // a batch lives inside one call
	w     *bufio.Writer
	at    int64 // where the next byte goes
	blobs map[string]span
	apply []func(m *model)
	err   error
}

func (l *logFile) batch(ctx context.Context) *batch {
	b := &batch{l: l, ctx: ctx, at: l.size, blobs: map[string]span{}}
	b.w = bufio.NewWriterSize(&appendAt{f: l.f, off: l.size}, 16<<10)
	return b
}

// appendAt writes behind the end of the log.
type appendAt struct {
	f   *os.File
	off int64
}

func (a *appendAt) Write(p []byte) (int, error) {
	n, err := a.f.WriteAt(p, a.off)
	a.off += int64(n)
	return n, err
}

// add writes a header and, if body is not nil, a body.
func (b *batch) add(rec record, body []byte) span {
	if b.err != nil {
		return span{}
	}
	rec.Pos = b.at
	head, n, err := rec.write(b.w, body)
	b.err = err
	where := span{off: b.at + head, size: int64(len(body))}
	b.at += n
	return where
}

// write appends a record to a log. head is the length of its header, n of all.
func (rec record) write(w *bufio.Writer, body []byte) (head, n int64, err error) {
	if body != nil {
		rec.N = int64(len(body)) + 1
		if rec.Op != opBlob {
			rec.Sum = string(store.Sum(body))
		}
	}

	line, err := json.Marshal(rec)
	if err != nil {
		return 0, 0, err
	}

	line = append(store.Seal(line, 0), '\n')
	// A buffered writer remembers its first error.
	_, _ = w.Write(line)
	if body != nil {
		_, _ = w.Write(body)
		err = w.WriteByte('\n')
	}

	head = int64(len(line))
	return head, head + rec.N, err
}

// addJSON writes a record whose body is JSON.
func (b *batch) addJSON(rec record, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		b.err = errors.Join(b.err, err)
		return
	}
	b.add(rec, body)
}

func (b *batch) then(f func(m *model)) { b.apply = append(b.apply, f) }

// begin makes sure that the turn of a call is known.
func (b *batch) begin(c tool.Call) {
	if b.l.model.turns[c.TurnID] == nil {
		b.head(record{Op: opTurn, Turn: c.TurnID, Session: c.SessionKey, At: b.l.now().UnixMilli()})
	}
}

// head adds a record without a body.
func (b *batch) head(rec record) {
	b.add(rec, nil)
	b.then(func(m *model) { m.apply(rec, span{}) })
}

// blob keeps a content unless it is kept already.
func (b *batch) blob(hash string, data []byte) {
	if _, ok := b.l.model.blobs[hash]; ok {
		return
	}
	if _, ok := b.blobs[hash]; ok {
		return
	}

	if data == nil {
		data = []byte{}
	}
	b.blobs[hash] = b.add(record{Op: opBlob, Hash: hash}, data)
}

func (b *batch) tree(d []delta) {
	if len(d) > 0 {
		b.addJSON(record{Op: opTree}, d)
		b.then(func(m *model) { m.applyTree(d) })
	}
}

func (b *batch) command(turn, call string, skipped []string) {
	b.head(record{Op: opCommand, Turn: turn, Call: call, At: time.Now().UnixMilli(), Skipped: skipped})
}

func (b *batch) done(turn, call string, late bool) {
	b.head(record{Op: opDone, Turn: turn, Call: call, Late: late})
}

func (b *batch) changes(turn string, c []change) {
	b.addJSON(record{Op: opChanges, Turn: turn}, c)
	b.then(func(m *model) { m.applyChanges(turn, c) })
}

func (b *batch) gap(turn, why string) {
	b.head(record{Op: opGap, Turn: turn, Why: why})
}

// commit finishes the batch. With sync it also survives a power loss.
func (b *batch) commit(sync bool) error {
	if b.err == nil {
		b.err = b.w.Flush()
	}
	if b.err == nil && sync {
		b.err = b.l.f.Sync()
	}

	if b.err != nil {
		return b.abandon(b.err)
	}

	b.l.size = b.at
	maps.Copy(b.l.model.blobs, b.blobs)
	for _, f := range b.apply {
		f(b.l.model)
	}
	return nil
}

// abandon takes back what the batch wrote and returns err.
func (b *batch) abandon(err error) error {
	if b.at == b.l.size {
		return err
	}
	return errors.Join(err, b.l.f.Truncate(b.l.size))
}

// content reads a kept content and checks that it is what it should be.
func (l *logFile) content(hash string) ([]byte, error) {
	at, ok := l.model.blobs[hash]
	if !ok {
		return nil, errLost
	}

	data := make([]byte, at.size)
	if _, err := l.f.ReadAt(data, at.off); err != nil {
		return nil, err
	}
	if hashOf(data) != hash {
		return nil, errDamaged
	}
	return data, nil
}

// Why a content cannot be put back.
var (
	errLost    = errors.New("its old content is no longer kept")
	errDamaged = errors.New("its old content was damaged on the disk")
)
