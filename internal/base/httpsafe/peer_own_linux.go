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
//
// A socket that this process holds itself is ours: a child has a copy of all that we
// hold for a moment, until it begins its program.
func heldByChild(inode uint32) bool {
	if inode == 0 {
		return false
	}

	socket := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	for _, pid := range descendants() {
		if holds("/proc/"+strconv.Itoa(pid)+"/fd/", socket) {
			return !holds("/proc/self/fd/", socket)
		}
	}
	return false
}

// holds reports whether a folder of open files has one.
func holds(dir, file string) bool {
	for _, name := range namesIn(dir) {
		if target, err := os.Readlink(dir + name); err == nil && target == file {
			return true
		}
	}
	return false
}

// descendants lists the processes below this one. The kernel lists the children of a
// process, so most often there is nothing to look at; only a kernel without these
// lists makes it read about every process.
func descendants() []int {
	self := os.Getpid()
	below, ok := childrenOf(self)
	if !ok {
		return descendantsInTable(self)
	}

	for i := 0; i < len(below); i++ {
		more, _ := childrenOf(below[i]) // one that has ended has no children
		below = append(below, more...)
	}
	return below
}

// childrenOf reads the children of all threads of a process. It returns false if the
// kernel has no lists of children.
func childrenOf(pid int) (children []int, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	for _, thread := range namesIn(dir) {
		data, err := os.ReadFile(dir + thread + "/children")
		if err != nil {
			continue // the thread has ended, or there is no such list
		}

		ok = true
		for field := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}

	return children, ok
}

func namesIn(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close() //nolint:errcheck // only read
	names, _ := d.Readdirnames(-1)
	return names
}

// descendantsInTable finds the processes below one by the parents of all.
func descendantsInTable(self int) []int {
	children := map[int][]int{}
	for _, name := range namesIn("/proc") {
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

	below := children[self]
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i]]...)
	}
	return below
}
