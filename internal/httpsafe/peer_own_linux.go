package httpsafe

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// heldByChild reports whether a process that this one started, or one that such
// a process started, holds a socket. Commands of the agent run as our user; they
// are not that user.
func heldByChild(inode uint32) bool {
	if inode == 0 {
		return false
	}
	want := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	for _, pid := range descendants() {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
		d, err := os.Open(dir)
		if err != nil {
			continue
		}
		names, _ := d.Readdirnames(-1)
		_ = d.Close()
		for _, name := range names {
			if target, err := os.Readlink(dir + name); err == nil && target == want {
				return true
			}
		}
	}
	return false
}

// descendants lists the processes below this one.
func descendants() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := d.Readdirnames(-1)
	_ = d.Close()
	children := map[int][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		data, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// The name of the program is in parentheses and may hold anything.
		f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(f) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(f[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var out []int
	for next := children[os.Getpid()]; len(next) > 0; {
		out = append(out, next...)
		var below []int
		for _, pid := range next {
			below = append(below, children[pid]...)
		}
		next = below
	}
	return out
}
