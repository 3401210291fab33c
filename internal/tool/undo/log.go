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

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// record is the header of an entry in the log: one line of JSON, followed by a
// body and a newline when N is not 0.
type record struct {
	Op      string   `json:"op"`
	N       int64    `json:"n,omitempty"` // length of the body plus one; 0 means that there is none
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
	l.f, l.size, l.model = nil, 0, newModel()
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
	lock, err := lockDir(ctx, s.Dir)
	if err != nil {
		return nil, err
	}
	if err = s.log.refresh(ctx); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return func() {
		if err := lock.Unlock(); err != nil {
			s.Log.ErrorContext(ctx, "unlock the undo store", "err", err)
		}
		<-s.slot
	}, nil
}

func lockDir(ctx context.Context, dir string) (*diskio.Lock, error) {
	for {
		lock, err := diskio.TryLock(filepath.Join(dir, "lock"))
		if _, busy := errors.AsType[*diskio.LockedError](err); !busy {
			return lock, err
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
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
// was not finished: the call it was made for never ran.
func (l *logFile) replay(ctx context.Context) error {
	info, err := l.f.Stat()
	if err != nil || info.Size() == l.size {
		return err
	}
	r := &scanner{r: l.f, pos: l.size, size: info.Size()}
	for {
		rec, body, ok, err := r.next()
		if err != nil {
			return fmt.Errorf("read the undo log: %w", err)
		}
		if ok {
			ok = l.replayed(rec, body)
		}
		if !ok {
			break
		}
		l.size = r.pos
	}
	if rest := info.Size() - l.size; rest > 0 {
		l.log.WarnContext(ctx, "an unfinished entry of the undo log is dropped", "bytes", rest)
		return l.f.Truncate(l.size)
	}
	return nil
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
		if _, err := l.f.ReadAt(raw, body.off); err != nil || json.Unmarshal(raw, decoded) != nil {
			return false
		}
	}
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

// next reads one header. ok is false at the end and at an unfinished entry.
func (s *scanner) next() (rec record, body span, ok bool, err error) {
	line, err := s.line()
	if err != nil || line == nil {
		return rec, body, false, err
	}
	if json.Unmarshal(line, &rec) != nil || rec.Op == "" || rec.N < 0 {
		return rec, body, false, nil //nolint:nilerr // an unfinished entry is no error
	}
	end := s.pos + int64(len(line)) + 1
	if rec.N > 0 {
		body = span{off: end, size: rec.N - 1}
		end += rec.N // the newline behind the body is the one more
		if end > s.size {
			return rec, body, false, nil
		}
		if last, err := s.bytes(end-1, 1); err != nil || last[0] != '\n' {
			return rec, body, false, err
		}
	}
	s.pos = end
	return rec, body, true, nil
}

// line is the line at pos without its newline, nil if it does not end.
func (s *scanner) line() ([]byte, error) {
	for n := int64(512); ; n *= 4 {
		chunk, err := s.bytes(s.pos, min(n, s.size-s.pos))
		if err != nil {
			return nil, err
		}
		if line, _, ok := bytes.Cut(chunk, []byte{'\n'}); ok {
			return line, nil
		}
		if n >= s.size-s.pos || n > maxHeader {
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

// batch is what one call adds to the log: all of it or nothing.
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
	}
	line, err := json.Marshal(rec)
	if err != nil {
		return 0, 0, err
	}
	line = append(line, '\n')
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
		return nil, errLost
	}
	return data, nil
}

var errLost = errors.New("its old content is no longer kept")
