package sandbox

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	if err := prepareGroup(dir); err != nil {
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
		if err := prepareGroup(other); err == nil {
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
	done, err := intoGroup(cmd, dir, Limits{Processes: 100, Total: -1})
	if err != nil {
		t.Fatal(err)
	}
	groups, _ := filepath.Glob(filepath.Join(dir, "nanobot-*"))
	if len(groups) != 1 || !cmd.SysProcAttr.UseCgroupFD || cmd.SysProcAttr.CgroupFD <= 2 {
		t.Fatalf("groups %v, attributes %+v", groups, cmd.SysProcAttr)
	}
	for name, want := range map[string]string{"pids.max": "116", "memory.max": "max", "memory.swap.max": "max", "memory.oom.group": "1"} {
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

func TestGroupLimits(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for name, c := range map[string]struct {
		limits Limits
		want   []string // pids.max, memory.max, memory.swap.max, memory.oom.group
	}{
		"some":      {Limits{Processes: 256, Memory: 4 * gib, Total: 2 * gib}, []string{"272", "2147483648", "0", "1"}},
		"no limits": {Limits{Processes: -1, Total: -1}, []string{"max", "max", "max", "1"}},
	} {
		var got []string
		for _, l := range groupLimits(c.limits) {
			got = append(got, l.text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if machineMemory() < 1<<20 {
		t.Errorf("this machine has %d bytes", machineMemory())
	}
}

// realGroup is a control group of the kernel, for tests that cannot do with a
// fake. It takes root on a machine with unified groups.
func realGroup(t *testing.T) string {
	t.Helper()
	const root = "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Skip("this machine has no unified control groups")
	}
	have, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if f := strings.Fields(string(have)); err != nil || !slices.Contains(f, "memory") || !slices.Contains(f, "pids") {
		t.Skipf("control groups here do not bound memory and processes: %q, %v", have, err)
	}
	dir := filepath.Join(root, "nanobot-test-"+rand.Text()[:12]+".service")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("control groups cannot be made here: %v", err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0o600)
		_ = unix.Rmdir(filepath.Join(dir, ownGroup))
		for range 15_000 {
			if err = unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) {
				break
			}
			<-time.After(2 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("the group is not empty at the end: %v", err)
		}
	})
	return dir
}

// A command of many processes is held by the kernel as a whole.
func TestRealGroupLimits(t *testing.T) {
	t.Parallel()
	dir := realGroup(t)
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+pids +memory"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ script, file, event string }{
		"processes": {`for i in $(seq 60); do sleep 60 & done`, "pids.events", "max"},
		"memory":    {`for i in 1 2 3 4; do { head -c 40000000 /dev/zero | tail | cat >/dev/null; } & done; wait`, "memory.events", "oom_kill"},
		// Files in memory are nobody's, and count all the same.
		"shared": {`python3 -c "
import os
f=os.memfd_create('x'); os.ftruncate(f, 8<<30)
while True: os.write(f, b'x'*(1<<20))"`, "memory.events", "oom_kill"},
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", c.script)
		cmd.WaitDelay = time.Second
		done, err := intoGroup(cmd, dir, Limits{Processes: 20, Total: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Run() // it cannot succeed
		groups, _ := filepath.Glob(filepath.Join(dir, "nanobot-*"))
		if len(groups) != 1 {
			t.Fatalf("%s: groups %v", name, groups)
		}
		data, err := os.ReadFile(filepath.Join(groups[0], c.file))
		if n := event(string(data), c.event); err != nil || n == 0 {
			t.Errorf("%s: nothing was refused: %q, %v", name, data, err)
		}
		done() // with processes in it
		if _, err := os.Stat(groups[0]); err == nil {
			t.Errorf("%s: the group is still there", name)
		}
	}
}

// event is the count of one event of a group.
func event(text, name string) int {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// inGroup tells the test program that it is the agent in a control group, and
// whether it finds it delegated.
const inGroup = "NANOBOT_TEST_IN_GROUP"

// Every box of an agent uses its group, not only the first, but only one that
// was left to it.
func TestRealGroupTaken(t *testing.T) {
	t.Parallel()
	if want := os.Getenv(inGroup); want != "" {
		for range 2 {
			b, err := Open(t.Context(), Options{})
			if err != nil {
				t.Skip(err)
			}
			if got := b.Level().Cgroup; got != (want == "yes") {
				t.Errorf("control group: got %v, want %s: %s", got, want, b.Level())
			}
		}
		return
	}
	for name, c := range map[string]struct{ mark, env, want string }{
		"of the machine":    {mark: "1", want: "yes"},
		"of a user":         {env: "1", want: "yes"},
		"somebody else's":   {want: "no"},
		"marked as not his": {mark: "0", env: "1", want: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := realGroup(t)
			if c.mark != "" {
				if err := unix.Setxattr(dir, "user.delegate", []byte(c.mark), 0); err != nil {
					t.Skipf("the group cannot be marked: %v", err)
				}
			}
			group, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer group.Close()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRealGroupTaken$", "-test.v")
			cmd.Env = append(os.Environ(), inGroup+"="+c.want, "NANOBOT_DELEGATED="+c.env)
			cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
