package gitstore

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git names objects by SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// hash names an object by its content.
type hash [sha1.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

func (h hash) zero() bool { return h == hash{} }

func parseHash(s string) (h hash, ok bool) {
	if len(s) != hex.EncodedLen(len(h)) {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(s))
	return h, err == nil
}

// The kinds of objects that matter here.
const (
	blobKind   = "blob"
	treeKind   = "tree"
	commitKind = "commit"
	tagKind    = "tag"
)

const (
	// maxObject bounds what one object may unpack to. Our files are far smaller.
	maxObject = 32 << 20
	// maxUnpack bounds what is unpacked for one object with all that it is built
	// on, which is in memory at the same time.
	maxUnpack = 2 * maxObject
)

func objectHeader(kind string, n int) []byte { return fmt.Appendf(nil, "%s %d\x00", kind, n) }

func hashOf(kind string, data []byte) (h hash) {
	sum := sha1.New() //nolint:gosec // git names objects by SHA-1
	_, _ = sum.Write(objectHeader(kind, len(data)))
	_, _ = sum.Write(data) // hashes do not fail
	sum.Sum(h[:0])
	return h
}

func loosePath(h hash) string {
	s := h.String()
	return "objects/" + s[:2] + "/" + s[2:]
}

// object reads an object, checks it against its name and wants it to be of a
// kind; "" is any.
func (r *repo) object(h hash, want string) (kind string, data []byte, err error) {
	r.room = maxUnpack
	kind, data, err = r.build(h, maxDeltas)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("object %s: %w", h, err)
	case hashOf(kind, data) != h:
		return "", nil, fmt.Errorf("object %s: %w", h, errCorrupt)
	case want != "" && kind != want:
		return "", nil, fmt.Errorf("object %s is a %s, not a %s: %w", h, kind, want, errCorrupt)
	}

	return kind, data, nil
}

// build finds an object, which may rest on so many others.
func (r *repo) build(h hash, deltas int) (kind string, data []byte, err error) {
	kind, data, err = r.loose(h)
	if errors.Is(err, fs.ErrNotExist) {
		kind, data, err = r.packed(h, deltas)
	}
	return kind, data, err
}

func (r *repo) loose(h hash) (kind string, data []byte, err error) {
	f, err := r.root.Open(loosePath(h))
	if err != nil {
		return "", nil, err
	}

	defer f.Close() //nolint:errcheck // only read
	z, err := zlib.NewReader(f)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}

	all, err := io.ReadAll(io.LimitReader(z, maxObject+64))
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if r.room -= int64(len(all)); r.room < 0 {
		return "", nil, errCorrupt
	}

	head, data, ok := bytes.Cut(all, []byte{0})
	kind, size, found := strings.Cut(string(head), " ")
	if !ok || !found || size != strconv.Itoa(len(data)) {
		return "", nil, errCorrupt
	}
	return kind, data, nil
}

// store writes an object so that it is on the disk before anything names it.
func (r *repo) store(kind string, data []byte) (hash, error) {
	if r.into != nil {
		return r.into.add(kind, data)
	}

	h := hashOf(kind, data)
	if _, err := r.root.Lstat(loosePath(h)); err == nil {
		return h, nil
	}
	if p, _ := r.inPack(h); p != nil {
		return h, nil
	}

	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(objectHeader(kind, len(data))) // a buffer takes everything
	_, _ = z.Write(data)
	if err := z.Close(); err != nil {
		return h, err
	}

	dir := "objects/" + h.String()[:2]
	if err := r.mkdir(dir); err != nil {
		return h, err
	}
	return h, r.replace(loosePath(h), b.Bytes())
}

// entry is a name in a tree.
type entry struct {
	name string
	mode string // octal digits as git writes them
	id   hash
}

const (
	modeFile = "100644"
	modeExec = "100755"
	modeDir  = "40000"
)

func (e entry) dir() bool { return e.mode == modeDir }

// sortKey orders names as git does: a folder as if its name ended in a slash.
func (e entry) sortKey() string {
	if e.dir() {
		return e.name + "/"
	}
	return e.name
}

func (r *repo) tree(h hash) (out []entry, err error) {
	if h.zero() {
		return nil, nil
	}

	_, data, err := r.object(h, treeKind)
	if err != nil {
		return nil, err
	}

	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, found := strings.Cut(string(head), " ")
		if !ok || !found || len(rest) < len(hash{}) {
			return nil, fmt.Errorf("tree %s: %w", h, errCorrupt)
		}
		out = append(out, entry{name: name, mode: mode, id: hash(rest[:len(hash{})])})
		data = rest[len(hash{}):]
	}

	return out, nil
}

