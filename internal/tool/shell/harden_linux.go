package shell

import "golang.org/x/sys/unix"

// Harden keeps other processes of the same user, the agent's own commands
// first of all, from reading its memory and its environment, where the keys
// are, and lets it leave no core dump. It is meant for the very start of the
// program. Root is not kept out by it; for commands of an agent that runs as
// root only the sandbox does that.
func Harden() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
