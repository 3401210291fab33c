package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// workspaceID is the name of a workspace's directory below root. The id is
// kept inside the workspace, so a moved workspace keeps its conversations; a
// marker below root says where the workspace was last seen, so a copy of one
// is recognised and gets an id of its own. A workspace that cannot be written
// to is identified by its path.
func workspaceID(workspace, root string) (string, error) {
	path, err := filepath.Abs(workspace)
	if err != nil {
		return "", err
	}
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	file := filepath.Join(path, ".nanobot", "workspace-id")
	id, err := readID(file)
	if err != nil {
		return "", err
	}
	if id != "" {
		mine, err := belongs(id, path, root)
		if err != nil || mine {
			return id, err
		}
	}
	id, err = makeID(file, path, root, id)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		sum := sha256.Sum256([]byte(path))
		return hex.EncodeToString(sum[:16]), nil
	}
	return id, err
}

// makeID gives the workspace an id other than the one it has (a copied one).
func makeID(file, path, root, copied string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // part of the workspace, whose folders are the user's
		return "", err
	}
	lock, err := diskio.TryLock(file + ".lock")
	for range 2000 {
		if _, busy := errors.AsType[*diskio.LockedError](err); !busy {
			break
		}
		// Another process is doing the same; it takes a few writes.
		<-time.After(time.Millisecond)
		lock, err = diskio.TryLock(file + ".lock")
	}
	if err != nil {
		return "", err
	}
	id, err := readID(file)
	if err == nil && (id == "" || id == copied) {
		var raw [16]byte
		_, _ = rand.Read(raw[:]) // never fails
		id = hex.EncodeToString(raw[:])
		if err = mark(id, path, root); err == nil {
			err = diskio.WriteFile(file, []byte(id+"\n"), 0o644)
		}
	}
	return id, errors.Join(err, lock.Unlock())
}

// readID reads a workspace id, "" when there is none or it is unusable.
func readID(file string) (string, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the marker that names it is ours
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := strings.ToLower(strings.TrimSpace(string(data)))
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
		return "", nil //nolint:nilerr // an unusable id counts as none
	}
	return id, nil
}

// belongs reports whether an id found in the workspace at path is its own, and
// updates the marker when the workspace was moved.
func belongs(id, path, root string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(root, id, ".workspace"))
	if errors.Is(err, fs.ErrNotExist) {
		return true, mark(id, path, root)
	}
	if err != nil {
		return false, err
	}
	marked := strings.TrimSpace(string(data))
	if marked == path {
		return true, nil
	}
	there, err := readID(filepath.Join(marked, ".nanobot", "workspace-id"))
	if err == nil && there == id && !sameDir(marked, path) {
		return false, nil
	}
	return true, mark(id, path, root)
}

func sameDir(a, b string) bool {
	fa, err := os.Stat(a) //nolint:gosec // only compared
	if err != nil {
		return false
	}
	fb, err := os.Stat(b)
	return err == nil && os.SameFile(fa, fb)
}

func mark(id, path, root string) error {
	dir := filepath.Join(root, id)
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return diskio.WriteFile(filepath.Join(dir, ".workspace"), []byte(path+"\n"), 0o600)
}
