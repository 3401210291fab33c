package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// suffixPart ends the name of a backup that is not whole yet. One that was not
// written to for abandonedAfter belongs to a process that was killed.
const (
	suffixPart     = ".part"
	abandonedAfter = 10 * time.Minute
)

// removeParts deletes what backups left that were killed.
func removeParts(dir string, now time.Time) {
	left, _ := filepath.Glob(filepath.Join(dir, "nanobot-*.tar.gz"+suffixPart)) // the pattern is sound, unless the folder looks like one
	for _, f := range left {
		if info, err := os.Lstat(f); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > abandonedAfter {
			_ = os.Remove(f) // the next one tries again
		}
	}
}

// Create writes a backup to a new file, which appears when it is whole.
func Create(ctx context.Context, file string, o Options) (m Manifest, err error) {
	if _, err := os.Lstat(file); err == nil {
		return m, fmt.Errorf("%s exists already", file)
	}
	if file, err = filepath.Abs(file); err != nil {
		return m, err
	}

	removeParts(filepath.Dir(file), o.Now)
	tmp := file + suffixPart
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return m, err
	}

	o.Skip = tmp
	m, err = write(ctx, f, o)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return m, errors.Join(err, os.Remove(tmp))
	}
	return m, diskio.Replace(tmp, file)
}
