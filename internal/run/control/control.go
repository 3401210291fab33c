// Package control connects commands of the same user with a gateway that runs, over
// a local socket that only this user can open. It has both ends and the form of every
// call, so that neither spells what the other reads.
package control

import (
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// Status is how a running gateway is.
type Status struct {
	Version  string           `json:"version"`
	PID      int              `json:"pid"`
	Started  time.Time        `json:"started_at"`
	Address  string           `json:"address,omitempty"`
	Page     string           `json:"page,omitempty"` // address of the web interface
	Model    string           `json:"model"`
	Ready    bool             `json:"ready"`
	Problems []string         `json:"problems,omitempty"`      // why it is not ready, and what else is wrong
	Later    []string         `json:"after_restart,omitempty"` // settings that were changed and wait for a restart
	Agent    agent.Pulse      `json:"agent"`
	Queue    journal.Status   `json:"queue"`
	Channels []deliver.Status `json:"channels"`
	Jobs     int              `json:"jobs"`

	// Wrong says part by part what Problems lists. It does not leave the process.
	Wrong Wrong `json:"-"`
}

// Wrong is what is wrong with the parts of a gateway, "" for a part that is well.
type Wrong struct {
	Agent    string
	Schedule string
	Model    string
	Disk     string
	Config   string // why the newest configuration is not used
}

// WantedLink asks for a way to the pages.
type WantedLink struct {
	Code bool   `json:"code"`           // digits to type in place of a link
	Base string `json:"base,omitempty"` // "" is the address that the gateway knows
}

// Link is how a person gets to the pages.
type Link struct {
	Base string `json:"base"` // address of the pages
	Link string `json:"link"` // signs one browser in, once
	Code string `json:"code"` // to type instead
}

// Devices are the browsers that are signed in, and those that want to.
type Devices struct {
	Devices []auth.Device  `json:"devices"`
	Waiting []auth.Pending `json:"waiting"`
}

// Decision is about a device: its id to sign it out, or the digits of one that waits.
type Decision struct {
	Revoke string `json:"revoke,omitempty"`
	Digits string `json:"digits,omitempty"`
	Allow  bool   `json:"allow,omitempty"`
}

// Listen opens the socket. The caller holds the lock of the journal, so whatever lies
// in its place is left from a gateway that has ended.
func Listen(dataDir string) (net.Listener, error) {
	path := datadir.GatewaySock.In(dataDir)
	dir := filepath.Dir(path)
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
		return nil, err
	}
	if err := os.Remove(path); err != nil && !diskio.IsMissing(err) {
		return nil, err
	}
	return httpsafe.ListenLocal(path)
}
