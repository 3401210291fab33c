package shell

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const mib = 1 << 20

// memoryHogs use much in ways that no limit of a single process sees. They
// do it in steps, so that a slow machine is not overrun between two looks.
func memoryHogs() map[string]string {
	py := func(body string) string {
		return "cat > h.py <<'E'\nimport os, time, mmap, socket, array, sys\ndef step(n=4):\n    time.sleep(0.02); return b'x'*(n<<20)\n" + body + "\nE\npython3 h.py; echo survived"
	}
	return map[string]string{
		"memfd, not mapped":     py("f=os.memfd_create('x')\nfor i in range(2048): os.write(f, step())"),
		"many small memfds":     py("fs=[]\nfor i in range(2048):\n  f=os.memfd_create('x'); fs.append(f); os.write(f, step())"),
		"memfd, mapped, closed": py("f=os.memfd_create('x'); os.ftruncate(f, 1<<30); m=mmap.mmap(f, 1<<30); os.close(f)\nfor i in range(256): m[i<<22:(i+1)<<22]=step()"),
		"shared and anonymous":  py("m=mmap.mmap(-1, 8<<30)\nfor i in range(2048): m[i<<22:(i+1)<<22]=step()"),
		"many processes":        py("for i in range(60):\n  if os.fork()==0:\n    a=step(24); time.sleep(60); os._exit(0)\n  time.sleep(0.05)\ntime.sleep(60)"),
		"a session of its own":  py("if os.fork()==0:\n  os.setsid()\n  if os.fork()==0:\n    os.environ.clear(); l=[]\n    for i in range(2048): l.append(step())\n  os._exit(0)\ntime.sleep(60)"),
		"half mapped, half not": py("f=os.memfd_create('x'); m=mmap.mmap(-1, 4<<30)\nfor i in range(1024): os.write(f, step()); m[i<<22:(i+1)<<22]=step()"),
		"held by a child only":  py("f=os.memfd_create('x')\nif os.fork()==0: time.sleep(60)\nfor i in range(2048): os.write(f, step())"),
	}
}

// A command that uses too much memory ends before it is over its limit by
// much, with a word about why, and the agent goes on.
func TestMemoryIsBoundedAsASum(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("the hogs need python3")
	}
	const limit = 256 * mib
	for _, mode := range []sandbox.Mode{sandbox.Auto, sandbox.None} {
		for name, script := range memoryHogs() {
			t.Run(string(mode)+"/"+name, func(t *testing.T) {
				ws := t.TempDir()
				o := Options{Workspace: ws, Environ: []string{"PATH=" + os.Getenv("PATH")}, MaxMemory: limit, Timeout: 2 * time.Minute}
				if mode == sandbox.Auto {
					box, err := sandbox.Open(t.Context(), sandbox.Options{})
					if err != nil {
						t.Skip(err)
					}
					o.Sandboxed = true
					o.Wrap = func(_ tool.Call, cmd *exec.Cmd) (Confined, error) {
						cleanup, err := box.Wrap(cmd, sandbox.Profile{Workspace: ws})
						return Confined{Release: cleanup}, err
					}
				}
				sh, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				peak := peakOf(t)
				res := callExec(t, sh, script)
				// The hogs want 8 GiB. A busy machine looks late, and what is counted
				// here is the memory of everything that runs on it.
				if used := peak(); used > 2*limit+64*mib {
					t.Errorf("%d MiB were in use", used/mib)
				}
				if text := res.Content.String(); !res.IsError || strings.Contains(text, "survived") || !strings.Contains(text, "of memory; the limit is 256 MiB (tools.exec.maxMemoryMB)") {
					t.Errorf("got %.600s", text)
				}
				if text := callExec(t, sh, "echo still here").Content.String(); !strings.Contains(text, "still here") {
					t.Errorf("the next command: %s", text)
				}
			})
		}
	}
}

func callExec(t *testing.T, sh *Shell, script string) tool.Result {
	t.Helper()
	return callExecIn(t, sh, script, "turn")
}

