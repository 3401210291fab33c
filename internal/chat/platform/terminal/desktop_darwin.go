package terminal

import (
	"context"
	"fmt"
	"os/exec"
)

// showNotice is an AppleScript that shows its arguments. The text of a message is
// never part of the script.
const showNotice = `on run argv
display notification (item 2 of argv) with title (item 1 of argv)
end run`

// Desktop returns what shows notices on the desktop of this user.
func Desktop(func(string) string) func(ctx context.Context, n Notice) error {
	return func(ctx context.Context, n Notice) error {
		cmd := exec.CommandContext(ctx, "/usr/bin/osascript", "-e", showNotice, "--", n.Title, n.Body)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("desktop notification: %w", err)
		}
		return nil
	}
}
