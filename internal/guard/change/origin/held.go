package origin

import (
	"crypto/sha256"
	"path"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Folder returns the outermost marked folder that a marked path is or lies in; ""
// if only the file itself is marked, or nothing.
func (s *Store) Folder(abs string) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	name := s.name(abs)
	if s.follow() != nil || !s.lookup(name).foreign {
		return ""
	}

	found := ""
	for dir := name; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if e := s.entries[dir]; e.dir && e.foreign {
			found = dir
		}
	}

	if found == "" || filepath.IsAbs(filepath.FromSlash(found)) {
		return filepath.FromSlash(found)
	}
	return filepath.Join(s.realRoot(), filepath.FromSlash(found))
}

// Held lists files from outside in a folder, those directly in it or, with
// deep, at any depth; at most so many. What git keeps for itself is left out. A
// folder that is too large to be looked at is listed itself.
func (s *Store) Held(dir string, deep bool, most int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return []string{dir}
	}

	tree, err := diskio.OpenTree(dir)
	if err != nil {
		return nil // there is nothing to run
	}

	defer tree.Close() //nolint:errcheck // read only
	h := &held{s: s, tree: tree, dir: dir, deep: deep, most: most, left: maxWalk}
	if !h.folder(".", 0) {
		h.found = append(h.found, dir)
	}
	return h.found
}

// held is a walk for files from outside.
type held struct {
	s     *Store
	tree  *diskio.Tree
	dir   string
	deep  bool
	most  int
	left  int
	found []string // absolute
}

// folder reports whether the walk could look at everything it wanted to.
func (h *held) folder(name string, depth int) bool {
	entries, err := h.tree.ReadDir(name)
	if err != nil {
		return true // commands cannot read it either
	}

	for _, e := range entries {
		if len(h.found) >= h.most {
			return true
		}
		if h.left--; h.left < 0 || depth > maxDepth {
			return false
		}

		child := path.Join(name, e.Name())
		full := filepath.Join(h.dir, filepath.FromSlash(child))
		switch {
		case !e.IsDir():
			if h.s.foreign(full) {
				h.found = append(h.found, full)
			}
		case !h.deep || e.Name() == ".git":
		case h.s.lookup(h.s.name(full)).foreign:
			h.found = append(h.found, full)
		case !h.folder(child, depth+1):
			return false
		}
	}

	return true
}

// Sum returns the hash of a file's content; false if it has none that is known.
func Sum(file string) (sum [sha256.Size]byte, ok bool) {
	sum, _, err := sumOf(file)
	return sum, err == nil && sum != ([32]byte{})
}
