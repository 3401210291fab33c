package sandbox

import (
	"errors"
	"fmt"
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

// landlockABI is the version of Landlock, 0 without.
func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// rules is a Landlock ruleset that is being written. Rules hold on to what a
// path leads to now, so they stay true when names change or when the same
// directory is mounted somewhere else.
type rules struct {
	fd      int
	handled uint64
}

// newRules refuses everything on files the version knows about. Without a
// network of its own, a command that may not connect loses TCP here too.
func newRules(abi int, noTCP bool) (*rules, error) {
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
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock: %w", errno)
	}
	return &rules{fd: int(fd), handled: attr.Handled_access_fs}, nil
}

// allow grants access to a path and everything below it. A path that does not
// exist is no error: there is nothing to grant.
func (r *rules) allow(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("landlock %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("landlock %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= accessFile
	}
	attr := r.rule(fd, access)
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("landlock %s: %w", path, errno)
	}
	return nil
}

func (r *rules) rule(fd int, access uint64) *unix.LandlockPathBeneathAttr {
	return &unix.LandlockPathBeneathAttr{Allowed_access: access & r.handled, Parent_fd: int32(fd)} //nolint:gosec // a descriptor
}

// allowLater grants access to a directory that only the child will see.
func (r *rules) allowLater(s *script, path string, access uint64) {
	s.add("open", path, unix.SYS_OPENAT, atCWD, path, unix.O_PATH|unix.O_CLOEXEC, 0).save = true
	s.add("keep", path, unix.SYS_DUP3, saved, passFD, unix.O_CLOEXEC)
	s.add("close", path, unix.SYS_CLOSE, saved)
	s.add("allow", path, unix.SYS_LANDLOCK_ADD_RULE, r.fd, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(r.rule(passFD, access)), 0)
}
