package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Manager is the service manager of a machine and one service of it.
type Manager struct {
	OS     string // linux: systemd, darwin: launchd
	UID    int    // of the caller
	Home   string // of the caller
	Name   string // of the service
	System bool   // a service of the machine instead of the user
	Env    []string
}

// RequestError is a service that cannot be what the caller asked for.
type RequestError struct{ Problem string }

// Error implements error.
func (e *RequestError) Error() string { return e.Problem }

// NewManager finds the service manager of this machine.
func NewManager(name string, system bool, env []string) (Manager, error) {
	m := Manager{OS: runtime.GOOS, UID: os.Geteuid(), Name: name, System: system, Env: env}
	if m.OS != "linux" && m.OS != "darwin" {
		return m, errors.New("services require systemd or launchd. On Windows, use the Task Scheduler to run at logon: nanobot gateway start")
	}
	if !serviceName(name) {
		return m, &RequestError{fmt.Sprintf("%q is not a valid service name; use letters, digits, - and _", name)}
	}
	if system { // it may be set up by a program that has no home
		return m, nil
	}

	var err error
	m.Home, err = os.UserHomeDir()
	return m, err
}

// serviceName reports names that mean the same everywhere: as a file, a unit
// and a label.
func serviceName(s string) bool {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	return s != "" && len(s) <= 64 && s[0] != '-' && strings.TrimFunc(s, plain) == ""
}

// managerWait is how long one command of a service manager may take. A start
// waits until the gateway says that it is ready.
const managerWait = 90 * time.Second

// Label returns what the manager calls the service.
func (m Manager) Label() string {
	if m.OS == "darwin" {
		return "ai.nanobot." + m.Name
	}
	return m.Name
}

// Path returns the file of the service.
func (m Manager) Path() string {
	switch {
	case m.OS == "darwin" && m.System:
		return filepath.Join("/Library/LaunchDaemons", m.Label()+".plist")
	case m.OS == "darwin":
		return filepath.Join(m.Home, "Library", "LaunchAgents", m.Label()+".plist")
	case m.System:
		return filepath.Join("/etc/systemd/system", m.Name+".service")
	}

	dir := m.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(m.Home, ".config")
	}
	return filepath.Join(dir, "systemd", "user", m.Name+".service")
}

func (m Manager) getenv(name string) string { return lookup(m.Env)(name) }

