package diskio

import (
	"os"
	"path/filepath"
	"slices"
)

// Share adds a folder of another jail as a root that may be read and changed.
// Others write there, too, so that its content is Foreign. No link may be on the
// way to it, dir is called as Folder of the other jail names it. Share is for a
// jail that is not in use yet; from is closed after it.
func (j *Jail) Share(from *Jail, dir string) {
	j.roots = append(slices.Clip(j.roots), &jailRoot{path: dir, real: dir, shared: true, through: from})
}

// straightTrees are directory trees in which no link is followed: as in
// JailOptions, absolute and without links above.
type straightTrees struct {
	dirs []string
	fold bool // as in Jail
}

// checkFile refuses an open file that was asked for as abs, in one of the
// trees, if a link was followed.
func (s straightTrees) checkFile(abs string, f *os.File) error {
	if !slices.ContainsFunc(s.dirs, func(tree string) bool { _, ok := under(tree, abs, s.fold); return ok }) {
		return nil
	}
	path, err := realPath(f, abs)
	if err != nil {
		return err
	}
	return s.check(abs, path)
}

// check is checkFile for a path that was found to be free of links.
func (s straightTrees) check(abs, path string) error {
	inside := false
	for _, tree := range s.dirs {
		rel, ok := under(tree, abs, s.fold)
		if !ok {
			continue
		}

		inside = true
		if slices.ContainsFunc(s.dirs, func(t string) bool {
			at, ok := under(t, path, s.fold)
			return ok && filepath.Clean(at) == filepath.Clean(rel)
		}) {
			return nil
		}
	}

	if !inside {
		return nil
	}
	return refuse(abs, ErrOutside, "goes through a link, and links are not followed in a folder that others write to")
}
