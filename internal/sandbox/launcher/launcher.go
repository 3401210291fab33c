// Package launcher is the process between the agent and a confined command. It
// hides what can only be done there: forking without the Go runtime, performing
// a prepared list of system calls in the child, and staying with the command
// until its end. It decides nothing: the agent writes a Program, which travels
// through a pipe.
//
// Every program that contains this package can be its own launcher. It takes
// over while packages are initialised, before most of them, so the package
// must depend on almost nothing; a test sees to it.
package launcher

const (
	// Name is the zeroth argument by which a program becomes a launcher. The
	// first is the number of the pipe with the Program, then come the path of
	// the command and its arguments from the zeroth.
	Name = "nanobot-sandbox"
	// InnerName is the same inside bubblewrap, where it must be a path.
	InnerName = "/run/" + Name
	// FailureCode is how a command ends that could not be confined.
	FailureCode = 126
)
