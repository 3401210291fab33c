package backup

import (
	"archive/tar"
	"bufio"
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
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// ErrInTheWay says that a restore would replace something.
var ErrInTheWay = errors.New("existing data is in the way")

// Backup is a backup that was read from end to end and found whole.
type Backup struct {
	Manifest
	path string
}

// Open checks a backup: every name, every size and every hash. Nothing
// is written.
func Open(ctx context.Context, file string) (*Backup, error) {
	b := &Backup{path: file}
	found := map[string]File{}
	var manifest []byte
	err := b.each(ctx, func(h *tar.Header, r io.Reader) (err error) {
		if h.Name == manifestName {
			manifest, err = io.ReadAll(io.LimitReader(r, maxManifest))
			return err
		}
		if h.Typeflag == tar.TypeDir {
			return nil
		}
		if _, twice := found[h.Name]; twice {
			return fmt.Errorf("it contains %.100q twice", h.Name)
		}

		sum := sha256.New()
		n, err := io.Copy(sum, r)
		found[h.Name] = File{h.Name, n, hex.EncodeToString(sum.Sum(nil))}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", file, err)
	}
	if manifest == nil {
		return nil, fmt.Errorf("%s is incomplete or not a nanobot backup: it has no list of contents", file)
	}
	if err := json.Unmarshal(manifest, &b.Manifest); err != nil {
		return nil, fmt.Errorf("%s cannot be used: its list of contents is damaged", file)
	}
	if b.Format != format {
		return nil, fmt.Errorf("%s has format %d; this version supports format %d", file, b.Format, format)
	}

	for _, f := range b.Files {
		if got, ok := found[f.Name]; !ok || got != f {
			return nil, fmt.Errorf("%s is damaged: %.100q does not match the list of contents", file, f.Name)
		}
		delete(found, f.Name)
	}

	for name := range found {
		return nil, fmt.Errorf("%s was changed: %.100q is not in its list of contents", file, name)
	}
	return b, nil
}

// each visits the entries of the archive and refuses those that could do harm.
func (b *Backup) each(ctx context.Context, visit func(*tar.Header, io.Reader) error) (err error) {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return fmt.Errorf("it is not a .tar.gz file: %w", err)
	}

	r := tar.NewReader(io.LimitReader(z, maxBytes+1))
	var total int64
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}

		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the archive: %w", err)
		case n > 2*maxFiles:
			return errors.New("it has too many entries")
		case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir:
			return fmt.Errorf("%.100q is a link or not a regular file", h.Name)
		}

		if total += h.Size; h.Size < 0 || total > maxBytes {
			return errors.New("it unpacks to too many bytes")
		}
		if err := checkName(h.Name); err != nil {
			return err
		}
		if err := visit(h, r); err != nil {
			return err
		}
	}
}

// checkName refuses names that Write does not make.
func checkName(name string) error {
	clean := strings.TrimSuffix(name, "/")
	known := clean == manifestName || clean == configName || strings.HasPrefix(clean, "workspace/") ||
		slices.ContainsFunc(items(true), func(item string) bool {
			return clean == "data/"+item || strings.HasPrefix(clean, "data/"+item+"/")
		})
	if !known || !fs.ValidPath(clean) || !filepath.IsLocal(filepath.FromSlash(clean)) || strings.ContainsAny(clean, "\\\x00") {
		return fmt.Errorf("%.100q is not a valid name in a backup", name)
	}
	return nil
}

// RestoreOptions say where a backup goes.
type RestoreOptions struct {
	Config    string // file of the configuration; its folder gets the data
	Workspace string // "" is the place it had, or workspace below the data if that was its place
	Force     bool   // put aside what is in the way
	DryRun    bool
	Now       time.Time
}

// Restored says what a restore did, or would do.
type Restored struct {
	Config    string   `json:"config"`
	DataDir   string   `json:"data_dir"`
	Workspace string   `json:"workspace"`
	Files     int      `json:"files"`
	Bytes     int64    `json:"bytes"`
	Replaced  []string `json:"replaced,omitempty"` // what was in the way
	Aside     []string `json:"aside,omitempty"`    // where that is now
	Blank     []string `json:"blank,omitempty"`    // settings to fill in again
}

// move is a part of a backup on its way to its place.
type move struct {
	part string // in the archive; "" is state that is out of date after the restore
	to   string
}

