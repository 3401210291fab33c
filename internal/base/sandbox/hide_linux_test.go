package sandbox_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// hideHouse is a data folder with a workspace and media in it, and a folder of
// the user beside it.
func hideHouse(t *testing.T) (b *sandbox.Box, p sandbox.Profile, data, beside, canary string) {
	t.Helper()
	b, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Hide})
	if err != nil {
		t.Skipf("this machine cannot hide anything: %v", err)
	}
	home := t.TempDir()
	canary = "CANARY-" + rand.Text()
	data, beside = filepath.Join(home, ".nanobot"), filepath.Join(home, "documents")
	put := func(path, content string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(data, "config.json"), canary)
	put(filepath.Join(data, "usage", "totals.json"), canary)
	put(filepath.Join(data, "workspace", "mine.txt"), "of the workspace\n")
	put(filepath.Join(data, "workspace", "shut", "x"), canary)
	put(filepath.Join(data, "media", "seen.txt"), "received\n")
	put(filepath.Join(beside, "note.txt"), "of the user\n")
	return b, sandbox.Profile{
		Workspace: filepath.Join(data, "workspace"), ReadOnly: []string{filepath.Join(data, "media")},
		Protected: []string{data, filepath.Join(data, "config.json"), filepath.Join(data, "workspace", "shut")},
		Limits:    sandbox.Limits{Processes: -1, Memory: -1, FileSize: -1, Files: -1, CPU: -1},
	}, data, beside, canary
}

func runHidden(t *testing.T, b *sandbox.Box, p sandbox.Profile, script string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", script)
	cmd.Dir = p.Workspace
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(filepath.Dir(p.Workspace))}, env...)
	cleanup, err := b.Wrap(cmd, p)
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	out, _ := cmd.CombinedOutput() // what fails says so
	return string(out)
}

