package schedule

import (
	"context"
	"errors"

	"github.com/fsnotify/fsnotify"
)

// Watch reports changes in folders by what the operating system tells, so that
// waiting costs nothing. Folders are watched and not files, because files are
// replaced by renaming.
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
	for {
		select {
		case e, ok := <-w.Events:
			if ok && e.Op != fsnotify.Chmod {
				changed()
			}
		case err := <-w.Errors:
			return errors.Join(err, w.Close())
		case <-ctx.Done():
			return w.Close()
		}
	}
}
