package sandbox

import (
	"cmp"
	"os"
	"path"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kind is how a place in the new file system comes about.
type kind int

const (
	bindRead   kind = iota // the same file or directory as outside, read-only
	bindWrite              // the same, and it may be changed
	bindDevice             // a device of the machine
	link                   // a symbolic link to source
	text                   // a small file with source as its content
	folder                 // an empty directory
	memory                 // an empty file system in memory; source are its options
	processes              // the process file system
	terminals              // a private set of pseudo terminals
	hideFile               // nothing can be read here
	hideDir
)

// place is one entry of the new file system.
type place struct {
	at     string
	kind   kind
	source string
	isDir  bool
	exact  bool // the source has no links on its way, and must have none when it is bound
}

// layout returns the file system a command sees, parents before children, so that
// the deeper entry of two wins.
func (p *plan) layout() []place {
	if p.places == nil {
		p.places = p.lay()
	}
	return p.places
}

func (p *plan) lay() []place {
	var out []place
	add := func(at string, k kind, source string) { out = append(out, place{at: at, kind: k, source: source}) }
	bind := func(at, source string, k kind) {
		if st, err := os.Stat(source); err == nil {
			out = append(out, place{at: at, kind: k, source: source, isDir: st.IsDir(), exact: p.exact(source)})
		}
	}

	system := func(name string, keepLink func(target string) bool) {
		var st unix.Stat_t
		if unix.Lstat(name, &st) != nil {
			return
		}

		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			if target, err := os.Readlink(name); err == nil && keepLink(target) {
				add(name, link, target)
			} else {
				bind(name, name, bindRead)
			}
		default:
			out = append(out, place{at: name, kind: bindRead, source: name, isDir: st.Mode&unix.S_IFMT == unix.S_IFDIR})
		}
	}
	for _, dir := range systemPaths() {
		system(dir, func(string) bool { return true })
	}

	for _, name := range etcPaths() {
		system(name, func(target string) bool { return intoUsr(name, target) }) // cheaper than a mount
	}

	for at, content := range p.accounts() {
		add(at, text, content)
	}

	add("/etc/mtab", link, "/proc/mounts")
	if !p.NoProc {
		add("/proc", processes, "")
		for name, target := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
			add("/dev/"+name, link, "/proc/self/"+target)
		}
	}

	for _, d := range devices() {
		bind(d, d, bindDevice)
	}

	if p.Console != "" { // where programs find the name of their terminal, which is one of another set
		bind("/dev/console", p.Console, bindDevice)
	}

	add("/dev/pts", terminals, "newinstance,ptmxmode=0666,mode=620")
	add("/dev/ptmx", link, "pts/ptmx")
	add("/dev/shm", memory, "mode=1777,size=64m")
	bind("/tmp", p.Temp, bindWrite)
	add("/var/tmp", link, "/tmp")
	add("/run", folder, "")
	for _, dir := range p.Profile.ReadWrite {
		bind(dir, dir, bindWrite)
	}

	for _, dir := range p.Profile.ReadOnly {
		bind(dir, dir, bindRead)
	}

	bind(p.Profile.Workspace, p.Profile.Workspace, bindWrite)
	for pair := range slices.Chunk(p.Links, 2) {
		add(pair[0], link, pair[1])
	}

	out = append(out, p.certPlaces()...)
	for _, path := range p.hidden() {
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			add(path, hideDir, "")
		} else if err == nil {
			add(path, hideFile, "")
		}
	}

	// Nothing is put behind a link: it would lead out of the unfinished root.
	all := slices.Clone(out)
	out = slices.DeleteFunc(out, func(l place) bool {
		return l.kind == link && slices.ContainsFunc(all, func(e place) bool { return e.at != l.at && within(e.at, l.at) })
	})
	// Stable, so that of two entries for one place the later one wins.
	slices.SortStableFunc(out, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	return out
}

// intoUsr reports whether a link leads to where everything may be read.
func intoUsr(name, target string) bool {
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(name), target)
	}
	return within(path.Clean(target), "/usr")
}

const (
	plainMount = unix.MS_NOSUID | unix.MS_NODEV
	hiddenFile = "/.hidden"
)

