package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fakeGroup is a directory that looks like a delegated group with the agent in it.
func fakeGroup(t *testing.T, procs, controllers string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"cgroup.procs": procs, "cgroup.controllers": controllers, "cgroup.subtree_control": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTakeGroup(t *testing.T) {
	t.Parallel()
	self := strconv.Itoa(os.Getpid()) + "\n"
	dir := fakeGroup(t, self, "cpu memory pids\n")
	if err := takeGroup(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"nanobot/cgroup.procs": "0", "cgroup.subtree_control": "+pids +memory"} {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, other := range map[string]string{
		"shared": fakeGroup(t, self+"1\n", "memory pids"), "another's": fakeGroup(t, "1\n", "memory pids"), "no control": fakeGroup(t, self, "cpu pids"),
	} {
		if err := takeGroup(other); err == nil {
			t.Errorf("%s: taken", name)
		}
		if got, _ := os.ReadFile(filepath.Join(other, "cgroup.subtree_control")); len(got) > 0 {
			t.Errorf("%s: changed to %q", name, got)
		}
	}
}

func TestIntoGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	done, err := intoGroup(cmd, dir, Limits{Processes: 100, Memory: -1})
	if err != nil {
		t.Fatal(err)
	}
	groups, _ := filepath.Glob(filepath.Join(dir, "nanobot-*"))
	if len(groups) != 1 || !cmd.SysProcAttr.UseCgroupFD || cmd.SysProcAttr.CgroupFD <= 2 {
		t.Fatalf("groups %v, attributes %+v", groups, cmd.SysProcAttr)
	}
	for name, want := range map[string]string{"pids.max": "116", "memory.max": "max"} {
		if got, _ := os.ReadFile(filepath.Join(groups[0], name)); string(got) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		_ = os.Remove(filepath.Join(groups[0], name)) // the files of a real group go with it
	}
	done()
	if got, _ := os.ReadFile(filepath.Join(groups[0], "cgroup.kill")); string(got) != "1" {
		t.Errorf("cgroup.kill: got %q", got)
	}
	if dir := delegatedGroup(); dir != "" && !strings.HasPrefix(dir, "/sys/fs/cgroup/") {
		t.Errorf("own group %q", dir)
	}
}
