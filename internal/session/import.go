package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

const dirConflicts = ".migration-conflicts"

// importDirs are the places where older versions kept sessions, best first.
func (st *Store) importDirs() []string {
	dirs := []string{filepath.Join(st.opt.Workspace, "sessions"), filepath.Dir(st.dir)}
	return append(dirs, st.opt.ImportDirs...)
}

// importOld looks for a log that an older version kept under key and makes it
// the one at path, which does not exist. The source is removed once the copy
// is durable and proved equal; further sources for the same key are moved to
// the conflicts directory in the same way. A source that is a symbolic link is
// left alone.
func (st *Store) importOld(ctx context.Context, key, path string) (bool, error) {
	imported := false
	for _, dir := range st.importDirs() {
		for _, name := range oldNames(key) {
			source := filepath.Join(dir, name+suffixLog)
			ok, err := st.belongsTo(ctx, source, key)
			if err != nil {
				return imported, fmt.Errorf("import %s: %w", source, err)
			}
			if !ok {
				continue
			}
			target := path
			if imported {
				if target, err = conflictName(path); err != nil {
					return imported, err
				}
			}
			if err := moveVerified(source, target); err != nil {
				return imported, fmt.Errorf("import %s: %w", source, err)
			}
			st.opt.Log.InfoContext(ctx, "imported a session", "session", key, "from", source, "to", target)
			imported = true
		}
	}
	return imported, nil
}

// oldNames are the names an older version may have given a key's log.
func oldNames(key string) []string {
	names := []string{pythonName(key)}
	if n, err := fileName(key); err == nil && n != names[0] {
		names = append(names, n)
	}
	return slices.DeleteFunc(names, func(n string) bool {
		return len(n) > maxName || n != filepath.Base(n) || n == "." || n == ".." || strings.ContainsRune(n, 0)
	})
}

// belongsTo reports whether a file is a log of this key. Old names are lossy,
// so the key stored inside decides; without one the name must suggest the key.
func (st *Store) belongsTo(ctx context.Context, path, key string) (bool, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	dir, err := os.Lstat(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	if !fi.Mode().IsRegular() || !dir.IsDir() {
		st.opt.Log.WarnContext(ctx, "did not import a link", "session", key, "file", path)
		return false, nil
	}
	stored, err := storedKey(path)
	if stored == "" {
		stored = suggestedKey(path)
	}
	return err == nil && stored == key, err
}

// suggestedKey is the key that v0.1.5 reads out of a file name.
func suggestedKey(path string) string {
	return strings.Replace(strings.TrimSuffix(filepath.Base(path), suffixLog), "_", ":", 1)
}

// storedKey is the key a log says it belongs to, "" when it says nothing.
func storedKey(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	key := ""
	for line, lerr := range diskio.Lines(f, 0) {
		if err = lerr; err != nil {
			break
		}
		if !mayBeMetadata(line.Bytes) {
			continue
		}
		if m, kind := parseMetadata(line.Bytes); kind == "metadata" {
			key = m.key
			break
		}
	}
	return key, errors.Join(err, f.Close())
}

func conflictName(path string) (string, error) {
	dir := filepath.Join(filepath.Dir(path), dirConflicts)
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		name := filepath.Join(dir, filepath.Base(path)+"."+strconv.Itoa(n))
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}

// moveVerified copies source to target, which does not exist, proves that the
// durable copy is equal, and only then removes the source.
func moveVerified(source, target string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read from
	before, err := f.Stat()
	if err != nil {
		return err
	}
	// An editor may have stripped the last newline; a whole object without one
	// must not be taken for a torn line.
	end, err := missingNewline(f, before.Size())
	if err != nil {
		return err
	}
	whole := func() io.Reader {
		return io.MultiReader(io.NewSectionReader(f, 0, before.Size()), strings.NewReader(end))
	}
	tmp := target + suffixTemp
	if err := writeTemp(tmp, whole()); err != nil {
		return err
	}
	same, err := sameContent(tmp, whole())
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	after, err := os.Lstat(source)
	if err != nil || !same || !os.SameFile(before, after) || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return errors.Join(errors.New("the file changed while it was copied"), err, os.Remove(tmp))
	}
	if err := diskio.Replace(tmp, target); err != nil {
		return err
	}
	return os.Remove(source)
}

// missingNewline is what must be added to make the last line whole: nothing,
// unless the line is a complete object that lacks only its newline.
func missingNewline(f io.ReaderAt, size int64) (string, error) {
	for line, err := range diskio.LinesBackward(f, size) {
		if err != nil {
			return "", err
		}
		if !line.Whole && json.Valid(line.Bytes) && bytes.HasPrefix(bytes.TrimSpace(line.Bytes), []byte{'{'}) {
			return "\n", nil
		}
		break
	}
	return "", nil
}

// sameContent compares a file with what r yields.
func sameContent(path string, r io.Reader) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	a, b := sha256.New(), sha256.New()
	_, err = io.Copy(a, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	if _, err := io.Copy(b, r); err != nil {
		return false, err
	}
	return bytes.Equal(a.Sum(nil), b.Sum(nil)), nil
}
