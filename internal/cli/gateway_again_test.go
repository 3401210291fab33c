package cli

import (
	"log/slog"
	"testing"

	"github.com/nanobot-go/nanobot/internal/daemon"
)

// After /restart somebody else starts the gateway: always with restartMode
// exit, and below a service manager unless another way was chosen.
func TestRestartByOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, mode string
		env        []string
	}{
		{"chosen", "exit", nil},
		{"below systemd", "auto", []string{"INVOCATION_ID=1"}},
		{"with a notify socket", "auto", []string{"NOTIFY_SOCKET=/nowhere"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &command{Stdio: Stdio{Env: tt.env}}
			err := c.gatewayAgain(tt.mode, daemon.Instance{Command: []string{"/nonexistent"}}, daemon.NewNotifier(c.getenv), slog.New(slog.DiscardHandler))
			if got := exitCode(err); got != daemon.ExitRestart {
				t.Errorf("exit code %d, want %d", got, daemon.ExitRestart)
			}
		})
	}
}
