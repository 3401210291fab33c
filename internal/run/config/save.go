package config

import (
	"bytes"
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
)

const (
	edits      = 3  // attempts of an Edit
	backups    = 20 // copies of earlier versions kept beside the file
	filePerm   = 0o600
	folderPerm = 0o700
)

// Edit changes a file: it opens it, lets change edit it, and saves it. When another
// program wrote the file meanwhile it begins again, so change may be called more than
// once. Without an edit nothing is written.
func Edit(path string, known Sections, change func(*File) error) (err error) {
	for range edits {
		var f *File
		if f, err = Open(path, known); err != nil {
			return err
		}
		if err = change(f); err != nil {
			return err
		}
		if err = f.Save(time.Now()); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return err
}

// Save writes the edited text atomically and keeps the version before it as
// config.json.bak-<UTC time of now>. A new file is readable by its owner only;
// an existing one keeps its mode. Without an edit nothing is written. When the
// file on disk is not the one that was opened the error is ErrChanged.
func (f *File) Save(now time.Time) error {
	if !f.changed {
		return nil
	}

	text := f.Text()
	dir := filepath.Dir(f.path)
	if err := diskio.MkdirAll(dir, folderPerm); err != nil {
		return fmt.Errorf("make folder of config file: %w", err)
	}

	lock, err := diskio.TryLock(f.path + ".lock")
	if err != nil {
		return fmt.Errorf("save config file: %w", err)
	}

	err = f.replace(text, now)
	return errors.Join(err, lock.Unlock())
}

// Replace writes a whole text instead of a configuration file, the way Save
// does. was is what the file held when it was read; nil: there was none. It
// does not look at what the text says.
func Replace(path string, was, text []byte, now time.Time) error {
	if err := diskio.MkdirAll(filepath.Dir(path), folderPerm); err != nil {
		return fmt.Errorf("make folder of config file: %w", err)
	}
	lock, err := diskio.TryLock(path + ".lock")
	if err != nil {
		return fmt.Errorf("save config file: %w", err)
	}
	f := &File{path: path, data: was, exists: was != nil}
	return errors.Join(f.replace(text, now), lock.Unlock())
}

// Backups returns the copies of earlier versions that lie beside a configuration
// file, the newest first.
func Backups(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	var found []string
	for _, e := range entries {
		if stamp, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".bak-"); ok && backupStamp(stamp) {
			found = append(found, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}

	slices.Sort(found)
	slices.Reverse(found)
	return found, err
}

// replace writes text if the file is still as it was read.
func (f *File) replace(text []byte, now time.Time) error {
	onDisk, err := os.ReadFile(f.path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		return fmt.Errorf("save config file: %w", err)
	case missing == f.exists || !bytes.Equal(onDisk, f.data):
		return fmt.Errorf("save %s: %w", f.path, ErrChanged)
	}

	perm := fs.FileMode(filePerm)
	if f.exists {
		if info, err := os.Stat(f.path); err == nil {
			perm = info.Mode().Perm()
		}
		if err := f.backup(now); err != nil {
			return fmt.Errorf("keep a copy of the config file: %w", err)
		}
	}

	if err := diskio.WriteFile(f.path, text, perm); err != nil {
		return fmt.Errorf("save config file: %w", err)
	}

	f.data = text
	f.exists = true
	f.changed = false
	return nil
}

// backup keeps the bytes that were read, and the newest few of its kind.
func (f *File) backup(now time.Time) error {
	prefix := f.path + ".bak-"
	name := prefix + now.UTC().Format("20060102T150405Z")
	for i := 2; ; i++ {
		err := diskio.CopyFile(name, bytes.NewReader(f.data), filePerm)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || i > 99 {
			return err
		}
		name = fmt.Sprintf("%s%s-%02d", prefix, now.UTC().Format("20060102T150405Z"), i)
	}

	all, err := Backups(f.path)
	if err != nil {
		return err
	}

	for _, old := range all[min(backups, len(all)):] {
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	return nil
}

// backupStamp reports whether a file name ends the way backup names it, so
// that copies a person made are never removed.
func backupStamp(s string) bool {
	stamp, _, _ := strings.Cut(s, "-")
	_, err := time.Parse("20060102T150405Z", stamp)
	return err == nil
}

// Version names a text of the file, to notice that another one took its place.
func Version(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Version returns that of the text that was opened.
func (f *File) Version() string { return Version(f.data) }
