package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// A batch is written when it is this big, so that memory stays bounded and a
// long build that is broken off loses little.
const (
	batchDocs  = 20000
	batchBytes = 16 << 20
)

// Update takes in everything that is new since the last time.
func (x *Index) Update(ctx context.Context) error {
	if _, err := x.update(ctx, 0); err != nil {
		return fmt.Errorf("update the search index: %w", err)
	}
	return nil
}

// update is Update that gives up after a timeout, 0 for never: then what was
// taken in is kept, and behind is true.
func (x *Index) update(ctx context.Context, timeout time.Duration) (behind bool, err error) {
	files, err := x.list(ctx)
	if err != nil {
		return false, err
	}
	if x.current(ctx, files) {
		return false, nil
	}

	looked := time.Now()
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}

	done, err := x.write(waiting)
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			return true, nil // another process is at it
		}
		return false, err
	}

	defer func() { err = errors.Join(err, done()) }()
	if time.Since(looked) > staleList {
		files = nil // whoever had the lock may have worked for long
	}

	err = x.guard(ctx, func(db *sql.DB) error {
		b := &batch{x: x, db: db, over: waiting, files: files}
		files = nil // a second try begins with what is there then
		behind, err = b.run(ctx)
		if x.unmerged += b.written; err != nil || behind || x.unmerged < batchDocs {
			return err
		}

		merged, err := merge(ctx, waiting, db)
		if err != nil || !merged {
			return err
		}

		x.unmerged = 0
		// Merging left pages behind that nothing uses, and a long journal.
		_, err = db.ExecContext(ctx, "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	})
	return behind, err
}

// mergePages is how much is merged in one transaction, about 50 ms.
const mergePages = 500

// merge joins what the batches of a build left side by side. Otherwise a message
// that is taken in soon after would have to wait until that is done, for seconds.
// It may be broken off: what is left is merged by a later update.
func merge(ctx, slice context.Context, db *sql.DB) (done bool, err error) {
	conn, err := db.Conn(ctx) // changes are counted by connection
	if err != nil {
		return false, err
	}

	defer conn.Close() //nolint:errcheck // goes back to the pool
	if _, err := conn.ExecContext(ctx, `INSERT INTO words(words, rank) VALUES('usermerge', 2)`); err != nil {
		return false, err
	}

	for last := int64(-1); slice.Err() == nil; {
		if _, err := conn.ExecContext(ctx, `INSERT INTO words(words, rank) VALUES('merge', ?)`, mergePages); err != nil {
			return false, err
		}

		var changes int64
		if err := conn.QueryRowContext(ctx, `SELECT total_changes()`).Scan(&changes); err != nil {
			return false, err
		}
		if last >= 0 && changes-last < 2 { // the command itself counts as one
			return true, nil
		}
		last = changes
	}

	return false, nil
}

// staleList is how old a list of files may be when it is used. Files that
// appear or grow meanwhile are found by the next update.
const staleList = 20 * time.Millisecond

// current reports whether there is certainly nothing to do about these files.
// It takes no locks that others could hold for long, and makes no file.
func (x *Index) current(ctx context.Context, files []*source) bool {
	db, err := x.open(ctx)
	if err != nil {
		return false
	}

	var changes int64
	if db.QueryRowContext(ctx, `SELECT changes FROM state`).Scan(&changes) != nil {
		return false
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	if x.db != db || x.rows == nil || x.rows.changes != changes || len(x.rows.by) != len(files) {
		return false
	}
	return !slices.ContainsFunc(files, func(s *source) bool {
		row := x.rows.by[s.label]
		return row == nil || !s.same(row)
	})
}

// batch collects documents and writes them in the order of their ids.
type batch struct {
	x    *Index
	db   *sql.DB
	over context.Context //nolint:containedctx // ends with the timeout; lives as long as one update

	files     []*source // as they are on the disk; nil: to be looked for
	forgotten map[hash]struct{}
	rows      *sourceRows
	docs      []doc
	bytes     int
	touched   []*source // whose rows must be written
	gone      []*source
	lines     int
	written   int // documents so far
}

var errTimeout = errors.New("the time for this update is over")

func (b *batch) run(ctx context.Context) (behind bool, err error) {
	if b.files == nil {
		if b.files, err = b.x.list(ctx); err != nil {
			return false, err
		}
	}

	if b.rows, err = b.x.readSources(ctx, b.db); err != nil {
		return false, err
	}

	changed := b.files[:0:0]
	there := make(map[string]bool, len(b.files))
	for _, s := range b.files {
		there[s.label] = true
		row := b.rows.by[s.label]
		if row == nil {
			s.session = keyOf(s.label)
			changed = append(changed, s)
		} else if !s.same(row) {
			row.info = s.info
			changed = append(changed, row)
		}
	}

	for label, row := range b.rows.by {
		if !there[label] {
			b.gone = append(b.gone, row)
		}
	}

	if len(changed) == 0 && len(b.gone) == 0 {
		b.x.cacheSources(b.db, b.rows)
		return false, nil
	}
	if b.forgotten, err = b.x.readForgotten(ctx); err != nil {
		return false, err
	}

	// The newest first: a build that is broken off has what is asked for most.
	slices.SortStableFunc(changed, func(a, c *source) int {
		return cmp.Or(cmp.Compare(c.kind, a.kind), c.info.Changed.Compare(a.info.Changed))
	})
	for _, s := range changed {
		err := b.index(ctx, s)
		if errors.Is(err, errTimeout) {
			behind = true
			break
		}
		if err != nil {
			return false, err
		}
	}

	if err := b.flush(ctx); err != nil {
		return false, err
	}

	b.x.cacheSources(b.db, b.rows)
	return behind, nil
}

// index reads what is new in a file.
func (b *batch) index(ctx context.Context, s *source) error {
	f, err := b.x.openSource(ctx, s.label)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the next update sees that it is gone
	}
	if err != nil {
		return err
	}

	defer f.Close() //nolint:errcheck // only read from
	if s.id != 0 && !grown(f, s) {
		s.reset = true
		s.pos = 0
		s.tail = nil
		s.docs = 0
		s.words = 0
		s.bytes = 0
		s.tainted = false
		s.foreign = false
		s.time = 0
		if s.kind == kindLog {
			s.scope, s.session = "", keyOf(s.label)
		}
	}

	b.touched = append(b.touched, s)
	if s.kind == kindNote {
		return b.indexNote(f, s)
	}
	return b.log(ctx, f, s)
}

// indexNote indexes a memory file from the beginning.
func (b *batch) indexNote(f *opened, s *source) error {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, maxNote))
	if err != nil {
		return err
	}

	s.time = s.info.Changed.UnixMilli()
	s.session = ""
	paragraphs(data, func(pos int, text string) {
		b.add(s, Note, int64(pos), []byte(text), text)
	})
	s.setPosition(s.info.Size, nil)
	return nil
}

