package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// BenchmarkExec compares a command alone with the same command in a sandbox.
// NANOBOT_SANDBOX_SELF names a built nanobot; without it the helper is the test
// program, which starts faster.
func BenchmarkExec(b *testing.B) {
	for _, c := range []struct {
		name    string
		mode    sandbox.Mode
		network sandbox.Network
	}{
		{"plain", sandbox.None, sandbox.NetHost},
		{"auto", sandbox.Auto, sandbox.NetHost},
		{"auto-no-network", sandbox.Auto, sandbox.NetNone},
		{"auto-proxy", sandbox.Auto, sandbox.NetProxy},
		{"bwrap", sandbox.Bwrap, sandbox.NetHost},
		{"hide", sandbox.Hide, sandbox.NetHost},
	} {
		b.Run(c.name, func(b *testing.B) {
			box, err := sandbox.Open(b.Context(), sandbox.Options{Mode: c.mode, Self: os.Getenv("NANOBOT_SANDBOX_SELF")})
			if err != nil {
				b.Skip(err)
			}
			ws, err := os.MkdirTemp("/var/tmp", "sandbox-bench-") //nolint:usetesting // workspaces are not below the temporary directory
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(ws) }()
			used := func() (t time.Duration) { // by all processes that have ended
				var r syscall.Rusage
				if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r); err != nil {
					b.Fatal(err)
				}
				return time.Duration(r.Utime.Nano() + r.Stime.Nano())
			}
			before := used()
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), "/bin/bash", "-c", "true")
				cmd.Dir, cmd.Env = ws, []string{"PATH=/usr/bin:/bin", "HOME=" + ws}
				p := sandbox.Profile{Workspace: ws, Network: c.network}
				if c.network == sandbox.NetProxy { // which the command does not use
					p.ProxySocket, p.ProxyCerts = filepath.Join(ws, "socket"), "/etc/hosts"
				}
				cleanup, err := box.Wrap(cmd, p)
				if err != nil {
					b.Fatal(err)
				}
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				cleanup()
			}
			b.ReportMetric(float64((used()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
