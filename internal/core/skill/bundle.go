package skill

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// The limits of a skill that is packed or installed.
const (
	MaxFiles     = 5000     // files of a skill
	manyFiles    = 500      // files beyond which there is a warning
	MaxTotal     = 10 << 20 // bytes of all files together, and of an archive
	maxEntries   = 10_000   // entries of an archive, with directories and what is left out
	maxRatio     = 100      // unpacked bytes per byte of an archive ...
	ratioFrom    = 1 << 20  // ... beyond this size
	maxPathBytes = 240      // of a file's path inside the skill
	maxPathDepth = 8
)

// bundle is a skill in memory: what an archive or a directory holds. Being
// filled by add alone, it is safe to write anywhere: every path is relative,
// portable and means one file on every system.
type bundle struct {
	name  string // of the directory or archive it came from; may be ""
	files []file // sorted by path once finish was called
	total int
	seen  map[string]string // folded path of each file and directory -> its spelling
	isDir map[string]bool   // by folded path
}

type file struct {
	path string // slash-separated
	exec bool
	data []byte
}

// unsafeError says which entry of an archive or directory cannot be taken.
type unsafeError struct{ path, why string }

func (e *unsafeError) Error() string { return fmt.Sprintf("%.100q %s", e.path, e.why) }

// junk reports whether a path is left out of skills: what version control,
// file managers and interpreters leave behind.
func junk(name string) bool {
	for part := range strings.SplitSeq(strings.TrimSuffix(name, "/"), "/") {
		switch part {
		case ".git", ".hg", ".svn", ".DS_Store", "Thumbs.db", "__MACOSX", "__pycache__", "node_modules":
			return true
		}
	}
	return false
}

// add takes one regular file.
func (b *bundle) add(name string, exec bool, r io.Reader) error {
	if err := b.claim(name, false); err != nil {
		return err
	}
	if len(b.files) >= MaxFiles {
		return fmt.Errorf("more than %d files", MaxFiles)
	}

	data, err := io.ReadAll(io.LimitReader(r, int64(MaxTotal-b.total)+1))
	if err != nil {
		return fmt.Errorf("read %.100q: %w", name, err)
	}
	if b.total += len(data); b.total > MaxTotal {
		return fmt.Errorf("more than %d MiB of files", MaxTotal>>20)
	}

	b.files = append(b.files, file{path: name, exec: exec || bytes.HasPrefix(data, []byte("#!")), data: data})
	return nil
}

// claim takes a path and the directories above it for one spelling and one
// kind. Two that differ in case only would be one file on some systems.
func (b *bundle) claim(name string, dir bool) error {
	if why := badPath(name); why != "" {
		return &unsafeError{name, why}
	}

	if b.seen == nil {
		b.seen, b.isDir = map[string]string{}, map[string]bool{}
	}

	for at := 0; ; {
		next := strings.IndexByte(name[at:], '/')
		end := at + next
		if next < 0 {
			end = len(name)
		}

		part, isDir := name[:end], next >= 0 || dir
		folded := fold(part)
		old, known := b.seen[folded]
		switch {
		case known && old != part:
			return &unsafeError{name, fmt.Sprintf("differs from %.100q in upper and lower case only", old)}
		case known && (!isDir || !b.isDir[folded]):
			return &unsafeError{name, "is there twice"}
		}

		b.seen[folded], b.isDir[folded] = part, isDir
		if next < 0 {
			return nil
		}
		at = end + 1
	}
}

// fold gives spellings that differ in case only the same text.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for c := unicode.SimpleFold(r); c != r; c = unicode.SimpleFold(c) {
			least = min(least, c)
		}
		return least
	}, s)
}

// badPath says why a path must not be written, or "".
func badPath(name string) string {
	switch {
	case name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.Is(unicode.M, r) }):
		return "has a name with characters that cannot be shown or have two spellings"
	case strings.ContainsAny(name, `\<>:"|?*`):
		return `has one of \ < > : " | ? * in its name`
	case !fs.ValidPath(name) || name == ".":
		return "leads out of the skill"
	case len(name) > maxPathBytes || strings.Count(name, "/") >= maxPathDepth:
		return "has a path that is too long or too deep"
	}

	for part := range strings.SplitSeq(name, "/") {
		stem, _, _ := strings.Cut(strings.ToLower(part), ".")
		switch {
		case strings.TrimRight(part, ". ") != part || strings.TrimSpace(part) != part:
			return "has a name that begins or ends with a blank or ends with a dot"
		case slices.Contains([]string{"con", "prn", "aux", "nul"}, stem),
			len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && stem[3] >= '0' && stem[3] <= '9':
			return "has a name that is a device on Windows"
		}
	}

	return ""
}

