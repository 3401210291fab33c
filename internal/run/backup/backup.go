// Package backup writes everything that cannot be made again into one archive and
// puts it back. It hides what belongs into the archive, how it is checked, and how
// data is exchanged. Create promises that the file appears only when it is whole,
// and has credentials only with Options.Secrets. Restore never deletes what is
// there: it is put aside, and put back if the restore cannot be completed.
package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Options say what goes into a backup.
type Options struct {
	Config    *config.Loaded
	Workspace string
	Secrets   bool // with credentials: keys in the configuration and logins
	Version   string
	Now       time.Time
	Skip      string // file that is left out: the backup itself
}

// Manifest is the list of contents of a backup, its last entry.
type Manifest struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"` // of the program that wrote it
	Created   time.Time `json:"created"`
	DataDir   string    `json:"data_dir"`
	Workspace string    `json:"workspace"`
	ID        string    `json:"workspace_id,omitempty"` // of the workspace in the list of workspaces
	Inside    bool      `json:"workspace_inside"`       // the workspace is in its usual place below the data folder
	Secrets   bool      `json:"with_secrets"`
	Blank     []string  `json:"blank,omitempty"`   // settings whose credentials were taken out
	Skipped   []string  `json:"skipped,omitempty"` // what could not be taken, and why
	Outside   []string  `json:"outside,omitempty"` // files of the workspace that came from outside
	Files     []File    `json:"files"`
}

// File is one file of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bytes returns those of all files, unpacked.
func (m Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

const (
	format       = 1
	manifestName = "manifest.json"
	configName   = "config.json"
	mediaLimit   = 50 << 20 // bytes up to which the media folder is taken along
	maxFiles     = 1 << 20
	maxBytes     = 64 << 30
	maxManifest  = 256 << 20
)

// items returns the names in the data folder that are worth keeping, in the
// order in which they are taken. The data folder may hold foreign files, so
// nothing else is looked at. The configuration and the workspace are taken apart.
func items(secrets bool) []string {
	var items []string
	for _, e := range datadir.Data() {
		switch {
		case e.Name == datadir.Config || e.Name == datadir.Workspace:
		case e.Backup == datadir.Always || e.Backup == datadir.Small || e.Backup == datadir.WithSecrets && secrets:
			items = append(items, string(e.Name))
		}
	}
	return items
}

// write writes a .tar.gz of everything that cannot be made again:
// configuration, workspace, conversations, memory, schedule, pairings and
// messages that are on their way. A gateway may run meanwhile: files that only
// grow are taken up to their last whole line, all others are replaced as a
// whole by those who write them. Logs, caches and the search index are left
// out.
func write(ctx context.Context, w io.Writer, o Options) (Manifest, error) {
	z := gzip.NewWriter(w)
	b := &backup{o: o, tar: tar.NewWriter(z), ctx: ctx}
	b.m = Manifest{
		Format:    format,
		Version:   o.Version,
		Created:   o.Now.UTC(),
		DataDir:   o.Config.DataDir,
		Workspace: o.Workspace,
		Secrets:   o.Secrets,
		Inside:    filepath.Clean(o.Workspace) == datadir.Workspace.In(o.Config.DataDir),
	}
	if info, err := os.Stat(o.Skip); err == nil {
		b.skip = info
	}
	if w, ok, err := session.Find(disk.Open(o.Config.DataDir, nil), o.Config.DataDir, o.Workspace); err == nil && ok {
		b.m.ID = w.ID
	}

	if err := b.write(); err != nil {
		return b.m, err
	}
	return b.m, errors.Join(b.tar.Close(), z.Close())
}

// backup is one that is being written.
type backup struct {
	o    Options
	ctx  context.Context //nolint:containedctx // of the one call this lives for
	tar  *tar.Writer
	skip fs.FileInfo
	m    Manifest

	origin *origin.Store // which files came from outside; nil: not yet asked
}

func (b *backup) write() error {
	if err := b.config(); err != nil {
		return err
	}

	for _, item := range items(b.o.Secrets) {
		if item == string(datadir.Guests) {
			if err := b.guests("data/" + item); err != nil {
				return err
			}
			continue
		}

		if item == string(datadir.Media) {
			if n := folderBytes(filepath.Join(b.o.Config.DataDir, item)); n > mediaLimit {
				b.left("data/media", fmt.Sprintf("%d MB of received files", n>>20))
				continue
			}
		}

		if err := b.data(filepath.Join(b.o.Config.DataDir, filepath.FromSlash(item)), "data/"+item); err != nil {
			return err
		}
	}

	if err := b.workspace("workspace"); err != nil {
		return err
	}

	data, err := json.MarshalIndent(b.m, "", " ")
	if err != nil {
		return err
	}
	return b.writeEntry(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(data)), ModTime: b.o.Now}, bytes.NewReader(data))
}

