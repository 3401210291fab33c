package napcat

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	textMost = 3000
	fileMost = 20 << 20
)

// options is the section of the configuration.
type options struct {
	chat.Common
	WSURL                string            `json:"wsUrl" setup:"yes" doc:"Address of NapCat's WebSocket server."`
	AccessToken          httpsafe.Secret   `json:"accessToken" doc:"Token of NapCat's WebSocket server."`
	GroupPolicyOverrides map[string]policy `json:"groupPolicyOverrides" doc:"The groupPolicy of single groups, by their numbers: mention, open, or a probability from 0 to 1."`
	ReplyToAll           bool              `json:"replyToAll" doc:"A message to all members of a group counts as one that mentions the bot."`
	WelcomeNewMembers    bool              `json:"welcomeNewMembers" doc:"The agent is told of people who join a group, if they may talk to it."`
	MaxImageBytes        int64             `json:"maxImageBytes" min:"1" doc:"Largest picture that is accepted, in bytes."`
	ReactEmoji           string            `json:"reactEmoji" doc:"Number of QQ's reaction on a message of a group that is being worked on, such as 424; empty is none."`

	policy policy // groupPolicy, which may be a probability
}

// policy is mention, open, allowlist, or a probability.
type policy string

// UnmarshalJSON implements json.Unmarshaler.
func (p *policy) UnmarshalJSON(data []byte) error {
	word := strings.Trim(string(data), `" `)
	switch access.Policy(word) {
	case "", access.Mention, access.Open, access.Allowlist:
		*p = policy(word)
		return nil
	}

	if n, err := strconv.ParseFloat(word, 64); err != nil || !(n >= 0 && n <= 1) {
		return fmt.Errorf("%s must be mention, open or a number from 0 to 1", data)
	}

	*p = policy(word)
	return nil
}

func defaults() *options {
	return &options{WSURL: "ws://127.0.0.1:3001", WelcomeNewMembers: true, MaxImageBytes: 20 << 20}
}

// decode reads a section. Its policy for groups may also be a number, which no
// other platform has.
func decode(section json.RawMessage) (*options, error) {
	o := defaults()
	var all map[string]json.RawMessage
	if json.Unmarshal(section, &all) == nil {
		if raw, ok := all["groupPolicy"]; ok {
			if err := o.policy.UnmarshalJSON(raw); err != nil {
				return o, chat.Fatal(fmt.Errorf("groupPolicy: %w", err))
			}
			delete(all, "groupPolicy")
			section, _ = json.Marshal(all) // it was read
		}
	}

	return chat.Read(section, o)
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	u, err := url.Parse(o.WSURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss":
		return errors.New("wsUrl: an address that begins with ws:// or wss:// is needed")
	case o.MaxImageBytes < 1:
		return errors.New("maxImageBytes: at least 1")
	}
	return nil
}

// caps returns the limits of the platform. Accounts that write quickly are banned.
func (*options) caps() chat.Caps {
	return chat.Caps{
		MaxChars: textMost,
		Typing:   5 * time.Second,
		MaxMedia: fileMost,
		Rate:     chat.Rate{Chat: chat.Limit{Count: 1, Per: 700 * time.Millisecond}},
		Group:    isGroup,
	}
}

// forUs reports whether a message of a group that does not mention us is for us.
// The same message is, or is not, each time.
func (o *options) forUs(group, message string) bool {
	p, ok := o.GroupPolicyOverrides[group]
	if !ok {
		p = o.policy
	}

	switch access.Policy(p) {
	case "", access.Mention:
		return false
	case access.Open:
		return true
	case access.Allowlist:
		return slices.Contains(o.GroupAllowFrom, group) || slices.Contains(o.GroupAllowFrom, groupPrefix+group)
	}

	limit, _ := strconv.ParseFloat(string(p), 64) // it was checked
	sum := sha256.Sum256([]byte(group + "/" + message))
	return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < limit
}
