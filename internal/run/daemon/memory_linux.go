package daemon

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// releaseMemory gives back what a process does not need while it has nothing
// to do: freed memory, and the pages of the program itself. The kernel still
// has those in its cache, can use them for something better, and maps them
// again when they are touched, which costs the next turn about a millisecond.
func releaseMemory() {
	debug.FreeOSMemory()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}

	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}

	for line := range strings.Lines(string(maps)) {
		if from, size, ok := ownPages(line, exe); ok {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, size, unix.MADV_DONTNEED) // best effort
		}
	}
}

// ownPages finds the range of a line of /proc/self/maps if it maps the program
// read-only. Anything that can be written must stay: its changes are nowhere else.
func ownPages(line, exe string) (from, size uintptr, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || !strings.HasSuffix(strings.TrimSpace(line), exe) || len(fields[1]) != 4 || fields[1][0] != 'r' || fields[1][1] != '-' || fields[1][3] != 'p' {
		return 0, 0, false
	}

	lo, hi, _ := strings.Cut(fields[0], "-")
	a, err := strconv.ParseUint(lo, 16, 8*int(unsafe.Sizeof(from)))
	if err != nil {
		return 0, 0, false
	}

	z, err := strconv.ParseUint(hi, 16, 8*int(unsafe.Sizeof(from)))
	if err != nil || z <= a {
		return 0, 0, false
	}
	return uintptr(a), uintptr(z - a), true
}
