package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// TestOrdinaryWork runs what people ask an agent to do.
func TestOrdinaryWork(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		if os.Getuid() == 0 && b.kind != auto {
			t.Skip("an ordinary user tries the others")
		}
		for _, c := range []struct{ needs, script, want string }{
			{"sh", `printf 'b\na\n' | sort | tee sorted | tr a-z A-Z; mkdir -p d/e; mv sorted d/e/; cp -r d f; ln -s f g; rm -r d; ls g/e`, "A\nB\nsorted"},
			{"sh", `for i in 1 2 3; do (echo $i; exit 0) & done; wait; cat <<<here; echo "$(date +%Y)" >/dev/null; echo done`, "done"},
			{"sh", `chmod +x . && printf '#!/bin/sh\necho script\n' > s && chmod 755 s && ./s`, "script"},
			{"sh", `t=$(mktemp) && echo temp > "$t" && cat "$t" && mktemp -d >/dev/null`, "temp"},
			{"git", `git init -q r && cd r && git config user.email a@b && git config user.name n && echo x > f && git add f && git commit -qm first && git log --format=%s`, "first"},
			{"python3", `/usr/bin/python3 -c 'import json,os,subprocess,tempfile,threading,socket; tempfile.TemporaryFile(); print(subprocess.check_output(["echo","sub"]).decode(), sum(range(10)))'`, "sub\n 45"},
			{"perl", `perl -e 'print "perl\n"'`, "perl"},
			{"node", `node -e 'console.log([1,2].map(x=>x*2).join())'`, "2,4"},
			{"cc", `printf '#include <stdio.h>\nint main(){puts("compiled");}' > a.c && cc a.c -o a && ./a`, "compiled"},
			{"make", `printf 'all:\n\t@echo made\n' > Makefile && make -s`, "made"},
			{"tar", `echo x > t && tar czf a.tgz t && rm t && tar xzf a.tgz && cat t`, "x"},
			{"awk", `echo 3 4 | awk '{print $1*$2}' && sed -n '1s/x/y/p' <<<x && find . -maxdepth 1 -name a.c -o -name nothing >/dev/null; echo $((1+1))`, "12\ny\n2"},
		} {
			if _, err := exec.LookPath(c.needs); err != nil {
				continue
			}
			if out := b.must(t, b.profile(), c.script); !strings.Contains(out, c.want) {
				t.Errorf("%s\ngot %q, want %q", c.script, out, c.want)
			}
		}
		if b.Level().MountNS {
			for script, want := range map[string]string{
				`cat <(echo substituted)`:                                      "substituted",
				`whoami; id -un; ls -d ~`:                                      "nanobot\nnanobot\n" + b.workspace,
				`echo x > /tmp/f && cat /tmp/f /dev/shm/none 2>/dev/null`:      "x",
				`script -qc 'echo in a terminal' /dev/null </dev/null || true`: "in a terminal",
				`cat /proc/self/comm; ps -o comm= -p $$`:                       "cat\n",
			} {
				if out := b.must(t, b.profile(), script+"; true"); !strings.Contains(strings.ReplaceAll(out, "\r", ""), want) {
					t.Errorf("%s\ngot %q, want %q", script, out, want)
				}
			}
		}
	})
}

// TestExtraPaths grants more than the workspace, under real and linked names.
func TestExtraPaths(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		extra := t.TempDir()
		for _, name := range []string{"ro", "rw", "no"} {
			if err := os.Mkdir(filepath.Join(extra, name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(extra, name, "f"), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		alias := filepath.Join(extra, "alias")
		if err := os.Symlink("rw", alias); err != nil {
			t.Fatal(err)
		}
		linked := filepath.Join(extra, "linked workspace")
		if err := os.Symlink(b.workspace, linked); err != nil {
			t.Fatal(err)
		}
		p := b.profile()
		p.Workspace = linked
		p.ReadOnly = []string{filepath.Join(extra, "ro"), "/nowhere", b.outside, "/"}
		p.ReadWrite = []string{alias, b.outside}
		out, _ := b.run(t, p, `cd `+extra+`; cat ro/f rw/f alias/f; cat no/f; echo new > rw/g; echo new > alias/h; echo new > ro/g; echo here > "linked workspace/x"; cat "linked workspace/x" $OUT/config.json`)
		if !strings.HasPrefix(out, "rorwrw") || strings.Contains(out, canary) || !strings.Contains(out, "here\n") {
			t.Errorf("got %s", out)
		}
		for name, want := range map[string]bool{"rw/g": true, "rw/h": true, "ro/g": false} {
			if _, err := os.Stat(filepath.Join(extra, name)); (err == nil) != want {
				t.Errorf("%s exists: %v, want %v", name, err == nil, want)
			}
		}
	})
}

// TestOddWorkspaces has workspaces where the sandbox puts things of its own.
func TestOddWorkspaces(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		for _, parent := range []string{"/var/tmp", "/tmp", "/dev/shm"} {
			ws, err := os.MkdirTemp(parent, "sandbox-odd-") //nolint:usetesting // the parent matters
			if err != nil {
				t.Skip(err)
			}
			defer func() { _ = os.RemoveAll(ws) }()
			odd := *b
			odd.workspace = ws
			if out := odd.must(t, odd.profile(), `pwd; echo x > f; cat f; ls -a`); out != ws+"\nx\n.\n..\nf\n" {
				t.Errorf("%s: got %s", parent, out)
			}
		}
		if os.Getuid() != 0 {
			return
		}
		top := "/sandbox-odd-" + b.kind // directly below the root
		if err := os.Mkdir(top, 0o700); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(top) }()
		odd := *b
		odd.workspace = top
		if out := odd.must(t, odd.profile(), `pwd; echo x > f; cat f`); out != top+"\nx\n" {
			t.Errorf("%s: got %s", top, out)
		}
	})
}