// Restore unpacks the backup beside its place and then puts it there, part by
// part. With Force, what is there is put aside as before-restore-<time> and
// never deleted. If it cannot be completed, what was is put back.
func (b *Backup) Restore(ctx context.Context, o RestoreOptions) (Restored, error) {
	data := filepath.Dir(o.Config)
	if o.Workspace == "" {
		o.Workspace = b.Workspace
		if b.Inside || !filepath.IsAbs(b.Workspace) {
			o.Workspace = datadir.Workspace.In(data)
		}
	}

	if resolved, err := filepath.EvalSymlinks(o.Workspace); err == nil {
		o.Workspace = resolved // a link says on which disk it lies
	}

	if resolved, err := filepath.EvalSymlinks(data); diskio.Within(data, o.Workspace) || err == nil && diskio.Within(resolved, o.Workspace) {
		return Restored{}, fmt.Errorf("the workspace %s contains the data folder %s, and neither can be replaced alone; restore to another folder with --to DIR", o.Workspace, data)
	}

	r := Restored{
		Config:    o.Config,
		DataDir:   data,
		Workspace: o.Workspace,
		Files:     len(b.Files),
		Bytes:     b.Bytes(),
		Blank:     b.Blank,
	}

	moves := b.moves(o, data)
	for _, m := range moves {
		if occupied(m.to) {
			r.Replaced = append(r.Replaced, m.to)
		}
	}

	if len(r.Replaced) > 0 && !o.Force {
		return r, fmt.Errorf("%w: %s", ErrInTheWay, strings.Join(r.Replaced, ", "))
	}
	if o.DryRun {
		return r, nil
	}
	if err := b.fits(data); err != nil {
		return r, err
	}
	if err := removeLeftovers(moves); err != nil {
		return r, err
	}

	stamp := unused(moves, o.Now.UTC().Format("20060102-150405"))
	if err := b.unpack(ctx, moves, stamp); err != nil {
		return r, errors.Join(err, removeStaging(moves, stamp))
	}
	if err := b.mark(moves, stamp); err != nil {
		err = fmt.Errorf("record which files came from outside: %w", err)
		return r, errors.Join(err, removeStaging(moves, stamp))
	}

	aside, err := swap(moves, stamp)
	r.Aside = aside
	if err == nil && b.ID != "" {
		// In backups of versions before, the workspace itself says who it is.
		if err = session.Relocate(disk.Open(data, nil), data, b.ID, o.Workspace); err != nil {
			err = fmt.Errorf("everything is restored, but the place of the workspace could not be recorded: %w", err)
		}
	}
	return r, errors.Join(err, removeStaging(moves, stamp))
}

// fits makes sure that there is space before anything is written.
func (b *Backup) fits(dir string) error {
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}

	if free, ok := diskio.FreeBytes(dir); ok && uint64(b.Bytes()) > free { //nolint:gosec // a sum of sizes that were read
		return fmt.Errorf("%s has %d MB free, the backup needs %d MB", dir, free>>20, b.Bytes()>>20)
	}
	return nil
}

// moves returns the parts of the backup and where they go.
func (b *Backup) moves(o RestoreOptions, data string) []move {
	var out []move
	parts := b.sortedNames()
	for _, part := range parts {
		switch part {
		case configName:
			out = append(out, move{part, o.Config})
		case "workspace":
			out = append(out, move{part, o.Workspace})
		default:
			out = append(out, move{part, filepath.Join(data, filepath.FromSlash(strings.TrimPrefix(part, "data/")))})
		}
	}

	if len(b.Outside) > 0 && !slices.Contains(parts, originPart) {
		out = append(out, move{originPart, datadir.Origin.In(data)})
	}

	// These describe what was there before.
	for _, name := range datadir.Select(datadir.Data(), func(e datadir.Entry) bool { return e.Stale }) {
		if !slices.Contains(parts, "data/"+string(name)) {
			out = append(out, move{"", name.In(data)})
		}
	}
	return out
}

// occupied reports a file, or a folder with something in it.
func occupied(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return true
	}
	entries, err := os.ReadDir(path)
	return err != nil || len(entries) > 0
}

// staging returns where a part waits: beside its place, so that it gets there
// by a rename.
func (m move) staging(stamp string) string {
	return filepath.Join(filepath.Dir(m.to), ".restore-"+stamp, filepath.Base(m.to))
}

