package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// fakeManager puts a program into a PATH of its own that notes how it is
// called and ends with a code.
func fakeManager(t *testing.T, name, script string) (path, calls string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("shell scripts")
	}
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	body := "#!/bin/sh\necho \"" + name + " $*\" >>'" + calls + "'\n" + script + "\n"
	// A process that is born now would hold the file open for a moment, and
	// what is open for writing cannot be started.
	syscall.ForkLock.RLock()
	err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return dir + ":/usr/bin:/bin", calls
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// installed is a command line with a home of its own and the host of a user.
func installed(t *testing.T, host, path string) (*serviceCommand, daemon.Manager, *printed) {
	t.Helper()
	home := t.TempDir()
	env := []string{"HOME=" + home, "PATH=" + path}
	out := newPrinted(t)
	c := newProgram(Stdio{Now: time.Now, Env: env, Out: out.File, Err: newPrinted(t).File}, filepath.Join(home, "data", "config.json"), "")
	if err := os.Mkdir(filepath.Dir(c.home.configPath), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.home.configPath, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &serviceCommand{c.console, c.home}, daemon.Manager{OS: host, UID: 1000, Home: home, Name: "nanobot", Env: env}, out
}

func TestServiceInstallSystemd(t *testing.T) {
	t.Parallel()
	path, calls := fakeManager(t, "systemctl", `case "$*" in *is-active*) echo active;; *is-enabled*) echo enabled;; esac`)
	c, s, out := installed(t, "linux", path)
	f := serviceFlags{name: "nanobot", port: 18800}
	if err := c.install(t.Context(), s, f); err != nil {
		t.Fatal(err)
	}
	unit := read(t, filepath.Join(s.Home, ".config/systemd/user/nanobot.service"))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ExecStart=" + exe + " gateway --launch-mode service -c " + c.home.configPath + " --port 18800\n", "Type=notify\n",
		"Environment=PATH=" + path + "\n", "WantedBy=default.target\n",
	} {
		if !strings.Contains(unit, want) {
			t.Errorf("no %q in\n%s", want, unit)
		}
	}
	for _, want := range []string{s.Path(), "loginctl enable-linger"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
	want := "systemctl --user daemon-reload\nsystemctl --user enable nanobot.service\nsystemctl --user restart nanobot.service\n"
	if diff := cmp.Diff(want, read(t, calls)); diff != "" {
		t.Errorf("calls: %s", diff)
	}
	if st := s.State(t.Context()); !st.Installed || st.Active != "active" || st.Enabled != "enabled" {
		t.Errorf("state %+v", st)
	}
	if err := c.uninstall(t.Context(), s, f); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Path()); err == nil {
		t.Error("the file is still there")
	}
	if got := read(t, calls); !strings.HasSuffix(got, "systemctl --user disable --now nanobot.service\nsystemctl --user daemon-reload\nsystemctl --user reset-failed nanobot.service\n") {
		t.Errorf("calls: %s", got)
	}
	if st := s.State(t.Context()); st.Installed || st.Active == "active" {
		t.Errorf("state %+v", st)
	}
}

func TestServiceInstallLaunchd(t *testing.T) {
	t.Parallel()
	path, calls := fakeManager(t, "launchctl", `[ "$1" != bootout ]`) // nothing is there to be put out
	c, s, _ := installed(t, "darwin", path)
	if err := c.install(t.Context(), s, serviceFlags{name: "nanobot", port: -1}); err != nil {
		t.Fatal(err)
	}
	plist := read(t, filepath.Join(s.Home, "Library/LaunchAgents/ai.nanobot.nanobot.plist"))
	if !strings.Contains(plist, "<string>--launch-mode</string>") {
		t.Error(plist)
	}
	want := "launchctl bootout gui/1000/ai.nanobot.nanobot\nlaunchctl bootstrap gui/1000 " + s.Path() +
		"\nlaunchctl enable gui/1000/ai.nanobot.nanobot\nlaunchctl kickstart -k gui/1000/ai.nanobot.nanobot\n"
	if diff := cmp.Diff(want, read(t, calls)); diff != "" {
		t.Errorf("calls: %s", diff)
	}
}