// TestInsideItself opens a box in a box, as an agent would that an agent runs.
func TestInsideItself(t *testing.T) {
	t.Parallel()
	if os.Getenv("SANDBOX_TEST_INNER") != "" {
		inner, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Landlock})
		if err != nil {
			t.Fatal(err)
		}
		b := &box{Box: inner, workspace: t.TempDir()}
		out, _ := b.run(t, b.profile(), "echo innermost; cat "+os.Getenv("SANDBOX_TEST_INNER"))
		t.Logf("%s\nlevel %v", out, inner.Level())
		return
	}
	everyBox(t, func(t *testing.T, b *box) {
		if sandbox.LandlockABI() < 6 || b.kind == old {
			t.Skip("an inner box has no namespaces and needs Landlock 6")
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(b.workspace, "f")
		if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
		p := b.profile()
		if os.Getuid() != 0 { // beside the workspaces of the tests, so not as a whole
			p.ReadOnly = []string{self}
		} else {
			p.ReadOnly = []string{filepath.Dir(self)}
		}
		out := b.must(t, p, "SANDBOX_TEST_INNER="+file+" "+self+" -test.run='^TestInsideItself$' -test.v")
		if !strings.Contains(out, "innermost") || strings.Contains(out, canary) {
			t.Errorf("got %s", out)
		}
	})
}

// manyPaths are more existing paths than a plan can hold.
func manyPaths(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir() + strings.Repeat("/"+strings.Repeat("x", 200), 15)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range 400 {
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, path)
	}
	return out
}

func TestWrapErrors(t *testing.T) {
	t.Parallel()
	b := open(t, auto)
	for name, c := range map[string]struct {
		change func(*exec.Cmd, *sandbox.Profile)
		want   string
	}{
		"no environment":    {func(c *exec.Cmd, _ *sandbox.Profile) { c.Env = nil }, "environment"},
		"no program":        {func(c *exec.Cmd, _ *sandbox.Profile) { c.Err = exec.ErrNotFound }, "not found"},
		"root workspace":    {func(_ *exec.Cmd, p *sandbox.Profile) { p.Workspace = "/" }, "root"},
		"relative":          {func(_ *exec.Cmd, p *sandbox.Profile) { p.Workspace = "x" }, "absolute"},
		"missing workspace": {func(_ *exec.Cmd, p *sandbox.Profile) { p.Workspace = "/nowhere" }, "no such file"},
		"too much":          {func(_ *exec.Cmd, p *sandbox.Profile) { p.ReadOnly = manyPaths(t) }, "too many"},
		"network":           {func(_ *exec.Cmd, p *sandbox.Profile) { p.Network = "wifi" }, "unknown network"},
		"no proxy":          {func(_ *exec.Cmd, p *sandbox.Profile) { p.Network = sandbox.NetProxy }, "socket"},
	} {
		cmd, p := b.command(t.Context(), "true"), b.profile()
		c.change(cmd, &p)
		cleanup, err := b.Wrap(cmd, p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		cleanup()
	}
	for mode, want := range map[sandbox.Mode]string{"chroot": "unknown sandbox", "": ""} {
		if _, err := sandbox.Open(t.Context(), sandbox.Options{Mode: mode}); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("mode %q: %v, want %q", mode, err, want)
		}
	}
	none, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.None})
	if err != nil || !strings.Contains(none.Level().String(), "all rights") {
		t.Errorf("none: %v, %v", err, none.Level())
	}
}

// TestBwrapIsMissing cannot run beside others: it changes the search path.
func TestBwrapIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Bwrap})
	if err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("got %v, want advice", err)
	}
	if l := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Bwrap}); len(l.Missing) == 0 {
		t.Errorf("got %v, want what is missing", l)
	}
}

// TestSettings reads settings of the system, which are mounted or copied, tries
// to change them, and looks for descriptors that were left open on the way.
func TestSettings(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		for _, name := range []string{"/etc/hosts", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/profile"} {
			want, err := os.ReadFile(name)
			if err != nil {
				continue // not on this machine
			}
			if got := b.must(t, b.profile(), "cat "+name); got != string(want) {
				t.Errorf("%s has %d bytes inside and %d outside", name, len(got), len(want))
			}
			if out, code := b.run(t, b.profile(), "echo changed >> "+name); code == 0 {
				t.Errorf("%s was changed: %s", name, out)
			}
		}
		if b.kind == plain || b.kind == old { // no /proc
			return
		}
		for fd := range strings.FieldsSeq(b.must(t, b.profile(), `cd /proc/$$/fd && echo *`)) {
			if n, err := strconv.Atoi(fd); err != nil || n > 3 { // the third is the shell's, for the list
				t.Errorf("the command has descriptor %s", fd)
			}
		}
	})
}
