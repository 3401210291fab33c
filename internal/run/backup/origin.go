package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// originPart is the folder of the records that say which files came from outside.
const originPart = "data/" + string(datadir.Origin)

// outside notes a file of the workspace that came from outside. The record in
// the backup may lack it: it was taken before, and knows some files only by the
// time of their last change, which a restored file does not have.
func (b *backup) outside(name string) {
	rel, inside := strings.CutPrefix(name, "workspace/")
	if !inside || b.m.ID == "" {
		return
	}

	if b.origin == nil {
		var err error
		if b.origin, err = guard.OpenOrigins(b.o.Config.DataDir, b.o.Workspace, b.m.ID, "", nil); err != nil {
			b.m.Outside = append(b.m.Outside, rel) // its origin is not known
			return
		}
	}

	if b.origin.Foreign(filepath.Join(b.o.Workspace, filepath.FromSlash(rel))) {
		b.m.Outside = append(b.m.Outside, rel)
	}
}

// mark completes the records of a backup that is unpacked and not yet in its
// place: with the files that came from outside, without the commands that were
// running, which wrote none of the files that are unpacked, and with what is
// known today about folders that are not restored.
func (b *Backup) mark(moves []move, stamp string) error {
	i := slices.IndexFunc(moves, func(m move) bool { return m.part == originPart })
	if i < 0 {
		return nil // the records that are there stay
	}

	staging := moves[i].staging(stamp)
	if err := b.copyRecords(moves[i].to, staging); err != nil {
		return err
	}

	w := slices.IndexFunc(moves, func(m move) bool { return m.part == "workspace" })
	if w < 0 || b.ID == "" {
		return nil
	}

	root := moves[w].staging(stamp)
	rec, err := guard.OpenOrigins(filepath.Dir(staging), root, b.ID, "", nil)
	if err != nil {
		return err
	}

	paths := make([]string, len(b.Outside))
	for i, rel := range b.Outside {
		if !filepath.IsLocal(filepath.FromSlash(rel)) {
			return errors.New("its list of files from outside names one that is not in the workspace")
		}
		paths[i] = filepath.Join(root, filepath.FromSlash(rel))
	}
	return rec.Copied(paths)
}

// copyRecords copies the records of other folders over those of the backup,
// which are older than the folders.
func (b *Backup) copyRecords(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := diskio.MkdirAll(to, 0o700); err != nil {
		return err
	}

	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".jsonl") || name == b.ID {
			continue
		}

		target := filepath.Join(to, e.Name())
		if _, err := os.Lstat(target); err == nil && b.ID == "" {
			continue // it may be that of the workspace
		}
		if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := copyRecord(filepath.Join(from, e.Name()), target); err != nil {
			return err
		}
	}

	return nil
}

func copyRecord(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	return diskio.CopyFile(to, f, 0o600)
}