// log takes in the lines behind s.pos.
func (b *batch) log(ctx context.Context, f *opened, s *source) error {
	for line, err := range store.Lines(f, s.pos, f.info.Size) {
		if err != nil {
			return err
		}
		if !line.Whole {
			break
		}

		var text string
		var role Role
		if s.kind == kindHistory {
			text, role = s.entryLine(line.Bytes)
		} else {
			text, role = s.logLine(line.Bytes)
		}

		s.pos = line.End()
		if text != "" {
			b.add(s, role, line.Offset, line.Bytes, text)
		}

		if err := b.pause(ctx, f, s); err != nil {
			return err
		}
	}
	return s.setPositionAt(f)
}

// pause writes a full batch and looks at the time.
func (b *batch) pause(ctx context.Context, f *opened, s *source) error {
	if b.lines++; b.lines%64 == 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}

	full := len(b.docs) >= batchDocs || b.bytes >= batchBytes
	late := b.lines%64 == 0 && b.over.Err() != nil
	if !full && !late {
		return nil
	}
	if err := s.setPositionAt(f); err != nil {
		return err
	}

	s.size = -1 // there is more: the next look must not take it for done
	if late {
		return errTimeout
	}
	if err := b.flush(ctx); err != nil {
		return err
	}

	b.touched = append(b.touched, s)
	return nil
}

func (s *source) setPositionAt(f *opened) error {
	tail := make([]byte, min(tailKept, s.pos))
	if _, err := f.ReadAt(tail, s.pos-int64(len(tail))); err != nil {
		return err
	}
	s.setPosition(s.pos, tail)
	return nil
}