// lookup finds variables in an environment of the form of os.Environ.
func lookup(env []string) func(name string) string {
	return func(name string) string {
		for _, kv := range slices.Backward(env) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

func (m Manager) text(u Service) string {
	if m.OS == "darwin" {
		return u.launchd()
	}
	return u.systemd()
}

// Check says why the caller cannot change the service: it needs other rights,
// or its file is not one of ours.
func (m Manager) Check() error {
	switch {
	case m.System && m.UID != 0:
		return errors.New("a system service requires root: sudo nanobot service ... --system")
	case !m.System && m.UID == 0:
		return errors.New("you are root; a user service of root is rarely useful.\n" +
			"Run this as the user that owns the bot, or install a system service:\n" +
			"  nanobot service install --system --user NAME")
	}

	data, err := os.ReadFile(m.Path())
	if diskio.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte("--launch-mode")) {
		return fmt.Errorf("%s is not a nanobot service; choose another name with --name", m.Path())
	}
	return nil
}

func (m Manager) systemctl(args ...string) []string {
	if m.System {
		return append([]string{"systemctl"}, args...)
	}
	return append([]string{"systemctl", "--user"}, args...)
}

// domain returns where launchd keeps the service.
func (m Manager) domain() string {
	if m.System {
		return "system"
	}
	return "gui/" + strconv.Itoa(m.UID)
}

// start returns the commands that switch the service on. Those that begin with
// "-" may fail.
func (m Manager) start() [][]string {
	if m.OS == "darwin" {
		target := m.domain() + "/" + m.Label()
		return [][]string{
			{"-launchctl", "bootout", target},
			{"launchctl", "bootstrap", m.domain(), m.Path()},
			{"launchctl", "enable", target},
			{"launchctl", "kickstart", "-k", target},
		}
	}

	unit := m.Name + ".service"
	return [][]string{m.systemctl("daemon-reload"), m.systemctl("enable", unit), m.systemctl("restart", unit)}
}

// stop returns the commands that switch it off.
func (m Manager) stop() [][]string {
	if m.OS == "darwin" {
		return [][]string{{"launchctl", "bootout", m.domain() + "/" + m.Label()}}
	}
	return [][]string{m.systemctl("disable", "--now", m.Name+".service")}
}

// forget returns the commands that come after the file is gone.
func (m Manager) forget() [][]string {
	if m.OS == "darwin" {
		return nil
	}
	failed := m.systemctl("reset-failed", m.Name+".service") // a failed service is remembered without its file
	failed[0] = "-" + failed[0]
	return [][]string{m.systemctl("daemon-reload"), failed}
}

// journal returns how to see why the service does not start.
func (m Manager) journal() string {
	switch {
	case m.OS == "darwin":
		return "nanobot gateway logs"
	case m.System:
		return "journalctl -n 20 -u " + m.Name
	}
	return "journalctl --user -n 20 -u " + m.Name
}

// run runs commands one after another until one fails. It tells how many are
// left then, with that one.
func (m Manager) run(ctx context.Context, commands [][]string) (left int, err error) {
	for i, words := range commands {
		name, may := strings.CutPrefix(words[0], "-")
		if _, err := m.output(ctx, append([]string{name}, words[1:]...)); err != nil && !may {
			return len(commands) - i, err
		}
	}
	return 0, nil
}

// output runs one command with the user's environment and returns what it
// said.
func (m Manager) output(ctx context.Context, words []string) (string, error) {
	program := m.find(words[0])
	if program == "" {
		return "", fmt.Errorf("%s is not on this machine", words[0])
	}

	ctx, cancel := context.WithTimeout(ctx, managerWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, words[1:]...) // the service manager
	cmd.Env = m.managerEnv()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		return said, fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, said)
	}
	return said, nil
}

// managerEnv returns the environment with the way to the user's service manager,
// which is missing where a process became that user without a login.
func (m Manager) managerEnv() []string {
	const name = "XDG_RUNTIME_DIR"
	dir := filepath.Join("/run/user", strconv.Itoa(m.UID))
	if m.OS != "linux" || m.System || m.getenv(name) != "" {
		return m.Env
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return m.Env
	}
	return append(slices.Clip(m.Env), name+"="+dir)
}

// find looks a program up in the PATH of the caller.
func (m Manager) find(name string) string {
	for _, dir := range filepath.SplitList(m.getenv("PATH")) {
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

// ServiceState holds what the manager knows of the service.
type ServiceState struct {
	File      string `json:"file"`
	Installed bool   `json:"installed"`
	Active    string `json:"active"` // active, inactive, failed ...; unknown if the manager does not answer
	Enabled   string `json:"enabled,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

// String implements fmt.Stringer.
func (s ServiceState) String() string {
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

// State asks the manager about the service.
func (m Manager) State(ctx context.Context) ServiceState {
	st := ServiceState{File: m.Path(), Active: "unknown"}
	_, err := os.Stat(m.Path())
	if st.Installed = err == nil; !st.Installed {
		st.Active = "not installed"
		return st
	}

	if m.OS == "darwin" {
		out, err := m.output(ctx, []string{"launchctl", "print", m.domain() + "/" + m.Label()})
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
	active, err := m.output(ctx, m.systemctl("is-active", m.Name+".service"))
	if known(active) {
		st.Active = active
	} else if err != nil {
		st.Problem = err.Error()
	}

	if enabled, _ := m.output(ctx, m.systemctl("is-enabled", m.Name+".service")); known(enabled) {
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
