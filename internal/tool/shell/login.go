package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Login says how the user's login shell is asked for its environment.
type Login struct {
	Home    string
	Dir     string   // where it starts: an empty folder
	Environ []string // of the agent; the shell sees only what it needs to begin
	// Wrap confines it. Start-up files belong to the user, but they run programs
	// that may do anything. nil: no change.
	Wrap func(cmd *exec.Cmd) (release func(), err error)
}

// loginWait bounds one run. Start-up files that ask or wait lose.
const loginWait = 5 * time.Second

// LoginEnv returns the environment that the user's login shell gives to programs. It
// reads the start-up files as a terminal does, and if that fails without those
// that are for terminals only.
func LoginEnv(ctx context.Context, o Login) (map[string]string, error) {
	program := loginShell(environment(o.Environ))
	if program == "" {
		return nil, errors.New("the login shell is not known: set SHELL")
	}

	var wrap func(tool.Call, *exec.Cmd) (Confined, error)
	if o.Wrap != nil {
		wrap = func(_ tool.Call, cmd *exec.Cmd) (Confined, error) {
			release, err := o.Wrap(cmd)
			return Confined{Release: release}, err
		}
	}

	r, err := newRunner(Options{Workspace: o.Dir, Wrap: wrap})
	if err != nil {
		return nil, err
	}

	mark := "nanobot-" + randomHex(8)
	script := fmt.Sprintf("echo; echo %s; /usr/bin/env; echo %s", mark, mark)
	env := []string{"HOME=" + o.Home, "SHELL=" + program, "PATH=" + SystemPath(), "TERM=dumb"}
	for _, name := range []string{"USER", "LOGNAME", "LANG"} {
		if v := environment(o.Environ)[name]; v != "" {
			env = append(env, name+"="+v)
		}
	}

	said := ""
	for _, flags := range [][]string{{"-l", "-i", "-c"}, {"-l", "-c"}} {
		const most = 200_000 // characters; an environment is far smaller
		l := launch{program: program, args: append(flags, script), dir: o.Dir, env: env, limit: loginWait, chars: most}
		out, err := r.run(ctx, l)
		if err != nil {
			return nil, err
		}
		if vars := between(out.stdout.text(most), mark); vars != nil {
			return vars, nil
		}
		said = text.Label(out.stderr.text(maxOutputChars), maxListedLength)
	}

	return nil, fmt.Errorf("the login shell %s did not print its environment within %v: %s", program, loginWait, said)
}

// between reads the variables that stand between two marks; nil if they are not there.
func between(printed, mark string) map[string]string {
	_, rest, found := strings.Cut(printed, "\n"+mark+"\n")
	inside, _, ended := strings.Cut(rest, "\n"+mark)
	if !found || !ended {
		return nil
	}

	vars := map[string]string{}
	for line := range strings.SplitSeq(inside, "\n") {
		if k, v, ok := strings.Cut(line, "="); ok && variableName().MatchString(k) && vars[k] == "" {
			vars[k] = v
		}
	}
	return vars
}

// loginShell returns the shell of the user: what SHELL says, or the list of users.
func loginShell(vars map[string]string) string {
	name := vars["SHELL"]
	if name == "" && runtime.GOOS == "linux" {
		data, _ := os.ReadFile("/etc/passwd")
		for line := range strings.Lines(string(data)) {
			if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[2] == strconv.Itoa(os.Getuid()) {
				name = f[6]
				break
			}
		}
	}

	switch filepath.Base(name) {
	case "bash", "zsh", "sh", "dash", "ksh", "mksh", "fish": // those that take -l, -i and -c
	default:
		return ""
	}

	if st, err := os.Stat(name); err != nil || !filepath.IsAbs(name) || !st.Mode().IsRegular() {
		return ""
	}
	return name
}

// missingProgram returns the name of the program that a shell, or env, did not find
// when a command ended with code 127; "" if its words say nothing about it.
func missingProgram(stderr string) string {
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		name := ""
		if rest, ok := strings.CutSuffix(line, ": command not found"); ok { // bash
			name = rest
		} else if rest, ok := strings.CutSuffix(line, ": not found"); ok { // dash
			name = rest
		} else if _, rest, ok := strings.Cut(line, "command not found: "); ok { // zsh
			name = rest
		} else if rest, ok := strings.CutSuffix(line, ": No such file or directory"); ok && strings.Contains(rest, "env: ") {
			name = rest
		}

		name = strings.Trim(name[strings.LastIndexByte(name, ' ')+1:], "'‘’\"")
		if name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-") == "" {
			return name
		}
	}
	return ""
}
