package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// Create writes a backup to a new file, which appears when it is whole.
func Create(ctx context.Context, file string, o Options) (m Manifest, err error) {
	if _, err := os.Lstat(file); err == nil {
		return m, fmt.Errorf("%s exists already", file)
	}
	if file, err = filepath.Abs(file); err != nil {
		return m, err
	}
	tmp := file + ".part"
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
