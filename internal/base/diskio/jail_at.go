package diskio

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// Base is the folder a jail made by At begins in.
type Base struct {
	// Dir is where relative paths start, as Folder names it.
	Dir string
	// Only makes everything else unreachable, except ReadOnly and the read-only
	// roots of the wider jail.
	Only bool
	// ReadOnly are trees of the workspace, by their names in it, that may be read
	// all the same, and that others have not written. Links do not count, and
	// what is inside Dir is left out.
	ReadOnly []string
	// Unlisted, Protected and Except are as in Narrow, with Only.
	Unlisted, Protected, Except []string
}

// Folder returns the path, free of links, of a folder that may be read and
// whose files may be changed.
func (j *Jail) Folder(name string) (string, error) {
	d, err := j.OpenDir(name)
	if err != nil {
		return "", err
	}
	path := d.Path()
	if err := d.Close(); err != nil {
		return "", err
	}
	return path, j.guard().check(path, true)
}

// At returns a jail for work in one folder. What j refuses it refuses, too, and
// it shares the write locks of j. It is for that very folder: when another one
// takes its name, Holds says so. The caller closes it, before j.
func (j *Jail) At(b Base) (*Jail, error) {
	path, err := j.Folder(b.Dir)
	if err != nil {
		return nil, err
	}
	if path != b.Dir {
		return nil, refuse(b.Dir, ErrChanged, "leads to %s now", path)
	}

	out := *j
	out.workspace, out.begins = b.Dir, b.Dir
	if !b.Only {
		out.shared = true
		return &out, nil
	}

	root, err := j.openRoot(b.Dir)
	if err != nil {
		return nil, err
	}

	out.restrict = true
	out.shared = false
	out.volumes = &volumeRoots{}
	out.roots = []*jailRoot{{path: b.Dir, root: root, real: b.Dir}}
	add := func(r *jailRoot) {
		if _, inside := under(b.Dir, cmp.Or(r.real, r.path), j.fold); !inside {
			out.roots = append(out.roots, r)
		}
	}

	house, err := j.Folder(j.workspace)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}

	for _, name := range b.ReadOnly {
		add(&jailRoot{path: filepath.Join(j.workspace, name), real: filepath.Join(house, name), readOnly: true, own: true, through: j})
	}

	for _, r := range j.roots {
		if r.readOnly {
			add(&jailRoot{path: r.path, readOnly: true})
		}
	}

	out.rules = Narrow{Protected: slices.Clone(b.Protected), Except: slices.Clone(b.Except), Unlisted: slices.Clone(b.Unlisted)}
	out.guards = &guardCell{owner: &out, wider: j}
	return &out, nil
}

// openRoot opens a folder as a root, if it is the one of that name.
func (j *Jail) openRoot(dir string) (*os.Root, error) {
	p, err := j.locate(dir, false)
	if err != nil {
		return nil, err
	}

	root, err := OpenFolderIn(p.root, p.rel)
	if err != nil {
		return nil, err
	}

	f, err := root.Open(".")
	if err == nil {
		var path string
		if path, err = realPath(f, p.abs); err == nil && path != dir {
			err = refuse(dir, ErrChanged, "leads to %s now", path)
		}
		_ = f.Close()
	}

	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return root, nil
}

// Holds reports whether the folder that a jail of At begins in is still the one
// that j finds under its name.
func (j *Jail) Holds(of *Jail) bool {
	want, err := j.Stat(of.workspace)
	if err != nil || !want.IsDir() {
		return false
	}
	have, err := of.Stat(".")
	return err == nil && os.SameFile(want, have)
}
