package guard

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// GuestMedia gives a chat of guests the files that were sent with a message, in
// its own folder: that of a whole channel holds what all people sent. The names
// of the message change. A file that cannot be given stays where it is, which the
// message shows all the same.
func GuestMedia(ctx context.Context, dataDir string, in *bus.Inbound, now time.Time, log *slog.Logger) {
	if in.Scope == "" || len(in.Media) == 0 {
		return
	}

	home := guestFolders(dataDir, bus.Room(in.Route, in.Scope))
	home.sweepMedia(ctx, now)
	media := make([]bus.Media, len(in.Media))
	for i, m := range in.Media {
		media[i] = m
		path, err := home.takeMedia(m.Path)
		if err != nil {
			log.WarnContext(ctx, "a file that a guest sent cannot be given to its chat", "err", err)
			continue
		}
		media[i].Path = path
	}

	in.Media = media
}

// takeMedia puts a file into the folder and returns its name there.
func (g guestHome) takeMedia(path string) (string, error) {
	to := filepath.Join(g.media, filepath.Base(path))
	if path == "" || path == to {
		return path, nil
	}
	if err := diskio.MkdirAll(g.media, 0o700); err != nil {
		return "", err
	}
	if _, err := os.Lstat(to); err == nil { // the message came again
		return to, nil
	}
	if os.Link(path, to) == nil { // the channel may still show it
		return to, nil
	}

	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("copy what was sent: %w", err)
	}

	defer f.Close() //nolint:errcheck // read only
	return to, diskio.CopyFile(to, f, 0o600)
}
