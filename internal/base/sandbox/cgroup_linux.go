package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A control group bounds memory and processes of a command as a whole. It is a
// bonus: the command is bounded per process and by its namespace anyway. It is
// used only where the service manager has given this service a subtree of its
// own, because changing the group of another service would confuse that one.

// ownGroup is the group below the delegated one where the agent itself lives.
const ownGroup = "nanobot"

// delegatedGroup returns the directory of the agent's own group, or empty.
func delegatedGroup() string {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}

	for line := range strings.Lines(string(data)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !ok || path == "" {
			continue
		}

		dir := filepath.Join("/sys/fs/cgroup", path)
		if filepath.Base(dir) == ownGroup && delegated(filepath.Dir(dir)) { // taken before, by another box
			return filepath.Dir(dir)
		}
		if delegated(dir) {
			return dir
		}
		return ""
	}

	return ""
}

// delegated reports whether the service manager has left a group to us. The
// manager of the machine marks such groups, that of a user does not: there our
// own unit says so.
func delegated(dir string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC || unix.Access(dir, unix.W_OK) != nil {
		return false
	}
	mark := make([]byte, 1)
	if n, err := unix.Getxattr(dir, "user.delegate", mark); err == nil {
		return n == 1 && mark[0] == '1'
	}
	return os.Getenv("NANOBOT_DELEGATED") == "1" && strings.HasSuffix(dir, ".service")
}

// prepareGroup makes a delegated group ready for subgroups with limits. The agent
// must leave the group itself for one below it: a group has either processes or
// limited subgroups.
func prepareGroup(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}

	for _, c := range []string{"pids", "memory"} {
		if !slices.Contains(strings.Fields(string(have)), c) {
			return errors.New("no control of " + c)
		}
	}

	pids, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}

	if f := strings.Fields(string(pids)); len(f) > 1 || len(f) == 1 && f[0] != strconv.Itoa(os.Getpid()) {
		return errors.New("other processes share the group")
	} else if len(f) == 1 {
		own := filepath.Join(dir, ownGroup)
		if err := os.Mkdir(own, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0o644); err != nil { //nolint:gosec // exists
			return err
		}
	}

	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+pids +memory"), 0o644) //nolint:gosec // exists
}

// intoGroup makes the command start in a new group below dir. The result ends
// and removes the group.
func intoGroup(cmd *exec.Cmd, dir string, l Limits) (func(), error) {
	group := filepath.Join(dir, "nanobot-"+rand.Text()[:12])
	if err := os.Mkdir(group, 0o750); err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}

	remove := func() {
		_ = os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0o644) //nolint:gosec // exists
		for range 50 {                                                            // it is empty when the last process is gone
			if err := unix.Rmdir(group); !errors.Is(err, unix.EBUSY) {
				return
			}
			<-time.After(2 * time.Millisecond)
		}
	}
	for _, s := range groupLimits(l) {
		err := os.WriteFile(filepath.Join(group, s.file), []byte(s.text), 0o644) //nolint:gosec // exists
		if err != nil && !s.optional {
			remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
	}

	fd, err := unix.Open(group, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		remove()
		return nil, fmt.Errorf("control group: %w", err)
	}

	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}

	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, fd
	return func() { _ = unix.Close(fd); remove() }, nil
}

// groupLimit is one setting of a group.
type groupLimit struct {
	file, text string
	optional   bool // not there in every kernel
}

// groupLimits returns the settings of a command's group. Shared memory and files in
// memory count for the group that touched them first; there is no swap to hide
// in. When memory runs out the whole command ends, not one process of it.
func groupLimits(l Limits) []groupLimit {
	processes, memory, swap := "max", "max", "max"
	if l.Processes >= 0 {
		processes = strconv.FormatInt(l.Processes+16, 10) // the helper has some threads, too
	}
	if l.Total >= 0 {
		memory, swap = strconv.FormatInt(l.Total, 10), "0"
	}
	return []groupLimit{
		{file: "pids.max", text: processes},
		{file: "memory.max", text: memory},
		{file: "memory.swap.max", text: swap, optional: true},
		{file: "memory.oom.group", text: "1", optional: true},
	}
}

// machineMemory is the main memory in bytes, 0 if unknown.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) //nolint:gosec // no machine has more; 32 bits elsewhere
}
