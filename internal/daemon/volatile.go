package daemon

import (
	"os"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// putVolatile writes a file that is about processes of this boot. It is
// neither synced nor replaced as a whole: after a power loss nothing in it is
// true any more, and making a file and waiting for the disk is what a start
// would take longest for. Readers may find it empty, now and after such a loss.
func putVolatile(path string, data []byte) error {
	if err := diskio.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
