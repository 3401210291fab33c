package diskio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// The reasons a Jail refuses a path. Every refusal is a *JailError that wraps
// one of them, so callers choose their words by errors.Is.
var (
	// ErrOutside means that the path, or a link on the way, leaves the allowed roots.
	ErrOutside = errors.New("outside the allowed directories")
	// ErrProtected means that the path is never given out, whatever the mode.
	ErrProtected = errors.New("protected path")
	// ErrReadOnly means that the path may be read but not written.
	ErrReadOnly = errors.New("read-only path")
	// ErrNotRegular means a directory, FIFO, socket or device where a regular file is needed.
	ErrNotRegular = errors.New("not a regular file")
	// ErrBadName means a name that is malformed or that the platform treats specially.
	ErrBadName = errors.New("unusable path")
	// ErrChanged means that a file changed between being read and being replaced.
	ErrChanged = errors.New("file changed meanwhile")
	// ErrTooLarge means that a file exceeds the size the caller can take.
	ErrTooLarge = errors.New("file too large")
)

// JailError is a refusal. Its text is written for the one who asked for the path.
type JailError struct {
	Path   string
	Kind   error // one of the Err... values
	Detail string
}

func (e *JailError) Error() string { return e.Path + ": " + e.Detail }

// Unwrap returns the kind.
func (e *JailError) Unwrap() error { return e.Kind }

func refuse(path string, kind error, format string, args ...any) error {
	return &JailError{Path: path, Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// JailOptions configures a Jail. All paths may start with "~".
type JailOptions struct {
	// Workspace is where relative paths start. It must exist.
	Workspace string
	// Also are further roots, beside the workspace, that may be read and written.
	Also []string
	// Restrict limits access to the workspace, Also and the read-only roots.
	// Otherwise the whole file system is reachable except protected paths.
	Restrict bool
	// ReadOnly are further roots that may be read. They need not exist yet.
	ReadOnly []string
	// Protected are files and directory trees that are neither read nor written.
	// A root inside of such a tree can be reached all the same.
	Protected []string
	// ProtectedNames are beginnings of paths: whatever lies in their folder and
	// is called so, now or later, is protected, such as copies of a file.
	ProtectedNames []string
	// ProtectedWrite are files and directory trees that are not written.
	ProtectedWrite []string
	// Unlinked are protected directory trees whose files are refused under other
	// names, too: a hard link that was made somewhere else. Protected files are
	// in any case.
	Unlinked []string
	// Straight are directory trees in which no link is followed, because others
	// may put some there. They need not exist.
	Straight []string
	// Home replaces "~" in names; empty means the user's home directory.
	Home string
}

// Jail is the only door to files whose names were chosen by others, such as a
// model. It hands out regular files and directories inside its roots and
// nothing else: links that leave a root, FIFOs, devices and protected paths
// are refused without a gap between check and use, because every access goes
// through a descriptor of the root. What is mounted inside a root is part of
// it, except protected paths, also when it was mounted later.
//
// Paths are cleaned lexically before use, so "link/../x" is "x". A Jail is safe
// for concurrent use; one Jail serves all users of a workspace, because it also
// holds the write locks.
type Jail struct {
	workspace string // absolute, clean, as configured
	home      string
	restrict  bool
	fold      bool // names differ only by case on this platform's disks
	roots     []*jailRoot
	volumes   *volumeRoots
	guards    *guardCell
	links     *linkIndex
	mounts    *mountWatch
	locks     *pathLocks
	rules     Narrow
	straight  straightTrees
	begins    string // the workspace without links, of a jail made by At; else ""
	shared    bool   // with a jail that is closed instead
}

// jailRoot is an allowed tree. It is opened on first use and retried while it
// does not exist, because a media directory may appear later.
type jailRoot struct {
	path     string
	readOnly bool
	own      bool  // although it is read-only, its content is ours
	shared   bool  // others write there, too
	through  *Jail // the way to it, where no link may be; nil: it is one of its own

	mu   sync.Mutex
	root *os.Root
	real string
}

func (r *jailRoot) open() (*os.Root, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.root != nil {
		return r.root, nil
	}

	var root *os.Root
	var err error
	if r.through == nil {
		root, err = OpenFolder(r.path)
	} else {
		root, err = r.through.openRoot(r.real)
	}

	if err != nil {
		return nil, err
	}

	r.root = root
	return root, nil
}

// resolved is the root's path without links, for inputs spelled that way.
func (r *jailRoot) resolved() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.real == "" {
		if resolved, err := filepath.EvalSymlinks(r.path); err == nil {
			r.real = resolved
		} else {
			return r.path
		}
	}

	return r.real
}

func (r *jailRoot) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.root == nil {
		return nil
	}
	err := r.root.Close()
	r.root = nil
	return err
}

