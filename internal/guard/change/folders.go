package change

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
)

// Bounds of what is kept of folders other than the workspace. What was used
// longest ago goes first.
const (
	maxFolders     = 20
	maxFolderBytes = 512 << 20 // of all their logs
	maxFolderAge   = 14 * 24 * time.Hour
)

const (
	folderPrefix = "folder-"
	labelFile    = "folder" // beside the log: the path of the folder
)

// FolderName returns how records about a folder that is not a workspace are
// called.
func FolderName(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return folderPrefix + hex.EncodeToString(sum[:12])
}

// Damaged lists the files with damaged entries of a record that is kept in a folder.
func Damaged(dir string) []string {
	var found []string
	logs, _ := filepath.Glob(filepath.Join(dir, folderPrefix+"*")) // the pattern is well-formed
	for _, log := range append([]string{dir}, logs...) {
		if file := undo.Damaged(log); file != "" {
			found = append(found, file)
		}
	}
	return found
}

// label writes down which folder a log is about, so that every process finds it.
func (r *Record) label(ctx context.Context, f *folder) error {
	path := filepath.Join(f.Dir, labelFile)
	if data, err := os.ReadFile(path); err == nil && string(data) == f.path {
		return nil
	}
	if err := diskio.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("keep the changes of the folder %s: %w", f.path, err)
	}
	if err := diskio.WriteFile(path, []byte(f.path), 0o600); err != nil {
		return fmt.Errorf("keep the changes of the folder %s: %w", f.path, err)
	}

	r.sweep(ctx, f.path)
	return nil
}

// known returns the folders other than the workspace that have a log.
func (r *Record) known() []string {
	entries, err := os.ReadDir(r.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.o.Log.Warn("cannot look for logs of changed files", "err", err)
	}

	var out []string
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), folderPrefix) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.o.Dir, e.Name(), labelFile))
		if path := string(data); err == nil && FolderName(path) == e.Name() {
			out = append(out, path)
		}
	}

	return out
}

// all returns the folders with a log, in use for the caller, who releases them. The
// workspace is first.
func (r *Record) all(ctx context.Context) []*folder {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.main.using++
	out := []*folder{r.main}
	for _, dir := range r.known() {
		f, err := r.open(dir)
		if err != nil { // it is gone, or a drive that is not there now
			r.o.Log.DebugContext(ctx, "the changes of a folder cannot be looked at", "folder", dir, "err", err)
			continue
		}
		f.using++
		out = append(out, f)
	}

	return out
}

// origins returns the records that say where a file comes from: those of the folders
// that it lies in. Any of them may know what lies in none.
func (r *Record) origins(abs string) ([]*origin.Store, error) {
	dirs := []string{""}
	if !r.isWorkspace(abs) {
		dirs = append(dirs, r.around(abs)...)
	}

	out := make([]*origin.Store, len(dirs))
	for i, dir := range dirs {
		var err error
		if out[i], err = r.o.Origin(dir); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// around returns the folders that a path lies in; all if there is none.
func (r *Record) around(abs string) []string {
	all := r.known()
	r.mu.Lock()
	for dir := range r.other {
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}

	r.mu.Unlock()
	inside := slices.DeleteFunc(slices.Clone(all), func(dir string) bool { return !within(abs, dir) })
	if len(inside) == 0 {
		return all
	}
	return inside
}

// sweep gives up the logs of folders beyond the bounds, but not that of keep.
func (r *Record) sweep(ctx context.Context, keep string) {
	type used struct {
		dir  string
		size int64
		at   time.Time
	}

	var logs []used
	for _, dir := range r.known() {
		if dir == keep {
			continue
		}
		u := used{dir: dir}
		if info, err := os.Stat(filepath.Join(r.o.Dir, FolderName(dir), "log")); err == nil {
			u.size, u.at = info.Size(), info.ModTime()
		}
		logs = append(logs, u)
	}

	slices.SortStableFunc(logs, func(a, b used) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.dir, b.dir)) })

	var bytes int64
	for i, u := range logs {
		bytes += u.size
		if i+1 < maxFolders && bytes <= maxFolderBytes && r.o.Now().Sub(u.at) <= maxFolderAge {
			continue
		}
		if err := r.giveUp(ctx, u.dir); err != nil { // in use; the next sweep tries again
			r.o.Log.DebugContext(ctx, "old changes of a folder stay", "folder", u.dir, "err", err)
		}
	}
}

// giveUp forgets everything that is kept of a folder.
func (r *Record) giveUp(ctx context.Context, dir string) error {
	name := filepath.Join(r.o.Dir, FolderName(dir))
	r.mu.Lock()
	f := r.other[dir]
	switch {
	case f != nil && f.using > 0:
		r.mu.Unlock()
		return errors.New("it is in use")
	case f != nil:
		delete(r.other, dir)
	}

	r.mu.Unlock()

	if f == nil {
		jail, err := r.nowhere()
		if err != nil {
			return err
		}

		log, err := r.store(name, jail, dir)
		if err != nil {
			return errors.Join(err, jail.Close())
		}
		f = &folder{Store: log, path: dir, jail: jail}
	}

	err := errors.Join(f.Forget(ctx), f.Close(), f.jail.Close())
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(filepath.Join(name, labelFile)), os.Remove(name))
}

// nowhere returns the jail of a folder that is not looked at, since it may be gone.
func (r *Record) nowhere() (*diskio.Jail, error) {
	return diskio.OpenJail(diskio.JailOptions{Workspace: r.o.Dir, Restrict: true})
}