// arrange sorts the files and removes a single directory around them.
func (b *bundle) arrange() error {
	if len(b.files) == 0 {
		return errors.New("there are no files in it")
	}

	slices.SortStableFunc(b.files, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	if b.file(fileName) != nil {
		return nil
	}

	top, _, nested := strings.Cut(b.files[0].path, "/")
	for _, f := range b.files {
		if !nested || !strings.HasPrefix(f.path, top+"/") {
			return nil
		}
	}

	for i := range b.files {
		b.files[i].path = b.files[i].path[len(top)+1:]
	}

	b.name = top
	return nil
}

// file finds a file by its path.
func (b *bundle) file(name string) *file {
	i, ok := slices.BinarySearchFunc(b.files, name, func(f file, name string) int { return strings.Compare(f.path, name) })
	if !ok {
		return nil
	}
	return &b.files[i]
}

// hash names the content: paths and bytes of all files. The right to execute
// is not a part of it, because not every system keeps it.
func (b *bundle) hash() string {
	h := sha256.New()
	for _, f := range b.files {
		h.Write(fmt.Appendf(nil, "%d %s %d\n", len(f.path), f.path, len(f.data)))
		h.Write(f.data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// readTree reads a skill's directory. Links and devices are refused rather
// than followed.
func readTree(tree fs.FS, name string) (*bundle, error) {
	b := &bundle{name: name}
	entries := 0
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch entries++; {
		case err != nil:
			return err
		case p == ".":
			return nil
		case entries > maxEntries:
			return fmt.Errorf("more than %d files and directories", maxEntries)
		case junk(p) && d.IsDir():
			return fs.SkipDir
		case junk(p):
			return nil
		case d.IsDir():
			return b.claim(p, true)
		case !d.Type().IsRegular():
			return &unsafeError{p, "is a link or no regular file"}
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		f, err := tree.Open(p)
		if err != nil {
			return err
		}
		return errors.Join(b.add(p, info.Mode()&0o111 != 0, f), f.Close())
	})
	if err != nil {
		return nil, err
	}
	if len(b.files) == 0 {
		return nil, errors.New("there are no files in it")
	}

	slices.SortStableFunc(b.files, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return b, nil
}

// readSource reads the skill in a directory or in an archive.
func readSource(source string) (*bundle, error) {
	info, err := os.Stat(source)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return readArchive(source)
	}

	abs, err := filepath.Abs(source)
	if err != nil {
		return nil, err
	}

	root, err := diskio.OpenTree(abs)
	if err != nil {
		return nil, err
	}

	b, err := readTree(root.FS(), filepath.Base(abs))
	return b, errors.Join(err, root.Close())
}

// readInstalled reads a skill at the path that was recorded, which holds no link.
func readInstalled(dir string) (*bundle, error) {
	root, err := diskio.OpenTreeAt(dir)
	if err != nil {
		return nil, err
	}
	b, err := readTree(root.FS(), filepath.Base(dir))
	return b, errors.Join(err, root.Close())
}

// write makes the files under a directory of root that does not exist yet.
func (b *bundle) write(root *diskio.Tree, dir string) error {
	if err := root.Mkdir(dir, 0o755); err != nil {
		return err
	}

	made := map[string]bool{".": true}
	for _, f := range b.files {
		if parent := path.Dir(f.path); !made[parent] {
			if err := root.MkdirAll(path.Join(dir, parent), 0o755); err != nil {
				return err
			}
			made[parent] = true
		}

		perm := fs.FileMode(0o644)
		if f.exec {
			perm = 0o755
		}

		out, err := root.OpenFile(path.Join(dir, f.path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return err
		}

		_, err = out.Write(f.data)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}

	return nil
}
