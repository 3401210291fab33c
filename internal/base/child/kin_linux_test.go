package child_test

import (
	"bufio"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/child"
)

// A program starts one that stays in its session and one that leaves it. Members
// sees both, and KillAll ends both: the output that all three hold comes to its end.
func TestKillAllEndsWhatLeftTheSession(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("setsid is missing")
	}
	var kin child.Kin
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 600 & echo $!; setsid sh -c 'echo $$; exec sleep 600' & wait")
	kin.Prepare(cmd)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kin.Started(cmd)
	t.Cleanup(kin.KillAll)

	started := []int{cmd.Process.Pid}
	lines := bufio.NewReader(out)
	for range 2 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(line))
		started = append(started, pid)
	}
	members := kin.Members()
	for _, pid := range started {
		if !slices.Contains(members, pid) {
			t.Errorf("members are %v, without %d", members, pid)
		}
	}
	kin.KillAll()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	_ = cmd.Wait() // a shell whose children are killed first may end without an error
}
