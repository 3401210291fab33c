package terminal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// showNotice is a PowerShell script that shows two variables of its environment as a
// toast. The text of a message is never part of the script. A toast needs the id of a
// registered program, and that of PowerShell is on every Windows.
const showNotice = `$ErrorActionPreference = 'Stop'
[void][Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime]
$xml = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent([Windows.UI.Notifications.ToastTemplateType]::ToastText02)
$texts = $xml.GetElementsByTagName('text')
[void]$texts.Item(0).AppendChild($xml.CreateTextNode($env:NANOBOT_NOTICE_TITLE))
[void]$texts.Item(1).AppendChild($xml.CreateTextNode($env:NANOBOT_NOTICE_BODY))
$toast = [Windows.UI.Notifications.ToastNotification]::new($xml)
$program = '{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\WindowsPowerShell\v1.0\powershell.exe'
[Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier($program).Show($toast)`

// Desktop returns what shows notices on the desktop of this user.
func Desktop(getenv func(string) string) func(ctx context.Context, n Notice) error {
	return func(ctx context.Context, n Notice) error {
		// Never by PATH: a folder of a project may be on it.
		program := filepath.Join(getenv("SystemRoot"), "System32", "WindowsPowerShell", "v1.0", "powershell.exe")
		cmd := exec.CommandContext(ctx, program, "-NoProfile", "-NonInteractive", "-WindowStyle", "Hidden", "-Command", showNotice)
		cmd.Env = append(os.Environ(), "NANOBOT_NOTICE_TITLE="+n.Title, "NANOBOT_NOTICE_BODY="+n.Body)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("desktop notification: %w", err)
		}
		return nil
	}
}
