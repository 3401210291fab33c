package sandbox

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/sandbox/launcher"
)

// program writes down what the launcher has to do. Everything that can be
// found out here is, because this process runs already and is warm.
func (p *plan) program() *launcher.Program {
	out := launcher.New()
	out.Spaces, out.Inner, out.Temp, out.DropEnv = p.Spaces, p.Inner, p.Temp, p.DropEnv
	if p.Profile.Network == NetProxy {
		out.Proxy = p.Profile.ProxySocket
	}
	if n := p.Profile.Limits.Processes; n > 0 && !p.PIDMax && (p.uid == 0 || !p.ownFiles()) {
		out.Watch = int(n)
		if p.Inner && countsPerSpace() {
			out.PIDMax = numbersOnce + int(n)
		}
	}
	if p.Inner {
		p.innerNetwork(out)
	}
	if p.Spaces != 0 {
		s := &out.Setup
		s.Add("die with", "the helper", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
		raiseOOMScore(s)
		if p.Spaces&unix.CLONE_NEWUSER != 0 {
			s.Write("/proc/self/setgroups", "deny", false)
			s.Write("/proc/self/uid_map", idMap(p.uid), false)
			s.Write("/proc/self/gid_map", idMap(p.gid), false)
		}
		if p.Hide {
			p.buildHide(out)
		} else {
			p.buildRoot(out)
			p.network(out)
		}
		s.Add("be", "untouchable", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
		if p.Hide && p.Spaces&unix.CLONE_NEWUSER == 0 {
			dropMost(out, s)
		} else {
			dropRights(out, s)
		}
		out.Leave.Add("close", "files", unix.SYS_CLOSE_RANGE, 0, ^uintptr(0)>>1, 0)
	}
	p.confine(out)
	return out
}

// numbersOnce is how many process numbers of a namespace are given only once,
// so that a limit is on top of them.
const numbersOnce = 300

func idMap(id int) string { return fmt.Sprintf("%d %d 1\n", id, id) }

// raiseOOMScore makes the kernel end the command before the agent when memory
// runs out.
func raiseOOMScore(s *launcher.Script) { s.Write("/proc/self/oom_score_adj", "500", true) }

// dropRights takes all capabilities away, for good, from root too.
func dropRights(out *launcher.Program, s *launcher.Script) {
	s.Add("refuse", "new rights", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	s.Add("clear", "ambient rights", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0).Fine = unix.EINVAL
	for c := range unix.CAP_LAST_CAP + 1 {
		// Who has no rights to begin with is not permitted this either.
		s.Add("bound", "rights", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0).Fine = unix.EPERM
	}
	header := launcher.Put(out, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	s.Add("drop", "rights", unix.SYS_CAPSET, header, launcher.Put(out, [2]unix.CapUserData{}))
}

// confine adds the steps by which the child becomes the command.
func (p *plan) confine(out *launcher.Program) {
	s := &out.Run
	if p.Spaces == 0 { // else setup did
		s.Add("die with", "the helper", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
		raiseOOMScore(s)
	}
	if p.ABI > 0 {
		p.rules(out)
	}
	if p.Spaces == 0 {
		dropRights(out, s)
	}
	if p.ABI > 0 {
		s.Add("apply", "Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, launcher.RulesFD, 0)
	}
	p.limits(out)
	// Many busy processes must not starve the agent. Who started with less
	// priority than this may not raise it, and need not.
	if !p.Hide {
		s.Add("lower", "the priority", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 10).Fine = unix.EACCES
	}
	p.applyFilter(out)
	s.Add("unblock", "signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, launcher.Put(out, uint64(0)), 0, 8)
	s.Add("enter", p.Dir, unix.SYS_CHDIR, p.Dir)
	if p.Trial {
		s.Add("end", "the trial", unix.SYS_EXIT_GROUP, 0)
		return
	}
	s.Add("run", p.Command, unix.SYS_EXECVE)
}

// applyFilter adds the system call filter.
func (p *plan) applyFilter(out *launcher.Program) {
	code := filter(p.Profile.Network, p.ownNet(), p.ownFiles(), p.guarded()...)
	if code == nil {
		return
	}
	first := launcher.PutList(out, code)
	for i, instruction := range code {
		if k := int32(instruction.K); k == launcherPID || k == -launcherPID { //nolint:gosec // a process number
			at := uintptr(i)*unsafe.Sizeof(instruction) + unsafe.Offsetof(instruction.K)
			out.Own(first+launcher.Ref(at), k < 0)
		}
	}
	head := unix.SockFprog{Len: uint16(len(code))} //nolint:gosec // far below 65536
	at := launcher.Put(out, head)
	out.Point(at+launcher.Ref(unsafe.Offsetof(head.Filter)), first)
	out.Run.Add("apply", "the system call filter", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, at)
}

// launcherPID stands for the process number of the launcher, which is not
// known yet. It is above what the kernel gives.
const launcherPID = 0x7ffffff1

// guarded are the agent and the launcher, where neither a namespace nor
// Landlock keeps signals away from them.
func (p *plan) guarded() []int {
	if p.ABI >= scopedLandlock || p.ownFiles() {
		return nil
	}
	agent := os.Getpid()
	out := []int{launcherPID, agent}
	if group, err := unix.Getpgid(agent); err == nil && group > 1 && group != agent {
		out = append(out, group)
	}
	return out
}

// rules writes the Landlock rules. With a file system of its own the command
// may read all of it; without, what may be read is listed one by one.
func (p *plan) rules(out *launcher.Program) {
	r := newRules(out, p.ABI, p.Profile.Network != NetHost && !p.ownNet())
	write := slices.Clone(p.Profile.ReadWrite)
	switch {
	case p.Inner:
		r.allow("/", accessRead)
		r.allow("/dev", accessRead|accessDevice)
		write = append(write, "/tmp", "/dev/shm", "/dev/pts")
	case p.ownFiles():
		r.allow("/", accessRead)
		r.allow("/dev", accessRead|accessWrite|accessDevice)
		write = append(write, "/tmp")
	default:
		for _, path := range slices.Concat(systemPaths(), etcPaths(), p.Profile.ReadOnly) {
			r.grant(path, accessRead, p.exact(path))
		}
		for _, path := range append(devices(), "/dev/pts", "/dev/ptmx") {
			r.allow(path, accessRead|accessDevice)
		}
		write = append(write, p.Temp)
	}
	if p.Profile.Frozen {
		r.grant(p.Profile.Workspace, accessRead, p.exact(p.Profile.Workspace))
	} else {
		write = append(write, p.Profile.Workspace)
	}
	for _, path := range write {
		r.grant(path, accessRead|accessWrite, p.exact(path))
	}
}
