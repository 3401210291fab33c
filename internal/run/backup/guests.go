package backup

import (
	"archive/tar"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// guests adds the workspaces of guests and what was sent to them. Their commands
// may change them meanwhile, so no link is followed. The rest of their folders
// can be made again, or is not part of a backup for the owner either.
func (b *backup) guests(as string) error {
	tree, err := diskio.OpenTree(datadir.Guests.In(b.o.Config.DataDir))
	if diskio.IsMissing(err) {
		return nil
	}
	if err != nil {
		b.left(as, "cannot be read")
		return nil
	}

	defer tree.Close() //nolint:errcheck // only read

	return fs.WalkDir(tree.FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		name := path.Join(as, rel)
		parts := strings.Split(rel, "/")
		switch ctxErr := b.ctx.Err(); {
		case ctxErr != nil:
			return ctxErr
		case diskio.IsMissing(err):
			return nil
		case err != nil:
			b.left(name, "cannot be read")
			return nil //nolint:nilerr // the backup goes on and says what it lacks
		case len(parts) == 2 && !slices.Contains([]string{"workspace", "media"}, parts[1]):
			return pass(d)
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			b.left(name, "is a link or not a regular file")
			return nil
		}

		return b.guestFile(tree, rel, name)
	})
}

func (b *backup) guestFile(tree *diskio.Tree, rel, name string) error {
	f, err := tree.Open(rel)
	if f = b.opened(name, f, err); f == nil {
		return nil
	}

	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return b.add(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}, io.NewSectionReader(f, 0, info.Size()))
}
