package undo

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Paths in the log are slash paths relative to the workspace, or absolute for
// the files outside of it that an unrestricted agent may change.

// linkHops bounds how many links a name is followed through.
const linkHops = 8

// errDetour means that a folder on the way is not the folder it was.
var errDetour = errors.New("a folder on the way is now a link or a file")

// area is where a store looks for files and puts them back.
type area struct {
	jail      *diskio.Jail
	workspace string // absolute, as the jail names it
	maxFile   int64  // larger files are not kept
}

// Resolve finds what a tool may change when it is told name: the links on the
// way, which it may remove, and last the file; absolute paths without links in
// front of the last part. Nothing for names the jail refuses.
func Resolve(jail *diskio.Jail, name string) (paths []string) {
	for range linkHops {
		abs, err := jail.Path(name)
		if err != nil {
			return paths
		}

		info, err := jail.Lstat(name)
		if _, refused := errors.AsType[*diskio.JailError](err); refused {
			return paths
		}

		dir := diskio.ResolveExisting(filepath.Dir(abs))
		paths = append(paths, filepath.Join(dir, filepath.Base(abs)))
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			link, err := jail.Readlink(name)
			if err != nil {
				return paths
			}

			if !filepath.IsAbs(link) {
				link = filepath.Join(dir, link)
			}

			name = link
			continue
		}

		return paths
	}
	return paths
}

// resolve is Resolve for the files that the log may hold, by their keys.
func (a *area) resolve(name string) (keys []string) {
	for _, abs := range Resolve(a.jail, name) {
		key, ok := a.key(abs)
		if !ok {
			return keys
		}
		keys = append(keys, key)
	}
	return keys
}

// key returns how a path without links is called in the log.
func (a *area) key(abs string) (string, bool) {
	for _, base := range []string{a.workspace, diskio.ResolveExisting(a.workspace)} {
		if rel, err := filepath.Rel(base, abs); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), rel != "."
		}
	}
	return abs, !a.jail.Restricted()
}

// missingParents lists the folders of a path that a tool would have to make.
func (a *area) missingParents(p string) (missing []string) {
	for dir := path.Dir(filepath.ToSlash(p)); dir != "." && dir != "/" && dir != path.Dir(dir); dir = path.Dir(dir) {
		sp, err := a.spot(dir)
		if err == nil {
			_, err = sp.dir.Lstat(sp.name)
			sp.close()
		}

		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append([]string{dir}, missing...)
	}
	return missing
}

// allowed asks the jail whether a path of the log may still be touched.
func (a *area) allowed(p string) error {
	_, err := a.jail.Lstat(a.abs(p))
	if refused, ok := errors.AsType[*diskio.JailError](err); ok {
		return refused
	}
	return nil
}

// abs returns the absolute form of a path of the log.
func (a *area) abs(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(a.workspace, filepath.FromSlash(p))
}

// spot is a name in a folder that is held open, so that whatever is done to
// the name happens in that folder.
type spot struct {
	dir  *os.Root
	name string
}

func (p spot) close() { _ = p.dir.Close() }

// spot opens the folder of a path without following a link.
func (a *area) spot(p string) (spot, error) {
	base, rel := a.workspace, p
	if filepath.IsAbs(p) {
		base = filepath.VolumeName(p) + string(filepath.Separator)
		rel = filepath.ToSlash(strings.TrimPrefix(p, base))
	}

	if !filepath.IsLocal(filepath.FromSlash(rel)) || rel == "." {
		return spot{}, errDetour
	}

	dir, err := diskio.OpenFolder(base)
	if err != nil {
		return spot{}, err
	}

	parts := strings.Split(rel, "/")
	for _, part := range parts[:len(parts)-1] {
		sub, err := openFolder(dir, part)
		_ = dir.Close()
		if err != nil {
			return spot{}, err
		}
		dir = sub
	}

	return spot{dir: dir, name: parts[len(parts)-1]}, nil
}

// openFolder opens a folder that is not a link.
func openFolder(dir *os.Root, name string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errDetour
	}
	return enterFolder(dir, name, info)
}

// enterFolder opens the folder that info describes and no other.
func enterFolder(dir *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	sub, err := diskio.OpenFolderIn(dir, name)
	if err != nil {
		return nil, err
	}

	now, err := sub.Stat(".")
	if err != nil || !os.SameFile(info, now) {
		_ = sub.Close()
		return nil, errDetour
	}
	return sub, nil
}

// observe looks at a path and keeps the content of a file in b. changed is when
// it had changed last, as changeTime says.
func (a *area) observe(p string, b *batch) (st state, changed int64, err error) {
	sp, err := a.spot(p)
	if diskio.IsMissing(err) || errors.Is(err, errDetour) {
		return state{Kind: kindGone}, 0, nil
	}
	if err != nil {
		return state{}, 0, err
	}

	defer sp.close()
	st, data, info, err := a.inspect(sp)
	if err == nil && st.Kind == kindFile {
		b.blob(st.Hash, data)
	}
	if info != nil {
		changed = changeTime(stamps(info))
	}
	return st, changed, err
}

// changeTime returns when a file changed last in nanoseconds: its inode where
// the system tells it, else its content.
func changeTime(mtime, ctime int64, _ uint64) int64 {
	if ctime != 0 {
		return ctime
	}
	return mtime
}

