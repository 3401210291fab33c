package sandbox

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limits adds the resource limits of the command's own process. They come after
// everything that needs descriptors or processes.
func (p *plan) limits(out *routine) {
	l := p.Profile.Limits
	set := func(name string, resource int, value int64) {
		if value < 0 {
			return
		}

		limit := unix.Rlimit{Cur: uint64(value), Max: uint64(value)}
		var old unix.Rlimit
		if unix.Getrlimit(resource, &old) == nil && old.Max < limit.Max {
			limit.Max = old.Max // never more than the agent itself has
			limit.Cur = min(limit.Cur, limit.Max)
		}
		out.run.add("limit", name, unix.SYS_PRLIMIT64, 0, resource, hold(out, limit), 0)
	}

	set("core dumps", unix.RLIMIT_CORE, 0)
	set("memory", unix.RLIMIT_DATA, l.Memory)
	set("file size", unix.RLIMIT_FSIZE, l.FileSize)
	set("open files", unix.RLIMIT_NOFILE, l.Files)
	set("processor time", unix.RLIMIT_CPU, l.CPU)

	if n := l.Processes; n > 0 && !p.PIDMax {
		if p.Spaces&unix.CLONE_NEWUSER == 0 && !p.Inner {
			n += tasks() // the kernel counts all processes of the user
		}
		set("processes", unix.RLIMIT_NPROC, n)
	}
}

// tasks returns the number of processes and threads on the machine.
func tasks() int64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 4096
	}

	f := strings.Fields(string(data))
	if len(f) < 4 {
		return 4096
	}

	_, total, _ := strings.Cut(f[3], "/")
	n, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 4096
	}
	return n
}
