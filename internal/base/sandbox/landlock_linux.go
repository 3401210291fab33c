package sandbox

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// minLandlock is the first version that covers truncation: before it, files
	// outside could be emptied.
	minLandlock = 3
	// scopedLandlock is the first version that keeps signals inside.
	scopedLandlock = 6

	accessRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	accessWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	accessDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// accessFile are the rights that make sense for something that is not a
	// directory; the kernel refuses the others there.
	accessFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockABI returns the version of Landlock, 0 without.
func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// rules is a Landlock ruleset that the child will make. Rules hold on to what a
// path leads to then, so they stay true when names change later or when the
// same directory is mounted somewhere else.
type rules struct {
	out     *routine
	handled uint64
}

// newRules refuses everything on files the version knows about. Without a
// network of its own, a command that may not connect loses TCP here too.
func newRules(out *routine, abi int, noTCP bool) *rules {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: accessRead | accessWrite | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK}
	size := unsafe.Offsetof(attr.Handled_access_net)
	if abi >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}

	if abi >= 4 {
		size = unsafe.Offsetof(attr.Scoped)
		if noTCP {
			attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}

	if abi >= scopedLandlock {
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}

	s := &out.run
	s.add("make", "Landlock rules", unix.SYS_LANDLOCK_CREATE_RULESET, hold(out, attr), size, 0).save = true
	s.add("keep", "Landlock rules", unix.SYS_DUP3, saved, rulesFD, unix.O_CLOEXEC)
	s.add("close", "Landlock rules", unix.SYS_CLOSE, saved)
	return &rules{out: out, handled: attr.Handled_access_fs}
}

// allow grants access to a path and everything below it. A path that the child
// cannot open is not an error: there is nothing to grant.
func (r *rules) allow(path string, access uint64) { r.grant(path, access, false) }

// grant is allow, if exact for a path without links only.
func (r *rules) grant(path string, access uint64, exact bool) {
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		access &= accessFile
	}

	rule := unix.LandlockPathBeneathAttr{Allowed_access: access & r.handled, Parent_fd: passFD}
	s := &r.out.run
	var open *step
	if exact {
		open = openExactly(r.out, s, path)
	} else {
		open = s.add("open", path, unix.SYS_OPENAT, atCWD, path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}

	open.save = true
	open.lax = true
	open.skip = 3
	s.add("keep", path, unix.SYS_DUP3, saved, passFD, unix.O_CLOEXEC)
	s.add("close", path, unix.SYS_CLOSE, saved)
	s.add("allow", path, unix.SYS_LANDLOCK_ADD_RULE, rulesFD, unix.LANDLOCK_RULE_PATH_BENEATH, hold(r.out, rule), 0)
}
