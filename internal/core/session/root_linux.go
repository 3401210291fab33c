package session

import "golang.org/x/sys/unix"

// folderIdentity tells a folder from all others, also from a later one with the
// same inode. Zero is not known.
func folderIdentity(path string) (device, inode uint64, born int64) {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME|unix.STATX_TYPE, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, 0, 0
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, born
}
