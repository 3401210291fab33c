package cli

import (
	"context"
	"os/exec"
	"runtime"

	"golang.org/x/term"
)

// hasBrowser reports whether a browser opened by us would be seen by the person who
// typed the command.
func (c *console) hasBrowser() bool {
	if !term.IsTerminal(int(c.In.Fd())) || !term.IsTerminal(int(c.Out.Fd())) || c.getenv("SSH_CONNECTION") != "" {
		return false
	}
	return runtime.GOOS == "darwin" || runtime.GOOS == "windows" || c.getenv("DISPLAY") != "" || c.getenv("WAYLAND_DISPLAY") != ""
}

// openBrowser tries; the address is on the screen anyway.
func openBrowser(ctx context.Context, url string) {
	// The browser goes on when the command ends.
	ctx = context.WithoutCancel(ctx)
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.CommandContext(ctx, "open", url)
	case "windows":
		cmd = exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", url)
	default:
		cmd = exec.CommandContext(ctx, "xdg-open", url)
	}

	if cmd.Start() == nil {
		_ = cmd.Process.Release() // we do not wait for a browser
	}
}