// A service does not see the variables that lead to a configuration, so they
// are in its file.
func TestServiceElsewhere(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for name, c := range map[string]struct {
		file string // that it leads to
		home bool   // it is handed on
	}{"X": {}, "NANOBOT_CONFIG": {file: "/data/config.json"}, "NANOBOT_HOME": {file: "/data/config.json", home: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command, s, _ := installed(t, "linux", "/nowhere")
			value := s.Home + c.file
			if c.home {
				value = filepath.Dir(value)
			}
			command.home.configPath, command.Env = "", append(command.Env, name+"="+value)
			s.System = true
			u, _, err := command.unit(s, serviceFlags{user: me.Username, port: -1})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"gateway", "--launch-mode", "service"}
			if c.file != "" {
				want = append(want, "-c", s.Home+c.file)
			}
			if diff := cmp.Diff(want, u.Command[1:]); diff != "" {
				t.Error(diff)
			}
			var env []string
			if c.home {
				env = []string{"NANOBOT_HOME=" + s.Home + "/data"}
			}
			if diff := cmp.Diff(env, u.Env); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestServiceByHand(t *testing.T) {
	t.Parallel()
	path, _ := fakeManager(t, "systemctl", `echo 'Failed to connect to bus'; exit 1`)
	for name, path := range map[string]string{"fails": path, "missing": "/nowhere"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s, _ := installed(t, "linux", path)
			err := c.install(t.Context(), s, serviceFlags{name: "nanobot", port: -1})
			if err == nil || !strings.Contains(err.Error(), "by hand:\nsystemctl --user daemon-reload\n") {
				t.Errorf("got %v", err)
			}
			if read(t, s.Path()) == "" {
				t.Error("the file is not in place")
			}
		})
	}
}

func TestServiceDoesNotStart(t *testing.T) {
	t.Parallel()
	path, _ := fakeManager(t, "systemctl", `case "$*" in *restart*) echo 'Job failed'; exit 1;; esac`)
	c, s, _ := installed(t, "linux", path)
	err := c.install(t.Context(), s, serviceFlags{name: "nanobot", port: -1})
	if err == nil || !strings.Contains(err.Error(), "journalctl --user -n 20 -u nanobot") || strings.Contains(err.Error(), "by hand") {
		t.Errorf("got %v", err)
	}
}

func TestServiceRefuses(t *testing.T) {
	t.Parallel()
	path, calls := fakeManager(t, "systemctl", "")
	c, s, _ := installed(t, "linux", path)
	root, other := s, s
	root.UID, other.System = 0, true
	for name, s := range map[string]daemon.Manager{"--system --user": root, "requires root": other} {
		if err := c.install(t.Context(), s, serviceFlags{name: "nanobot", port: -1}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.Path()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path(), []byte("[Unit]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := serviceFlags{name: "nanobot", port: -1}
	for what, err := range map[string]error{"install": c.install(t.Context(), s, f), "uninstall": c.uninstall(t.Context(), s, f)} {
		if err == nil || !strings.Contains(err.Error(), "not a nanobot service") {
			t.Errorf("%s over somebody's file: %v", what, err)
		}
	}
	if got := read(t, s.Path()) + read(t, calls); got != "[Unit]\n" {
		t.Errorf("something was done: %q", got)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var status int
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer srv.Close()
	status = http.StatusOK
	if err := health(t.Context(), srv.URL); err != nil {
		t.Error(err)
	}
	status, body = http.StatusServiceUnavailable, `{"status":"not ready","checks":[{"name":"queue","ok":false,"detail":"disk full"},{"name":"x","ok":false,"optional":true}]}`
	if err := health(t.Context(), srv.URL); err == nil || !strings.HasSuffix(err.Error(), "not ready: queue disk full") {
		t.Errorf("got %v", err)
	}
	if err := health(t.Context(), "localhost:1"); err == nil || exitCode(err) != exitUsage {
		t.Errorf("got %v", err)
	}
	for in, want := range map[string]string{"0.0.0.0:1": "127.0.0.1:1", "[::]:1": "127.0.0.1:1", "10.0.0.1:2": "10.0.0.1:2"} {
		if got := reachable(in); got != want {
			t.Errorf("reachable(%q) = %q, want %q", in, got, want)
		}
	}
}
