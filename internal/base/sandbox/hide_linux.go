package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openHide tries the namespaces that Hide needs. Root keeps most of its rights
// over files, so it gets no user namespace, in which only one user exists.
func (b *Box) openHide(ctx context.Context) error {
	const spaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	ways := []means{{spaces: spaces | unix.CLONE_NEWUSER}, {spaces: spaces | unix.CLONE_NEWUSER, noProc: true}}
	if os.Geteuid() == 0 {
		ways = append([]means{{spaces: spaces}}, ways...)
	}

	var first error
	for _, m := range ways {
		b.means, b.level = m, m.level(0)
		b.level.Mode, b.level.Missing = Hide, nil
		err := b.try(ctx)
		if err == nil {
			return nil
		}

		if first == nil {
			first = err
		}
	}

	return fmt.Errorf("commands cannot be kept from nanobot's own data here, because there are no mount namespaces: %w", first)
}

// hideLayout returns what is put on top of the disk: protected places are
// covered, and what the command may use inside of them is bound on top of
// that.
func (p *plan) hideLayout() []place {
	var out []place
	var covers []string
	for _, dir := range p.Profile.Protected {
		st, err := os.Stat(dir)
		if err != nil {
			continue
		}

		for _, at := range append([]string{dir}, otherNames(dir)...) {
			if !st.IsDir() {
				out = append(out, place{at: at, kind: hideFile})
				continue
			}
			out = append(out, place{at: at, kind: hideDir})
			covers = append(covers, at)
		}
	}

	hole := func(at string, k kind) {
		st, err := os.Stat(at)
		inside := slices.ContainsFunc(covers, func(c string) bool { return at != c && within(at, c) })
		if err == nil && inside {
			out = append(out, place{at: at, kind: k, source: at, isDir: st.IsDir(), exact: p.exact(at)})
		}
	}

	hole(p.Profile.Workspace, bindWrite)
	for _, at := range p.Profile.ReadWrite {
		hole(at, bindWrite)
	}

	for _, at := range p.Profile.ReadOnly {
		hole(at, bindRead)
	}

	slices.SortStableFunc(out, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	// What is covered with the folder around it does not need a cover of its
	// own, unless it is inside of something that was opened again.
	return slices.DeleteFunc(out, func(e place) bool {
		return (e.kind == hideDir || e.kind == hideFile) && p.covered(out, e.at)
	})
}

// covered reports whether the deepest entry around a place hides it already.
func (p *plan) covered(all []place, at string) bool {
	around, hides := "", false
	for _, e := range all {
		if e.at != at && within(at, e.at) && len(e.at) > len(around) {
			around, hides = e.at, e.kind == hideDir
		}
	}
	return hides
}

// buildHide adds the steps that make a copy of all mounts, cover what is
// protected, and move into it.
func (p *plan) buildHide(out *routine) {
	s := &out.setup
	root, hidden := p.rootDir(), p.Temp+hiddenFile
	s.add("make private", "all mounts", unix.SYS_MOUNT, "none", "/", nil, unix.MS_REC|unix.MS_PRIVATE, nil)
	s.add("make", "a hidden file", unix.SYS_MKNODAT, atCWD, hidden, unix.S_IFREG, 0).fine = unix.EEXIST
	s.add("bind", "the whole disk", unix.SYS_MOUNT, "/", root, nil, unix.MS_BIND|unix.MS_REC, nil)
	b := &rootBuilder{out: out, s: s, attrs: map[uint64]unsafe.Pointer{}}
	layout := p.hideLayout()
	var covers []string
	for _, e := range layout {
		for _, c := range covers {
			if within(e.at, c) { // the way to it is covered, and so are the folders on it
				made := map[string]bool{c: true}
				makeParents(s, root, path.Dir(e.at), made)
			}
		}
		switch e.kind {
		case hideDir:
			s.add("hide", e.at, unix.SYS_MOUNT, "tmpfs", root+e.at, "tmpfs", plainMount, "mode=711,size=64k")
			covers = append(covers, e.at)
		case hideFile:
			s.add("hide", e.at, unix.SYS_MOUNT, hidden, root+e.at, nil, unix.MS_BIND, nil)
			b.setAttr(root+e.at, unix.MOUNT_ATTR_RDONLY, false)
		default:
			p.makePlace(b, root, e)
		}
	}

	for _, c := range covers {
		b.setAttr(root+c, unix.MOUNT_ATTR_RDONLY, false)
	}

	if !p.NoProc {
		s.add("mount", "/proc", unix.SYS_MOUNT, "proc", root+"/proc", "proc", plainMount|unix.MS_NOEXEC, nil)
	}
	if p.UID == 0 { // by files of these, root decides about the machine without any further right
		b.setAttr(root+"/proc", unix.MOUNT_ATTR_RDONLY, false)
		b.setAttr(root+"/sys", unix.MOUNT_ATTR_RDONLY, true)
	}

	s.add("enter", "the new root", unix.SYS_CHDIR, root)
	s.add("change", "the root", unix.SYS_PIVOT_ROOT, ".", ".")
	s.add("leave", "the old root", unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	s.add("enter", "/", unix.SYS_CHDIR, "/")
}

// keptRights returns what a command of root keeps in Hide: what concerns
// files, users and ports. Mounts, devices, other processes and the kernel are
// not among it.
func keptRights() []int {
	return []int{
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID,
		unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP,
	}
}

// dropMost is dropRights for root in Hide.
func dropMost(out *routine, s *script) {
	s.add("refuse", "new rights", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	s.add("clear", "ambient rights", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0).fine = unix.EINVAL
	var keep [2]unix.CapUserData
	for c := range unix.CAP_LAST_CAP + 1 {
		if slices.Contains(keptRights(), c) {
			keep[c/32].Effective |= 1 << (c % 32)
			continue
		}
		s.add("bound", "rights", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0).fine = unix.EPERM
	}

	for i := range keep {
		keep[i].Permitted = keep[i].Effective
	}

	header := hold(out, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	// Rights that a container never had cannot be kept; then none are.
	s.add("keep", "some rights", unix.SYS_CAPSET, header, hold(out, keep)).fine = unix.EPERM
}

// mountOf is one line of the list of mounts.
type mountOf struct{ device, root, at string }

// mountList reads the mounts of this process.
func mountList() []mountOf {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}

	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []mountOf
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 5 {
			out = append(out, mountOf{f[2], plain.Replace(f[3]), plain.Replace(f[4])})
		}
	}
	return out
}

// otherNames are further places at which mounts show the same directory.
func otherNames(dir string) []string {
	mounts := mountList()
	own := mountOf{}
	for _, m := range mounts { // of two at one place the later one counts
		if within(dir, m.at) && len(m.at) >= len(own.at) {
			own = m
		}
	}

	if own.at == "" {
		return nil
	}

	rel, err := filepath.Rel(own.at, dir)
	if err != nil {
		return nil
	}

	inside := filepath.Join(own.root, rel)
	var out []string
	for _, m := range mounts {
		if m.device != own.device || m == own || !within(inside, m.root) {
			continue
		}

		rel, err := filepath.Rel(m.root, inside)
		if err != nil {
			continue
		}

		if at := filepath.Join(m.at, rel); at != dir && sameFile(at, dir) {
			out = append(out, at)
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
