package diskio

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// retryFor is how long others, such as readers and virus scanners, may be in the way.
const retryFor = 500 * time.Millisecond

// Retry opens or renames a file, and tries again for a while when another
// process has it open: Windows refuses that.
func Retry(do func() error) error {
	begin, pause := time.Now(), time.Millisecond
	for {
		err := do()
		busy := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_DELETE_PENDING)
		if !busy || time.Since(begin) > retryFor {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// SyncDir does nothing on Windows, where a directory cannot be flushed and NTFS
// journals its entries itself.
func SyncDir(string) error { return nil }

func syncOpen(d *os.File) error { return d.Close() }