func (b *backup) left(name, why string) { b.m.Skipped = append(b.m.Skipped, name+": "+why) }

func (b *backup) config() error {
	data, err := os.ReadFile(b.o.Config.File)
	if diskio.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}

	if !b.o.Secrets {
		if data, b.m.Blank, err = withoutSecrets(b.o.Config, data); err != nil {
			return err
		}
	}
	return b.add(&tar.Header{Name: configName, Mode: 0o600, Size: int64(len(data)), ModTime: b.o.Now}, bytes.NewReader(data))
}

// data adds a file or a folder of the data folder with all that is in it. A link
// is followed only at the top, where it says on which disk the data lies. A
// missing file is not an error, nor is one that is removed meanwhile.
func (b *backup) data(root, as string) error {
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		root = resolved
	}
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, file)
		at := visit{name: path.Join(as, filepath.ToSlash(rel)), entry: d, err: errors.Join(err, relErr)}
		at.open = func() (*os.File, error) { return os.Open(file) }
		return b.visit(at)
	})
}

// workspace adds the workspace, where no link is followed.
func (b *backup) workspace(as string) error {
	tree, err := diskio.OpenTree(b.o.Workspace)
	if diskio.IsMissing(err) {
		return nil
	}
	if err != nil {
		b.left(as, "cannot be read")
		return nil
	}

	defer tree.Close() //nolint:errcheck // only read

	own := b.ownData(tree.Path())
	if own.around != "" {
		b.left(as, "is part of "+own.around+" in the data folder")
		return nil
	}
	return fs.WalkDir(tree.FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		at := visit{name: path.Join(as, rel), entry: d, err: err}
		at.open = func() (*os.File, error) { return tree.Open(rel) }
		switch {
		case err != nil:
		case own.has(filepath.FromSlash(rel), d):
			return pass(d) // our own data is taken by name
		case isOldBackup(d.Name()):
			b.left(at.name, "is a backup, or was set aside by a restore")
			return pass(d)
		}

		return b.visit(at)
	})
}

// visit is a step of the walk that makes a backup.
type visit struct {
	name  string // in the archive
	entry fs.DirEntry
	err   error
	open  func() (*os.File, error)
}

func (b *backup) visit(at visit) error {
	switch ctxErr := b.ctx.Err(); {
	case ctxErr != nil:
		return ctxErr
	case diskio.IsMissing(at.err):
		return nil
	case at.err != nil:
		b.left(at.name, "cannot be read")
		return nil //nolint:nilerr // the backup goes on and says what it lacks
	case at.entry.IsDir():
		return b.folder(at.name, at.entry)
	case passing(at.name):
		return nil
	case isDatabase(at.name) && at.entry.Type().IsRegular():
		return b.database(at)
	case !at.entry.Type().IsRegular():
		b.left(at.name, "is a link or not a regular file")
		return nil
	}
	return b.file(at)
}

// passing reports files of ours that mean something only while a program runs
// here. In the workspace other people's files have such names, too: a
// Cargo.lock is kept.
func passing(name string) bool {
	base := path.Base(name)
	switch {
	case name == "workspace/cron.lock" || strings.HasPrefix(name, "workspace/.git/") && strings.HasSuffix(base, ".lock"):
		return true
	case !isOurs(name):
		return false
	}

	if db, ok := strings.CutSuffix(strings.TrimSuffix(base, "-shm"), "-wal"); ok || db != base {
		return isDatabase(path.Dir(name) + "/" + db) // its content is in the copy of the database
	}
	return strings.HasSuffix(base, ".lock") || strings.HasSuffix(base, ".sock") || base == ".locks" || base == ".workspace" || base == ".workspace.json"
}

