package sandbox_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// freezable runs a test in every kind of box that can freeze.
func freezable(t *testing.T, test func(t *testing.T, b *box)) {
	t.Helper()
	for _, kind := range []string{auto, asRoot} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := open(t, kind)
			if !b.Level().Freeze {
				t.Skip("this machine has no mount namespaces")
			}
			test(t, b)
		})
	}
}

// running is a confined command that answers line by line.
type running struct {
	in     io.WriteCloser
	out    *bufio.Reader
	freeze func() error
	wait   func() error
	kill   func()
}

// begin starts a script and waits until it says that it is ready.
func (b *box) begin(t *testing.T, p sandbox.Profile, script string) *running {
	t.Helper()
	cmd := b.command(t.Context(), script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	freeze, cleanup, err := b.WrapFreezable(cmd, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cleanup)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{in: in, out: bufio.NewReader(out), freeze: freeze, wait: cmd.Wait, kill: cleanup}
	r.expect(t, "ready")
	return r
}

func (r *running) line(t *testing.T) string {
	t.Helper()
	line, err := r.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the command ended: %v, %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

func (r *running) expect(t *testing.T, want string) {
	t.Helper()
	if got := r.line(t); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func (r *running) say(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(r.in, text+"\n"); err != nil {
		t.Fatal(err)
	}
}

// frozen lists a folder with everything that writing would change.
func frozen(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.Write(data)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFreeze takes write access away from a command that writes, polls and
// goes on running.
func TestFreeze(t *testing.T) {
	t.Parallel()
	freezable(t, func(t *testing.T, b *box) {
		more := filepath.Join(b.outside, "cache")
		if err := os.Mkdir(more, 0o700); err != nil {
			t.Fatal(err)
		}
		p := b.profile()
		p.ReadWrite = []string{more}
		r := b.begin(t, p, `cd sub 2>/dev/null; echo ready
			while read -r n; do
				echo $n > new-$n 2>/dev/null && a=wrote || a=denied
				echo $n > `+more+`/new-$n 2>/dev/null && c=wrote || c=denied
				echo $n > /tmp/new-$n 2>/dev/null && d=wrote || d=denied
				echo $a $c $d $(cat /tmp/new-1)
			done`)
		r.say(t, "1")
		r.expect(t, "wrote wrote wrote 1")
		if err := r.freeze(); err != nil {
			t.Fatal(err)
		}
		before := frozen(t, b.outside)
		for _, n := range []string{"2", "3"} { // two later turns
			r.say(t, n)
			r.expect(t, "denied denied wrote 1")
		}
		if after := frozen(t, b.outside); after != before {
			t.Errorf("something changed:\n%s\nbefore:\n%s", after, before)
		}
		if err := r.freeze(); err != nil {
			t.Errorf("again: %v", err)
		}
		_ = r.in.Close()
		if err := r.wait(); err != nil {
			t.Errorf("the command did not end by itself: %v", err)
		}
		// Others are not concerned.
		b.must(t, p, "echo x > new-1; echo x > "+more+"/new-1")
	})
}

// attacks is a program that prepares every way to write later that it can think
// of, and tries all of them when it is told to.
const attacks = `
import ctypes, mmap, os, platform, socket, sys, threading
ws, more = sys.argv[1], sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs(ws + "/d/e", exist_ok=True)
for name in ("f", "d/f", "x"):
    open(ws + "/" + name, "w").write("old")
os.link(ws + "/f", ws + "/hard")
os.symlink("/tmp", ws + "/out")
os.mkfifo(ws + "/pipe")
dirfd, pathfd = os.open(ws + "/d", os.O_RDONLY), os.open(ws + "/d", os.O_PATH)
rofd = os.open(ws + "/f", os.O_RDONLY)
view = mmap.mmap(rofd, 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
os.chdir(ws + "/d/e")
def call(*args):
    if libc.syscall(*args) < 0:
        raise OSError(ctypes.get_errno(), "call")
def save(path, **how):
    with open(path, "w", **how) as f: f.write("new")
def at(fd):
    os.close(os.open("n", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
def child():
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try: save(ws + "/by-child"); os.write(w, b"wrote")
            except OSError as e: os.write(w, e.errno.to_bytes(4, "big"))
        os._exit(0)
    os.close(w); os.wait()
    got = os.read(r, 9)
    if got != b"wrote": raise OSError(int.from_bytes(got, "big"), "child")
def thread():
    out = []
    def run():
        try: save(ws + "/by-thread")
        except OSError as e: out.append(e)
    t = threading.Thread(target=run); t.start(); t.join()
    if out: raise out[0]
def protect():
    buf = ctypes.c_void_p(libc_mmap(rofd))
    if libc.mprotect(buf, 4096, 3) < 0: raise OSError(ctypes.get_errno(), "mprotect")
def libc_mmap(fd):
    libc.mmap.restype = ctypes.c_void_p
    return libc.mmap(None, 4096, 1, 1, fd, 0)
empty = b""
ways = {
    "create": lambda: save(ws + "/n"), "here": lambda: save("n"), "append": lambda: os.open(ws + "/f", os.O_WRONLY | os.O_APPEND),
    "dirfd": lambda: at(dirfd), "pathfd": lambda: at(pathfd), "up": lambda: save("../../../" + os.path.basename(ws) + "/n"),
    "reopen": lambda: os.open("/proc/self/fd/%d" % rofd, os.O_WRONLY), "reopen dir": lambda: save("/proc/self/fd/%d/n" % dirfd),
    "cwd of proc": lambda: save("/proc/self/cwd/n"), "root of proc": lambda: save("/proc/self/root" + ws + "/n"),
    "write": lambda: os.write(rofd, b"new"), "truncate": lambda: os.truncate(ws + "/f", 0), "ftruncate": lambda: os.ftruncate(rofd, 0),
    "rename": lambda: os.rename(ws + "/f", ws + "/g"), "rename at": lambda: os.rename("f", "g", src_dir_fd=dirfd, dst_dir_fd=dirfd),
    "rename in": lambda: os.rename("/tmp/mine", ws + "/mine"), "rename out": lambda: os.rename(ws + "/f", "/tmp/theirs"),
    "unlink": lambda: os.unlink(ws + "/f"), "rmdir": lambda: os.rmdir(ws + "/d/e"), "mkdir": lambda: os.mkdir("n", dir_fd=dirfd),
    "link in": lambda: os.link("/tmp/mine", ws + "/mine"), "link out": lambda: os.link(ws + "/f", "/tmp/theirs"),
    "link fd": lambda: os.link("/proc/self/fd/%d" % rofd, "/tmp/theirs", follow_symlinks=True),
    "symlink": lambda: os.symlink("x", ws + "/s"), "fifo": lambda: os.mkfifo(ws + "/p"), "hard": lambda: os.open(ws + "/hard", os.O_RDWR),
    "chmod": lambda: os.chmod(ws + "/f", 0o777), "fchmod": lambda: os.fchmod(rofd, 0o777), "chown": lambda: os.chown(ws + "/f", os.getuid(), -1),
    "utime": lambda: os.utime(ws + "/f"), "futime": lambda: os.utime(rofd), "xattr": lambda: os.setxattr(ws + "/f", "user.x", b"1"),
    "fxattr": lambda: os.setxattr(rofd, "user.x", b"1"), "tmpfile": lambda: os.open(ws, os.O_TMPFILE | os.O_WRONLY),
    "socket": lambda: socket.socket(socket.AF_UNIX).bind("../sock"), "fallocate": lambda: os.posix_fallocate(rofd, 0, 9),
    "mapped": lambda: mmap.mmap(rofd, 3), "mprotect": protect, "child": child, "thread": thread,
    "mount": lambda: call(165, b"none", ws.encode(), empty, 32 | 4096, None), "bind": lambda: call(165, ws.encode(), b"/tmp", empty, 4096, None),
    "umount": lambda: call(166, ws.encode(), 2), "open_tree": lambda: call(428, -100, ws.encode(), 1), "move_mount": lambda: call(429, dirfd, b"", -100, b"/tmp", 4),
    "mount_setattr": lambda: call(442, -100, ws.encode(), 0, None, 0), "unshare": lambda: call(272, 0x10020000), "setns": lambda: call(308, dirfd, 0),
    "chroot": lambda: os.chroot(ws), "io_uring": lambda: call(425, 8, ctypes.create_string_buffer(128)), "handle": lambda: call(303, -100, ws.encode(), None, None, 0),
    "ptrace": lambda: call(101, 16, 1, 0, 0), "memory of 1": lambda: open("/proc/1/mem", "r+b"), "root of 1": lambda: save("/proc/1/root" + ws + "/n"),
    "fd of 1": lambda: os.open("/proc/1/fd/300", os.O_PATH), "control of 1": lambda: os.open("/proc/1/fd/0", os.O_RDWR), "fd number of 1": lambda: os.readlink("/proc/1/fd/300"), "kill 1": lambda: (os.kill(1, 9), os.stat("/nowhere")), "stop 1": lambda: (os.kill(1, 19), os.stat("/nowhere")),
    "more": lambda: save(more + "/n"),
}
if platform.machine() != "x86_64": # the numbers are of that one
    for name in "mount bind umount open_tree move_mount mount_setattr unshare setns io_uring handle ptrace".split(): del ways[name]
open("/tmp/mine", "w").write("mine")
print("ready", flush=True)
sys.stdin.readline()
for name, way in ways.items():
    try: way(); print("BROKE", name, flush=True)
    except (OSError, ValueError) as e: pass
save("/tmp/still"); view[:]
print("tried", len(ways), flush=True)
sys.stdin.readline()
`

// TestFrozenHolds lets a command try to keep its write access. Everything it
// prepared before is still open, and none of it was opened for writing.
func TestFrozenHolds(t *testing.T) {
	t.Parallel()
	skipWithout(t, "python3")
	freezable(t, func(t *testing.T, b *box) {
		more := filepath.Join(b.outside, "cache")
		program := filepath.Join(b.outside, "attacks.py")
		if err := errors.Join(os.Mkdir(more, 0o700), os.WriteFile(program, []byte(attacks), 0o600)); err != nil {
			t.Fatal(err)
		}
		p := b.profile()
		p.ReadWrite, p.ReadOnly, p.Network = []string{more}, []string{program}, sandbox.NetNone
		r := b.begin(t, p, "exec /usr/bin/python3 "+program+" "+b.workspace+" "+more)
		if err := r.freeze(); err != nil {
			t.Fatal(err)
		}
		before := frozen(t, b.outside)
		r.say(t, "go")
		for {
			line := r.line(t)
			if name, broke := strings.CutPrefix(line, "BROKE "); broke {
				t.Errorf("it still could: %s", name)
				continue
			}
			if !strings.HasPrefix(line, "tried ") || line < "tried 5" {
				t.Errorf("got %q", line)
			}
			break
		}
		if after := frozen(t, b.outside); after != before {
			t.Errorf("something changed:\n%s\nbefore:\n%s", after, before)
		}
	})
}

// TestFreezeFindsWriters checks commands that hold something open: they cannot
// be frozen, so their caller ends them.
func TestFreezeFindsWriters(t *testing.T) {
	t.Parallel()
	skipWithout(t, "python3")
	freezable(t, func(t *testing.T, b *box) {
		for name, script := range map[string]string{
			"a file": `exec 3>file; echo ready; read x`,
			"a mapping of a closed file": `exec /usr/bin/python3 -c '
import mmap, os, sys
fd = os.open("map", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 4096)
m = mmap.mmap(fd, 4096); os.close(fd); m[0] = 1
print("ready", flush=True); sys.stdin.readline()'`,
			"a process in another session": `exec 3>file; (setsid sleep 600 &); exec 3>&-; echo ready; read x`,
			"a message that was not received": `exec /usr/bin/python3 -c '
import os, socket, sys
a, b = socket.socketpair(socket.AF_UNIX)
fd = os.open("sent", os.O_WRONLY | os.O_CREAT); socket.send_fds(a, [b"x"], [fd]); os.close(fd)
print("ready", flush=True); sys.stdin.readline()'`,
			"a file without a name": `exec /usr/bin/python3 -c '
import os, sys
fd = os.open(".", os.O_TMPFILE | os.O_RDWR)
print("ready", flush=True); sys.stdin.readline()'`,
			"a deleted file": `exec 3>file; rm file; echo ready; read x`,
		} {
			r := b.begin(t, b.profile(), script)
			if err := r.freeze(); !errors.Is(err, sandbox.ErrWriting) {
				t.Errorf("%s: %v, want %v", name, err, sandbox.ErrWriting)
			}
			r.kill()
			_ = r.wait()
		}
		// Who closes in time goes on.
		r := b.begin(t, b.profile(), `exec 3>file; echo ready; sleep 0.05; exec 3>&-; read x; echo y > file 2>/dev/null || echo denied`)
		if err := r.freeze(); err != nil {
			t.Fatal(err)
		}
		r.say(t, "go")
		r.expect(t, "denied")
	})
}

// TestFreezeKnowsTheMount has a command change the names on the way to a
// workspace that lies in its own temporary directory, and lead them elsewhere.
func TestFreezeKnowsTheMount(t *testing.T) {
	t.Parallel()
	freezable(t, func(t *testing.T, b *box) {
		if !strings.HasPrefix(b.outside, "/tmp/") {
			t.Skip("the temporary directory is elsewhere")
		}
		more, err := os.MkdirTemp("/var/tmp", "sandbox-cache-") //nolint:usetesting // not in the temporary directory
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(more) })
		top := strings.SplitN(strings.TrimPrefix(b.outside, "/tmp/"), "/", 2)[0]
		rest := strings.TrimPrefix(b.workspace, "/tmp/"+top+"/")
		p := b.profile()
		p.ReadWrite = []string{more}
		r := b.begin(t, p, `cd /tmp && mv `+top+` moved && mkdir -p `+filepath.Dir(b.workspace)+` && ln -s `+more+` `+b.workspace+` && echo ready
			read x; echo y > /tmp/moved/`+rest+`/new 2>/dev/null && echo wrote || echo denied; echo z > `+more+`/new 2>/dev/null && echo wrote || echo denied`)
		if err := r.freeze(); err != nil {
			t.Fatal(err)
		}
		r.say(t, "go")
		r.expect(t, "denied")
		r.expect(t, "denied")
	})
}

// TestNoSharedSockets checks that commands have no place for a socket that
// others see: by it they could hand each other what they have opened.
func TestNoSharedSockets(t *testing.T) {
	t.Parallel()
	skipWithout(t, "python3")
	freezable(t, func(t *testing.T, b *box) {
		ws, err := os.MkdirTemp("/var/tmp", "sandbox-ws-") //nolint:usetesting // not in the temporary directory
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(ws) })
		const bind = `exec /usr/bin/python3 -c '
import os, socket, sys
for dir in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    try: os.chdir(dir); s.bind("s"); print("bound")
    except OSError as e: print(e.strerror)
    try: os.mknod("n", 0o140600); print("made")
    except OSError as e: print(e.strerror)
try: os.rename("/tmp/s", sys.argv[1] + "/s"); print("moved")
except OSError as e: print(e.strerror)' `
		elsewhere := *b
		elsewhere.workspace = ws
		p := elsewhere.profile()
		const no, apart = "Permission denied\nPermission denied\n", "Invalid cross-device link\n"
		if got := elsewhere.must(t, p, bind+ws+" /tmp"); got != no+"bound\nmade\n"+apart {
			t.Errorf("got %s", got)
		}
		p.ReadWrite = []string{b.workspace}
		if got := elsewhere.must(t, p, bind+ws+" "+b.workspace); got != no+no+apart {
			t.Errorf("got %s", got)
		}
		if got := b.must(t, b.profile(), bind+b.workspace+" /tmp"); strings.Contains(got, "bound") || strings.Contains(got, "made") {
			t.Errorf("in a workspace that lies in the temporary directory: %s", got)
		}
	})
}

// TestCannotFreeze checks boxes without mounts of their own.
func TestCannotFreeze(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{plain, bwrap} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := open(t, kind)
			r := b.begin(t, b.profile(), "echo ready; read x; echo x > file && echo wrote")
			if err := r.freeze(); err == nil || errors.Is(err, sandbox.ErrWriting) || b.Level().Freeze {
				t.Errorf("got %v", err)
			}
			r.say(t, "go")
			r.expect(t, "wrote")
		})
	}
}