// OpenJail makes a jail. The caller closes it.
func OpenJail(o JailOptions) (*Jail, error) {
	fold := runtime.GOOS == "darwin" || runtime.GOOS == "windows"
	j := &Jail{
		home: o.Home, restrict: o.Restrict, fold: fold, straight: straightTrees{fold: fold},
		volumes: &volumeRoots{}, locks: &pathLocks{fold: fold}, mounts: &mountWatch{},
	}
	if j.home == "" {
		j.home, _ = os.UserHomeDir()
	}

	if o.Workspace == "" {
		return nil, errors.New("open jail: no workspace given")
	}

	ws, err := filepath.Abs(j.expand(o.Workspace))
	if err != nil {
		return nil, fmt.Errorf("open jail: %w", err)
	}

	j.workspace = ws
	main := &jailRoot{path: ws}
	if _, err := main.open(); err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}

	j.roots = append(j.roots, main)
	for _, p := range o.Also {
		if p = j.expand(p); filepath.IsAbs(p) {
			j.roots = append(j.roots, &jailRoot{path: filepath.Clean(p)})
		}
	}

	for _, p := range o.ReadOnly {
		if p = j.expand(p); filepath.IsAbs(p) {
			j.roots = append(j.roots, &jailRoot{path: filepath.Clean(p), readOnly: true})
		}
	}

	for _, p := range o.Straight {
		if p = j.expand(p); p != "" && !filepath.IsAbs(p) {
			p = filepath.Join(ws, p)
		}
		if p != "" {
			j.straight.dirs = append(j.straight.dirs, filepath.Clean(p), filepath.Join(ResolveExisting(filepath.Dir(p)), filepath.Base(p)))
		}
	}

	j.rules = Narrow{Protected: slices.Clone(o.Protected), ProtectedWrite: slices.Clone(o.ProtectedWrite), names: slices.Clone(o.ProtectedNames)}
	j.guards, j.links = &guardCell{owner: j}, &linkIndex{dirs: slices.Clone(o.Unlinked)}
	return j, nil
}

// Narrow says what a narrower jail refuses besides what the wider one does.
type Narrow struct {
	Protected, ProtectedWrite []string // as in JailOptions
	// Except are trees inside Protected that may be reached all the same, by
	// their own names: walks do not find them.
	Except []string
	// Unlisted are trees whose files are given out by their full names only:
	// who was not told a name, does not find it.
	Unlisted []string
	// Restrict limits access to the roots, as in JailOptions.
	Restrict bool

	names []string // ProtectedNames of JailOptions
}

// Narrower returns a jail that refuses more, for a caller who may see less. It
// shares roots and write locks with j, which must be closed instead of it.
func (j *Jail) Narrower(n Narrow) *Jail {
	out := *j
	out.shared = true
	out.restrict = j.restrict || n.Restrict
	out.rules = Narrow{
		Protected: slices.Clone(n.Protected), ProtectedWrite: slices.Clone(n.ProtectedWrite), Except: slices.Clone(n.Except),
		Unlisted: slices.Clone(n.Unlisted),
	}
	out.guards = &guardCell{owner: &out, wider: j}
	return &out
}

// Close releases the roots. Files already opened stay usable.
func (j *Jail) Close() error {
	if j.shared {
		return nil
	}

	var errs []error
	for _, r := range j.roots {
		errs = append(errs, r.close())
	}

	errs = append(errs, j.volumes.close())
	if j.guards.wider == nil { // else the mounts are watched by the wider one
		errs = append(errs, j.mounts.close())
	}
	return errors.Join(errs...)
}

// Workspace is the absolute path relative names start from.
func (j *Jail) Workspace() string { return j.workspace }

// Restricted reports whether only the workspace and the read-only roots are reachable.
func (j *Jail) Restricted() bool { return j.restrict }

