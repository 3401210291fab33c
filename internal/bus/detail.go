package bus

import (
	"encoding/json"
	"time"
)

// Detail holds what a question is about, part by part, for edges that can show
// more than its text. It says what the text says.
type Detail struct {
	Tool      string          `json:"tool"`
	Call      string          `json:"call_id,omitempty"`   // that waits for the answer
	Command   string          `json:"command,omitempty"`   // whole
	Arguments json.RawMessage `json:"arguments,omitempty"` // the others, whole
	Folder    string          `json:"folder,omitempty"`    // where a command runs
	Paths     []string        `json:"paths,omitempty"`     // files that the call changes or sends
	Diff      string          `json:"diff,omitempty"`      // what a write changes, safe to show; "" if it is not known or long
	Sandbox   bool            `json:"sandbox,omitempty"`   // of a command
	Network   string          `json:"network,omitempty"`   // of a command in a sandbox: host, proxy, none
	Host      string          `json:"host,omitempty"`      // that a running command wants to reach
	Reason    string          `json:"reason,omitempty"`    // follows "because"
	Covers    string          `json:"covers,omitempty"`    // what an answer for the turn or the conversation allows as well
	Outside   []Read          `json:"untrusted,omitempty"` // content from outside that the turn has read
}

// Read is something from outside that a turn has read.
type Read struct {
	What string    `json:"what"`
	At   time.Time `json:"at"`
}

// Outcome says how a question was closed.
type Outcome struct {
	Option  string `json:"option,omitempty"` // the answer; "" if there was none
	Remark  string `json:"remark,omitempty"`
	Expired bool   `json:"expired,omitempty"` // no answer came in time
}