// Without a sandbox commands have the disk as it always was, and see nothing of
// ours and of other processes.
func TestHide(t *testing.T) {
	t.Parallel()
	b, p, data, beside, canary := hideHouse(t)
	out := runHidden(t, b, p, fmt.Sprintf(`
		cat mine.txt %[1]s/media/seen.txt %[2]s/note.txt
		echo more >> mine.txt && echo new > %[2]s/new.txt && mkdir sub && echo x > sub/y && cat sub/y
		echo no > %[1]s/media/other.txt
		ls %[1]s; echo no > %[1]s/config.json; mkdir %[1]s/new; rm -rf %[1]s/usage; echo no > %[1]s/prices.json
		id -u; test -w /tmp && echo tmp-is-there; test -r /proc/self/status && echo proc-is-there
		cat /etc/passwd | head -1
	`, data, beside))
	for _, want := range []string{"of the workspace", "received", "of the user", "\nx\n", "tmp-is-there", "proc-is-there", "root:"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if got, err := os.ReadFile(filepath.Join(beside, "new.txt")); err != nil || string(got) != "new\n" {
		t.Errorf("a file of the user was not written: %q, %v", got, err)
	}
	for _, name := range []string{"config.json", "usage/totals.json"} {
		if got, err := os.ReadFile(filepath.Join(data, name)); err != nil || string(got) != canary {
			t.Errorf("%s was changed: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"prices.json", "new", "media/other.txt"} {
		if _, err := os.Lstat(filepath.Join(data, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

// hideReaders try to get at the data folder or at another process although the
// whole disk is open.
func hideReaders() []string {
	return []string{
		`cat $DATA/config.json; cat ~/.nanobot/config.json; cat ../config.json; cat $DATA/workspace/../config.json`,
		`cat $DATA/usage/totals.json; cat shut/x; tar cf - $DATA | cat; cp -r $DATA copy; cat copy/config.json`,
		`find $(dirname $(dirname $DATA)) -name config.json -exec cat {} +; find / -xdev -maxdepth 3 -name totals.json -exec cat {} +`,
		`ln $DATA/config.json hard; cat hard; ln -s $DATA link; cat link/config.json; ln -s ../config.json up; cat up`,
		`cat /proc/$AGENT/environ; cat /proc/$AGENT/root$DATA/config.json; cat /proc/$AGENT/cwd/config.json; strings /proc/$AGENT/mem`,
		`cat /proc/1/environ /proc/*/environ | tr '\0' '\n' | grep CANARY_VARIABLE; cat /proc/[0-9]*/root$DATA/config.json`,
		`unshare -Ur sh -c "umount $DATA; cat $DATA/config.json"; unshare -Urm sh -c "umount -l $DATA; cat $DATA/config.json"`,
		`unshare -Urm sh -c "mkdir -p m; mount --bind / m; cat m$DATA/config.json; mount --rbind / m; umount -l m$DATA; cat m$DATA/config.json"`,
		`umount $DATA; umount -l $DATA; cat $DATA/config.json; mount -o remount,rw $DATA; cat $DATA/config.json`,
		`mkdir m2; mount --bind $(dirname $DATA) m2; cat m2/.nanobot/config.json; nsenter -t $AGENT -m cat $DATA/config.json`,
		`nsenter -t 1 -m cat $DATA/config.json; chroot /proc/1/root cat $DATA/config.json; chroot / cat $DATA/config.json`,
		`mv $(dirname $DATA) /tmp/moved-$$; cat /tmp/moved-$$/.nanobot/config.json; mv /tmp/moved-$$ $(dirname $DATA)`,
		`mv $DATA $DATA.old; cat $DATA.old/config.json; mv $DATA.old $DATA; rmdir $DATA; rm -rf $DATA/config.json`,
		`strace -p $AGENT -o /dev/stdout & sleep 0.2; kill %1; gdb -p $AGENT --batch -ex 'info proc'; cat /proc/$AGENT/maps`,
		`exec 7<$DATA; cat /proc/self/fd/7/config.json; cat /proc/self/cwd/../config.json; cd ..; cat config.json; cd -P .; cat config.json`,
		`python3 - <<'E'
import os, ctypes
d=os.environ["DATA"]
try:
    fd=os.open(d, os.O_RDONLY|os.O_DIRECTORY); print(os.listdir(fd)); print(os.read(os.open("config.json", os.O_RDONLY, dir_fd=fd), 100))
except OSError as e: print(e)
c=ctypes.CDLL(None, use_errno=True)
buf=ctypes.create_string_buffer(64)
class V(ctypes.Structure): _fields_=[("b",ctypes.c_void_p),("l",ctypes.c_size_t)]
l=V(ctypes.cast(buf,ctypes.c_void_p),64); r=V(ctypes.c_void_p(0x400000),64)
print("vm", c.process_vm_readv(int(os.environ["AGENT"]), ctypes.byref(l),1,ctypes.byref(r),1,0), ctypes.get_errno())
print("ptrace", c.ptrace(16, int(os.environ["AGENT"]), 0, 0))
h=ctypes.create_string_buffer(256); h[0:4]=(128).to_bytes(4,"little"); m=ctypes.c_int()
print("handle", c.name_to_handle_at(-100, d.encode(), h, ctypes.byref(m), 0))
E`,
		`debugfs -R "cat $DATA/config.json" $(df --output=source $DATA/workspace | tail -1); head -c 100 /dev/mem`,
		`mkfifo f; bash -c 'cat $DATA/config.json > f' & cat f & sleep 0.2; kill %1 %2; setsid nohup cat $DATA/config.json`,
		`kill -0 $AGENT && echo CANARY-signal; kill -STOP $AGENT; git -C $DATA diff --no-index /dev/null config.json; grep -r CANARY $DATA`,
	}
}

func TestHideHolds(t *testing.T) {
	t.Parallel()
	b, p, data, _, canary := hideHouse(t)
	t.Log(b.Level())
	for i, script := range hideReaders() {
		out := runHidden(t, b, p, script+" 2>&1", "DATA="+data, fmt.Sprintf("AGENT=%d", os.Getpid()))
		for _, secret := range []string{canary, "CANARY-signal", "CANARY-of-the-environment", "totals.json'", "vm 64", "ptrace 0", "handle 0"} {
			if strings.Contains(out, secret) {
				t.Errorf("script %d printed %q:\n%s\n%.1500s", i, secret, script, out)
			}
		}
		if got, err := os.ReadFile(filepath.Join(data, "config.json")); err != nil || string(got) != canary {
			t.Fatalf("script %d changed the configuration: %q, %v", i, got, err)
		}
	}
}