func (s *source) setPosition(pos int64, tail []byte) {
	s.pos, s.tail = pos, tail
	s.ident = s.info.ID
	s.size = s.info.Size
	s.mtime = s.info.Changed.UnixNano()
}

// add puts a text into the batch.
func (b *batch) add(s *source, role Role, pos int64, raw []byte, text string) {
	if len(b.forgotten) > 0 {
		if _, ok := b.forgotten[hashOf(raw)]; ok {
			return
		}
	}

	text = clip(text)
	toks := tokens(text)
	if len(toks) == 0 {
		return
	}

	when := s.time
	if when == 0 {
		when = s.info.Changed.UnixMilli()
	}

	b.docs = append(b.docs, doc{
		id: idOf(when), src: s, pos: pos, len: int64(len(raw)), session: s.session, scope: s.scope,
		role: role, tainted: s.foreign, time: when, toks: toks,
	})
	b.bytes += len(text)
	s.docs++
	s.words += int64(len(toks))
	s.bytes += int64(len(text))
}

// perSecond is how many ids a second has before it borrows from the next.
const perSecond = 1

// idOf returns the first id for a text of that time.
func idOf(ms int64) int64 {
	const begin = 1262304000 // 2010
	return max(1, (ms/1000-begin)*perSecond)
}

// flush writes the batch.
func (b *batch) flush(ctx context.Context) error {
	if len(b.docs) == 0 && len(b.touched) == 0 && len(b.gone) == 0 {
		return nil
	}

	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer tx.Rollback() //nolint:errcheck // does nothing after a commit
	for _, s := range b.gone {
		if err := remove(ctx, tx, s.id); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM source WHERE id=?`, s.id); err != nil {
			return err
		}
		delete(b.rows.by, s.label)
	}

	for _, s := range b.touched {
		if err := s.save(ctx, tx); err != nil {
			return err
		}
		b.rows.by[s.label] = s
	}

	if err := tx.QueryRowContext(ctx, `UPDATE state SET changes=changes+1 RETURNING changes`).Scan(&b.rows.changes); err != nil {
		return err
	}
	if err := b.insert(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}

	b.written += len(b.docs)
	b.docs = b.docs[:0]
	b.bytes = 0
	b.touched = nil
	b.gone = nil
	return nil
}

// remove takes all documents of a source out of the index.
func remove(ctx context.Context, tx *sql.Tx, source int64) error {
	for _, q := range []string{`DELETE FROM words WHERE rowid IN (SELECT id FROM doc WHERE source=?)`, `DELETE FROM doc WHERE source=?`} {
		if _, err := tx.ExecContext(ctx, q, source); err != nil {
			return err
		}
	}
	return nil
}

// save writes the row of a source, dropping what it had when it starts again.
func (s *source) save(ctx context.Context, tx *sql.Tx) error {
	if s.reset {
		if err := remove(ctx, tx, s.id); err != nil {
			return err
		}
		s.reset = false
	}

	if s.tail == nil {
		s.tail = []byte{}
	}

	var id any
	if s.id != 0 {
		id = s.id
	}

	res, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO source VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, id, s.label, s.kind,
		s.ident, s.size, s.mtime, s.pos, s.tail, s.session, s.scope, s.tainted, s.time, s.docs, s.words, s.bytes)
	if err == nil && s.id == 0 {
		s.id, err = res.LastInsertId()
	}
	return err
}

// insert writes the documents in the order the full-text table likes best.
func (b *batch) insert(ctx context.Context, tx *sql.Tx) error {
	if len(b.docs) == 0 {
		return nil
	}

	slices.SortStableFunc(b.docs, func(a, c doc) int {
		return cmp.Or(cmp.Compare(a.id, c.id), cmp.Compare(a.time, c.time), cmp.Compare(a.src.id, c.src.id), cmp.Compare(a.pos, c.pos))
	})
	row, err := tx.PrepareContext(ctx, `INSERT INTO doc VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}

	defer row.Close() //nolint:errcheck // goes with the transaction
	text, err := tx.PrepareContext(ctx, `INSERT INTO words(rowid, body) VALUES(?,?)`)
	if err != nil {
		return err
	}

	defer text.Close() //nolint:errcheck // goes with the transaction
	names := map[string]int64{}
	id := int64(0)
	for i := range b.docs {
		d := &b.docs[i]
		session, err := nameID(ctx, tx, names, d.session)
		if err != nil {
			return err
		}

		scope, err := nameID(ctx, tx, names, d.scope)
		if err != nil {
			return err
		}

		for id = max(id+1, d.id); ; {
			res, err := row.ExecContext(ctx, id, d.src.id, d.pos, d.len, session, scope, slices.Index(roles(), d.role), d.tainted, d.time)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil || n == 1 {
				break
			}
			if id, err = nextFree(ctx, tx, id); err != nil {
				return err
			}
		}

		if _, err := text.ExecContext(ctx, id, body(d.toks, marks(session, scope, d.scope)...)); err != nil {
			return err
		}
		d.toks = nil
	}

	return nil
}

