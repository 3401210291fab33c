package cli

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/nanobot-go/nanobot/internal/daemon"
)

// gatewayAgain starts the program anew after /restart, in the way that
// gateway.restartMode names. Everything the old one held is given back by now.
func (c *command) gatewayAgain(mode string, self daemon.Instance, notify daemon.Notifier, log *slog.Logger) error {
	if mode == "exit" || mode == "auto" && c.supervised(self, notify) {
		return failure{daemon.ExitRestart} // whoever watches us does it
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	log.Info("restarting", "exe", exe, "mode", mode)
	if mode == "spawn" || mode == "auto" && !canReplace && self.Mode != "foreground" {
		return startProcess(exe, self.Command, c.Env)
	}
	return replaceProcess(exe, self.Command, c.Env)
}

// supervised reports whether a service manager starts us again when we end.
// What it says in the environment is inherited by everything it starts, such
// as the shells of a desktop, so it must have meant this very process.
func (c *command) supervised(self daemon.Instance, notify daemon.Notifier) bool {
	switch self.Mode {
	case "service": // our own unit
		return true
	case "background": // nanobot gateway start
		return false
	}
	if main := c.getenv("SYSTEMD_EXEC_PID"); main != "" {
		return main == strconv.Itoa(self.PID)
	}
	if notify.Active() || c.getenv("INVOCATION_ID") != "" {
		return true
	}
	return c.getenv("XPC_SERVICE_NAME") != "" && os.Getppid() == 1 // launchd
}

// startProcess starts a program on what we write to, and does not wait for it.
func startProcess(exe string, args, env []string) error {
	p, err := os.StartProcess(exe, args, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return p.Release()
}
