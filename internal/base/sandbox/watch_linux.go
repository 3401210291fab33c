package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	watchEvery   = 40 * time.Millisecond
	watchClose   = 10 * time.Millisecond // near the limit
	watchSoonest = time.Millisecond      // a look at the free space of the disk is cheap
	watchWhole   = time.Second           // a complete look at least so often
	kib          = 1 << 10
)

// Run looks after the command until the context ends, or returns what it used
// too much of. Then the caller ends the command.
//
// A complete look costs milliseconds, so most looks are only at what the whole
// machine has left; if that has hardly changed, the command cannot have used
// much. Memory is counted by what processes hold and by what files in memory
// they have open; what neither shows (descriptors on their way through a
// socket, buffers of the kernel) is noticed when the machine runs low.
func (w Watch) Run(ctx context.Context) *OverError {
	s := &watching{Watch: w, free: map[string]uint64{}}
	if w.Memory > 0 {
		s.most, s.shared = s.machine()
	}

	s.disks(func(dir string, free uint64) { s.free[dir] = free })
	tick := time.NewTimer(min(watchEvery, s.pace()))
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}

		if o := s.check(); o != nil {
			return o
		}

		next := watchEvery
		if s.near {
			next = watchClose
		}
		tick.Reset(min(next, s.pace()))
	}
}

// fastest is how many bytes a second a command is expected to add at most, into
// the memory that the kernel writes to the disk later.
const fastest = 4 << 30

// pace returns how long the disk can be left alone: no longer than the fastest
// writer takes for half of what is left.
func (s *watching) pace() time.Duration {
	switch {
	case s.Disk <= 0:
		return watchEvery
	case s.gone >= s.Disk:
		return watchClose // another program fills the disk
	}
	left := max(s.Disk-s.gone, 0) / 2
	return max(watchSoonest, time.Duration(float64(left)/fastest*float64(time.Second)))
}

type watching struct {
	Watch
	most   int64 // available memory at its best
	shared int64 // shared memory of the machine at its least
	whole  time.Time
	near   bool
	free   map[string]uint64 // of the disks, when the command began
	walked walks
	gone   int64 // what was gone from them at the last look
}

func (s *watching) check() *OverError {
	if o := s.checkMemory(); o != nil {
		return o
	}
	return s.checkDisk()
}

func (s *watching) checkMemory() *OverError {
	if s.Memory <= 0 {
		return nil
	}

	available, shared := s.machine()
	s.most, s.shared = max(s.most, available), min(s.shared, shared)
	gone := s.most - available
	if !s.near && gone < s.Memory/3 && time.Since(s.whole) < watchWhole {
		return nil
	}

	s.whole = time.Now()
	used := s.memory(shared - s.shared)
	s.near = used > s.Memory/2

	switch {
	case used > s.Memory:
		return &OverError{What: "memory", Used: used, Limit: s.Memory}
	case gone > s.Memory && available < machineMemory()/16:
		return &OverError{What: "memory", Used: gone, Limit: s.Memory, Low: true}
	}
	return nil
}

// machine reads how much memory is available and how much of it is shared.
func (s *watching) machine() (available, shared int64) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	return field(data, "MemAvailable:"), field(data, "Shmem:")
}

// field returns a number of kilobytes in a list of the kernel, in bytes.
func field(data []byte, name string) int64 {
	i := bytes.Index(data, []byte(name))
	if i < 0 {
		return 0
	}

	rest := data[i+len(name):]
	if end := bytes.IndexByte(rest, '\n'); end >= 0 {
		rest = rest[:end]
	}

	f := bytes.Fields(rest)
	if len(f) == 0 {
		return 0
	}

	n, _ := strconv.ParseInt(string(f[0]), 10, 64)
	return n * kib
}

// memory returns what the processes use together. grown is by how much the
// shared memory of the machine grew.
func (s *watching) memory(grown int64) int64 {
	pids := s.Members()
	var own, shared, inFiles int64
	for _, pid := range pids {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue
		}
		own += field(data, "RssAnon:") + field(data, "VmSwap:")
		shared += field(data, "RssShmem:")
	}

	if grown > s.Memory/16 {
		eachRemoved(pids, func(target string, st *unix.Stat_t) {
			if inMemory(target) {
				inFiles += st.Blocks * 512
			}
		})
	}

	if own+shared+inFiles <= s.Memory {
		return own + shared + inFiles
	}

	// What processes share was counted for each of them so far.
	own, shared = 0, 0
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		if data, err := os.ReadFile(dir + "/smaps_rollup"); err == nil && len(data) > 0 {
			own += field(data, "Pss_Anon:") + field(data, "SwapPss:")
			shared += field(data, "Pss_Shmem:")
		} else if data, err := os.ReadFile(dir + "/status"); err == nil {
			own += field(data, "RssAnon:") + field(data, "VmSwap:")
			shared += field(data, "RssShmem:")
		}
	}

	// A file in memory may be open and mapped; the machine as a whole tells
	// which of both it is.
	return own + min(shared+inFiles, max(grown, shared, inFiles))
}

