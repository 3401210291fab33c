package guard

import (
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// ShareOf is the folder that guests share with the owner.
func ShareOf(setting, workspace string) string { return shareOf(setting, workspace) }

// GuestShare is what a setting of agents.defaults.guestShare opens.
func GuestShare(setting string) string { return guestShare(setting) }

// Outside is what a command runs that came from outside.
func Outside(rec *origin.Store, root, command, dir string, tainted bool) []approve.Outside {
	m := &marks{rec: rec, root: root, always: []string{filepath.Join(root, "share")}}
	m.judge(shell.RunsOf(command, dir), tainted)
	return m.found
}
