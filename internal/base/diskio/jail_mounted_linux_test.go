package diskio_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// inMountNamespace runs the test again in a process with mounts of its own, and
// says whether this is that process. The other one reports what it found.
func inMountNamespace(t *testing.T) bool {
	t.Helper()
	const mark = "NANOBOT_TEST_OWN_MOUNTS"
	if os.Getenv(mark) == t.Name() {
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this machine gives a test no mounts of its own")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func bind(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) }) // else the folder cannot be removed
}

// idle lets the runtime wait for input, as it does in a program that has nothing
// else to do: it looks at every file that it watches, and must watch none of ours.
func idle(t *testing.T) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := r.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

// What is mounted into a workspace while the program runs shows no protected
// file, in no jail made from it, and what is not protected can be read.
func TestJailSeesLaterMounts(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	top := t.TempDir()
	ws, keys, plain := filepath.Join(top, "ws"), filepath.Join(top, "keys"), filepath.Join(top, "plain")
	for _, dir := range []string{"ws/at", "ws/sub/at", "ws/project/at", "keys/deep", "plain"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"keys/id", "keys/deep/id", "plain/id", "token", "ws/own", "ws/file"} {
		if err := os.WriteFile(filepath.Join(top, file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, Protected: []string{keys, filepath.Join(top, "token")}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	at, err := j.At(diskio.Base{Dir: filepath.Join(ws, "project"), Only: true})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	jails := map[string]*diskio.Jail{"jail": j, "narrower": j.Narrower(diskio.Narrow{})}
	read := func(j *diskio.Jail, name string) error {
		f, err := j.Open(filepath.Join(ws, name))
		if err == nil {
			_ = f.Close()
		}
		return err
	}
	for name, j := range jails { // the guards know the mounts of now
		if err := read(j, "own"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	walked, err := j.OpenDir("sub") // is open while something is mounted below it
	if err != nil {
		t.Fatal(err)
	}
	defer walked.Close()
	if err := read(at, "project/none"); !diskio.IsMissing(err) {
		t.Fatal(err)
	}

	bind(t, keys, filepath.Join(ws, "at"))
	bind(t, filepath.Join(keys, "deep"), filepath.Join(ws, "sub", "at"))
	bind(t, filepath.Join(top, "token"), filepath.Join(ws, "file"))
	bind(t, keys, filepath.Join(ws, "project", "at"))
	idle(t)
	for kind, j := range jails {
		for _, name := range []string{"at/id", "at/deep/id", "sub/at/id", "file", "project/at/id"} {
			if err := read(j, name); !errors.Is(err, diskio.ErrProtected) {
				t.Errorf("%s: read %s: %v", kind, name, err)
			}
			if _, err := j.WriteAtomic(t.Context(), filepath.Join(ws, name), []byte("x")); !errors.Is(err, diskio.ErrProtected) {
				t.Errorf("%s: write %s: %v", kind, name, err)
			}
		}
		if entries, err := j.ReadDir("at"); err == nil {
			t.Errorf("%s: listed %v", kind, entries)
		}
		if err := read(j, "own"); err != nil {
			t.Errorf("%s: read own: %v", kind, err)
		}
	}
	if err := read(at, "project/at/id"); !errors.Is(err, diskio.ErrProtected) {
		t.Errorf("in a folder: %v", err)
	}
	if d, err := walked.OpenDir("at"); !errors.Is(err, diskio.ErrProtected) {
		t.Errorf("a walk that began earlier: %v, %v", d, err)
	}

	shown := diskio.ShownAt([]string{keys, filepath.Join(top, "token")}, ws)
	slices.Sort(shown)
	var want []string
	for _, name := range []string{"at", "file", "project/at", "sub/at"} {
		want = append(want, filepath.Join(ws, name))
	}
	if !slices.Equal(shown, want) {
		t.Errorf("shown at %s, want %s", strings.Join(shown, " "), strings.Join(want, " "))
	}

	if err := unix.Unmount(filepath.Join(ws, "at"), 0); err != nil {
		t.Fatal(err)
	}
	bind(t, plain, filepath.Join(ws, "at"))
	idle(t)
	for kind, j := range jails {
		if err := read(j, "at/id"); err != nil {
			t.Errorf("%s: another mount in its place: %v", kind, err)
		}
	}
}

func BenchmarkJailOpen(b *testing.B) {
	ws := b.TempDir()
	if err := os.WriteFile(filepath.Join(ws, "f"), nil, 0o600); err != nil {
		b.Fatal(err)
	}
	j, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, Restrict: true})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	for b.Loop() {
		f, err := j.Open("f")
		if err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
	}
}
