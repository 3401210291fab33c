package daemon

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServiceName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"nanobot": true, "bot-2_x": true, "": false, "../x": false, "-x": false, "a b": false, "a.service": false} {
		if got := serviceName(name); got != ok {
			t.Errorf("serviceName(%q) = %v, want %v", name, got, ok)
		}
	}
}

// Somebody who became a user without a login has no way to its manager, but it
// is where it always is.
func TestServiceManagerEnv(t *testing.T) {
	t.Parallel()
	s := Manager{OS: "linux", UID: os.Getuid(), Env: []string{"A=b"}}
	want := []string{"A=b"}
	dir := filepath.Join("/run/user", strconv.Itoa(s.UID))
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		want = append(want, "XDG_RUNTIME_DIR="+dir)
	}
	if diff := cmp.Diff(want, s.managerEnv()); diff != "" {
		t.Error(diff)
	}
	for name, other := range map[string]Manager{
		"has one":  {OS: "linux", UID: s.UID, Env: []string{"XDG_RUNTIME_DIR=/x"}},
		"system":   {OS: "linux", UID: s.UID, Env: []string{"A=b"}, System: true},
		"launchd":  {OS: "darwin", UID: s.UID, Env: []string{"A=b"}},
		"no login": {OS: "linux", UID: 1 << 30, Env: []string{"A=b"}},
	} {
		if diff := cmp.Diff(other.Env, other.managerEnv()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestOwnFolders(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no such users here")
	}
	dir := t.TempDir()
	if err := ownFolders([]string{filepath.Join(dir, "a", "b"), filepath.Join(dir, "a")}, me.Username); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", info, err)
	}
	if err := ownFolders(nil, "no-such-user-here"); err == nil {
		t.Error("a user that does not exist is no error")
	}
}

// The example in the repository is what we would install.
func TestServiceExample(t *testing.T) {
	t.Parallel()
	u := Service{
		Name: "nanobot", About: "nanobot gateway", Command: []string{"/usr/local/bin/nanobot", "gateway", "--launch-mode", "service"},
		Folder: "/home/nanobot", Write: []string{"/home/nanobot/.nanobot", "/home/nanobot/.nanobot/workspace"}, User: "nanobot", System: true,
	}
	data, err := os.ReadFile("../../../deploy/nanobot.service")
	if err != nil {
		t.Fatal(err)
	}
	head, unit, _ := strings.Cut(string(data), "\n\n")
	if diff := cmp.Diff(u.systemd(), unit); diff != "" || !strings.HasPrefix(head, "#") {
		t.Errorf("deploy/nanobot.service: %s", diff)
	}
}

// A machine with systemd takes the file as it is.
func TestServiceVerified(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("this machine has no systemd-analyze")
	}
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for _, system := range []bool{true, false} {
		u := Service{
			Name: "nanobot", About: "100% nanobot", Command: []string{"/bin/true", "gateway", "a b", `"c"`, "$d"},
			Env: []string{"PATH=/bin:/a b"}, Folder: dir, Write: []string{dir, filepath.Join(dir, "a b")}, User: me.Username, System: system,
		}
		path := filepath.Join(dir, "nanobot-verify.service")
		if err := os.WriteFile(path, []byte(u.systemd()), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"verify", "--man=no", "--recursive-errors=no", path}
		if !system {
			args = append([]string{"--user"}, args...)
		}
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, filepath.Base(path)) {
				t.Errorf("system %v: %s", system, line)
			}
		}
		if err != nil {
			t.Logf("systemd-analyze: %v: %s", err, out)
		}
	}
}
