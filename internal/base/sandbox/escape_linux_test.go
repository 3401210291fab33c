package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// readers try to print a secret.
func readers() []string {
	return []string{
		`cd .. && cat config.json`,
		`(cd ..; cat config.json); pushd .. ; cat config.json`,
		`env -C .. cat config.json`,
		`git -C .. status; git -C .. diff --no-index /dev/null config.json; tar cf - .. | cat`,
		`find .. -name config.json -exec cat {} +; find / -path /usr -prune -o -path /proc -prune -o -name config.json -exec cat {} +`,
		`cat $OUT/config.json; cat "$OUT"/config.json; cat ${OUT}/config.json`,
		`cat $'\x2fetc\x2fpasswd'`,
		`cat $(printf '\057etc\057passwd')`,
		`p=/; cat ${p}etc${p}passwd; X=/etc/passwd; cat $X; cat</etc/passwd; cat </etc/passwd; {cat,/etc/passwd}`,
		`cat ~-/x; cat ~+1/x; cat /etc/passwd- /etc/shadow /etc/group-`,
		`ln -s / link; cat ./link/etc/passwd ./link$OUT/config.json`,
		`ln $OUT/config.json hard && cat hard; cp -l $OUT/config.json hard2; cat hard2`,
		`/usr/bin/python3 -c "print(open(chr(47)+'etc'+chr(47)+'passwd').read())"; perl -e 'open F,"/etc/passwd";print <F>'`,
		`awk 'BEGIN{system("cat /etc/passwd")}'; curl -s file:///etc/passwd; curl -s file://$OUT/config.json`,
		`cat /proc/$PPID/environ; tr '\0' '\n' </proc/1/environ; cat /proc/*/environ; cat /proc/$AGENT/environ; xargs -0 </proc/$AGENT/environ`,
		`cat /proc/$AGENT/maps /proc/$AGENT/fd/*; strings /proc/$AGENT/mem; cat /proc/1/root/etc/passwd /proc/$PPID/root/etc/passwd /proc/$AGENT/root/etc/passwd`,
		`cat /proc/self/root/etc/passwd /proc/self/cwd/../config.json /proc/thread-self/root$OUT/config.json /dev/fd/../../root/etc/passwd`,
		`printf 'run:\n\tcat ../config.json /etc/passwd\n' > Makefile; make run`,
		`unshare -r cat $OUT/config.json; unshare -Urm sh -c 'mount -t proc p /proc; cat /etc/passwd'; bwrap --bind / / cat $OUT/config.json`,
		`nsenter -t $AGENT -a cat /etc/passwd; nsenter -t 1 -a cat /etc/passwd; nsenter -t $PPID -m cat $OUT/config.json`,
		`strace -f -o /dev/stdout cat $OUT/config.json; strace -p $AGENT; gdb -p $AGENT --batch -ex 'info proc'`,
		`chroot /proc/1/root cat /etc/passwd; mkdir m; mount --bind / m; cat m/etc/passwd; mknod d b 254 0; cat d`,
		`cat /dev/vda /dev/sda /dev/mem /dev/kmem /proc/kcore | head -c 100 | od -c`,
		`for f in /proc/[0-9]*/cwd/../config.json /proc/[0-9]*/root$OUT/config.json; do cat $f; done`,
		`cat <$OUT/config.json; exec 5<$OUT/config.json && cat <&5; read x <$OUT/config.json; echo $x; source $OUT/config.json; . /etc/passwd`,
		`grep -r CANARY $OUT /root /home 2>&1; grep -s 'root:x' /etc/* 2>&1 | head -3`,
		`sudo cat /etc/passwd; su -c 'cat /etc/passwd'; doas cat /etc/passwd; pkexec cat /etc/passwd`,
		`systemd-run --user --pipe cat $OUT/config.json; dbus-send --system --print-reply --dest=org.freedesktop.systemd1 / x; busctl list`,
		`cat <&$LEAK; cat /proc/self/fd/$LEAK; ls -l /proc/self/fd`,
	}
}

