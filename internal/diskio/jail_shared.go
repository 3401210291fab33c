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

// straightFile refuses an open file of a tree in which no link is followed, if
// one was followed.
func (j *Jail) straightFile(name string, f *os.File) error {
	if len(j.straight) == 0 {
		return nil
	}
	abs, err := j.Path(name)
	if err != nil || !j.isStraight(abs) {
		return err
	}
	path, err := realPath(f, abs)
	if err != nil {
		return err
	}
	return j.straightPath(name, path)
}

// straightPath is straightFile for a path that was found to be free of links.
func (j *Jail) straightPath(name, path string) error {
	if len(j.straight) == 0 {
		return nil
	}
	abs, err := j.Path(name)
	if err != nil {
		return err
	}
	inside := false
	for _, tree := range j.straight {
		rel, ok := under(tree, abs, j.fold)
		if !ok {
			continue
		}
		inside = true
		if slices.ContainsFunc(j.straight, func(t string) bool {
			at, ok := under(t, path, j.fold)
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

func (j *Jail) isStraight(abs string) bool {
	return slices.ContainsFunc(j.straight, func(tree string) bool {
		_, ok := under(tree, abs, j.fold)
		return ok
	})
}