func callExecIn(t *testing.T, sh *Shell, script, turn string) tool.Result {
	t.Helper()
	res, err := sh.exec(t.Context(), tool.Call{SessionKey: "k", TurnID: turn}, input{Command: script, Timeout: 90})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// peakOf measures how much memory went at most, machine-wide, from now on.
func peakOf(t *testing.T) func() int64 {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan int64, 1)
	shared := func() int64 {
		data, _ := os.ReadFile("/proc/meminfo")
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "Shmem:"); ok {
				var n int64
				for _, c := range rest {
					if c >= '0' && c <= '9' {
						n = n*10 + int64(c-'0')
					}
				}
				return n << 10
			}
		}
		return 0
	}
	began := shared()
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		var most int64
		for {
			select {
			case <-ctx.Done():
				result <- most
				return
			case <-tick.C:
				most = max(most, shared()-began)
			}
		}
	}()
	return func() int64 { stop(); return <-result }
}

// diskHogs fill the disk in ways that no limit of a single file sees.
func diskHogs() map[string]string {
	return map[string]string{
		"many files":        `for i in $(seq 100); do head -c 4000000 /dev/zero > f$i; sleep 0.02; done; echo survived`,
		"reserved":          `for i in $(seq 100); do fallocate -l 4M g$i || head -c 4000000 /dev/zero > g$i; sleep 0.02; done; echo survived`,
		"removed but open":  `for i in $(seq 10 90); do eval "exec $i>r$i"; rm r$i; head -c 4000000 /dev/zero >&$i; sleep 0.02; done; echo survived`,
		"with old times":    `for i in $(seq 100); do head -c 4000000 /dev/zero > t$i; touch -d 2001-01-01 t$i; sleep 0.02; done; echo survived`,
		"temporary":         `for i in $(seq 100); do head -c 4000000 /dev/zero > $TMPDIR/f$i; sleep 0.02; done; echo survived`,
		"deep":              `mkdir -p a/b/c/d/e; for i in $(seq 100); do head -c 4000000 /dev/zero >> a/b/c/d/e/f; sleep 0.02; done; echo survived`,
		"in the background": `(for i in $(seq 100); do head -c 4000000 /dev/zero > b$i; sleep 0.02; done; echo survived) & wait`,
	}
}

