package diskio

import (
	"context"
	"errors"

	"github.com/fsnotify/fsnotify"
)

// Watch reports changes in folders by what the operating system tells, so that
// waiting costs nothing. Folders are watched and not files, because files are
// replaced by renaming. The first report comes when watching has begun: what
// was changed until then is not lost.
func Watch(ctx context.Context, dirs []string, changed func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}

	for _, dir := range dirs {
		err = errors.Join(err, w.Add(dir))
	}

	if err != nil {
		return errors.Join(err, w.Close())
	}

	changed()
	for {
		select {
		case e, ok := <-w.Events:
			if ok && e.Op != fsnotify.Chmod {
				changed()
			}
		case err := <-w.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) { // there was so much that some is missing
				changed()
				continue
			}
			return errors.Join(err, w.Close())

		case <-ctx.Done():
			return w.Close()
		}
	}
}
