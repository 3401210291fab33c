//go:build linux && (amd64 || arm64)

package sandbox

import "golang.org/x/sys/unix"

// filter builds the system call filter. It refuses what an ordinary command never needs and what reaches into other
// processes or into rarely tested parts of the kernel. Everything else is
// allowed: the filter complements the rules on files, it does not replace them.
//
// ownNet says that the network is a private one; ownFiles that no file outside
// the grants is visible, and so no socket of a service. guarded are processes
// that must not be signalled, where nothing else prevents it.
func filter(network Network, ownNet, ownFiles bool, guarded ...int) []unix.SockFilter {
	var p program
	p.load(offArch)
	p.unless(auditArch, unix.SECCOMP_RET_KILL_PROCESS)
	p.load(offNumber)

	if otherNumbers > 0 {
		// Another way to write the same calls, with other numbers.
		p.emit(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, otherNumbers, 0, 1)
		p.ret(refuse(unix.ENOSYS))
	}

	for _, nr := range deniedCalls() {
		p.when(nr, refuse(unix.EPERM))
	}

	// The flags of clone3 are in memory, where a filter cannot look; without it
	// the C library uses clone.
	p.when(unix.SYS_CLONE3, refuse(unix.ENOSYS))
	p.block(unix.SYS_CLONE, func(p *program) {
		p.load(argument(0))
		p.emit(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, newSpaces, 0, 1)
		p.ret(refuse(unix.EPERM))
	})

	p.block(unix.SYS_IOCTL, func(p *program) {
		p.load(argument(1))
		for _, cmd := range []uint32{unix.TIOCSTI, tiocLinux} { // typing into the terminal of the agent
			p.when(cmd, refuse(unix.EPERM))
		}
	})

	// Reserving space is not a write: no limit of the kernel holds for it. The C
	// library writes instead. A hole gives space back (two bits, no others).
	p.block(unix.SYS_FALLOCATE, func(p *program) {
		p.load(argument(1))
		p.when(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, unix.SECCOMP_RET_ALLOW)
		p.ret(refuse(unix.EOPNOTSUPP))
	})

	p.block(unix.SYS_SOCKET, func(p *program) { sockets(p, network, ownNet, ownFiles) })
	if !ownFiles {
		// A pair is fine, but a datagram socket of a pair can be sent elsewhere.
		p.block(unix.SYS_SOCKETPAIR, func(p *program) {
			p.load(argument(1))
			p.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
			p.when(unix.SOCK_DGRAM, refuse(unix.EACCES))
		})
	}

	signals(&p, guarded)
	p.ret(unix.SECCOMP_RET_ALLOW)
	return p
}

// signals keeps them away from some processes and their groups. Calls that name
// a single thread or a descriptor are refused as a whole, because a filter
// cannot see whose it is.
func signals(p *program, guarded []int) {
	if len(guarded) == 0 {
		return
	}

	for _, nr := range []uint32{unix.SYS_TKILL, unix.SYS_PIDFD_SEND_SIGNAL} {
		p.when(nr, refuse(unix.EPERM))
	}

	for _, nr := range []uint32{unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		p.block(nr, func(p *program) {
			p.load(argument(0))
			p.when(^uint32(0), refuse(unix.EPERM)) // -1: all processes
			for _, pid := range guarded {
				p.when(uint32(pid), refuse(unix.EPERM))  //nolint:gosec // a process number
				p.when(uint32(-pid), refuse(unix.EPERM)) //nolint:gosec // its group
			}
		})
	}
}

// sockets lets through the families a command may use and refuses the rest.
func sockets(p *program, network Network, ownNet, ownFiles bool) {
	p.load(argument(0))
	if ownFiles {
		p.when(unix.AF_UNIX, unix.SECCOMP_RET_ALLOW)
	}

	if network == NetHost || ownNet {
		p.when(unix.AF_INET, unix.SECCOMP_RET_ALLOW)
		p.when(unix.AF_INET6, unix.SECCOMP_RET_ALLOW)
		// The C library asks for interfaces and routes, protocol 0.
		p.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.AF_NETLINK, 0, 3)
		p.load(argument(2))
		p.when(unix.NETLINK_ROUTE, unix.SECCOMP_RET_ALLOW)
	}

	p.ret(refuse(unix.EACCES))
}

const (
	newSpaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	tiocLinux = 0x541c

	// Where the kernel shows a filter the number, the architecture and the
	// lower halves of the arguments.
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

func argument(i uint32) uint32 { return offArgs + 8*i }

// refuse returns the action by which a call fails with an error.
func refuse(e unix.Errno) uint32 {
	return unix.SECCOMP_RET_ERRNO | uint32(e) //nolint:gosec // error numbers are small
}

// program is a filter in the kernel's own code. The accumulator holds the call
// number between blocks.
type program []unix.SockFilter

func (p *program) emit(code uint16, k uint32, jt, jf uint8) {
	*p = append(*p, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
}

func (p *program) load(offset uint32) {
	p.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0)
}

func (p *program) ret(action uint32) { p.emit(unix.BPF_RET|unix.BPF_K, action, 0, 0) }

func (p *program) when(value, action uint32) {
	p.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, value, 0, 1)
	p.ret(action)
}

func (p *program) unless(value, action uint32) {
	p.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, value, 1, 0)
	p.ret(action)
}

// block adds rules for one call; what they do not decide is allowed.
func (p *program) block(nr uint32, body func(*program)) {
	p.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 0)
	at := len(*p) - 1
	body(p)
	p.ret(unix.SECCOMP_RET_ALLOW)
	(*p)[at].Jf = uint8(len(*p) - at - 1) //nolint:gosec // bodies are a dozen instructions
}

// deniedCalls are refused whatever their arguments.
func deniedCalls() []uint32 {
	return append(machineCalls(),
		// other processes
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
		unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE,
		// mounts and namespaces
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT,
		unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_OPEN_TREE_ATTR,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
		// the kernel itself
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
		unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
		unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY,
		unix.SYS_CLOCK_SETTIME, unix.SYS_VHANGUP,
		// large and often attacked
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP,
		unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_KEYCTL, unix.SYS_ADD_KEY,
		unix.SYS_REQUEST_KEY, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE,
	)
}