// Path returns the absolute, clean form of a name, without looking at the disk
// and without judging it.
func (j *Jail) Path(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}

	if name == "~" || strings.HasPrefix(name, "~/") || runtime.GOOS == "windows" && strings.HasPrefix(name, `~\`) {
		if j.home == "" {
			return "", refuse(name, ErrBadName, "the home directory is unknown; give an absolute path")
		}
		return filepath.Clean(j.expand(name)), nil
	}

	if strings.HasPrefix(name, "~") && strings.ContainsAny(name, `/\`) {
		return "", refuse(name, ErrBadName, "other users' homes (~name) are not supported; give an absolute path")
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name), nil
	}
	return filepath.Join(j.workspace, name), nil
}

// Display returns how a path is best shown: relative to the workspace with
// forward slashes when inside it, else unchanged.
func (j *Jail) Display(path string) string {
	linkless := j.begins
	if linkless == "" {
		linkless = j.roots[0].resolved()
	}

	for _, base := range []string{j.workspace, linkless} {
		if rel, ok := under(base, path, j.fold); ok {
			return filepath.ToSlash(rel)
		}
	}
	return path
}

// Foreign reports whether a name lies in a read-only or shared root, whose
// content came from others.
func (j *Jail) Foreign(name string) bool {
	abs, err := j.Path(name)
	if err != nil {
		return false
	}
	r, _ := j.rootOf(abs)
	return r != nil && (r.shared || r.readOnly && !r.own)
}

func (j *Jail) expand(name string) string {
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		return filepath.Join(j.home, rest)
	}
	return name
}

// place is a name mapped to a root and the path inside it.
type place struct {
	abs  string
	root *os.Root
	rel  string
	base string // what the root is called in abs
}

// locate maps a name to its root and refuses what can be refused by name alone.
func (j *Jail) locate(name string, write bool) (place, error) {
	abs, err := j.Path(name)
	if err != nil {
		return place{}, err
	}
	if err := j.guard().check(abs, write); err != nil {
		return place{}, err
	}

	r, rel := j.rootOf(abs)
	if j.restrict && r == nil {
		return place{}, refuse(abs, ErrOutside, "outside the workspace %s; this is a hard limit, ask the user if the file is needed", j.roots[0].path)
	}
	if r != nil && r.readOnly && write {
		return place{}, refuse(abs, ErrReadOnly, "this directory is read-only; write inside the workspace %s", j.roots[0].path)
	}

	if !j.restrict {
		root, base, err := j.volumes.open(abs)
		if err != nil {
			return place{}, err
		}
		rel, _ := under(base, abs, false)
		return place{abs: abs, root: root, rel: rel, base: base}, nil
	}

	root, err := r.open()
	if err != nil {
		return place{}, err
	}

	base := strings.TrimSuffix(abs, rel)
	return place{abs: abs, root: root, rel: rel, base: base}, nil
}

// rootOf finds the innermost root that contains abs.
func (j *Jail) rootOf(abs string) (best *jailRoot, rel string) {
	for _, r := range j.roots {
		sub, ok := under(r.path, abs, j.fold)
		if !ok {
			sub, ok = under(r.resolved(), abs, j.fold)
		}
		if ok && (best == nil || len(sub) < len(rel)) {
			best, rel = r, sub
		}
	}
	return best, rel
}

// under returns path relative to base if it lies inside.
func under(base, path string, fold bool) (string, bool) {
	if len(path) < len(base) || path[:len(base)] != base && (!fold || !strings.EqualFold(path[:len(base)], base)) {
		return "", false
	}

	rest := path[len(base):]
	switch {
	case rest == "":
		return ".", true
	case os.IsPathSeparator(rest[0]):
		return rest[1:], true
	case base != "" && os.IsPathSeparator(base[len(base)-1]):
		return rest, true
	}

	return "", false
}

// escapes reports whether an error is os.Root's refusal to leave its directory.
func escapes(err error) bool {
	pe, ok := errors.AsType[*fs.PathError](err)
	return ok && pe.Err != nil && pe.Err.Error() == "path escapes from parent"
}

// throughLink explains a refused link, or, in an unrestricted jail, gives the
// path the link leads to. parent resolves the directory only, for names that
// are about to be created.
func (j *Jail) throughLink(p place, parent bool) (string, error) {
	var target string
	var err error
	if parent {
		target, err = filepath.EvalSymlinks(filepath.Dir(p.abs))
		target = filepath.Join(target, filepath.Base(p.abs))
	} else {
		target, err = filepath.EvalSymlinks(p.abs)
	}

	if err == nil && !j.restrict {
		return target, nil
	}
	if r, rel := j.rootOf(target); err == nil && r != nil {
		return "", refuse(p.abs, ErrOutside, "goes through a link with an absolute target, which is not followed; use %s instead", filepath.Join(r.path, rel))
	}
	return "", refuse(p.abs, ErrOutside, "goes through a link that leaves the workspace %s; this is a hard limit, ask the user if the file is needed", j.roots[0].path)
}
