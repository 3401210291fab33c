package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/daemon"
	"github.com/nanobot-go/nanobot/internal/diskio"
)

// serviceHost is the service manager of a machine and one service of it.
type serviceHost struct {
	os     string // linux: systemd, darwin: launchd
	uid    int
	home   string
	name   string
	system bool
	env    []string
}

// serviceWait is how long one command of a service manager may take. A start
// waits until the gateway says that it is ready.
const serviceWait = 90 * time.Second

// label is what the manager calls the service.
func (s serviceHost) label() string {
	if s.os == "darwin" {
		return "ai.nanobot." + s.name
	}
	return s.name
}

// path is the file of the service.
func (s serviceHost) path() string {
	switch {
	case s.os == "darwin" && s.system:
		return filepath.Join("/Library/LaunchDaemons", s.label()+".plist")
	case s.os == "darwin":
		return filepath.Join(s.home, "Library", "LaunchAgents", s.label()+".plist")
	case s.system:
		return filepath.Join("/etc/systemd/system", s.name+".service")
	}
	dir := s.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.home, ".config")
	}
	return filepath.Join(dir, "systemd", "user", s.name+".service")
}

func (s serviceHost) getenv(name string) string {
	return (&command{Stdio: Stdio{Env: s.env}}).getenv(name)
}

func (s serviceHost) text(u daemon.Service) string {
	if s.os == "darwin" {
		return u.Launchd()
	}
	return u.Systemd()
}

// ours refuses to touch a file that somebody else wrote.
func (s serviceHost) ours() error {
	data, err := os.ReadFile(s.path())
	if diskio.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte("--launch-mode")) {
		return fmt.Errorf("%s is not a nanobot service; choose another name with --name", s.path())
	}
	return nil
}

func (s serviceHost) systemctl(args ...string) []string {
	if s.system {
		return append([]string{"systemctl"}, args...)
	}
	return append([]string{"systemctl", "--user"}, args...)
}

// domain is where launchd keeps the service.
func (s serviceHost) domain() string {
	if s.system {
		return "system"
	}
	return "gui/" + strconv.Itoa(s.uid)
}

// start are the commands that switch the service on. Those that begin with
// "-" may fail.
func (s serviceHost) start() [][]string {
	if s.os == "darwin" {
		target := s.domain() + "/" + s.label()
		return [][]string{
			{"-launchctl", "bootout", target},
			{"launchctl", "bootstrap", s.domain(), s.path()},
			{"launchctl", "enable", target},
			{"launchctl", "kickstart", "-k", target},
		}
	}
	unit := s.name + ".service"
	return [][]string{s.systemctl("daemon-reload"), s.systemctl("enable", unit), s.systemctl("restart", unit)}
}

// stop are the commands that switch it off.
func (s serviceHost) stop() [][]string {
	if s.os == "darwin" {
		return [][]string{{"launchctl", "bootout", s.domain() + "/" + s.label()}}
	}
	return [][]string{s.systemctl("disable", "--now", s.name+".service")}
}

// forget are the commands that come after the file is gone.
func (s serviceHost) forget() [][]string {
	if s.os == "darwin" {
		return nil
	}
	failed := s.systemctl("reset-failed", s.name+".service") // a failed service is remembered without its file
	failed[0] = "-" + failed[0]
	return [][]string{s.systemctl("daemon-reload"), failed}
}

// journal is how to see why the service does not start.
func (s serviceHost) journal() string {
	switch {
	case s.os == "darwin":
		return "nanobot gateway logs"
	case s.system:
		return "journalctl -n 20 -u " + s.name
	}
	return "journalctl --user -n 20 -u " + s.name
}

// run runs commands one after another until one fails. It tells how many are
// left then, with that one.
func (s serviceHost) run(ctx context.Context, commands [][]string) (left int, err error) {
	for i, words := range commands {
		name, may := strings.CutPrefix(words[0], "-")
		if _, err := s.output(ctx, append([]string{name}, words[1:]...)); err != nil && !may {
			return len(commands) - i, err
		}
	}
	return 0, nil
}

// output runs one command with the user's environment and returns what it
// said.
func (s serviceHost) output(ctx context.Context, words []string) (string, error) {
	program := s.find(words[0])
	if program == "" {
		return "", fmt.Errorf("%s is not on this machine", words[0])
	}
	ctx, cancel := context.WithTimeout(ctx, serviceWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, words[1:]...) // the service manager
	cmd.Env = s.managerEnv()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		return said, fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, said)
	}
	return said, nil
}

// managerEnv is the environment with the way to the user's service manager,
// which is missing where somebody became that user without a login.
func (s serviceHost) managerEnv() []string {
	const name = "XDG_RUNTIME_DIR"
	dir := filepath.Join("/run/user", strconv.Itoa(s.uid))
	if s.os != "linux" || s.system || s.getenv(name) != "" {
		return s.env
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return s.env
	}
	return append(slices.Clip(s.env), name+"="+dir)
}

// find looks a program up in the PATH of the caller.
func (s serviceHost) find(name string) string {
	for _, dir := range filepath.SplitList(s.getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// serviceState is what nanobot service status tells.
type serviceState struct {
	File      string `json:"file"`
	Installed bool   `json:"installed"`
	Active    string `json:"active"` // active, inactive, failed ...; unknown if the manager does not answer
	Enabled   string `json:"enabled,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

func (s serviceState) String() string {
	if !s.Installed {
		return fmt.Sprintf("The service is not installed (%s). Install it with: nanobot service install", s.File)
	}
	text := fmt.Sprintf("The service is %s", s.Active)
	if s.Enabled != "" {
		text += " and " + s.Enabled
	}
	text += " (" + s.File + ")"
	if s.Problem != "" {
		text += "\n" + s.Problem
	}
	return text
}

// state asks the manager how the service is.
func (s serviceHost) state(ctx context.Context) serviceState {
	st := serviceState{File: s.path(), Active: "unknown"}
	_, err := os.Stat(s.path())
	if st.Installed = err == nil; !st.Installed {
		st.Active = "not installed"
		return st
	}
	if s.os == "darwin" {
		out, err := s.output(ctx, []string{"launchctl", "print", s.domain() + "/" + s.label()})
		switch {
		case err != nil:
			st.Active, st.Problem = "inactive", err.Error()
		case strings.Contains(out, "state = running"):
			st.Active = "active"
		default:
			st.Active = "inactive"
		}
		return st
	}
	// Both end with an error for every state that is not a good one.
	active, err := s.output(ctx, s.systemctl("is-active", s.name+".service"))
	if known(active) {
		st.Active = active
	} else if err != nil {
		st.Problem = err.Error()
	}
	if enabled, _ := s.output(ctx, s.systemctl("is-enabled", s.name+".service")); known(enabled) {
		st.Enabled = enabled
	}
	return st
}

// known reports whether a service manager said a state and not a sentence.
func known(word string) bool { return word != "" && !strings.ContainsAny(word, " \n:") }

// shellLines shows commands the way a person types them.
func shellLines(commands [][]string) string {
	var b strings.Builder
	for _, words := range commands {
		for i, w := range words {
			if i > 0 {
				b.WriteByte(' ')
			} else {
				w = strings.TrimPrefix(w, "-")
			}
			b.WriteString(shellWord(w))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func shellWord(w string) string {
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return strings.ContainsRune(" \t\n'\"\\$&|;<>()*?[]#~`!{}", r) }) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
