package diskio

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mountTable lists what is mounted where. Without /proc nothing is known.
func mountTable() []mount {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return parseMounts(string(data))
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
// cover the workspace are left out, as whoever mounted it there meant it.
func mountedNames(all []mount, paths []string, workspace string) (names []string) {
	add := func(name string) {
		if _, covers := under(name, workspace, false); !covers {
			names = append(names, name)
		}
	}
	for _, p := range paths {
		own := -1
		for i, m := range all {
			if _, ok := under(m.point, p, false); ok && (own < 0 || len(m.point) >= len(all[own].point)) {
				own = i
			}
		}
		if own < 0 {
			continue
		}
		rel, _ := under(all[own].point, p, false)
		onDisk := filepath.Join(all[own].root, rel)
		for i, m := range all {
			if i == own || m.disk != all[own].disk {
				continue
			}
			if below, ok := under(m.root, onDisk, false); ok {
				add(filepath.Join(m.point, below))
			} else if _, ok := under(onDisk, m.root, false); ok {
				add(m.point)
			}
		}
	}
	return names
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
