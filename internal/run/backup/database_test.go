package backup

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// The keys of an account are whole in a backup, although their database is open
// and its newest rows are only in its log; they are secrets.
func TestBackupOfDatabases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plant(t, dir, map[string]string{"config.json": "{}", "accounts/matrix/notes.db": "not a database", "accounts/matrix/empty.db": "", "accounts/matrix/session.json": "{}"})
	db, err := sql.Open("sqlite", filepath.Join(dir, "accounts/matrix/crypto.db")+"?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range []string{"PRAGMA wal_autocheckpoint=0", "CREATE TABLE keys (k TEXT)", "INSERT INTO keys VALUES ('olm')"} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "accounts/matrix/crypto.db-wal")); err != nil || info.Size() == 0 {
		t.Fatalf("the row is not in the log: %v, %v", info, err)
	}
	l, err := config.Load(config.Options{Path: filepath.Join(dir, "config.json")})
	if err != nil {
		t.Fatal(err)
	}

	for _, secrets := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "b.tar.gz")
		var archive bytes.Buffer
		if _, err := write(t.Context(), &archive, Options{Config: l, Workspace: filepath.Join(dir, "workspace"), Secrets: secrets, Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "new")
		if _, err := b.Restore(t.Context(), RestoreOptions{Config: filepath.Join(to, "config.json"), Workspace: filepath.Join(to, "workspace"), Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		got := harvest(t, to)
		if _, there := got["accounts/matrix/session.json"]; there != secrets {
			t.Errorf("with secrets %v: the session is in the backup: %v", secrets, there)
		}
		if !secrets {
			continue
		}
		if got["accounts/matrix/notes.db"] != "not a database" || got["accounts/matrix/crypto.db-wal"] != "" {
			t.Errorf("restored %q", got)
		}
		restored, err := sql.Open("sqlite", filepath.Join(to, "accounts/matrix/crypto.db"))
		if err != nil {
			t.Fatal(err)
		}
		var k string
		if err := restored.QueryRowContext(t.Context(), "SELECT k FROM keys").Scan(&k); err != nil || k != "olm" {
			t.Errorf("the restored database has %q, %v", k, err)
		}
		if err := restored.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "run/backup-*")); len(left) > 0 {
		t.Errorf("copies were left: %q", left)
	}
}
