package sandbox_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// withOwnMounts runs the test again in a process with mounts of its own, which
// spread as those of an ordinary machine do, and says whether this is it.
func withOwnMounts(t *testing.T) bool {
	t.Helper()
	const mark = "NANOBOT_TEST_OWN_MOUNTS"
	if os.Getenv(mark) == t.Name() {
		for _, how := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
			if err := unix.Mount("none", "/", "", unix.MS_REC|how, ""); err != nil {
				t.Fatal(err)
			}
		}
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("only root has mounts of its own without a user namespace, in which there is no sandbox")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this machine gives a test no mounts of its own")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Log(string(out))
	}
	return false
}

func bindAt(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}

// A mount in the workspace that shows a protected file is hidden when the
// profile names its place, and one that is made while a command runs does not
// appear in it.
func TestMountsInTheWorkspace(t *testing.T) {
	if !withOwnMounts(t) {
		return
	}
	for _, kind := range []string{auto, bwrap, asRoot} {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind)
			if !b.Level().MountNS {
				t.Skip("the sandbox of this machine hides no mounts")
			}
			for _, dir := range []string{"shown", "plain", "later"} {
				if err := os.Mkdir(filepath.Join(b.workspace, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			file, other := filepath.Join(b.workspace, "file"), t.TempDir()
			for name, body := range map[string]string{file: "", filepath.Join(other, "f"): "fine\n"} {
				if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			secret := t.TempDir()
			if err := os.WriteFile(filepath.Join(secret, "id"), []byte(canary), 0o600); err != nil {
				t.Fatal(err)
			}
			bindAt(t, secret, filepath.Join(b.workspace, "shown"))
			bindAt(t, filepath.Join(secret, "id"), file)
			bindAt(t, other, filepath.Join(b.workspace, "plain"))

			p := b.profile()
			p.Protected = []string{secret, filepath.Join(b.workspace, "shown"), file}
			out, _ := b.run(t, p, `cat shown/id file shown/../shown/id; cat plain/f`)
			if strings.Contains(out, canary) || !strings.HasSuffix(out, "fine\n") {
				t.Errorf("got %s", out)
			}

			cmd := b.command(t.Context(), `echo ready; read line; cat later/id; ls -A later; echo over`)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			said, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cleanup, err := b.Wrap(cmd, p)
			if err != nil {
				t.Fatal(err)
			}
			defer cleanup()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(said)
			if !lines.Scan() || lines.Text() != "ready" {
				t.Fatalf("the command said %q", lines.Text())
			}
			bindAt(t, secret, filepath.Join(b.workspace, "later"))
			if _, err := in.Write([]byte("go on\n")); err != nil {
				t.Fatal(err)
			}
			var rest []string
			for lines.Scan() {
				rest = append(rest, lines.Text())
			}
			_ = cmd.Wait() // what it said counts
			if len(rest) != 1 || rest[0] != "over" {
				t.Errorf("a mount made later shows %q", rest)
			}
		})
	}
}