func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	// A descriptor that was left open by mistake reaches every child.
	leak, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = leak.Close() })
	fd, err := unix.FcntlInt(leak.Fd(), unix.F_DUPFD, 700) // without the flag that closes it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	hidden := secrets(t)
	everyBox(t, func(t *testing.T, b *box) {
		var all strings.Builder
		fmt.Fprintf(&all, "LEAK=%d\n", fd)
		for i, script := range readers() {
			fmt.Fprintf(&all, "mkdir dir%d; cd dir%[1]d; echo \"== %[1]d\"; (%s) 2>&1 </dev/null; cd $HOME\n", i, strings.ReplaceAll(script, "..", "../.."))
		}
		out, _ := b.run(t, b.profile(), all.String())
		for i, part := range strings.Split(strings.ReplaceAll(out, "\x00", "\n"), "== ")[1:] {
			for _, s := range hidden {
				if strings.Contains(part, s) {
					t.Errorf("%s\nprinted %q:\n%.2000s", readers()[i], s, part)
				}
			}
		}
		if n := strings.Count(out, "== "); n < len(readers()) {
			t.Errorf("only %d of %d scripts ran: %s", n, len(readers()), out)
		}
	})
}

// TestOutsideStaysAsItIs runs what would change something outside.
func TestOutsideStaysAsItIs(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		tmp, err := os.MkdirTemp("", "sandbox-other-") //nolint:usetesting // directly below the temporary directory
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(tmp) })
		before := list(t, b.outside)
		for _, script := range []string{
			`echo x > ../config.json; echo x >> ../config.json; truncate -s0 ../config.json; rm -f ../config.json; mv ../config.json .`,
			`mv ../config.json ../other; ln -sf x ../config.json; cp /dev/null ../config.json; dd if=/dev/zero of=../config.json count=1`,
			`ln -s ../config.json h; echo x > h; sed -i s/CANARY/x/ ../config.json; tee ../config.json </dev/null`,
			`touch ../new; mkdir ../newdir; mknod ../fifo p; ln -s x ../newlink; ln config ../newhard; cp -r . ../copy`,
			`/usr/bin/python3 -c "open('../config.json','w')"; /usr/bin/python3 -c "import os; os.truncate('../config.json',0)"`,
			`touch ` + tmp + `/x; echo > /usr/bin/ls; touch /etc/x /usr/x /opt/x /var/x /dev/x /run/x /x /sys/x`,
			`echo c > /proc/sysrq-trigger; echo '|/bin/x' > /proc/sys/kernel/core_pattern; echo 1 > /proc/sys/vm/drop_caches; echo 9 > /proc/sys/kernel/pid_max`,
			`cd ..; rm -rf workspace/../config.json; rmdir ../workspace; mv ../workspace ../moved`,
		} {
			b.run(t, b.profile(), script)
		}
		if after := list(t, b.outside); after != before {
			t.Errorf("outside changed from\n%s\nto\n%s", before, after)
		}
		if entries, _ := os.ReadDir(tmp); len(entries) > 0 {
			t.Errorf("something was written to %s", tmp)
		}
		if pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern"); strings.Contains(string(pattern), "/bin/x") {
			t.Error("a kernel setting was changed")
		}
	})
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		data, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		fmt.Fprintf(&b, "%s %v %q\n", e.Name(), e.Type(), data)
	}
	return b.String()
}

