package diskio

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mountsFile lists the mounts that this process sees.
const mountsFile = "/proc/self/mountinfo"

// mountTable lists what is mounted where. Without /proc nothing is known.
func mountTable() []mount {
	data, err := os.ReadFile(mountsFile)
	if err != nil {
		return nil
	}
	return parseMounts(string(data))
}

// mountWatch knows the mounts and notices when they change: the kernel marks an
// open list of mounts as soon as another one is valid.
type mountWatch struct {
	mu     sync.Mutex
	f      *os.File
	opened bool
	count  uint64 // of lists that were read
	table  []mount
}

// look returns the mounts and a number that is another one after every change.
func (w *mountWatch) look() ([]mount, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if !w.opened {
		w.opened = true
		w.f = openMounts()
		w.read()
		return w.table, w.count
	}

	if w.f == nil || mountsChanged(w.f) {
		w.read()
	}
	return w.table, w.count
}

// openMounts opens the list of mounts, or returns nil, and then every look reads
// it again. os.Open would hand the file to the runtime, which asks the kernel
// about all of its files whenever it has nothing to do. The kernel tells of a
// change only once, so we would miss those that the runtime was told of.
func openMounts() *os.File {
	fd, err := unix.Open(mountsFile, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), mountsFile)
}

func (w *mountWatch) read() {
	var table []mount
	if w.f == nil {
		table = mountTable()
	} else if data, err := io.ReadAll(io.NewSectionReader(w.f, 0, math.MaxInt64)); err == nil {
		table = parseMounts(string(data))
	}

	if w.count == 0 || !slices.Equal(table, w.table) {
		w.table = table
		w.count++
	}
}

// mountsChanged asks the kernel without waiting. An error counts as a change.
func mountsChanged(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return true
	}

	changed := true
	err = conn.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}} //nolint:gosec // descriptors are small
		_, pollErr := unix.Poll(fds, 0)
		changed = pollErr != nil || fds[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0
	})
	return err != nil || changed
}

func (w *mountWatch) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}

// ShownAt are the further names that paths have through mounts now, except
// names that cover the workspace. They are for a sandbox, which binds a
// workspace with what is mounted in it.
func ShownAt(paths []string, workspace string) []string {
	var all []string
	for _, p := range paths {
		all = append(all, p)
		if target := ResolveExisting(p); target != p {
			all = append(all, target)
		}
	}
	return mountedNames(mountTable(), all, ResolveExisting(workspace))
}

// mount is a folder, or a file, of a disk that is shown at a place.
type mount struct {
	disk  string // major:minor
	root  string // what is shown, from the top of the disk
	point string // where
	kind  string // of file system
}

// parseMounts reads the form that the kernel writes: fields with spaces
// between, of which the number before a dash varies. Later lines cover earlier
// ones.
func parseMounts(table string) (all []mount) {
	for line := range strings.Lines(table) {
		before, after, ok := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !ok || len(f) < 5 {
			continue
		}
		kind, _, _ := strings.Cut(after, " ")
		all = append(all, mount{disk: f[2], root: unescapeMount(f[3]), point: unescapeMount(f[4]), kind: kind})
	}
	return all
}

// unescapeMount undoes the octal escapes of white space and backslashes.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}

	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}

	return b.String()
}

// mountedNames are the further names that paths have through mounts: a folder
// that is bound into a workspace shows protected files there, too. Names that
// cover the workspace are left out, as whoever mounted it there meant it, and so
// is what comes from the workspace itself although it lies in a protected folder.
func mountedNames(all []mount, paths []string, workspace string) (names []string) {
	wsDisk, wsRoot, _ := onDisk(all, workspace)
	for _, p := range paths {
		disk, root, own := onDisk(all, p)
		if own < 0 {
			continue
		}

		_, around := under(root, wsRoot, false)
		around = around && disk == wsDisk && root != wsRoot

		for i, m := range all {
			if i == own || m.disk != disk {
				continue
			}

			var name string
			if below, ok := under(m.root, root, false); ok {
				name = filepath.Join(m.point, below)
			} else if _, ok := under(root, m.root, false); ok {
				if _, ours := under(wsRoot, m.root, false); ours && around {
					continue
				}
				name = m.point
			} else {
				continue
			}

			if _, covers := under(name, workspace, false); !covers {
				names = append(names, name)
			}
		}
	}

	return names
}

// onDisk finds the disk of a path, the path there, and the mount that shows it;
// -1 if there is none.
func onDisk(all []mount, p string) (disk, root string, own int) {
	own = -1
	for i, m := range all {
		if _, ok := under(m.point, p, false); ok && (own < 0 || len(m.point) >= len(all[own].point)) {
			own = i
		}
	}

	if own < 0 {
		return "", "", own
	}

	rel, _ := under(all[own].point, p, false)
	return all[own].disk, filepath.Join(all[own].root, rel), own
}

// processMounts are the places, besides the usual one, where the inside of
// processes is shown.
func processMounts(all []mount) (points []string) {
	for _, m := range all {
		if _, usual := under("/proc", m.point, false); m.kind == "proc" && !usual {
			points = append(points, m.point)
		}
	}
	return points
}