// isOurs reports whether only we write a file of a backup.
func isOurs(name string) bool {
	if strings.HasPrefix(name, "data/") {
		return true
	}
	dir, _, inside := strings.Cut(strings.TrimPrefix(name, "workspace/"), "/")
	return inside && slices.Contains([]string{".nanobot", "cron", "memory", "sessions", "triggers"}, dir)
}

// folder keeps the folders of a workspace, also those with nothing in them.
func (b *backup) folder(name string, d fs.DirEntry) error {
	if name == "workspace" || !strings.HasPrefix(name, "workspace/") {
		return nil // made with what is in it
	}
	info, err := d.Info()
	if err != nil {
		return nil //nolint:nilerr // it was removed meanwhile
	}
	return b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()})
}

// opened returns a file as it was opened; nil if it is gone or cannot be read, which
// is noted.
func (b *backup) opened(name string, f *os.File, err error) *os.File {
	if err == nil {
		return f
	}
	if !diskio.IsMissing(err) {
		b.left(name, "cannot be read")
	}
	return nil
}

func (b *backup) file(at visit) error {
	name := at.name
	f, err := at.open()
	if f = b.opened(name, f, err); f == nil {
		return nil
	}

	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || b.skip != nil && os.SameFile(b.skip, info) {
		return err
	}
	if name == "data/"+string(datadir.Pairing) && !b.o.Secrets {
		return b.pairing(f, name, info)
	}

	size := info.Size()
	if strings.HasSuffix(name, ".jsonl") && isOurs(name) {
		torn, err := diskio.TornBytes(f, size)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		size -= torn
	}

	err = b.add(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: size, ModTime: info.ModTime()}, io.NewSectionReader(f, 0, size))
	if err == nil {
		b.outside(name) // after it was read: a mark that it gets meanwhile counts
	}
	return err
}

// add puts a file into the archive and the manifest.
func (b *backup) add(h *tar.Header, r io.Reader) error {
	if len(b.m.Files) >= maxFiles {
		return fmt.Errorf("more than %d files; is the workspace %s the right folder?", maxFiles, b.o.Workspace)
	}

	sum := sha256.New()
	p := &padded{r: r, n: h.Size}
	if err := b.writeEntry(h, io.TeeReader(p, sum)); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}

	if p.short {
		b.left(h.Name, "became shorter while it was read; its end is filled with zeros")
	}

	b.m.Files = append(b.m.Files, File{h.Name, h.Size, hex.EncodeToString(sum.Sum(nil))})
	return nil
}

func (b *backup) writeEntry(h *tar.Header, r io.Reader) error {
	h.Format = tar.FormatPAX
	h.ModTime = h.ModTime.Truncate(time.Second)
	if err := b.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(b.tar, r)
	return err
}

// padded delivers exactly n bytes: of r and, after its end, zeros. A file that
// is written in place may get shorter while it is read.
type padded struct {
	r     io.Reader
	n     int64
	short bool
}

func (p *padded) Read(buf []byte) (int, error) {
	if p.n == 0 {
		return 0, io.EOF
	}

	buf = buf[:min(int64(len(buf)), p.n)]
	if !p.short {
		n, err := p.r.Read(buf)
		p.n -= int64(n)
		p.short = errors.Is(err, io.EOF) && p.n > 0
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
	}

	clear(buf)
	p.n -= int64(len(buf))
	return len(buf), nil
}

func folderBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// sortedNames returns the top-level parts of a backup, for people.
func (m Manifest) sortedNames() []string {
	var names []string
	for _, f := range m.Files {
		if top := top(f.Name); !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	slices.Sort(names)
	return names
}

// top returns the part of a backup that is put in place as a whole.
func top(name string) string {
	parts := strings.SplitN(name, "/", 4)
	switch {
	case parts[0] == "data" && len(parts) > 2 && parts[1] == "run":
		return strings.Join(parts[:3], "/") // beside what belongs to this machine
	case parts[0] == "data" && len(parts) > 1:
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}
