package skill

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// readArchive reads a skill out of a .zip (also called .skill) or .tar.gz
// file. What it is the first bytes say, not the name.
func readArchive(source string) (*bundle, error) {
	f, err := os.OpenFile(source, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}

	data, err := func() ([]byte, error) {
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(err, errors.New("it is neither a file nor a directory"))
		}
		return io.ReadAll(io.LimitReader(f, MaxTotal+1))
	}()
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > MaxTotal {
		return nil, fmt.Errorf("the archive has more than %d MiB", MaxTotal>>20)
	}
	return unpack(archiveName(source), data)
}

// archiveName returns the name of an archive without what says that it is one.
func archiveName(path string) string {
	name := filepath.Base(path)
	for _, ext := range []string{".gz", ".tgz", ".tar", ".zip", ".skill"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// unpack reads an archive that is held in memory.
func unpack(name string, data []byte) (*bundle, error) {
	b := &bundle{name: name}
	var err error
	switch {
	case bytes.HasPrefix(data, []byte("PK")):
		err = b.unzip(data)
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		err = b.untar(data)
	default:
		err = errors.New("it is not a .zip, .skill or .tar.gz archive")
	}

	if err != nil {
		return nil, err
	}
	return b, b.arrange()
}

// entry checks what zip and tar have in common; take is false for what is
// left out or is done.
func (b *bundle) entry(name string, mode fs.FileMode) (clean string, take bool, err error) {
	clean = strings.TrimPrefix(name, "./")
	switch {
	case clean == "" || junk(clean):
		return "", false, nil
	case mode.IsDir() || strings.HasSuffix(clean, "/"):
		return "", false, b.claim(strings.TrimSuffix(clean, "/"), true)
	case !mode.IsRegular():
		return "", false, &unsafeError{name, "is a link or no regular file"}
	}

	return clean, true, nil
}

// swollen refuses archives that unpack to far more than they hold.
func (b *bundle) swollen(archive int) error {
	if b.total > ratioFrom && b.total/maxRatio > archive {
		return fmt.Errorf("it unpacks to more than %d times its size", maxRatio)
	}
	return nil
}

func (b *bundle) unzip(data []byte) error {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return fmt.Errorf("read the archive: %w", err)
	}
	if len(r.File) > maxEntries {
		return fmt.Errorf("more than %d entries", maxEntries)
	}

	for _, f := range r.File {
		if f.Flags&1 != 0 {
			return &unsafeError{f.Name, "is encrypted"}
		}

		name, take, err := b.entry(f.Name, f.Mode())
		if err != nil {
			return err
		}
		if !take {
			continue
		}

		in, err := f.Open()
		if err != nil {
			return fmt.Errorf("read %.100q: %w", f.Name, err)
		}

		err = errors.Join(b.add(name, f.Mode()&0o111 != 0, in), in.Close())
		if err := errors.Join(err, b.swollen(len(data))); err != nil {
			return err
		}
	}

	return nil
}

func (b *bundle) untar(data []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}

	// Headers and padding count, too: a tar of nothing but headers is a bomb.
	r := tar.NewReader(io.LimitReader(z, MaxTotal+(maxEntries+MaxFiles)*1024))
	for n := 0; ; n++ {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return fmt.Errorf("read the archive: %w", err)
		case n >= maxEntries:
			return fmt.Errorf("more than %d entries", maxEntries)
		case h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir:
			return &unsafeError{h.Name, "is a link or no regular file"}
		}

		name, take, err := b.entry(h.Name, h.FileInfo().Mode())
		if err != nil {
			return err
		}
		if !take {
			continue
		}
		if err := b.add(name, h.Mode&0o111 != 0, r); err != nil {
			return err
		}
		if err := b.swollen(len(data)); err != nil {
			return err
		}
	}
}

// zip writes the skill as an archive. The same files give the same bytes.
func (b *bundle) zip(w io.Writer, name string) error {
	z := zip.NewWriter(w)
	for _, f := range b.files {
		h := &zip.FileHeader{Name: name + "/" + f.path, Method: zip.Deflate}
		h.SetMode(0o644)
		if f.exec {
			h.SetMode(0o755)
		}

		out, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := out.Write(f.data); err != nil {
			return err
		}
	}

	return z.Close()
}

// Packed says what an archive holds.
type Packed struct {
	Name   string
	Files  int
	Bytes  int    // of all files, unpacked
	SHA256 string // of paths and contents; the same one Install records
}

// pack writes the skill in dir to w as a .zip archive, and the same bytes for
// the same files. A skill with errors is refused with an *InvalidError.
func pack(w io.Writer, dir string) (Packed, error) {
	b, err := readSource(dir)
	if err != nil {
		return Packed{}, err
	}
	if problems := b.validate(); hasErrors(problems) {
		return Packed{}, &InvalidError{b.name, problems}
	}
	return Packed{b.name, len(b.files), b.total, b.hash()}, b.zip(w, b.name)
}
