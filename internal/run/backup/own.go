package backup

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
)

// ownData tells what in a workspace is our own data. A workspace may be the
// data folder itself, lie in it or around it; whatever of ours is met there
// stays out, because it is taken by name and without its credentials. Folders
// are compared, not their names: links and disks that ignore case give one
// folder several.
type ownData struct {
	folder fs.FileInfo // with our data; nil if there is none
	same   bool        // the workspace is that folder
	around string      // the folder of ours that the workspace is in
}

func (b *backup) ownData(root string) (o ownData) {
	data, err := filepath.EvalSymlinks(b.o.Config.DataDir)
	if err != nil {
		return o
	}
	if o.folder, err = os.Stat(data); err != nil {
		return ownData{}
	}

	if below, ok := belowFolder(o.folder, root); ok {
		o.same = below == "."
		if top, _, _ := strings.Cut(filepath.ToSlash(below), "/"); datadir.Own(top) {
			o.around = top
		}
	}
	return o
}

// belowFolder returns the way from a folder to a path in it, "." for itself.
func belowFolder(folder fs.FileInfo, path string) (string, bool) {
	below := "."
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(folder, info) {
			return below, true
		}
		up := filepath.Dir(path)
		if up == path {
			return "", false
		}
		below, path = filepath.Join(filepath.Base(path), below), up
	}
}

// has reports whether something in the workspace is data of ours.
func (o ownData) has(rel string, d fs.DirEntry) bool {
	if o.same {
		top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		return datadir.Own(top)
	}
	if o.folder == nil || !d.IsDir() {
		return false
	}
	info, err := d.Info()
	return err == nil && os.SameFile(o.folder, info)
}

// pass leaves out a file, or a folder with all that is in it.
func pass(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// isOldBackup reports names that backup and restore give, in which the
// credentials of another day may be.
func isOldBackup(name string) bool {
	return strings.HasPrefix(name, "nanobot-backup-") && strings.Contains(name, ".tar.gz") ||
		strings.HasPrefix(name, "before-restore-") || strings.HasPrefix(name, ".restore-")
}

// pairing adds the list of those who were let in, without the codes of those
// who still wait.
func (b *backup) pairing(f io.Reader, name string, info fs.FileInfo) error {
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}

	var book map[string]json.RawMessage
	if err := json.Unmarshal(data, &book); err != nil || book == nil {
		b.left(name, "is damaged and may contain codes")
		return nil //nolint:nilerr // the backup goes on and says what it lacks
	}

	for key := range book {
		if strings.EqualFold(key, "pending") {
			book[key] = json.RawMessage("{}")
		}
	}

	if data, err = json.Marshal(book); err != nil {
		return err
	}
	return b.add(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: int64(len(data)), ModTime: info.ModTime()}, bytes.NewReader(data))
}