func (m move) aside(stamp string) string {
	return filepath.Join(filepath.Dir(m.to), "before-restore-"+stamp, filepath.Base(m.to))
}

// unused returns a stamp that no restore has used: of two within a second, the later
// one gets a number.
func unused(moves []move, second string) string {
	taken := func(stamp string) bool {
		return slices.ContainsFunc(moves, func(m move) bool {
			_, err := os.Lstat(filepath.Dir(m.aside(stamp)))
			return err == nil
		})
	}

	stamp := second
	for n := 2; taken(stamp); n++ {
		stamp = fmt.Sprintf("%s-%d", second, n)
	}
	return stamp
}

// removeLeftovers deletes what restores have unpacked that were killed. It is in
// their backups still.
func removeLeftovers(moves []move) error {
	var err error
	for _, m := range moves {
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(m.to), ".restore-[0-9]*")) // the pattern is sound, unless the folder looks like one
		for _, dir := range left {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

func removeStaging(moves []move, stamp string) error {
	var err error
	for _, m := range moves {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(m.staging(stamp))))
	}
	return err
}

// unpack writes every part to its staging place. Names were checked, and a
// root keeps even the others inside.
func (b *Backup) unpack(ctx context.Context, moves []move, stamp string) error {
	byPart := map[string]move{}
	for _, m := range moves {
		if m.part != "" {
			byPart[m.part] = m
			if err := diskio.MkdirAll(filepath.Dir(m.staging(stamp)), 0o700); err != nil {
				return err
			}
		}
	}

	return b.each(ctx, func(h *tar.Header, r io.Reader) error {
		m, ok := byPart[top(strings.TrimSuffix(h.Name, "/"))]
		if !ok {
			return nil // the manifest, or an empty workspace
		}

		root, err := os.OpenRoot(filepath.Dir(m.staging(stamp)))
		if err != nil {
			return err
		}

		rel := filepath.FromSlash(filepath.Base(m.to) + strings.TrimPrefix(strings.TrimSuffix(h.Name, "/"), m.part))
		return errors.Join(unpackEntry(root, rel, h, r), root.Close())
	})
}

func unpackEntry(root *os.Root, name string, h *tar.Header, r io.Reader) error {
	perm := fs.FileMode(h.Mode) & 0o700 //nolint:gosec // permissions fit
	if strings.HasPrefix(h.Name, "workspace/") {
		perm = fs.FileMode(h.Mode) & 0o755 //nolint:gosec // permissions fit
	}

	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, perm|0o700)
	}

	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}

	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm|0o600)
	if err != nil {
		return err
	}

	_, err = io.Copy(f, r)
	if err == nil && !strings.HasPrefix(h.Name, "workspace/") {
		err = f.Sync() // a workspace may have too many files for that
	}

	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}

// swap puts aside what is in the way and every part in its place, or leaves
// all as it was.
func swap(moves []move, stamp string) (aside []string, err error) {
	type rename struct{ from, to string }
	var done []rename
	do := func(from, to string) error {
		if err := diskio.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
		done = append(done, rename{from, to})
		return nil
	}
	defer func() {
		if err == nil {
			return
		}
		for _, d := range slices.Backward(done) {
			err = errors.Join(err, os.Rename(d.to, d.from))
		}
		aside = nil
	}()

	for _, m := range moves {
		if _, statErr := os.Lstat(m.to); statErr == nil {
			if !occupied(m.to) {
				if err := os.Remove(m.to); err != nil {
					return nil, err
				}
			} else if err := do(m.to, m.aside(stamp)); err != nil {
				return nil, err
			} else if dir := filepath.Dir(m.aside(stamp)); !slices.Contains(aside, dir) {
				aside = append(aside, dir)
			}
		}

		if m.part == "" {
			continue
		}

		if _, statErr := os.Lstat(m.staging(stamp)); statErr == nil {
			if err := do(m.staging(stamp), m.to); err != nil {
				return nil, err
			}
		}
	}

	return aside, nil
}

// Relocate makes a restored configuration name the workspace it was restored
// with.
func Relocate(file, workspace string) error {
	f, err := config.Open(file, nil)
	if err != nil {
		return err
	}
	if err := f.Set("agents.defaults.workspace", workspace); err != nil {
		return err
	}
	return diskio.WriteFile(file, f.Text(), 0o600)
}
