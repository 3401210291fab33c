package access

import (
	"encoding/json"
	"fmt"
)

// Lists are the settings of a section that say who may talk to us, and about
// what. Common embeds them.
type Lists struct {
	AllowFrom      []string `json:"allowFrom" doc:"Who may talk to the agent, by the platform's ids; * allows everyone."`
	Owners         []string `json:"owners" doc:"Who may approve pairing and run admin commands."`
	GroupPolicy    Policy   `json:"groupPolicy" enum:"mention|open|allowlist" doc:"Which messages of groups are answered: those that mention the bot, all, or those of groupAllowFrom."`
	GroupAllowFrom []string `json:"groupAllowFrom" doc:"Groups in which the agent answers."`
	GroupHistory   int      `json:"groupHistory" min:"0" doc:"Messages of a group that are shown to the model when it is mentioned; 0 is none."`
	NotifyDenied   bool     `json:"notifyDenied" doc:"Tell owners about refused senders."`
	CatchUp        *bool    `json:"catchUp" doc:"Answer what was written while the gateway was down; on if unset."`
	CatchUpMaxAgeS int      `json:"catchUpMaxAgeS" min:"0" doc:"How old such a message may be, in seconds; 0 is 600 where nanobot reads the history of the platform, and no limit elsewhere."`
}

// Policy says which messages of groups are for us.
type Policy string

// The policies. The empty one is Mention.
const (
	Mention   Policy = "mention"   // only what names us or answers us
	Open      Policy = "open"      // all that allowed people write
	Allowlist Policy = "allowlist" // only in the chats of groupAllowFrom
)

// UnmarshalJSON implements json.Unmarshaler: an unknown policy is an error,
// never a silent refusal.
func (p *Policy) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("groupPolicy: %w", err)
	}

	switch v := Policy(s); v {
	case "", Mention, Open, Allowlist:
		*p = v
		return nil
	}
	return fmt.Errorf("groupPolicy: %q must be mention, open or allowlist", s)
}
