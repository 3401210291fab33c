package sandbox

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// routine prepares everything but the command itself. With NetProxy, the child
// hands over its listener through the socket send.
func (p *plan) routine(send int) *routine {
	out := newRoutine()
	if p.Spaces != 0 {
		s := &out.setup
		s.add("die with", "the helper", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
		raiseOOMScore(s)

		if p.Spaces&unix.CLONE_NEWUSER != 0 {
			s.write("/proc/self/setgroups", "deny", false)
			s.write("/proc/self/uid_map", idMap(p.UID), false)
			s.write("/proc/self/gid_map", idMap(p.GID), false)
		}

		if p.Hide {
			p.buildHide(out)
		} else {
			p.buildRoot(out)
			p.network(out, send)
		}

		s.add("be", "untouchable", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
		switch {
		case p.Control > 0:
			p.listen(out)
		case p.Hide && p.Spaces&unix.CLONE_NEWUSER == 0:
			dropMost(out, s)
		default:
			dropRights(out, s)
		}

		if p.Control == 0 {
			out.leave.add("close", "files", unix.SYS_CLOSE_RANGE, 0, ^uintptr(0)>>1, 0)
		}
	}

	p.confine(out)
	return out
}

// numbersOnce is how many process numbers of a namespace are given only once,
// so that a limit is on top of them.
const numbersOnce = 300

func idMap(id int) string { return fmt.Sprintf("%d %d 1\n", id, id) }

// raiseOOMScore makes the kernel end the command before the agent when memory
// runs out.
func raiseOOMScore(s *script) { s.write("/proc/self/oom_score_adj", "500", true) }

// dropRights takes all capabilities away, for good, from root too.
func dropRights(out *routine, s *script) {
	s.add("refuse", "new rights", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	s.add("clear", "ambient rights", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0).fine = unix.EINVAL
	for c := range unix.CAP_LAST_CAP + 1 {
		// Who has no rights to begin with is not permitted this either.
		s.add("bound", "rights", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0).fine = unix.EPERM
	}
	header := hold(out, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	s.add("drop", "rights", unix.SYS_CAPSET, header, hold(out, [2]unix.CapUserData{}))
}

// listen lets the first process of the namespace make everything read-only that
// the command may write, when the agent asks for it. It keeps no other right,
// and nothing in the namespace can touch it.
func (p *plan) listen(out *routine) {
	s := &out.leave
	s.add("keep", "the control socket", unix.SYS_DUP3, p.Control, controlFD, 0)
	signals := hold(out, uint64(1)<<(unix.SIGCHLD-1))
	s.add("watch", "processes", unix.SYS_SIGNALFD4, ^uintptr(0), signals, 8, 0).save = true
	s.add("watch", "processes", unix.SYS_DUP3, saved, endedFD, 0)
	s.add("close", "files", unix.SYS_CLOSE_RANGE, endedFD+1, frozenFD-1, 0)
	s.add("refuse", "new rights", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	header := hold(out, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	mounts := unix.CapUserData{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}
	s.add("drop", "rights", unix.SYS_CAPSET, header, hold(out, [2]unix.CapUserData{mounts}))

	attr := hold(out, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	for i, at := range p.writable() {
		// Held from the start: the command may change names on the way to it.
		fd := frozenFD + i
		out.setup.add("open", at, unix.SYS_OPENAT, atCWD, at, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0).save = true
		out.setup.add("keep", at, unix.SYS_DUP3, saved, fd, unix.O_CLOEXEC)
		out.setup.add("close", at, unix.SYS_CLOSE, saved)
		out.freeze.add("freeze", at, unix.SYS_MOUNT_SETATTR, fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr, unsafe.Sizeof(unix.MountAttr{}))
	}
}

// writable returns the places that a command may change and others see. What lies
// below one of them is frozen with it, whatever its name has become by then.
func (p *plan) writable() []string {
	var out []string
	for _, e := range p.layout() { // parents before children
		inside := func(dir string) bool { return within(e.at, dir) }
		if e.kind == bindWrite && e.source != p.Temp && !slices.ContainsFunc(out, inside) {
			out = append(out, e.at)
		}
	}
	return out
}

// confine adds the steps by which the child becomes the command.
func (p *plan) confine(out *routine) {
	s := &out.run
	if p.Spaces == 0 { // else setup did
		s.add("die with", "the helper", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
		raiseOOMScore(s)
	}

	if p.Console != "" {
		// In a session of its own, so that Ctrl-C reaches neither the helper nor
		// bubblewrap.
		s.add("begin", "a session", unix.SYS_SETSID)
		s.add("take", "the terminal", unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}

	if p.ABI > 0 {
		p.rules(out)
	}
	if p.Spaces == 0 || p.Control > 0 {
		dropRights(out, s)
	}
	if p.ABI > 0 {
		s.add("apply", "Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, rulesFD, 0)
	}

	p.limits(out)
	// Many busy processes must not starve the agent. Who started with less
	// priority than this may not raise it, and need not.
	if !p.Hide {
		s.add("lower", "the priority", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 10).fine = unix.EACCES
	}

	p.applyFilter(out)
	s.add("unblock", "signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, hold(out, uint64(0)), 0, 8)
	s.add("enter", p.Dir, unix.SYS_CHDIR, p.Dir)
}

// applyFilter adds the system call filter.
func (p *plan) applyFilter(out *routine) {
	code := filter(p.Profile.Network, p.ownNet(), p.ownFiles(), p.guarded()...)
	if code == nil {
		return
	}
	head := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]} //nolint:gosec // far below 65536
	out.run.add("apply", "the system call filter", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, hold(out, head))
}

// guarded returns the agent and the helper, where neither a namespace nor
// Landlock keeps signals away from them.
func (p *plan) guarded() []int {
	if p.ABI >= scopedLandlock || p.ownFiles() {
		return nil
	}
	out := []int{os.Getpid(), p.Agent}
	if p.Group > 1 && p.Group != p.Agent {
		out = append(out, p.Group)
	}
	return out
}

// rules writes the Landlock rules. With a file system of its own the command
// may read all of it; without, what may be read is listed one by one.
func (p *plan) rules(out *routine) {
	r := newRules(out, p.ABI, p.Profile.Network != NetHost && !p.ownNet())
	shared := append(slices.Clip(p.Profile.ReadWrite), p.Profile.Workspace)
	var private []string
	switch {
	case p.Inner:
		r.allow("/", accessRead)
		r.allow("/dev", accessRead|accessDevice)
		private = []string{"/tmp", "/dev/shm", "/dev/pts"}
	case p.ownFiles():
		r.allow("/", accessRead)
		r.allow("/dev", accessRead|accessWrite|accessDevice)
		private = []string{"/tmp"}
	default:
		for _, path := range slices.Concat(systemPaths(), etcPaths(), p.Profile.ReadOnly) {
			r.grant(path, accessRead, p.exact(path))
		}
		for _, path := range append(devices(), "/dev/pts", "/dev/ptmx") {
			r.allow(path, accessRead|accessDevice)
		}
		private = []string{p.Temp}
	}

	// Through a socket that two commands see, one that ends could leave its open
	// folders to one that has lost its write access.
	for _, path := range shared {
		r.grant(path, accessRead|accessWrite&^unix.LANDLOCK_ACCESS_FS_MAKE_SOCK, p.exact(path))
	}

	for _, path := range private {
		access := uint64(accessRead | accessWrite)
		if slices.ContainsFunc(shared, func(dir string) bool { return within(dir, path) }) { // what is allowed around it is allowed in it
			access &^= unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
		}
		r.allow(path, access)
	}
}