// marks returns the tokens by which documents are told apart that belong to one
// conversation or scope. They cannot be typed: no text gives such a token. The
// owner's documents bear no mark of a scope, so that there is nothing to
// compare with where there is only one person.
func marks(session, scope int64, name string) []string {
	out := []string{sessionMark(session)}
	if name != "" {
		out = append(out, foreignMark, scopeMark(scope))
	}
	return out
}

const foreignMark = "\ue000x"

func sessionMark(id int64) string { return "\ue000s" + strconv.FormatInt(id, 36) }
func scopeMark(id int64) string   { return "\ue000c" + strconv.FormatInt(id, 36) }

// nextFree returns the first id behind taken that is not.
func nextFree(ctx context.Context, tx *sql.Tx, taken int64) (int64, error) {
	var id int64
	err := tx.QueryRowContext(ctx, `SELECT d.id+1 FROM doc d WHERE d.id >= ? AND NOT EXISTS (SELECT 1 FROM doc e WHERE e.id = d.id+1) ORDER BY d.id LIMIT 1`, taken).Scan(&id)
	return id, err
}

// nameID returns the number of a conversation or scope.
func nameID(ctx context.Context, tx *sql.Tx, known map[string]int64, name string) (int64, error) {
	if id, ok := known[name]; ok {
		return id, nil
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO name(text) VALUES(?) ON CONFLICT DO NOTHING`, name); err != nil {
		return 0, err
	}

	var id int64
	err := tx.QueryRowContext(ctx, `SELECT id FROM name WHERE text=?`, name).Scan(&id)
	known[name] = id
	return id, err
}

// sourceRows is the table of sources and how often it had been changed when it
// was read.
type sourceRows struct {
	changes int64
	by      map[string]*source // by label
}

// readSources returns the table of sources, from memory when it has not
// changed meanwhile. It belongs to the caller until keepSources.
func (x *Index) readSources(ctx context.Context, db *sql.DB) (*sourceRows, error) {
	var changes int64
	if err := db.QueryRowContext(ctx, `SELECT changes FROM state`).Scan(&changes); err != nil {
		return nil, err
	}

	x.mu.Lock()
	kept := x.rows
	x.rows = nil
	x.mu.Unlock()
	if kept != nil && kept.changes == changes {
		return kept, nil
	}

	rows, err := db.QueryContext(ctx, `SELECT id,path,kind,ident,size,mtime,pos,tail,session,scope,tainted,time,docs,words,bytes FROM source`)
	if err != nil {
		return nil, err
	}

	defer rows.Close() //nolint:errcheck // the error is that of Err
	out := &sourceRows{changes, map[string]*source{}}
	for rows.Next() {
		s := &source{}
		if err := rows.Scan(&s.id, &s.label, &s.kind, &s.ident, &s.size, &s.mtime, &s.pos, &s.tail, &s.session, &s.scope,
			&s.tainted, &s.time, &s.docs, &s.words, &s.bytes); err != nil {
			return nil, err
		}
		out.by[s.label] = s
	}

	return out, rows.Err()
}

// cacheSources holds the table for the next update.
func (x *Index) cacheSources(db *sql.DB, rows *sourceRows) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.db == db {
		x.rows = rows
	}
}

type hash [16]byte

func hashOf(raw []byte) (h hash) {
	sum := sha256.Sum256(raw)
	copy(h[:], sum[:])
	return h
}
