package napcat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	groupPrefix   = "group:"
	privatePrefix = "private:"
)

func isGroup(r bus.Route) bool { return strings.HasPrefix(r.ChatID, groupPrefix) }

// id is a number that some programs write as a text.
type id string

// UnmarshalJSON implements json.Unmarshaler.
func (v *id) UnmarshalJSON(data []byte) error {
	s := strings.Trim(string(data), `"`)
	if s == "null" || strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") {
		s = ""
	}
	*v = id(s)
	return nil
}

// outcome says how an action ended. A heartbeat has an object in its place, about the
// account: that is none.
type outcome string

// UnmarshalJSON implements json.Unmarshaler.
func (o *outcome) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) != nil {
		s = ""
	}
	*o = outcome(s)
	return nil
}

// frame is what NapCat sends: an event, or the answer to an action.
type frame struct {
	PostType  string          `json:"post_type"`
	MetaType  string          `json:"meta_event_type"`
	Interval  int64           `json:"interval"` // of heartbeats, in ms
	Type      string          `json:"message_type"`
	Notice    string          `json:"notice_type"`
	MessageID id              `json:"message_id"`
	UserID    id              `json:"user_id"`
	GroupID   id              `json:"group_id"`
	SelfID    id              `json:"self_id"`
	Time      int64           `json:"time"`
	Message   json.RawMessage `json:"message"`
	Sender    sender          `json:"sender"`

	Echo    json.RawMessage `json:"echo"`
	Status  outcome         `json:"status"`
	RetCode int             `json:"retcode"`
	Data    json.RawMessage `json:"data"`
	Wording string          `json:"wording"`
}

type sender struct {
	UserID id     `json:"user_id"`
	Name   string `json:"nickname"`
	Card   string `json:"card"` // name in the group
}

// chat returns where a message was written.
func (f *frame) chat() string {
	if f.GroupID != "" && (f.Type == "group" || f.PostType == "notice") {
		return groupPrefix + string(f.GroupID)
	}
	return privatePrefix + string(f.UserID)
}

// segment is a piece of a message.
type segment struct {
	Type string         `json:"type"`
	Data map[string]any `json:"data"`
}

// get returns a value, which may be a number.
func (s segment) get(key string) string {
	switch v := s.Data[key].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// segments returns the pieces of a message: a list, or a text with CQ codes.
func segments(raw json.RawMessage) ([]segment, error) {
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber() // ids are longer than a float is exact
	if strings.HasPrefix(strings.TrimSpace(string(raw)), "[") {
		var list []segment
		err := dec.Decode(&list)
		return list, err
	}

	var s string
	if err := dec.Decode(&s); err != nil {
		return nil, err
	}
	return parseCQ(s), nil
}

// parseCQ reads a text with codes such as [CQ:at,qq=1].
func parseCQ(s string) []segment {
	unescape := strings.NewReplacer("&#91;", "[", "&#93;", "]", "&#44;", ",", "&amp;", "&")
	var out []segment
	say := func(text string) {
		if text != "" {
			out = append(out, segment{Type: "text", Data: map[string]any{"text": unescape.Replace(text)}})
		}
	}
	for {
		before, rest, found := strings.Cut(s, "[CQ:")
		if !found {
			say(s)
			return out
		}

		code, after, closed := strings.Cut(rest, "]")
		if !closed {
			say(s)
			return out
		}

		say(before)
		kind, params, _ := strings.Cut(code, ",")
		seg := segment{Type: kind, Data: map[string]any{}}
		for pair := range strings.SplitSeq(params, ",") {
			if k, v, ok := strings.Cut(pair, "="); ok {
				seg.Data[k] = unescape.Replace(v)
			}
		}

		out, s = append(out, seg), after
	}
}

// refusal is an answer that says no.
type refusal struct {
	Action string
	Code   int
	Text   string
}

func (e *refusal) Error() string {
	return fmt.Sprintf("NapCat refuses %s: %s (%d)", e.Action, e.Text, e.Code)
}

// classify says what the manager should do about an error. A refusal stays one:
// the account is muted, the group is gone. Only where QQ was too slow another
// try may help.
func classify(err error) error {
	e, ok := errors.AsType[*refusal](err)
	if !ok || strings.Contains(strings.ToLower(e.Text), "timeout") || strings.Contains(e.Text, "超时") {
		return err
	}
	return chat.Permanent(err)
}
