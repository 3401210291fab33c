package backup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// isDatabase reports whether a file of the data folder is a database of SQLite,
// such as the keys of an account. A copy of its bytes would be torn while a
// gateway writes to it, and would lack what is in its log.
func isDatabase(name string) bool {
	return strings.HasPrefix(name, "data/") && strings.HasSuffix(name, ".db")
}

// databaseWait is how long a writer may keep a database.
const databaseWait = 30 * time.Second

// database adds a consistent copy of a database. A file that is not one is
// taken as it is.
func (b *backup) database(at visit) error {
	original, err := at.open()
	if original = b.opened(at.name, original, err); original == nil {
		return nil
	}

	path := original.Name()
	head := make([]byte, len(sqliteHead))
	_, err = original.ReadAt(head, 0)
	if err = errors.Join(err, original.Close()); err != nil || string(head) != sqliteHead {
		return b.file(at) // also if it is empty
	}

	run := datadir.Run.In(b.o.Config.DataDir)
	if err := diskio.MkdirAll(run, 0o700); err != nil {
		return err
	}

	dir, err := os.MkdirTemp(run, "backup-*")
	if err != nil {
		return err
	}

	defer os.RemoveAll(dir) //nolint:errcheck // nothing can be done
	twin := filepath.Join(dir, "copy.db")
	if err := vacuumInto(b.ctx, path, twin); err != nil {
		b.left(at.name, "cannot be copied: "+err.Error())
		return nil
	}

	at.open = func() (*os.File, error) { return os.Open(twin) }
	return b.file(at)
}

const sqliteHead = "SQLite format 3\x00"

// vacuumInto writes the content of a database, as one reader sees it, to a new
// file.
func vacuumInto(ctx context.Context, from, to string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseWait)
	defer cancel()
	escape := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace
	db, err := sql.Open("sqlite", "file:"+escape(filepath.ToSlash(from))+fmt.Sprintf("?_pragma=busy_timeout(%d)", databaseWait.Milliseconds()))
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	return err
}
