package diskio

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// HomeProtected lists what in a home directory is never given out (keys,
// tokens, shell history) and what is never written (files that other programs
// run on their own).
func HomeProtected(home string) (deny, denyWrite []string) {
	join := func(names string) (out []string) {
		for n := range strings.FieldsSeq(names) {
			out = append(out, filepath.Join(home, filepath.FromSlash(n)))
		}
		return out
	}

	deny = join(`.ssh .aws .azure .gnupg .config/gcloud .config/gh .kube .docker/config.json .netrc _netrc
		.git-credentials .password-store .local/share/keyrings Library/Keychains
		.bash_history .zsh_history .sh_history .python_history .node_repl_history .psql_history
		.mysql_history .sqlite_history .local/share/fish/fish_history`)
	denyWrite = join(`.profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile
		.zlogin .zlogout .config/fish .config/systemd .config/autostart .local/share/systemd .gitconfig .config/git
		Library/LaunchAgents .pam_environment .xprofile .xinitrc .xsession`)
	return deny, denyWrite
}

// guard knows the protected paths, as written, with links resolved, and under
// the names that mounts give them.
type guard struct {
	deny, denyWrite []string
	names           []string // beginnings of denied paths
	except          []string // inside deny
	unlisted        []string // their files have to be named
	fold            bool
	links           *linkIndex
	wider           *guard // asked, too; nil: there is none
}

// guardCell holds the guard of a jail as long as the mounts are the same.
type guardCell struct {
	owner *Jail // whose rules they are
	wider *Jail // its guard is asked, too; nil: there is none

	mu    sync.Mutex
	count uint64 // of the mounts that now is for
	now   *guard
}

// guard returns the guard for the mounts of this moment.
func (j *Jail) guard() *guard {
	mounts, count := j.mounts.look()
	c := j.guards
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.now == nil || c.count != count {
		c.now, c.count = newGuard(c.owner, c.owner.rules, mounts), count
		if c.wider != nil {
			c.now.wider = c.wider.guard()
		}
	}
	return c.now
}

func newGuard(j *Jail, n Narrow, mounts []mount) *guard {
	g := &guard{fold: j.fold, links: j.links}
	resolve := resolver{}
	all := func(names []string) (to []string) {
		for _, n := range names {
			n = j.expand(n)
			if n == "" {
				continue
			}

			if !filepath.IsAbs(n) {
				n = filepath.Join(j.workspace, n)
			}

			n = filepath.Clean(n)
			to = append(to, n)
			if target := resolve.existing(n); target != n {
				to = append(to, target)
			}
		}
		return to
	}

	g.deny = all(n.Protected)
	g.names = all(n.names)
	g.denyWrite = all(n.ProtectedWrite)
	g.except = all(n.Except)

	for _, r := range j.roots {
		// A tree that the jail is for, inside of one that is protected.
		g.except = append(g.except, r.path)
		if target := resolve.existing(r.path); target != r.path {
			g.except = append(g.except, target)
		}
	}

	g.unlisted = all(n.Unlisted)
	ws := resolve.existing(j.workspace)
	for _, list := range []*[]string{&g.deny, &g.names, &g.denyWrite, &g.unlisted} {
		*list = append(*list, mountedNames(mounts, *list, ws)...)
	}

	g.deny = append(g.deny, processMounts(mounts)...)
	return g
}

// ResolveExisting resolves links in the part of a path that exists.
func ResolveExisting(path string) string {
	rest := ""
	for p := path; ; {
		if target, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(target, rest)
		}

		parent := filepath.Dir(p)
		if parent == p {
			return path
		}

		rest = filepath.Join(filepath.Base(p), rest)
		p = parent
	}
}

// resolver resolves links in many paths at one moment: folders that they share
// are looked at once.
type resolver map[string]string

// existing is ResolveExisting of an absolute path.
func (r resolver) existing(path string) string {
	parent := filepath.Dir(path)
	if parent == path || runtime.GOOS == "windows" { // there, it also sets right the letters of names
		return ResolveExisting(path)
	}

	to, known := r[parent]
	if !known {
		to = r.existing(parent)
		r[parent] = to
	}

	path = filepath.Join(to, filepath.Base(path))
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return ResolveExisting(path)
	}
	return path
}

// check refuses a protected absolute path.
func (g *guard) check(path string, write bool) error {
	if kernelPath(filepath.ToSlash(path), write) {
		return refuse(path, ErrProtected, "devices and the inside of processes are not accessible")
	}

	denied := slices.ContainsFunc(g.deny, func(p string) bool { return g.covers(p, path) && !g.excepted(p, path) }) ||
		slices.ContainsFunc(g.names, func(p string) bool { return g.begins(p, path) && !g.excepted(filepath.Dir(p), path) })
	if denied {
		return refuse(path, ErrProtected, "protected because it holds secrets or private state; it cannot be read or written")
	}

	if g.wider != nil {
		if err := g.wider.check(path, write); err != nil {
			return err
		}
	}

	if !write {
		return nil
	}

	for _, p := range g.denyWrite {
		if g.covers(p, path) {
			return refuse(path, ErrProtected, "protected against changes; ask the user to change it")
		}
	}
	return nil
}

