package gitstore

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const roleEnv = "GITSTORE_TEST_ROLE"

// TestChild is not a test but what another process does until it is killed.
func TestChild(t *testing.T) {
	role, dir, ok := strings.Cut(os.Getenv(roleEnv), "|")
	if !ok {
		t.Skip("only runs as another process")
	}
	b := openBench(t, dir, func(o *Options) { o.MaxCommits = 40 })
	work, step, _ := strings.Cut(role, "@")
	b.broken = func(at string) error {
		if at == step {
			fmt.Fprintln(os.Stdout, "at", at)
			select {} // until it is killed
		}
		return nil
	}
	ctx := t.Context()
	switch work {
	case "loop":
		for i := range 1_000_000 {
			fmt.Fprintln(os.Stdout, "at work")
			b.write("USER.md", fmt.Sprintf("%d\n", i))
			b.write("memory/MEMORY.md", strings.Repeat(fmt.Sprintln("line", i), i%50))
			_, _, err := b.Commit(ctx, fmt.Sprint("c", i), "")
			must(t, err)
			if i%7 == 3 {
				_, err := b.Restore(ctx, "HEAD")
				must(t, err)
			}
		}
	case "commit":
		b.write("USER.md", "new\n")
		b.commit("new")
	case "restore":
		_, err := b.Restore(ctx, "HEAD")
		must(t, err)
	case "undo-only": // the commit before the last one
		log, err := b.Log(ctx, 2)
		must(t, err)
		_, err = b.UndoOnly(ctx, log[1].ID)
		must(t, err)
	case "trim":
		b.o.MaxCommits = 1
		b.write("USER.md", "new\n")
		b.commit("new")
	case "rewrite":
		_, err := b.Rewrite(ctx, func(_ string, data []byte) []byte { return []byte(strings.ReplaceAll(string(data), "u1", "u0")) },
			func(s string) string { return s })
		must(t, err)
	}
	t.Fatal("the end was reached")
}

// killAt runs a role until it has said n lines and kills it there.
func killAt(t *testing.T, dir, role string, n int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), roleEnv+"="+role+"|"+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said := bufio.NewReader(out)
	for range n {
		line, err := said.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "at ") {
			t.Errorf("the child said %q, %v", line, err)
		}
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}

func TestKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role, user, memory string
		log                string
	}{
		{"commit@objects", "new\n", "m2\n", "next two init:"},
		{"commit@ref", "new\n", "m2\n", "next new two init:"},
		{"restore@objects", "u2\n", "m2\n", "next two init:"},
		{"restore@ref", "u1\n", "m1\n", "next revert: two init:"},
		{"restore@file", "u1\n", "m1\n", "next revert: two init:"},
		{"trim@shallow", "new\n", "m2\n", "next new"},
		{"rewrite@rewritten", "u2\n", "m2\n", "next two init:"},
	} {
		t.Run(c.role, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("USER.md", "u1\n")
			b.write("memory/MEMORY.md", "m1\n")
			b.commit("one")
			b.write("USER.md", "u2\n")
			b.write("memory/MEMORY.md", "m2\n")
			b.commit("two")
			killAt(t, filepath.Dir(b.work), c.role, 1)
			if out := b.git("fsck", "--strict", "--no-dangling"); strings.TrimSpace(out) != "" {
				t.Errorf("git fsck after the kill: %s", out)
			}
			b.write("SOUL.md", "next\n")
			b.commit("next")
			var log []string
			for _, s := range b.subjects() {
				log = append(log, strings.Fields(s)[0])
			}
			if got := strings.Join(log, " "); got != c.log {
				t.Errorf("log = %q, want %q", got, c.log)
			}
			if got := b.text("USER.md") + b.text("memory/MEMORY.md"); got != c.user+c.memory {
				t.Errorf("files = %q, want %q", got, c.user+c.memory)
			}
			b.sound()
			if gone := !strings.Contains(allObjects(b), "blob\nu1\n"); gone != (strings.HasPrefix(c.role, "trim") || strings.HasPrefix(c.role, "rewrite")) {
				t.Errorf("the old version is gone: %v", gone)
			}
			for name := range snapshotDir(t, b.Path()) {
				if strings.Contains(name, "tmp_obj") || strings.HasSuffix(name, ".lock") && !strings.HasSuffix(name, lockName) {
					t.Errorf("%s was left behind", name)
				}
			}
		})
	}
}

// allObjects are the contents of all objects, each below a line with its type.
func allObjects(b *bench) string {
	b.t.Helper()
	return b.git("cat-file", "--batch-all-objects", "--batch=%(objecttype)")
}

func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("SOUL.md", "soul\n")
	for i := range 4 {
		killAt(t, filepath.Dir(b.work), "loop", 1+4*i)
		b.write("SOUL.md", fmt.Sprintln("round", i))
		b.commit(fmt.Sprint("round ", i))
		b.sound()
	}
}
