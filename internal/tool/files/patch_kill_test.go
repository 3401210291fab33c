//go:build unix

package files_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	killFiles  = 5
	killRounds = 3
	killEnv    = "NANOBOT_TEST_PATCH_DIR"
)

func inode(path string) uint64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	st, _ := info.Sys().(*syscall.Stat_t)
	return st.Ino
}

func killContent(i int, version string) string {
	return strings.Repeat(fmt.Sprintf("%s %d\n", version, i), 2000)
}

// TestPatchVictim is the process that is killed; it does nothing on its own.
func TestPatchVictim(t *testing.T) {
	dir := os.Getenv(killEnv)
	if dir == "" {
		t.Skip("only runs as the child of TestPatchKilled")
	}
	b := newBench(t)
	for n := range 10_000 {
		from, to := "old", "new"
		if n%2 == 1 {
			from, to = to, from
		}
		var edits []args
		for i := range killFiles {
			edits = append(edits, replace(fmt.Sprint("f", i), killContent(i, from), killContent(i, to)))
		}
		if n == 0 {
			for i := range killFiles {
				b.put(fmt.Sprint("f", i), killContent(i, from))
			}
			if err := os.WriteFile(filepath.Join(dir, "where"), []byte(b.dir), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.text("apply_patch", patch(edits...))
		fmt.Fprintln(os.Stderr, "patched")
	}
}

// A process that dies in the middle of a patch leaves every file old or new.
func TestPatchKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	mixed := 0
	for round := range killRounds {
		dir, temp := t.TempDir(), t.TempDir()
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestPatchVictim$")
		cmd.Env = append(os.Environ(), killEnv+"="+dir, "TMPDIR="+temp)
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() {
			t.Fatal("the child ended early")
		}
		ws, err := os.ReadFile(filepath.Join(dir, "where"))
		if err != nil {
			t.Fatal(err)
		}
		// The moment one of the first files is replaced is within a patch.
		first := filepath.Join(string(ws), fmt.Sprint("f", round%(killFiles-1)))
		for before, last := inode(first), time.Now().Add(10*time.Second); inode(first) == before && time.Now().Before(last); {
			runtime.Gosched()
		}
		_ = cmd.Process.Signal(syscall.SIGKILL)
		for lines.Scan() {
			continue // what it wrote before it died
		}
		_ = cmd.Wait()
		seen := map[string]bool{}
		for i := range killFiles {
			data, err := os.ReadFile(filepath.Join(string(ws), fmt.Sprint("f", i)))
			if err != nil {
				t.Fatal(err)
			}
			switch string(data) {
			case killContent(i, "old"):
				seen["old"] = true
			case killContent(i, "new"):
				seen["new"] = true
			default:
				t.Errorf("round %d: f%d has %d bytes that are neither old nor new", round, i, len(data))
			}
		}
		if len(seen) == 2 {
			mixed++
		}
	}
	t.Logf("%d of %d were killed between two files", mixed, killRounds)
}
