package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Names of the authoritative files.
const (
	fileHistory   = "history.jsonl"
	fileState     = "state.json"
	fileStateCopy = "state.json.copy"
	fileRejected  = "rejected.jsonl" // lines that could not be read, before a rewrite dropped them
	lockName      = "history"
)

// state is what the state file holds.
type state struct {
	Cursor      int64           `json:"cursor"` // a hint; the log is the truth
	DreamCursor int64           `json:"dream_cursor"`
	Dream       json.RawMessage `json:"dream,omitempty"`
	Check       string          `json:"check"` // over the rest: a damaged digit is a digit all the same
}

func (s state) check() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", s.Cursor, s.DreamCursor, s.Dream))
	return hex.EncodeToString(sum[:8])
}

func (s state) equal(o state) bool {
	return s.Cursor == o.Cursor && s.DreamCursor == o.DreamCursor && bytes.Equal(s.Dream, o.Dream)
}

// logFile is the authoritative log and what is known of it.
type logFile struct {
	path string
	seen os.FileInfo // when last read; nil: must be read anew
	size int64
	tail []byte // the last bytes, because inode numbers are used again
}

const tailKept = 256

// append adds a whole line and makes it durable.
func (l *logFile) append(line []byte) error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	err = diskio.AppendLines(f, l.size, line)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		l.size += int64(len(line))
		l.tail = slices.Clone(line[max(0, len(line)-tailKept):])
		l.seen, err = f.Stat()
	}
	if err != nil {
		l.seen = nil
	}
	return errors.Join(err, f.Close())
}

// view runs fn with the history as it is on disk now.
func (h *History) view(ctx context.Context, fn func() error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer func() { <-h.turn }()
	if !h.opened {
		return h.locked(ctx, fn)
	}
	if err := h.refresh(ctx, false); err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	return fn()
}

// update runs fn with the history locked against other processes, and keeps
// what it did to the state.
func (h *History) update(ctx context.Context, fn func() error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer func() { <-h.turn }()
	return h.locked(ctx, func() error {
		before := h.st
		if err := fn(); err != nil {
			h.log.seen, h.stSeen = nil, nil // the disk is the truth
			return err
		}
		if !h.st.equal(before) {
			if err := h.saveState(); err != nil {
				return err
			}
		}
		if _, err := h.mirror(); err != nil {
			// The entry is safe; the copy is made right on the next occasion.
			h.o.Log.WarnContext(ctx, "copy the history into the workspace", "err", err)
		}
		return nil
	})
}