// TestSignalsStayInside has every way to end a process tried on the agent and
// on a stranger of the same user.
func TestSignalsStayInside(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		stranger := b.command(t.Context(), "exec sleep 600")
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- stranger.Wait() }()
		target := stranger.Process.Pid
		if b.kind == old {
			target = os.Getpid() // only the agent is protected there
		}
		script := fmt.Sprintf(`for p in $AGENT %d $PPID; do kill -9 $p; kill -STOP $p; done; kill -TERM -$AGENT
			/usr/bin/python3 -c 'import os,signal
for p in (%d, %d):
  try: signal.pidfd_send_signal(os.pidfd_open(p), 9); print("sent")
  except OSError as e: print(e)'
			/usr/bin/python3 -c 'import os; os.kill(-1, 0)'
			echo still here`, target, os.Getpid(), target)
		out, _ := b.run(t, b.profile(), script)
		if !strings.Contains(out, "still here") || strings.Contains(out, "sent") {
			t.Errorf("got %s", out)
		}
		select {
		case err := <-ended:
			t.Errorf("a process outside was ended: %v", err)
		default:
			_ = stranger.Process.Kill()
			<-ended
		}
		if b.Level().PIDNS {
			if out := b.must(t, b.profile(), `ls /proc | grep -c '^[0-9]*$'`); len(strings.TrimSpace(out)) > 1 {
				t.Errorf("%s processes are visible", out)
			}
		}
	})
}

// TestProtectedIsHidden has paths masked inside of what is granted.
func TestProtectedIsHidden(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		if !b.Level().MountNS {
			t.Skip("needs a mount namespace")
		}
		for name, content := range map[string]string{"secret": canary, "keys/id": canary, "memory/history.jsonl": "old", "ok": "fine"} {
			path := filepath.Join(b.workspace, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		alias := filepath.Join(b.outside, "alias")
		if err := os.Symlink(filepath.Join(b.workspace, "keys"), alias); err != nil {
			t.Fatal(err)
		}
		p := b.profile()
		p.Protected = []string{filepath.Join(b.workspace, "secret"), alias, filepath.Join(b.workspace, "missing"), "/nowhere"}
		p.ReadOnly = []string{filepath.Join(b.workspace, "memory")}
		out, _ := b.run(t, p, `cat secret keys/id ok memory/history.jsonl; ls keys; echo x > memory/history.jsonl; rm -rf secret keys memory;
			mv secret s2; mv keys k2; cat s2 k2/id; umount secret keys; chmod 777 secret keys; cat secret keys/id`)
		if strings.Contains(out, canary) || !strings.Contains(out, "fineold") {
			t.Errorf("got %s", out)
		}
		for name, want := range map[string]string{"secret": canary, "keys/id": canary, "memory/history.jsonl": "old"} {
			if got, _ := os.ReadFile(filepath.Join(b.workspace, name)); string(got) != want {
				t.Errorf("%s is now %q", name, got)
			}
		}
	})
}

// TestRights checks that nothing is left of root's or anybody's rights.
func TestRights(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		for script, want := range map[string]string{
			`grep -c 'Cap[A-Z][a-z]*:.0000000000000000' /proc/self/status`: "5",
			`grep NoNewPrivs /proc/self/status`:                            "NoNewPrivs:\t1",
			`grep Seccomp: /proc/self/status`:                              "Seccomp:\t2",
		} {
			if b.kind == plain || b.kind == old {
				break // no /proc
			}
			if got := strings.TrimSpace(b.must(t, b.profile(), script)); got != want {
				t.Errorf("%s: got %q, want %q", script, got, want)
			}
		}
		skipWithout(t, "python3")
		script, want := "import ctypes\nl=ctypes.CDLL(None,use_errno=True)\n", ""
		for call, errno := range deniedSamples() {
			script += "r=" + call + "; print('''" + call + "''', r, ctypes.get_errno())\n"
			want += fmt.Sprintf("%s -1 %d\n", call, errno)
		}
		if err := os.WriteFile(filepath.Join(b.workspace, "calls.py"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := b.must(t, b.profile(), `/usr/bin/python3 calls.py`); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func deniedSamples() map[string]syscall.Errno {
	return map[string]syscall.Errno{
		fmt.Sprintf("l.syscall(%d,0,0,0,0)", unix.SYS_PTRACE):                        unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0x10000000)", unix.SYS_UNSHARE):                    unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0x10000011,0,0,0,0)", unix.SYS_CLONE):              unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0x20000011,0,0,0,0)", unix.SYS_CLONE):              unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0,0)", unix.SYS_CLONE3):                            unix.ENOSYS,
		fmt.Sprintf("l.syscall(%d,1,0)", unix.SYS_IO_URING_SETUP):                    unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0,0,0,0,0)", unix.SYS_BPF):                         unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0)", unix.SYS_USERFAULTFD):                         unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0,0,0,0,0)", unix.SYS_KEYCTL):                      unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0,0x5412,0)", unix.SYS_IOCTL):                      unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0,ctypes.c_ulong(0xf00005412),0)", unix.SYS_IOCTL): unix.EPERM,
		fmt.Sprintf("l.syscall(%d,0,0x541c,0)", unix.SYS_IOCTL):                      unix.EPERM,
		fmt.Sprintf("l.syscall(%d,17,3,0)", unix.SYS_SOCKET):                         unix.EACCES,
		fmt.Sprintf("l.syscall(%d,38,5,0)", unix.SYS_SOCKET):                         unix.EACCES,
		fmt.Sprintf("l.syscall(%d,40,1,0)", unix.SYS_SOCKET):                         unix.EACCES,
		fmt.Sprintf("l.syscall(%d,16,3,9)", unix.SYS_SOCKET):                         unix.EACCES,
	}
}

