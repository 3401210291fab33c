package sandbox_test

import (
	"os/exec"
	"testing"

	"github.com/nanobot-go/nanobot/internal/sandbox"
)

func TestQuick(t *testing.T) {
	b, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Auto})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(b.Level())
	ws := t.TempDir()
	for _, c := range []string{"id; pwd; ls -la / /etc /dev /tmp; cat /etc/passwd; mount | head -80; ps aux; cat /proc/sys/kernel/pid_max; ulimit -a; env; echo x > y; touch /usr/x; touch /x; kill -9 $PPID; echo still; cat /proc/1/environ; ls /proc | head; cat /proc/self/status | grep -i cap; mktemp"} {
		cmd := exec.Command("/bin/bash", "-c", c)
		cmd.Dir, cmd.Env = ws, []string{"HOME=" + ws, "PATH=/usr/bin:/bin"}
		cleanup, err := b.Wrap(cmd, sandbox.Profile{Workspace: ws})
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		cleanup()
		t.Logf("%v\n%s", err, out)
	}
}
