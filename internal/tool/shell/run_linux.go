package shell

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process holds what /proc/<pid>/stat says.
type process struct {
	pid, parent, group, session int
	dead                        bool
	marked                      bool   // belongs to the call by its environment
	start                       uint64 // clock ticks since boot
}

func readProcess(pid int) (process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}

	// The second field is the program's name in parentheses and may hold anything.
	_, rest, ok := strings.Cut(string(data[bytes.LastIndexByte(data, ')')+1:]), " ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return process{}, false
	}

	p := process{pid: pid, dead: f[0] == "Z" || f[0] == "X"}
	p.parent, _ = strconv.Atoi(f[1])
	p.group, _ = strconv.Atoi(f[2])
	p.session, _ = strconv.Atoi(f[3])
	p.start, _ = strconv.ParseUint(f[19], 10, 64)
	return p, true
}

func startTime(pid int) uint64 {
	p, _ := readProcess(pid)
	return p.start
}

// members lists the living processes of the call: those in its session or
// group, those that carry its mark in their environment, all that share a
// session with one of these, and all descendants. The mark finds what setsid
// and a double fork hide. Making the agent the reaper of orphans would find
// also those that cleared their environment and lost their relatives, but
// would make it the parent of every orphan of every other child it has, and
// these would not be reaped; that is left to the sandbox, which has a process
// of its own for it.
func (k *kin) members() (pids []int, inGroup bool) {
	young := k.young()
	if k.sessions == nil {
		k.sessions = map[int]bool{k.leader: true}
		own, _ := readProcess(os.Getpid())
		k.outer = own.session
	}

	ours := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for i := range young {
			p := &young[i]
			if ours[p.pid] || !k.sessions[p.session] && p.group != k.leader && !ours[p.parent] && !p.marked {
				continue
			}

			ours[p.pid], grown = true, true
			if p.session != k.outer {
				// Remembered, because the one we know may end before the others are seen.
				k.sessions[p.session] = true
			}
		}
	}

	for _, p := range young {
		if ours[p.pid] {
			pids = append(pids, p.pid)
			inGroup = inGroup || p.group == k.leader
		}
	}
	return pids, inGroup
}

// young lists the living processes that are not older than the call. The
// environment of the others is not even looked at.
func (k *kin) young() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}

	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	var out []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := readProcess(pid); ok && !p.dead && p.start >= k.since {
			p.marked = k.marked(p)
			out = append(out, p)
		}
	}

	return out
}

// marked reports whether a process was started by this call. Marks have a
// fixed length, so a prefix match means the call itself or one nested in it.
//
// A process that is just replacing its program has no environment for a
// moment: the kernel shows it empty until the new one is laid out. Looking
// away then would let exactly those escape that run on, so it is looked at
// again for up to 20 ms. Threads of the kernel never have one.
func (k *kin) marked(p process) bool {
	const kernelThreads = 2
	for range 20 {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		if err != nil || len(env) > 0 || p.parent == kernelThreads {
			return err == nil && bytes.Contains(env, []byte(markVariable+"="+k.mark))
		}
		if now, ok := readProcess(p.pid); !ok || now.dead {
			return false
		}
		<-time.After(time.Millisecond)
	}

	return false
}

// signal uses a handle, so that the number cannot be given to a new process
// between the second look and the signal.
func (k *kin) signal(pid int, sig syscall.Signal) {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	if p, ok := readProcess(pid); ok && !p.dead && p.start >= k.since {
		_ = handle.Signal(sig) // it may have ended by itself
	}
	_ = handle.Release()
}
