package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// version is that of the tables and of the way texts are split. An index of
// another version is built again.
const version = 3

// lockPause is how often a process that waits for the index looks whether it is free.
const lockPause = 20 * time.Millisecond

// schema makes the tables. The ids of documents grow with their time (see
// idOf), so that the newest are found first and a span of time is a range.
// The full-text table keeps only which document has which token: how often and
// where is counted in the few texts that are looked at anyway.
const schema = `
CREATE TABLE source(
	id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL,
	ident TEXT NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
	pos INTEGER NOT NULL, tail BLOB NOT NULL,
	session TEXT NOT NULL, scope TEXT NOT NULL, tainted INTEGER NOT NULL, time INTEGER NOT NULL,
	docs INTEGER NOT NULL, words INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE state(changes INTEGER NOT NULL);
INSERT INTO state VALUES(0);
CREATE TABLE name(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE doc(
	id INTEGER PRIMARY KEY, source INTEGER NOT NULL, pos INTEGER NOT NULL, len INTEGER NOT NULL,
	session INTEGER NOT NULL, scope INTEGER NOT NULL, role INTEGER NOT NULL, tainted INTEGER NOT NULL, time INTEGER NOT NULL);
CREATE INDEX doc_source ON doc(source);
CREATE VIRTUAL TABLE words USING fts5(body, content='', contentless_delete=1, detail=none, tokenize='ascii');
INSERT INTO words(words, rank) VALUES('hashsize', 16777216);
`

// open returns the database, opening it on first use and again when the file
// was replaced.
func (x *Index) open(ctx context.Context) (*sql.DB, error) {
	x.mu.Lock()
	defer x.mu.Unlock()

	if x.closed {
		return nil, errors.New("the search index is closed")
	}

	if x.db != nil {
		if now, err := os.Stat(x.opt.Path); err == nil && os.SameFile(now, x.file) {
			return x.db, nil
		}
		err := x.db.Close()
		if x.db = nil; err != nil {
			return nil, err
		}
	}

	if err := diskio.MkdirAll(filepath.Dir(x.opt.Path), 0o700); err != nil {
		return nil, err
	}

	// SQLite would make the file readable by others.
	f, err := os.OpenFile(x.opt.Path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	fi, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}

	db, err := sql.Open("sqlite", dataSource(x.opt.Path))
	if err != nil {
		return nil, err
	}

	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(1)
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}

	x.db = db
	x.file = fi
	x.names = map[int64]string{}
	x.rows = nil
	return db, nil
}

// dataSource names a file and how it is used: readers never wait for the
// writer, and the death of a process leaves the last whole batch.
func dataSource(path string) string {
	const how = "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=auto_vacuum(incremental)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)" +
		"&_pragma=cache_size(-8192)&_pragma=journal_size_limit(8388608)"
	if strings.ContainsAny(path, "?") {
		path = "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	}
	return path + how
}

// prepare makes the tables, or finds them made.
func prepare(ctx context.Context, db *sql.DB) error {
	have := 0
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil || have == version {
		return err
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer tx.Rollback() //nolint:errcheck // does nothing after a commit
	// Another process may have been faster.
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil || have == version {
		return err
	}
	if have != 0 {
		return errOtherVersion
	}
	if _, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA user_version=%d", version)); err != nil {
		return err
	}
	return tx.Commit()
}

var errOtherVersion = errors.New("the index was made by another version")

// damaged reports whether an error means that the file is of no use.
func damaged(err error) bool {
	if errors.Is(err, errOtherVersion) {
		return true
	}

	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}

	const corrupt, notADatabase, missingTable, shortRead = 11, 26, 1, 522
	switch code := e.Code(); {
	case code&0xff == corrupt, code&0xff == notADatabase, code == shortRead:
		return true
	case code == missingTable:
		return strings.Contains(e.Error(), "no such table") || strings.Contains(e.Error(), "vtable constructor failed")
	}
	return false
}

// guard runs f on the database. A file that turns out to be damaged is dropped,
// and f runs once more on an empty one.
func (x *Index) guard(ctx context.Context, f func(*sql.DB) error) error {
	db, err := x.open(ctx)
	if err == nil {
		err = f(db)
	}

	if err == nil || !damaged(err) {
		return err
	}

	x.opt.Log.WarnContext(ctx, "a damaged search index is dropped", "file", x.opt.Path, "err", err)
	if derr := x.drop(db); derr != nil {
		return errors.Join(err, derr)
	}
	if db, err = x.open(ctx); err != nil {
		return err
	}
	return f(db)
}

// drop removes the file unless another process has done so already.
func (x *Index) drop(bad *sql.DB) error {
	x.mu.Lock()
	defer x.mu.Unlock()

	if bad != nil && x.db != bad {
		return nil
	}

	var err error
	if x.db != nil {
		now, serr := os.Stat(x.opt.Path)
		replaced := serr == nil && !os.SameFile(now, x.file)
		err = x.db.Close()
		x.db = nil
		if replaced || err != nil {
			return err
		}
	}

	for _, suffix := range []string{"-wal", "-shm", ""} {
		if rerr := os.Remove(x.opt.Path + suffix); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

// write takes the right to change the index from others, in this process and
// elsewhere. It waits as long as ctx lasts.
func (x *Index) write(ctx context.Context) (done func() error, err error) {
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}

	defer func() {
		if err != nil {
			<-x.turn
		}
	}()
	if err := diskio.MkdirAll(filepath.Dir(x.opt.Path), 0o700); err != nil {
		return nil, err
	}

	lock, err := diskio.WaitLock(ctx, x.opt.Path+".lock", lockPause)
	if err != nil {
		return nil, err
	}
	return func() error { err := lock.Unlock(); <-x.turn; return err }, nil
}