// excepted reports whether path lies in an exception inside the protected p.
// What is protected inside of an exception stays so.
func (g *guard) excepted(p, path string) bool {
	return slices.ContainsFunc(g.except, func(e string) bool {
		rel, inside := under(p, e, g.fold)
		return inside && rel != "." && g.covers(e, path)
	})
}

// checkDir refuses an absolute path of a directory that is not shown.
func (g *guard) checkDir(path string) error {
	if slices.ContainsFunc(g.unlisted, func(p string) bool { return g.covers(p, path) }) {
		return refuse(path, ErrProtected, "is not listed; name the file")
	}
	return g.check(path, false)
}

// covers reports whether path is p or inside it. Where disks usually fold case
// so does the comparison; elsewhere a case variant counts when it turns out to
// be the same file.
func (g *guard) covers(p, path string) bool {
	if _, ok := under(p, path, g.fold); ok {
		return true
	}
	if g.fold || len(path) < len(p) {
		return false
	}
	if _, ok := under(p, path, true); !ok {
		return false
	}

	a, err := os.Lstat(p)
	if err != nil {
		return false
	}

	b, err := os.Lstat(path[:len(p)])
	return err == nil && os.SameFile(a, b)
}

// begins reports whether path, or a folder on its way, lies beside p and has a
// name that begins like p's. Disks may fold case, and nothing is lost if they
// do not.
func (g *guard) begins(p, path string) bool {
	rel, ok := under(filepath.Dir(p), path, g.fold)
	return ok && strings.HasPrefix(strings.ToLower(rel), strings.ToLower(filepath.Base(p)))
}

// Named are the paths that lie beside p and have a name that begins like p's.
func Named(p string) (found []string) {
	d, err := os.Open(filepath.Dir(p) + inside)
	if err != nil {
		return nil
	}

	defer d.Close()                //nolint:errcheck // only read
	names, _ := d.Readdirnames(-1) // what cannot be read is not found
	for _, n := range names {
		if strings.HasPrefix(strings.ToLower(n), strings.ToLower(filepath.Base(p))) {
			found = append(found, filepath.Join(filepath.Dir(p), n))
		}
	}
	return found
}

// below returns the protected paths inside dir, for walks.
func (g *guard) below(dir string) (inside []string) {
	for _, p := range g.names {
		if _, ok := under(dir, filepath.Dir(p), g.fold); ok { // rarely: most walks are in the workspace
			inside = append(inside, Named(p)...)
		}
	}

	for _, p := range slices.Concat(g.deny, g.unlisted) {
		if rel, ok := under(dir, p, g.fold); ok && rel != "." {
			inside = append(inside, filepath.Join(dir, rel))
		}
	}

	if g.wider != nil {
		inside = append(inside, g.wider.below(dir)...)
	}
	return inside
}

// alias reports whether a file with several names, told by same, is one of the
// protected files under another name, or one in a folder of JailOptions.Unlinked.
// Its inode changed at a time.
func (g *guard) alias(changed time.Time, same func(fs.FileInfo) bool) bool {
	denied := slices.Clone(g.deny)
	for _, p := range g.names {
		denied = append(denied, Named(p)...)
	}

	for _, p := range denied {
		if info, err := os.Lstat(p); err == nil && info.Mode().IsRegular() && same(info) {
			return true
		}
	}
	return g.links.has(changed, same) || g.wider != nil && g.wider.alias(changed, same)
}

// kernelPath recognises device nodes and the parts of /proc that alias open
// files or show a process's memory and environment. It takes slash paths.
func kernelPath(p string, write bool) bool {
	if rest, ok := strings.CutPrefix(p, "/dev/"); ok {
		return rest != "shm" && !strings.HasPrefix(rest, "shm/")
	}
	if write && (strings.HasPrefix(p, "/proc/") || strings.HasPrefix(p, "/sys/")) {
		return true
	}

	rest, ok := strings.CutPrefix(p, "/proc/")
	if !ok {
		return false
	}

	first, sub, deeper := strings.Cut(rest, "/")
	switch first {
	case "kcore", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "sysrq-trigger", "keys":
		return true
	}

	if first != "self" && first != "thread-self" && strings.Trim(first, "0123456789") != "" {
		return false
	}

	switch sub {
	case "status", "stat", "statm", "comm", "limits", "cgroup", "loadavg", "oom_score":
		return false
	}
	return deeper
}
