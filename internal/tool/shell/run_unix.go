//go:build unix

package shell

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"time"
)

// shellFor is bash, or sh where there is none, unless the call names another
// one that reads the same language; the guard knows no other. It is not a
// login shell unless asked for: a profile could bring back the secrets that
// the environment leaves out.
func shellFor(lookup func(string) string, in input) (program string, args []string, err error) {
	name := cmp.Or(in.Shell, "bash")
	switch path.Base(name) {
	case "bash", "sh", "zsh":
	default:
		return "", nil, fmt.Errorf("shell %q is not supported; use bash, sh or zsh", name)
	}

	args = []string{"-c", in.Command}
	if in.Login && path.Base(name) != "sh" {
		args = []string{"-l", "-c", in.Command}
	}

	if program = findShell(lookup, name); program != "" {
		return program, args, nil
	}
	if in.Shell != "" {
		return "", nil, fmt.Errorf("shell %q is not installed; leave it out for the default", name)
	}
	return "/bin/sh", []string{"-c", in.Command}, nil
}

// findShell looks where the system and the user keep programs. A path is
// accepted only if it names one of these places.
func findShell(lookup func(string) string, name string) string {
	base := path.Base(name)
	dirs := []string{"/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"}
	for _, dir := range filepath.SplitList(lookup("PATH")) {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}

	for _, dir := range dirs {
		c := filepath.Join(dir, base)
		if name != base && name != c {
			continue
		}
		if st, err := os.Stat(c); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return c
		}
	}

	return ""
}

// boundFiles has the kernel bound every file that the command and its children
// write. Only a shell can set that for a program without a moment in between in
// which the program already writes.
func boundFiles(cmd *exec.Cmd, disk int64) {
	if disk <= 0 {
		return
	}
	// A limit that the agent has itself may be lower, and then it stays.
	script := fmt.Sprintf(`ulimit -f %d 2>/dev/null; exec "$0" "$@"`, fileLimit(disk)/fileLimitUnit)
	cmd.Args = append([]string{"sh", "-c", script, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// kin are the processes of one call: the shell, its session and process group,
// and, where the system lets us look, descendants that left it.
type kin struct {
	mark   string
	leader int
	since  uint64    // start of the leader in the system's own unit
	asked  time.Time // when the group was asked to end, if it was

	sessions map[int]bool // that processes of the call were seen in
	outer    int          // the agent's own session, which is never one of them
}

func newKin(mark string) *kin { return &kin{mark: mark} }

// prepare puts the command into a session of its own: no terminal but the one
// it is given, and one process group that can be signalled as a whole.
func (k *kin) prepare(cmd *exec.Cmd, terminal bool) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, terminal // that of its standard input
}

func (k *kin) started(cmd *exec.Cmd) {
	k.leader = cmd.Process.Pid
	k.since = startTime(k.leader)
}

// ask requests the group to end; called while the leader has not been waited
// for, so its number cannot have been given away.
func (k *kin) ask(cmd *exec.Cmd) error {
	k.asked = time.Now()
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// stop ends what outlived the shell: first politely, after the grace period
// for certain. It returns how many processes there were and how many remain.
func (k *kin) stop() (found, left int) {
	begin := k.asked
	if begin.IsZero() {
		begin = time.Now()
	}

	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	asked, held := map[int]bool{}, map[int]bool{}
	var killed time.Time // no process is given up before that and a wait for its effect
	for {
		alive, inGroup := k.freeze(held)
		if len(alive) == 0 || !killed.IsZero() && time.Since(killed) > killWait {
			return len(asked), len(alive)
		}

		sig := syscall.SIGTERM
		if time.Since(begin) > grace {
			sig = syscall.SIGKILL
			if killed.IsZero() {
				killed = time.Now()
			}
			if inGroup {
				// All at once, so that no member can fork away from it.
				_ = syscall.Kill(-k.leader, sig)
			}
		}

		for _, pid := range alive {
			if sig == syscall.SIGKILL || !asked[pid] {
				asked[pid] = true
				k.signal(pid, sig)
				k.signal(pid, syscall.SIGCONT) // it was held
			}
		}

		<-tick.C
	}
}

// freezeMost bounds the looks for more processes: a fork bomb has no last one.
const freezeMost = 20

// freeze lists the processes of the call after it has held those that are new,
// so that none can leave a child behind between the look and the signal: a
// process that starts a session, forks and ends meanwhile would take its child
// out of our sight.
func (k *kin) freeze(held map[int]bool) (alive []int, inGroup bool) {
	for range freezeMost {
		alive, inGroup = k.members()
		fresh := false
		for _, pid := range alive {
			if !held[pid] {
				held[pid], fresh = true, true
				k.signal(pid, syscall.SIGSTOP)
			}
		}

		if !fresh {
			break
		}
	}
	return alive, inGroup
}

func exitCode(e *exec.ExitError) int {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()) // as shells report it
	}
	return e.ExitCode()
}