func (h *History) enter(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// locked runs fn holding the lock against other processes, everything read.
func (h *History) locked(ctx context.Context, fn func() error) error {
	if err := diskio.MkdirAll(h.o.Dir, 0o700); err != nil {
		return err
	}
	if err := h.lock(ctx); err != nil {
		return err
	}
	err := h.prepare(ctx)
	if err == nil {
		err = fn()
	}
	return errors.Join(err, h.locks.Release(lockName))
}

// lock waits for the lock in growing steps.
func (h *History) lock(ctx context.Context) error {
	var waited, pause time.Duration
	for {
		err := h.locks.Try(lockName)
		if _, busy := errors.AsType[*diskio.LockedError](err); !busy || waited >= h.o.LockWait {
			return err
		}
		pause = min(max(2*pause, time.Millisecond), 50*time.Millisecond)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
			waited += pause
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// prepare reads the files, makes them on the first occasion, and mends what a
// crash left.
func (h *History) prepare(ctx context.Context) error {
	_, err := os.Lstat(h.log.path)
	if errors.Is(err, fs.ErrNotExist) {
		h.opened = false
		if err := h.beginLog(ctx); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := h.refresh(ctx, true); err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if h.opened {
		return nil
	}
	h.opened = true
	h.sweep()
	if err := h.noteForeign(ctx); err != nil {
		return err
	}
	if _, err := h.mirror(); err != nil {
		h.o.Log.WarnContext(ctx, "copy the history into the workspace", "err", err)
	}
	return nil
}

// sweep removes temporary files of a process that died while it wrote.
func (h *History) sweep() {
	for _, name := range []string{fileHistory, fileState} {
		old, _ := filepath.Glob(filepath.Join(h.o.Dir, "."+name+".tmp-*")) // the pattern is sound
		for _, p := range old {
			_ = os.Remove(p) // only litter
		}
	}
}

// refresh makes memory agree with the disk: nothing to do when the files are
// as they were left, only the new end is read when another process appended.
func (h *History) refresh(ctx context.Context, repair bool) error {
	if err := h.readState(ctx); err != nil {
		return err
	}
	now, err := os.Stat(h.log.path)
	if errors.Is(err, fs.ErrNotExist) {
		// Removed under us: the next update begins a new one.
		h.log.seen, h.log.size, h.log.tail, h.entries, h.ranges = nil, 0, nil, nil, map[string]int64{}
		return nil
	}
	if err != nil {
		return err
	}
	same := h.log.seen != nil && os.SameFile(h.log.seen, now)
	if same && now.Size() == h.log.size && now.ModTime().Equal(h.log.seen.ModTime()) {
		return nil
	}
	f, err := os.OpenFile(h.log.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(h.read(ctx, f, same, repair), f.Close())
}

func (h *History) read(ctx context.Context, f *os.File, same, repair bool) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	size := fi.Size()
	if repair {
		var torn int64
		if size, torn, err = diskio.RepairTail(f, h.log.path+".torn", true); err != nil {
			return err
		}
		if torn > 0 {
			h.o.Log.WarnContext(ctx, "put a torn history line aside", "file", h.log.path+".torn", "bytes", torn)
		}
	}
	from := int64(0)
	if same && h.log.size > 0 && size > h.log.size {
		grown, err := diskio.SameTail(f, h.log.size, h.log.tail)
		if err != nil {
			return err
		}
		if grown {
			from = h.log.size
		}
	}
	if from == 0 {
		h.entries, h.ranges = nil, map[string]int64{}
	}
	end := from
	for line, err := range diskio.Lines(io.NewSectionReader(f, from, size-from), from) {
		if err != nil {
			return err
		}
		if !line.Whole {
			break // another process is writing it
		}
		end = line.End()
		if e, ok := parseEntry(line.Bytes); ok && e.Cursor > 0 {
			h.take(e)
		} else if len(bytes.TrimSpace(line.Bytes)) > 0 {
			h.o.Log.WarnContext(ctx, "passed over an unreadable history line", "file", h.log.path, "offset", line.Offset)
		}
	}
	h.log.size = end
	h.log.tail = make([]byte, min(end, tailKept))
	if _, err := f.ReadAt(h.log.tail, end-int64(len(h.log.tail))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	h.log.seen, err = f.Stat()
	return err
}

// rewrite replaces the log. Lines that could not be read are kept aside.
func (h *History) rewrite(entries []Entry) error {
	old, err := os.ReadFile(h.log.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var bad []byte
	for line := range bytes.Lines(old) {
		if e, ok := parseEntry(line); (!ok || e.Cursor <= 0) && len(bytes.TrimSpace(line)) > 0 {
			bad = append(append(bad, bytes.TrimRight(line, "\n")...), '\n')
		}
	}
	if len(bad) > 0 {
		if err := appendFile(filepath.Join(h.o.Dir, fileRejected), bad); err != nil {
			return fmt.Errorf("keep unreadable lines aside: %w", err)
		}
	}
	high := h.high() // the hint must not go back with what is dropped
	if err := diskio.WriteFile(h.log.path, render(entries), 0o600); err != nil {
		return err
	}
	h.st.Cursor = high
	h.log.seen = nil
	h.entries, h.ranges = nil, map[string]int64{}
	for _, e := range entries {
		h.take(e)
	}
	return nil
}

func render(entries []Entry) []byte {
	var b []byte
	for _, e := range entries {
		b = append(append(b, e.line()...), '\n')
	}
	return b
}

func appendFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readState reads the state file when it changed. One that cannot be read is
// put aside; its copy stands in for what it held.
func (h *History) readState(ctx context.Context) error {
	path := filepath.Join(h.o.Dir, fileState)
	now, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if h.stSeen != nil || !h.opened {
			h.stSeen = nil
			h.st = h.stateWithoutFile()
		}
		return nil
	}
	if err != nil {
		return err
	}
	if h.stSeen != nil && os.SameFile(h.stSeen, now) && now.Size() == h.stSeen.Size() && now.ModTime().Equal(h.stSeen.ModTime()) {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var st state
	if err := json.Unmarshal(data, &st); err != nil || st.Check != st.check() {
		h.o.Log.WarnContext(ctx, "the state of memory cannot be read, using what is left", "file", path, "err", err)
		if err := diskio.WriteFile(path+".bad", data, 0o600); err != nil {
			return err
		}
		st = h.stateWithoutFile()
	}
	h.st, h.stSeen = st, now
	return nil
}

// stateWithoutFile is the best guess about a lost state: what is known in
// memory, else the copy beside it. What the workspace says counts only for a
// history that begins with it.
func (h *History) stateWithoutFile() state {
	st := h.st
	var kept state
	if data, err := os.ReadFile(filepath.Join(h.o.Dir, fileStateCopy)); err == nil && json.Unmarshal(data, &kept) == nil && kept.Check == kept.check() {
		st.Cursor, st.DreamCursor = max(st.Cursor, kept.Cursor), max(st.DreamCursor, kept.DreamCursor)
	}
	if !h.o.Import {
		return st
	}
	if cursor, ok := h.mirroredCursor(fileCursor); ok {
		st.Cursor = max(st.Cursor, cursor)
	}
	if dream, ok := h.mirroredCursor(fileDreamCursor); ok {
		st.DreamCursor = max(st.DreamCursor, dream)
	}
	return st
}

func (h *History) saveState() error {
	h.st.Check = h.st.check()
	data, err := json.Marshal(h.st)
	if err != nil {
		return err
	}
	path := filepath.Join(h.o.Dir, fileState)
	if err := diskio.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("save the state of memory: %w", err)
	}
	if err := diskio.WriteFile(filepath.Join(h.o.Dir, fileStateCopy), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("copy the state of memory: %w", err)
	}
	h.stSeen, err = os.Stat(path)
	return err
}

// line is the entry as one JSON object; keys come in a fixed order, the first
// four are those of the Python generations.
func (e Entry) line() []byte {
	b := strconv.AppendInt([]byte(`{"cursor":`), e.Cursor, 10)
	str := func(key, v string, always bool) {
		if v != "" || always {
			b = append(b, `,"`+key+`":`...)
			b = llm.AppendString(b, v)
		}
	}
	str("timestamp", e.Time, true)
	str("content", e.Content, true)
	str("session_key", e.Session, false)
	str("scope", e.Scope, false)
	str("sender", e.Sender, false)
	if e.Tainted {
		b = append(b, `,"tainted":true`...)
	}
	str("range", e.Range, false)
	for _, k := range slices.Sorted(maps.Keys(e.Extra)) {
		var flat bytes.Buffer
		if json.Compact(&flat, e.Extra[k]) == nil {
			b = append(b, ',')
			b = llm.AppendString(b, k)
			b = append(append(b, ':'), flat.Bytes()...)
		}
	}
	return append(b, '}')
}

// parseEntry reads a line. Entries without a text or a time are none; a cursor
// that is not a whole positive number leaves Cursor 0.
func parseEntry(line []byte) (Entry, bool) {
	var top map[string]json.RawMessage
	if json.Unmarshal(line, &top) != nil {
		return Entry{}, false
	}
	var e Entry
	take := func(key string, into any) bool {
		v, ok := top[key]
		delete(top, key)
		return ok && string(v) != "null" && json.Unmarshal(v, into) == nil
	}
	cursor := top["cursor"]
	delete(top, "cursor")
	if take("content", &e.Content); e.Content == "" || !take("timestamp", &e.Time) {
		return Entry{}, false
	}
	take("session_key", &e.Session)
	take("scope", &e.Scope)
	take("sender", &e.Sender)
	take("tainted", &e.Tainted)
	take("range", &e.Range)
	if len(top) > 0 {
		e.Extra = top
	}
	e.Cursor = parseCursor(cursor)
	return e, true
}

// parseCursor accepts whole numbers, also in quotes; everything else is 0.
func parseCursor(raw json.RawMessage) int64 {
	s := string(raw)
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		s = quoted
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return usable(n)
}
