package session

import "golang.org/x/sys/windows"

// folderIdentity tells a folder from all others, also from a later one with the
// same index. Zero is not known.
func folderIdentity(path string) (device, inode uint64, born int64) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, 0
	}

	h, err := windows.CreateFile(name, 0, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return 0, 0, 0
	}

	defer windows.CloseHandle(h) //nolint:errcheck // only looked at
	var info windows.ByHandleFileInformation
	if windows.GetFileInformationByHandle(h, &info) != nil || info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY == 0 {
		return 0, 0, 0
	}
	return uint64(info.VolumeSerialNumber), uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow), info.CreationTime.Nanoseconds()
}