// inMemory reports whether an open file lies in memory, by the name that the kernel
// gives it.
func inMemory(target string) bool {
	return strings.HasPrefix(target, "/memfd:") || strings.HasPrefix(target, "/dev/shm/") || strings.HasPrefix(target, "/SYSV")
}

// eachRemoved calls fn once with each file that only descriptors hold: those in
// memory, and those that were removed from a disk.
func eachRemoved(pids []int, fn func(target string, st *unix.Stat_t)) {
	type id struct{ dev, ino uint64 }
	seen := map[id]bool{}
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
		d, err := os.Open(dir)
		if err != nil {
			continue
		}

		names, _ := d.Readdirnames(-1)
		_ = d.Close()
		for _, name := range names {
			target, err := os.Readlink(dir + name)
			if err != nil || !strings.HasSuffix(target, " (deleted)") {
				continue
			}

			var st unix.Stat_t
			if unix.Stat(dir+name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || seen[id{st.Dev, st.Ino}] {
				continue
			}

			seen[id{st.Dev, st.Ino}] = true
			fn(target, &st)
		}
	}
}

// disks calls fn with the free space of every disk that counts.
func (s *watching) disks(fn func(dir string, free uint64)) {
	if s.Disk <= 0 || s.Dirs == nil {
		return
	}
	for _, dir := range append(s.Dirs(), os.TempDir()) {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			fn(dir, st.Bfree*uint64(st.Bsize)) //nolint:gosec // a size
		}
	}
}

func (s *watching) checkDisk() *OverError {
	var gone int64
	low := false
	s.disks(func(dir string, free uint64) {
		began, known := s.free[dir]
		if !known {
			s.free[dir] = free
			return
		}

		if began > free {
			gone = max(gone, int64(began-free)) //nolint:gosec // a size
			low = low || free < lowDisk
		}
	})

	s.gone = gone
	if !s.walked.due(gone, s.Disk) {
		return nil
	}

	if s.Hold != nil {
		defer s.Hold()()
	}

	over, walked := s.walk(gone)
	s.walked = walked
	if over == nil && gone > s.Disk && low {
		over = &OverError{What: "disk space", Used: gone, Limit: s.Disk, Low: true}
	}
	return over
}

// lowDisk has to stay free for other programs, in bytes.
const lowDisk = 256 << 20

// nameless calls fn with files on disks that were removed and that processes of the
// command still have open.
func (w Watch) nameless(fn func(path string, size, length int64)) {
	if w.Members == nil {
		return
	}
	eachRemoved(w.Members(), func(target string, st *unix.Stat_t) {
		if !inMemory(target) {
			fn(target, st.Blocks*512, st.Size)
		}
	})
}

// grown calls fn with the files in Dirs that changed since the command began, by the
// time that programs cannot set: what they take on the disk, and how long they are.
func (w Watch) grown(fn func(path string, size, length int64)) {
	if w.Dirs == nil {
		return
	}

	type id struct{ dev, ino uint64 }
	seen := map[id]bool{}
	began := w.Began.Add(-time.Second) // clocks of file systems are coarse
	for _, dir := range outermost(w.Dirs()) {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what cannot be read is not counted
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // what cannot be read is not counted
			}

			var st unix.Stat_t
			if unix.Lstat(path, &st) != nil || time.Unix(st.Ctim.Unix()).Before(began) {
				return nil //nolint:nilerr // as above
			}

			if st.Nlink > 1 {
				if seen[id{st.Dev, st.Ino}] {
					return nil
				}
				seen[id{st.Dev, st.Ino}] = true
			}

			fn(path, st.Blocks*512, st.Size)
			return nil
		})
	}
}

// PrivateDirs returns the private temporary directories that commands got since.
func PrivateDirs(since time.Time) []string {
	list, err := filepath.Glob(filepath.Join(os.TempDir(), "nanobot-*"))
	if err != nil {
		return nil
	}

	var out []string
	for _, dir := range list {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Getuid() &&
			!errors.Is(unix.Access(dir, unix.R_OK), unix.EACCES) && !time.Unix(st.Ctim.Unix()).Before(since.Add(-time.Second)) {
			out = append(out, dir)
		}
	}

	return out
}