func (r *repo) storeTree(entries []entry) (hash, error) {
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.sortKey(), b.sortKey()) })
	var b []byte
	for _, e := range entries {
		b = append(b, e.mode...)
		b = append(b, ' ')
		b = append(b, e.name...)
		b = append(b, 0)
		b = append(b, e.id[:]...)
	}

	return r.store(treeKind, b)
}

func (r *repo) commit(h hash) (Commit, error) {
	_, data, err := r.object(h, commitKind)
	if err != nil {
		return Commit{}, err
	}
	c, err := parseCommit(h, string(data))
	if err == nil && r.shallow[h] {
		c.Parent, c.parents = "", nil // what was before is not kept
	}
	return c, err
}

func parseCommit(h hash, data string) (Commit, error) {
	c := Commit{ID: h.String()}
	head, message, _ := strings.Cut(data, "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		id, ok := parseHash(value)
		switch {
		case key == "tree" && ok:
			c.tree = id
		case key == "parent" && ok:
			c.parents = append(c.parents, id)
		case key == "author":
			c.Author, c.Email, c.Time = parseSignature(value)
		}
	}

	if c.tree.zero() {
		return c, fmt.Errorf("commit %s: %w", h, errCorrupt)
	}

	if len(c.parents) > 0 {
		c.Parent = c.parents[0].String()
	}

	subject, body, _ := strings.Cut(strings.TrimSpace(message), "\n")
	c.Subject, c.Body = strings.TrimSpace(subject), strings.TrimSpace(body)
	return c, nil
}

// parseSignature reads "name <mail> seconds zone"; what it cannot read stays empty.
func parseSignature(s string) (name, mail string, at time.Time) {
	name, rest, _ := strings.Cut(s, " <")
	mail, when, _ := strings.Cut(rest, "> ")
	secs, zone, _ := strings.Cut(when, " ")
	n, err := strconv.ParseInt(secs, 10, 64)
	if err != nil {
		return name, mail, at
	}
	if at = time.Unix(n, 0).UTC(); at.Year() < 1970 || at.Year() > 9998 {
		return name, mail, time.Unix(0, 0).UTC() // JSON has no later ones
	}

	if z, err := time.Parse("-0700", zone); err == nil {
		if _, offset := z.Zone(); max(offset, -offset) < 24*60*60 {
			at = at.In(time.FixedZone("", offset))
		}
	}
	return name, mail, at
}

func (r *repo) storeCommit(c Commit) (hash, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", c.tree)
	for _, p := range c.parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}

	sign := fmt.Sprintf("%s <%s> %d %s", signable(c.Author), signable(c.Email), c.Time.Unix(), c.Time.Format("-0700"))
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s\n", sign, sign, cleanLine(c.Subject))
	if body := strings.TrimSpace(text.Clean(c.Body)); body != "" {
		fmt.Fprintf(&b, "\n%s\n", body)
	}
	return r.store(commitKind, []byte(b.String()))
}

// signable leaves out what would end a name or an address early.
func signable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '<' || r == '>' {
			return -1
		}
		return r
	}, s)
}

// cleanLine makes a subject of one line.
func cleanLine(s string) string {
	if s = text.Label(s, 0); s == "" {
		return "update"
	}
	return s
}

// replace puts data at a path of the repository: the old or the new bytes are
// there after a crash, never a mixture.
func (r *repo) replace(name string, data []byte) error {
	tmp, err := r.temp(data)
	if err != nil {
		return err
	}
	if err := r.root.Rename(tmp, name); err != nil {
		return errors.Join(err, r.root.Remove(tmp))
	}
	return nil
}

// temp writes a synced file of a new name. git removes old files of such names.
func (r *repo) temp(data []byte) (string, error) {
	for {
		r.temps++
		name := fmt.Sprintf("objects/tmp_obj_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), r.temps)
		f, err := r.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}

		_, err = f.Write(data)
		if err == nil {
			err = f.Sync()
		}

		if err = errors.Join(err, f.Close()); err != nil {
			return "", errors.Join(err, r.root.Remove(name))
		}
		return name, nil
	}
}