func TestDiskIsBounded(t *testing.T) {
	box, err := sandbox.Open(t.Context(), sandbox.Options{})
	if err != nil {
		t.Skip(err)
	}
	const limit = 64 * mib
	for name, script := range diskHogs() {
		t.Run(name, func(t *testing.T) {
			ws, err := os.MkdirTemp("/var/tmp", "nanobot-disk-test-") //nolint:usetesting // a disk, not memory
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(ws) })
			sh, err := New(Options{
				Workspace: ws, Environ: []string{"PATH=" + os.Getenv("PATH")}, MaxDisk: limit, Sandboxed: true, Timeout: time.Minute,
				Wrap: func(_ tool.Call, cmd *exec.Cmd) (Confined, error) {
					cleanup, err := box.Wrap(cmd, sandbox.Profile{Workspace: ws})
					return Confined{Release: cleanup}, err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			res := callExec(t, sh, script)
			if text := res.Content.String(); !res.IsError || strings.Contains(text, "survived") || !strings.Contains(text, "disk space; the limit is 64 MiB (tools.exec.maxDiskMB)") {
				t.Errorf("got %.600s", text)
			}
			if text := callExecIn(t, sh, "echo still here > s && cat s", "other").Content.String(); !strings.Contains(text, "still here") {
				t.Errorf("the next command: %s", text)
			}
		})
	}
}

// A turn of many commands, each below the limit, is bounded as well.
func TestDiskOfATurn(t *testing.T) {
	box, err := sandbox.Open(t.Context(), sandbox.Options{})
	if err != nil {
		t.Skip(err)
	}
	ws, err := os.MkdirTemp("/var/tmp", "nanobot-disk-test-") //nolint:usetesting // a disk, not memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(ws) })
	sh, err := New(Options{
		Workspace: ws, Environ: []string{"PATH=" + os.Getenv("PATH")}, MaxDisk: 64 * mib, Sandboxed: true, Timeout: time.Minute,
		Wrap: func(_ tool.Call, cmd *exec.Cmd) (Confined, error) {
			cleanup, err := box.Wrap(cmd, sandbox.Profile{Workspace: ws})
			return Confined{Release: cleanup}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// Each command adds 40 MB, which is below the limit of one command; the
	// turn may add 128 MiB. What other programs free meanwhile counts in favour
	// of the turn, and a busy machine looks late: so one of many must be ended.
	ended := 0
	for i := 0; ended == 0 && i < 20; i++ {
		res := callExec(t, sh, `for i in $(seq 10); do head -c 4000000 /dev/zero > f`+strings.Repeat("x", i+1)+`$i; sleep 0.02; done; sleep 1; echo survived`)
		switch {
		case !res.IsError:
		case i < 3:
			t.Fatalf("command %d was ended: %.300s", i+1, res.Content.String())
		default:
			ended++
		}
	}
	if ended == 0 {
		t.Error("20 commands of one turn added 800 MB, and none was ended")
	}
	if res := callExecIn(t, sh, `for i in $(seq 10); do head -c 4000000 /dev/zero > n$i; sleep 0.02; done; echo survived`, "another"); res.IsError {
		t.Errorf("another turn: %s", res.Content.String())
	}
}

// A command without a sandbox fills the disk no more than one in it does, where
// it adds files without being told: the workspace, its folder, the home folder
// and that of temporary files. Each file is bounded by the kernel, so what a
// command can add before the first look is its files times the limit; what has
// no figure here grows file by file and is bounded by looking alone.
func TestDiskIsBoundedWithoutSandbox(t *testing.T) {
	const limit = 48 // MiB
	for name, c := range map[string]struct {
		script string
		most   int // MiB that are on the disk afterwards, on any machine; 0: depends on how soon it is looked at
	}{
		"zeros":                {"cat /dev/zero > z", limit},
		"dd":                   {"dd if=/dev/zero of=z bs=1M", limit},
		"yes":                  {"yes > z", limit},
		"one reservation":      {"fallocate -l 700M z || cat /dev/zero > z", limit},
		"reserved space":       {"for i in $(seq 40); do fallocate -l 40M z$i; done; sleep 60", 0},
		"kept out of the size": {"touch z; fallocate -n -l 700M z; for i in $(seq 40); do touch z$i; fallocate -n -l 40M z$i; done; sleep 60", 0},
		"in the home folder":   {"cd; for i in $(seq 40); do head -c 40M /dev/zero > z$i; done; sleep 60", 0},
		"many at once":         {"for i in $(seq 8); do cat /dev/zero > z$i & done; wait", 8 * limit},
		"a session of its own": {"setsid sh -c 'cat /dev/zero > z' & wait; sleep 60", limit},
		"a file without name":  {"exec 3>z; rm z; cat /dev/zero >&3; sleep 60", limit},
		"a raised limit":       {"ulimit -f unlimited; cat /dev/zero > z", limit},
		"appended":             {"for i in $(seq 200); do head -c 8M /dev/urandom >> z$((i%9)); done; sleep 60", 9 * limit},
	} {
		t.Run(name, func(t *testing.T) {
			ws, home := t.TempDir(), t.TempDir()
			sh, err := New(Options{
				Workspace: ws, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, MaxDisk: limit * mib, Timeout: 2 * time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			res := callExec(t, sh, c.script)
			if text := res.Content.String(); !res.IsError || !strings.Contains(text, "tools.exec.maxDiskMB") {
				t.Errorf("got %.600s", text)
			}
			if strings.Contains(c.script, "> z") && !strings.Contains(c.script, "rm z") && !strings.Contains(res.Content.String(), "still there, the largest: ") {
				t.Errorf("it does not say what is left: %s", res.Content.String())
			}
			out, err := exec.CommandContext(t.Context(), "du", "-scm", ws, home).Output()
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Fields(string(out))
			used, err := strconv.Atoi(lines[len(lines)-2])
			if err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			if c.most > 0 && used > c.most+c.most/16 { // folders and blocks count as well
				t.Errorf("%d MiB are on the disk, with a limit of %d", used, limit)
			}
		})
	}
}
