package guard

import (
	"context"
	"time"

	"github.com/nanobot-go/nanobot/internal/guard/approve"
)

// Policy holds what the settings say about tools, after defaults. Package app fills
// it in from the configuration.
type Policy struct {
	Posture

	DataDir    string // of nanobot
	ConfigFile string

	// GuestShare is the folder of the workspace that guests can write to, as the
	// settings name it; "" if there is none.
	GuestShare string

	Exec            Exec
	StrictEdit      bool     // edit_file demands that a file was read
	StrictAddresses bool     // commands reach none of the addresses that are reserved
	MessageTargets  []string // that the message tool may write to without a question

	ApprovalRules   []approve.Rule
	ApprovalTimeout time.Duration // to wait for an answer
	FallbackAllow   bool          // the decision if no answer comes

	// Ports are those that a nanobot with these settings listens on. May be nil.
	Ports func() []uint16

	// AllowHost adds a host to Exec.AllowedHosts in the configuration file, after the
	// owner said that it is allowed for good.
	AllowHost func(ctx context.Context, host string) error
}

// Exec holds what the settings say about commands.
type Exec struct {
	Enable           bool
	Timeout          time.Duration // 0 is no limit
	PathAppend       string
	PathPrepend      string
	AllowedHosts     []string
	AllowedAddresses []string
	ReadOnly         []string // further folders that commands in the sandbox may read
	ReadWrite        []string // further folders that they may change
	MaxMemory        int64    // bytes for all processes of a command; 0 leaves it to the machine
	MaxDisk          int64    // bytes that a command may add to the disk; 0 is no limit
	AllowedEnv       []string // variables that commands get
	AllowPatterns    []string // commands, as regular expressions
	DenyPatterns     []string
}
