package kit

import "syscall"

// dieWithUs lets the kernel end the program when we are killed.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
