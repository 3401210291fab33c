package files_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const mountVariable = "FILES_TEST_MOUNTS"

// Row 94: what is mounted inside the workspace belongs to it, but protected
// files do not become readable by that, nor does a mount open a way out. The
// mounts are made where nobody else sees them, by a process of its own.
func TestAdversarialMounts(t *testing.T) {
	t.Parallel()
	if os.Getenv(mountVariable) == "" {
		if os.Getuid() != 0 {
			t.Skip("needs root to mount")
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestAdversarialMounts$", "-test.v")
		cmd.Env = append(os.Environ(), mountVariable+"="+canary)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // Go makes all mounts private, too
		out, err := cmd.CombinedOutput()
		switch {
		case len(out) == 0 && err != nil:
			t.Skipf("a mount namespace cannot be made here: %v", err)
		case strings.Contains(string(out), "--- SKIP"):
			t.Skipf("%s", out)
		case err != nil || !strings.Contains(string(out), "--- PASS: TestAdversarialMounts"):
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	playMounts(t)
}

func playMounts(t *testing.T) {
	t.Helper()
	tr := newTrap(t)
	// What is mounted on purpose may be read: no canary in the open.
	if err := os.Remove(filepath.Join(tr.outside, "secret.txt")); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(tr.home, "disk")
	for _, err := range []error{
		os.MkdirAll(disk, 0o755), os.WriteFile(filepath.Join(disk, "note.txt"), []byte("a note\n"), 0o600),
		os.Symlink("../../config.json", filepath.Join(disk, "up")), os.Symlink(tr.home, filepath.Join(disk, "abs")),
		unix.Mkfifo(filepath.Join(disk, "fifo"), 0o600), unix.Mknod(filepath.Join(disk, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
	} {
		if err != nil {
			t.Skip("cannot be set up here: ", err)
		}
	}
	tr.put("conf.txt", "")
	config := filepath.Join(filepath.Dir(tr.dir), "config.json")
	bind := func(from, name, kind string, flags uintptr) {
		at := filepath.Join(tr.dir, name)
		if name != "conf.txt" {
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Mount(from, at, kind, flags, ""); err != nil {
			t.Skipf("cannot mount %s here: %v", from, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				panic(err) // or else what is mounted would be removed with the folder
			}
		})
	}
	bind(disk, "disk", "", unix.MS_BIND)
	bind(filepath.Join(tr.home, ".ssh"), "keys", "", unix.MS_BIND)
	bind(config, "conf.txt", "", unix.MS_BIND)
	bind(tr.home, "all", "", unix.MS_BIND)
	bind("proc", "processes", "proc", 0)

	contains(t, tr.text("read_file", args{"path": "disk/note.txt"}), "a note")
	tr.text("write_file", args{"path": "disk/new.txt", "content": "new\n"})
	if got, err := os.ReadFile(filepath.Join(disk, "new.txt")); string(got) != "new\n" {
		t.Errorf("on the disk: %q, %v", got, err)
	}
	before := tr.protectedNow(t)
	for _, path := range []string{
		"disk/up", "disk/abs", "disk/abs/.ssh/id_rsa", "disk/../../config.json", "disk/fifo", "disk/null",
		"keys", "keys/id_rsa", "keys/new.txt", "conf.txt", "all/.ssh/id_rsa", "all/.ssh/new.txt", "all/build/config.json",
		"processes/self/environ", "processes/1/environ", "processes/self/root" + config, "processes",
	} {
		for name, call := range everyTool() {
			if path == "disk/fifo" && name == "write_file" {
				continue // a regular file takes its place, as anywhere
			}
			p := path
			if name == "notebook_edit" {
				p += ".ipynb"
			}
			res := tr.call(name, call(p))
			if p == path && !res.IsError {
				t.Errorf("%s(%q) was allowed: %.100s", name, p, res.Content.String())
			}
			if strings.Contains(res.Content.String(), canary) {
				t.Errorf("%s(%q) shows the canary", name, p)
			}
		}
	}
	for name, in := range map[string]args{
		"grep": {"pattern": "a note|CANARY", "output_mode": "content"}, "glob": {"pattern": "**/*", "entry_type": "both"}, "list_dir": {"path": ".", "recursive": true},
	} {
		got := tr.text(name, in)
		lacks(t, got, canary, "id_rsa", "environ")
		if name == "grep" {
			contains(t, got, "disk/note.txt")
		}
	}
	if after := tr.protectedNow(t); after != before {
		t.Errorf("protected files were changed:\n%s\n%s", before, after)
	}
}

// protectedNow lists what must not change, with content.
func (tr *trap) protectedNow(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{filepath.Join(filepath.Dir(tr.dir), "config.json"), filepath.Join(tr.home, ".ssh", "id_rsa")} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		b.Write(data)
	}
	entries, err := os.ReadDir(filepath.Join(tr.home, ".ssh"))
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		b.WriteString(e.Name() + "\n")
	}
	return b.String()
}
