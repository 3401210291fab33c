package diskio

import "golang.org/x/sys/windows"

// FreeBytes returns how much the user may still write where a folder lies.
func FreeBytes(dir string) (uint64, bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err == nil
}