// TestLocalSockets connects to a service of the machine by its name.
func TestLocalSockets(t *testing.T) {
	t.Parallel()
	skipWithout(t, "python3")
	everyBox(t, func(t *testing.T, b *box) {
		name := filepath.Join(b.outside, "service.sock")
		_, reached := countConnections(t, "unix", name)
		abstract := "@sandbox-test-" + b.kind + fmt.Sprint(os.Getpid())
		_, reachedToo := countConnections(t, "unix", abstract)
		script := `/usr/bin/python3 -c '
import socket,sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
  for a in ("` + name + `", "\0` + abstract[1:] + `"):
    try:
      s = socket.socket(socket.AF_UNIX, kind); s.connect(a); s.send(b"x"); print("reached", a)
    except OSError as e: print(e)
    try:
      s, _ = socket.socketpair(socket.AF_UNIX, kind); s.connect(a); print("reached", a)
    except OSError as e: print(e)'`
		out := b.must(t, b.profile(), script)
		if strings.Contains(out, "reached") || reached()+reachedToo() > 0 {
			t.Errorf("a service outside was reached: %s", out)
		}
	})
}

// TestOlderLandlock runs the checks that matter with the rules an older kernel
// would get.
func TestOlderLandlock(t *testing.T) {
	t.Parallel()
	if _, err := sandbox.OpenPlain(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "bubblewrap") {
		t.Errorf("version 2: %v, want advice", err)
	}
	for abi := 3; abi <= min(5, sandbox.LandlockABI()); abi++ {
		b, err := sandbox.OpenPlain(t.Context(), abi)
		if err != nil || !strings.Contains(b.Level().String(), "signals") {
			t.Errorf("version %d: %v, %v, want what is missing", abi, b.Level(), err)
		}
	}
}

// A command of root must not change the devices of the machine, which it sees
// because it needs them.
func TestDevicesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may change a device")
	}
	box, err := sandbox.Open(t.Context(), sandbox.Options{})
	if err != nil || !box.Level().MountNS {
		t.Skipf("no mount namespaces here: %v", err)
	}
	ws := t.TempDir()
	before, err := os.Stat("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c",
		"chmod 777 /dev/full; chown 1:1 /dev/full; ln -s /dev/full l; chmod 777 l; touch -d 2001-01-01 /dev/full; echo x > /dev/null && head -c 4 /dev/zero | wc -c")
	cmd.Dir, cmd.Env = ws, []string{"PATH=/usr/bin:/bin"}
	cleanup, err := box.Wrap(cmd, sandbox.Profile{Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	cleanup()
	if err != nil || strings.TrimSpace(string(out)) != "4" {
		t.Errorf("devices cannot be used: %v, %q", err, out)
	}
	after, err := os.Stat("/dev/full")
	if err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
		_ = os.Chmod("/dev/full", 0o666)
		t.Errorf("the device was %v and is %v (%v)", before.Mode(), after.Mode(), err)
	}
}
