package guard_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// The keyring answers everybody on the session's bus, so no command of anybody
// reaches the bus: not by its address, which no environment has, and not by its
// socket, also where the settings open the folder around it or there is no
// sandbox.
func TestCommandsDoNotReachTheBus(t *testing.T) {
	t.Parallel()
	needMountNS(t)
	if _, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Hide}); err != nil {
		t.Skipf("this machine cannot hide anything: %v", err)
	}
	for name, conf := range map[string]string{
		"sandbox":    `{"tools":{"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none","sandboxRoBinds":["%DIR%"],"sandboxRwBinds":["%DIR%"]}}}`,
		"no sandbox": `{"tools":{"restrictToWorkspace":false,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "session") //nolint:usetesting // a socket's name must be short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			count := func(name string) (string, *atomic.Int32) {
				l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				var n atomic.Int32
				done := make(chan struct{})
				go func() {
					defer close(done)
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						n.Add(1)
						_, _ = c.Write([]byte("CANARY-of-the-keyring"))
						_ = c.Close()
					}
				}()
				t.Cleanup(func() { _ = l.Close(); <-done })
				return l.Addr().String(), &n
			}
			if err := os.Mkdir(filepath.Join(dir, "keyring"), 0o700); err != nil {
				t.Fatal(err)
			}
			bus, reached := count("session-bus")
			_, control := count("keyring/control")
			other, open := count("other")
			s := newShared(t, strings.ReplaceAll(conf, "%DIR%", dir), func(o *app.Options) {
				o.Env = append(o.Env, "DBUS_SESSION_BUS_ADDRESS=unix:path="+bus+",guid=1", "XDG_RUNTIME_DIR="+dir)
			})
			connect := func(to string) string {
				return `python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect("` + to + `"); print(s.recv(99))'; true`
			}
			for _, who := range []string{"", guest} {
				for _, command := range []string{
					"env; cat /proc/*/environ | tr '\\0' '\\n' | grep DBUS",
					connect(bus), connect(filepath.Join(dir, "keyring", "control")),
					"cd " + dir + "; ln session-bus /tmp/b; ln session-bus b; " + connect("b"),
					"cd " + dir + "; mv session-bus c; rm -f session-bus; " + connect("c"),
					"ln -s " + bus + " soft; " + connect("soft"),
					"find / -maxdepth 4 -name session-bus -type s 2>/dev/null | while read f; do " + connect("$f") + "; done",
					"for f in /proc/*/root" + bus + " /proc/*/cwd/../session-bus; do (cd $(dirname $f) && " + connect("session-bus") + "); done",
					"mkdir -p m; mount --bind " + dir + " m; umount -l " + bus + "; umount -l " + dir + "; " + connect(bus),
					"unshare -Urm umount " + bus + "; unshare -Urm sh -c 'umount " + bus + "'; " + connect(bus),
				} {
					s.run(who, call("exec", "command", command))
				}
			}
			if n, m := reached.Load(), control.Load(); n > 0 || m > 0 {
				t.Errorf("commands reached the bus %d times, the keyring %d times: %s", n, m, s.got.String())
			}
			if got := s.got.String(); strings.Contains(got, "DBUS_SESSION_BUS_ADDRESS=") {
				t.Errorf("a command knows the address: %s", got)
			}
			if s.run("", call("exec", "command", connect(other))); name == "no sandbox" && open.Load() == 0 {
				t.Errorf("another socket is not reached either, so this test tests nothing: %s", s.got.String())
			}
		})
	}
}