// inspect returns what a name stands for; data is the content of a file.
func (a *area) inspect(sp spot) (state, []byte, fs.FileInfo, error) {
	info, err := sp.dir.Lstat(sp.name)
	if diskio.IsMissing(err) {
		return state{Kind: kindGone}, nil, nil, nil
	}
	if err != nil {
		return state{}, nil, nil, err
	}

	st := a.plain(info)
	switch st.Kind {
	case kindLink:
		st.Link, err = sp.dir.Readlink(sp.name)
		return st, nil, info, err
	case kindFile:
		data, err := readFile(sp, info, a.maxFile)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return state{Kind: kindShut, Mode: st.Mode, Size: st.Size}, nil, info, nil
		case errors.Is(err, diskio.ErrTooLarge):
			return heavy(info), nil, info, nil
		case err != nil:
			return state{}, nil, nil, err
		}

		st.Hash, st.Size = hashOf(data), int64(len(data))
		return st, data, info, nil
	}

	return st, nil, info, nil
}

// plain returns the state of a name as far as it shows without opening it.
func (a *area) plain(info fs.FileInfo) state {
	mode := info.Mode()
	switch {
	case mode.IsRegular() && info.Size() > a.maxFile:
		return heavy(info)
	case mode.IsRegular():
		return state{Kind: kindFile, Mode: mode.Perm(), Size: info.Size()}
	case mode.IsDir():
		return state{Kind: kindDir, Mode: mode.Perm()}
	case mode&fs.ModeSymlink != 0:
		return state{Kind: kindLink}
	}

	return state{Kind: kindOther}
}

func heavy(info fs.FileInfo) state {
	return state{
		Kind: kindHeavy, Mode: info.Mode().Perm(), Size: info.Size(),
		Hash: strconv.FormatInt(info.ModTime().UnixNano(), 10),
	}
}

// readFile reads the regular file that info describes and no other.
func readFile(sp spot, info fs.FileInfo, limit int64) ([]byte, error) {
	f, err := sp.dir.OpenFile(sp.name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // read only
	now, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(now, info) || !now.Mode().IsRegular() {
		return nil, diskio.ErrChanged
	}

	data := make([]byte, 0, min(now.Size(), limit)+1)
	for {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case int64(len(data)) > limit:
			return nil, diskio.ErrTooLarge
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// setState brings a name to a state. now is what inspect returned just before;
// if the name has changed since then, nothing is done.
func setState(sp spot, want state, data []byte, now fs.FileInfo) error {
	temp := ".nanobot-" + strings.ToLower(rand.Text()) + ".tmp"
	switch want.Kind {
	case kindGone:
		if err := unchanged(sp, now); err != nil {
			return err
		}
		return sp.dir.Remove(sp.name)

	case kindDir:
		return setDir(sp, now)
	case kindLink:
		if err := sp.dir.Symlink(want.Link, temp); err != nil {
			return err
		}
	case kindFile:
		if err := writeTemp(sp.dir, temp, data, want.Mode); err != nil {
			return errors.Join(err, dropTemp(sp.dir, temp))
		}
	default:
		return errLost
	}

	err := unchanged(sp, now)
	if err == nil && now != nil && now.IsDir() {
		err = sp.dir.Remove(sp.name) // only if it is empty
	}
	if err == nil {
		err = sp.dir.Rename(temp, sp.name)
	}

	if err != nil {
		return errors.Join(err, dropTemp(sp.dir, temp))
	}
	return nil
}

// setDir makes a name a folder; chmodDir gives it its permissions later.
func setDir(sp spot, now fs.FileInfo) error {
	if now != nil && !now.IsDir() {
		if err := unchanged(sp, now); err != nil {
			return err
		}
		if err := sp.dir.Remove(sp.name); err != nil {
			return err
		}
		now = nil
	}

	if now == nil {
		// Usable while files are put into it; the wanted mode comes last.
		if err := sp.dir.Mkdir(sp.name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// chmodDir gives a folder its permissions when everything in it is done.
func chmodDir(sp spot, mode fs.FileMode) error {
	if runtime.GOOS == "windows" {
		return nil
	}

	sub, err := openFolder(sp.dir, sp.name)
	if err != nil {
		return err
	}

	defer sub.Close() //nolint:errcheck // nothing was written through it
	f, err := sub.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode), f.Close())
}

// unchanged checks that a name is still what it was when it was looked at.
func unchanged(sp spot, was fs.FileInfo) error {
	now, err := sp.dir.Lstat(sp.name)
	switch {
	case diskio.IsMissing(err) && was == nil:
		return nil
	case err != nil && !diskio.IsMissing(err):
		return err
	case err != nil || was == nil || !os.SameFile(now, was) || now.Mode() != was.Mode():
		return diskio.ErrChanged
	case now.Mode().IsRegular() && (now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime())):
		return diskio.ErrChanged
	}

	return nil
}

func writeTemp(dir *os.Root, name string, data []byte, mode fs.FileMode) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	_, err = f.Write(data)
	if err == nil && runtime.GOOS != "windows" {
		err = f.Chmod(mode.Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func dropTemp(dir *os.Root, name string) error {
	if err := dir.Remove(name); err != nil && !diskio.IsMissing(err) {
		return err
	}
	return nil
}