// buildRoot adds the steps that make the layout and move into it.
func (p *plan) buildRoot(out *routine) {
	s := &out.setup
	root := p.rootDir()
	s.add("make private", "all mounts", unix.SYS_MOUNT, "none", "/", nil, unix.MS_REC|unix.MS_PRIVATE, nil)
	s.add("mount", "a new root", unix.SYS_MOUNT, "sandbox", root, "tmpfs", plainMount, "mode=755,size=4m")
	s.add("make", "a hidden file", unix.SYS_MKNODAT, atCWD, root+hiddenFile, unix.S_IFREG, 0)
	b := &rootBuilder{out: out, s: s, attrs: map[uint64]unsafe.Pointer{}}
	made := map[string]bool{"/": true}
	for _, e := range p.layout() {
		makeParents(s, root, path.Dir(e.at), made)
		p.makePlace(b, root, e)
		made[e.at] = true
	}

	s.add("enter", "the new root", unix.SYS_CHDIR, root)
	s.add("change", "the root", unix.SYS_PIVOT_ROOT, ".", ".")
	s.add("leave", "the old root", unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	s.add("enter", "/", unix.SYS_CHDIR, "/")
	b.setAttr("/", unix.MOUNT_ATTR_RDONLY, false)
}

func makeParents(s *script, root, dir string, made map[string]bool) {
	if made[dir] {
		return
	}
	makeParents(s, root, path.Dir(dir), made)
	made[dir] = true
	s.add("make", dir, unix.SYS_MKDIRAT, atCWD, root+dir, 0o755).fine = unix.EEXIST
}

func (p *plan) makePlace(b *rootBuilder, root string, e place) {
	s, at := b.s, root+e.at
	directory := func() { s.add("make", e.at, unix.SYS_MKDIRAT, atCWD, at, 0o755).fine = unix.EEXIST }
	file := func() {
		s.add("make", e.at, unix.SYS_MKNODAT, atCWD, at, unix.S_IFREG|0o444, 0).fine = unix.EEXIST
	}
	switch e.kind {
	case bindRead, bindWrite, bindDevice:
		if e.isDir {
			directory()
		} else {
			file()
		}

		if e.exact {
			b.bindExactly(e, at)
		} else {
			s.add("bind", e.at, unix.SYS_MOUNT, e.source, at, nil, unix.MS_BIND|unix.MS_REC, nil)
		}

		switch e.kind {
		case bindRead:
			b.setAttr(at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, true)
		case bindWrite:
			b.setAttr(at, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, true)
		default:
			// A device can be written to all the same; its mode, owner and times,
			// which are the machine's, cannot be changed.
			b.setAttr(at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, true)
		}

	case link:
		s.add("link", e.at, unix.SYS_SYMLINKAT, e.source, atCWD, at).fine = unix.EEXIST
	case text:
		s.add("make", e.at, unix.SYS_MKNODAT, atCWD, at, unix.S_IFREG|0o644, 0)
		s.write(at, e.source, false)
	case folder:
		directory()
	case memory:
		directory()
		s.add("mount", e.at, unix.SYS_MOUNT, "tmpfs", at, "tmpfs", plainMount, e.source)
	case processes:
		directory()
		s.add("mount", "/proc", unix.SYS_MOUNT, "proc", at, "proc", plainMount|unix.MS_NOEXEC, nil)
		if n := p.Profile.Limits.Processes; n > 0 && p.PIDMax {
			s.write(at+"/sys/kernel/pid_max", strconv.FormatInt(numbersOnce+n, 10), false)
		}
		b.setAttr(at, unix.MOUNT_ATTR_RDONLY, false)

	case terminals:
		directory()
		s.add("mount", e.at, unix.SYS_MOUNT, "devpts", at, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, e.source)
	case hideFile:
		s.add("hide", e.at, unix.SYS_MOUNT, root+hiddenFile, at, nil, unix.MS_BIND, nil)
		b.setAttr(at, unix.MOUNT_ATTR_RDONLY, false)
	case hideDir:
		s.add("hide", e.at, unix.SYS_MOUNT, "tmpfs", at, "tmpfs", plainMount|unix.MS_RDONLY, "mode=000,size=4k")
	}
}

// rootBuilder adds steps that share what they point to.
type rootBuilder struct {
	out   *routine
	s     *script
	attrs map[uint64]unsafe.Pointer
}

// bindExactly binds a source whose way others may have put a link into since it
// was looked at; then the command does not run.
func (b *rootBuilder) bindExactly(e place, at string) {
	s := b.s
	openExactly(b.out, s, e.source)
	s.add("keep", e.at, unix.SYS_DUP3, saved, passFD, unix.O_CLOEXEC)
	s.add("close", e.at, unix.SYS_CLOSE, saved)
	s.add("bind", e.at, unix.SYS_OPEN_TREE, passFD, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE).save = true
	s.add("bind", e.at, unix.SYS_MOVE_MOUNT, saved, "", atCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	s.add("close", e.at, unix.SYS_CLOSE, saved)
}

// openExactly opens a path, unless there is a link on its way.
func openExactly(out *routine, s *script, path string) *step {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	open := s.add("open", path, unix.SYS_OPENAT2, atCWD, path, hold(out, how), unix.SizeofOpenHow)
	open.save = true
	return open
}

// setAttr changes flags of a mount, with all mounts below it if deep: the old
// way would leave those writable.
func (b *rootBuilder) setAttr(at string, set uint64, deep bool) {
	flags := 0
	if deep {
		flags = unix.AT_RECURSIVE
	}

	attr, ok := b.attrs[set]
	if !ok {
		attr = hold(b.out, unix.MountAttr{Attr_set: set})
		b.attrs[set] = attr
	}
	b.s.add("protect", at, unix.SYS_MOUNT_SETATTR, atCWD, at, flags, attr, unsafe.Sizeof(unix.MountAttr{}))
}
