package terminal_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/nanobot-go/nanobot/internal/chat/platform/terminal"
)

// startBus starts a message bus of the test's own, without any service.
func startBus(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed: ", err)
	}
	dir, err := os.MkdirTemp("", "bus") //nolint:usetesting // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conf := filepath.Join(dir, "bus.conf")
	text := `<busconfig><type>session</type><listen>unix:path=` + dir + `/bus</listen><auth>EXTERNAL</auth><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--config-file="+conf, "--nofork", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("dbus-daemon did not start: ", err)
	}
	return strings.TrimSpace(address)
}

func TestDesktop(t *testing.T) {
	t.Parallel()
	show := func(env map[string]string) error {
		return terminal.Desktop(func(k string) string { return env[k] })(t.Context(), terminal.Notice{Title: "nanobot", Body: "1 < 2 & <b>tea</b>"})
	}
	if err := show(map[string]string{"XDG_RUNTIME_DIR": t.TempDir()}); err == nil || !strings.Contains(err.Error(), "D-Bus session") {
		t.Errorf("without a desktop: %v", err)
	}

	address := startBus(t)
	env := map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}
	if err := show(env); err == nil {
		t.Error("a session without notifications is no error")
	}
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	shown := make(chan string, 1)
	notify := func(_ string, _ uint32, _, summary, body string, _ []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
		shown <- summary + ": " + body
		return 1, nil
	}
	if err := conn.ExportMethodTable(map[string]any{"Notify": notify}, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	if err := show(env); err != nil {
		t.Fatal(err)
	}
	if got := <-shown; got != "nanobot: 1 &lt; 2 &amp; &lt;b&gt;tea&lt;/b&gt;" {
		t.Errorf("the desktop shows %q", got)
	}
}
