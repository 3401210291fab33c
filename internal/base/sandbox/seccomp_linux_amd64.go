package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// otherNumbers is where the numbers of the x32 variant begin.
const otherNumbers = 0x40000000

// machineCalls exist on this machine only.
func machineCalls() []uint32 {
	return []uint32{
		unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_CREATE_MODULE,
		unix.SYS__SYSCTL, unix.SYS_NFSSERVCTL,
	}
}
