package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	// commandsVariable must be 1 for ${cmd:...}: a file alone must not be able to
	// start programs.
	commandsVariable = "NANOBOT_CONFIG_COMMANDS"
	// commandWait is how long a program may take to print a secret.
	commandWait = 30 * time.Second
)

// command runs a program and returns what it prints, without line ends at its
// end. What it says on its standard error stays unread, since it may name the
// secret.
func (x *expander) command(line string) string {
	fail := func(format string, args ...any) string {
		x.problems = append(x.problems, "${cmd:...} "+fmt.Sprintf(format, args...))
		return ""
	}
	if on, _ := x.in.lookup(commandsVariable); on != "1" {
		return fail("is not allowed here; to let this file start programs, set the environment variable %s=1", commandsVariable)
	}

	ctx, cancel := context.WithTimeout(context.Background(), commandWait)
	defer cancel()
	name, args := "/bin/sh", []string{"-c", line}
	if runtime.GOOS == "windows" {
		name, args = "cmd.exe", []string{"/C", line}
	}

	var out limited
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = x.in.env
	cmd.Dir = filepath.Dir(x.in.doc.file)
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case out.over:
		return fail("prints more than 64 KiB")
	case ctx.Err() != nil:
		return fail("did not end within %s", commandWait)
	case failed:
		return fail("ended with status %d", exit.ExitCode())
	case err != nil:
		return fail("cannot be run: %s", reason(err))
	}

	return strings.TrimRight(out.b.String(), "\r\n")
}

// limited keeps a secret, and fails at more than one can have.
type limited struct {
	b    bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.over = l.over || l.b.Len()+len(p) > maxSecretBytes; l.over {
		return 0, errors.New("too much")
	}
	return l.b.Write(p)
}
